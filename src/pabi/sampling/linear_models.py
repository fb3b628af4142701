"""Mean losses of linear models and their gradients, at many points at once.

A linear model's loss at a record is a function of the predictor x·θ and the target, so that the gradients
at C points are two matrix products with that function's derivative between them. The (points, records)
array between the products is made block by block, small enough to stay in the cache, and in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.describe.accounted import Adjacency, checked_adjacency
from pabi.describe.langevin import LangevinChain, gap_of
from pabi.describe.losses import Loss
from pabi.describe.runs import COUNT, Prox
from pabi.describe.scalar_losses import Clipped, LinearLoss, Logistic, Squared
from pabi.describe.vector_losses import LINEAR_LOSSES, executable
from pabi.execute.blocks import by_row, clip_norms
from pabi.execute.hiding import read_only, returned
from pabi.execute.linear_gradients import targets_of
from pabi.execute.records import Records, refuse_longer
from pabi.execute.sums import BLOCK, LEAST_ROWS, Total, additions_of_blocks
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning, must_be, require, warn
from pabi.numbers.rounding import (
    HALF_ULP,
    LEAST_SCALED,
    MOST_SUMMED,
    Array,
    fraction_down,
    fraction_up,
)
from pabi.numbers.showing import plain

# Chains for posteriors that are stated as log densities: a prior, and a likelihood of each record.


_EQUAL = 1.0 + 1e-9  # numbers that differ by roundings differ by less
_DIRECTIONS = 4  # along which the curvature of a prior is tried
_HELD = 1 << 20  # numbers of per-record gradients in memory at once (8 MB)

Gradients = Callable[[Array, NDArray[np.intp]], ArrayLike]
PriorGradient = Callable[[Array], ArrayLike]


class Posterior(NamedTuple):
    """A chain for a posterior, and the gradient that it follows: the first arguments of `langevin`.

    Attributes
    ----------
    chain : LangevinChain
        What is accounted and executed, with β = n and the last iterate released.
    gradient : callable
        (chains, *shape) ↦ (chains, *shape): ∇L of L = −(1/n)(Σ log p(record | x) + log prior(x)).

    References
    ----------
    docs, "Sample a posterior".
    """

    chain: LangevinChain
    gradient: Callable[..., Array]


_OF_CHAIN = {
    name: f"belongs to the chain: write dataclasses.replace(posterior.chain, {name}={{}})"
    for name in ("chains", "release", "inverse_temperature")
}


@validate.answering(_OF_CHAIN)
def from_log_density(
    log_likelihood_gradients: Gradients,
    log_prior_gradient: PriorGradient | None = None,
    *,
    n: int,
    gradient_bound: float,
    curvature: tuple[float, float],
    prior_curvature: tuple[float, float] = (0.0, 0.0),
    step_size: float,
    steps: int,
    prox: Prox | None = None,
    adjacency: Adjacency = "replace_one",
) -> Posterior:
    """A Langevin chain for the posterior ∝ prior(x)·∏ p(record | x), from gradients of logarithms.

    Parameters
    ----------
    log_likelihood_gradients : callable
        (x, rows) ↦ (len(rows), *x.shape): ∇ log p(record | x) of each record, from x and that record alone;
        `rows`: their numbers, from 0. It must not keep or show what it is given.
    log_prior_gradient : callable, optional
        x ↦ ∇ log prior(x), of the shape of x; it sees no data. None for a flat prior.
    n : int
        Records.
    gradient_bound : float, at least 1e-290, at most 2^1000/n
        G ≥ ‖∇ log p(record | x)‖ for every possible record and every x. Longer gradients are scaled down
        to it, so that the sensitivity holds; but then the curvature may be another than you state.
    curvature : (float, float)
        [m, M] with every eigenvalue of the Hessian of −log p(record | x) in it, for every possible record.
        m ≥ 0 for log-concave likelihoods.
    prior_curvature : (float, float)
        The same of −log prior: (τ, τ) for a normal prior of precision τ.
    step_size : float
        η > 0, a time, as of `pabi.LangevinChain`.
    steps : int
        Steps of the chain.
    prox : Prox, optional
        A proximal map applied after every step, e.g. a projection.
    adjacency : str
        "replace_one" (default) or "zero_out".

    Returns
    -------
    Posterior
        (chain, gradient), so that `langevin(*posterior, x0)` draws. `dataclasses.replace(chain, chains=10)`
        is a chain for more draws, and `pabi.calibrate` takes the chain.

    Raises
    ------
    InvalidInput
        A bound is out of range, a curvature is not (low, high) with low ≤ high, or both together are not
        above 0 anywhere, or a curvature of a prior is stated that is not there, or an argument of the chain
        is wrong. `langevin` refuses a prior whose curvature at the start is not as stated.

    Notes
    -----
    A record's loss is ℓ_i = −log p(record i | x) − (1/n)·log prior(x): its mean is L and its curvature
    [m + a/n, M + b/n], [a, b] that of the prior. ∇L of adjacent data sets differs by 2G/n ("replace_one") or
    G/n ("zero_out"), in which the prior has no part. The draws are those of the chain, not exactly the
    posterior's.

    References
    ----------
    docs, "Sample a posterior"; Bok, Su, Altschuler 2024, §5.
    """
    n, adjacency = COUNT("n", n), checked_adjacency(adjacency)
    bounds = {"at_least": LEAST_SCALED, "at_most": MOST_SUMMED / n}  # so that no sum is infinite
    bound = validate.number("gradient_bound", gradient_bound, **bounds)
    of_prior = _ends("prior_curvature", prior_curvature)
    require(
        log_prior_gradient is not None or not any(of_prior),
        "prior_curvature",
        f"expected (0.0, 0.0) without a log_prior_gradient, got {prior_curvature!r}",
    )
    chain = LangevinChain(
        _loss(_ends("curvature", curvature), of_prior, n),
        n=n,
        inverse_temperature=float(n),
        step_size=step_size,
        steps=steps,
        gradient_gap=gap_of(bound, n, adjacency),
        adjacency=adjacency,
        prox=prox,
    )
    validate.function("log_likelihood_gradients", log_likelihood_gradients)
    if log_prior_gradient is not None:
        validate.function("log_prior_gradient", log_prior_gradient)
    gradient = MeanOfLogs(log_likelihood_gradients, log_prior_gradient, n, bound, of_prior)
    return Posterior(chain, gradient)


def _ends(field: str, value: Any) -> tuple[Fraction, Fraction]:
    """(low, high), low ≤ high. Raises InvalidInput naming `field`."""
    must_be(
        isinstance(value, (list, tuple, np.ndarray)) and len(value) == 2,
        field,
        "(low, high)",
        value,
    )
    low, high = (validate.number(field, end) for end in value)
    if low > high:
        raise InvalidInput(field, f"expected (low, high) with low ≤ high, got {value!r}")
    return Fraction(low), Fraction(high)


def _loss(likelihood: tuple[Fraction, Fraction], prior: tuple[Fraction, Fraction], n: int) -> Loss:
    """The loss of a record with its share of the prior, its curvature rounded outwards."""
    low = fraction_down(likelihood[0] + prior[0] / n)
    high = fraction_up(likelihood[1] + prior[1] / n)
    must_be(high > 0.0, "curvature", "a high end > 0 together with the prior's", high)
    if low > 0.0:
        return Loss.strongly_convex(low, high)
    if low == 0.0:
        return Loss.convex(high)
    return Loss.weakly_convex(-low, max(high, -low))


class MeanOfLogs:
    """The gradient of −(1/n)(Σ log p + log prior), at each chain's point by itself."""

    def __init__(
        self,
        likelihood: Gradients,
        prior: PriorGradient | None,
        n: int,
        bound: float,
        of_prior: tuple[Fraction, Fraction],
    ) -> None:
        self._likelihood, self._prior, self._n, self._bound = likelihood, prior, n, bound
        self._of_prior = of_prior

    def refuse_other(self, n: int, gap: float, adjacency: Adjacency) -> None:
        """Raises InvalidInput where it is of another number of records, or moves by more than `gap`."""
        must_be(self._n == n, "n", f"{self._n!r} as of the gradient", n)
        own = gap_of(self._bound, n, adjacency)
        must_be(own <= gap, "gradient_gap", f"at least {own!r}, that of the gradient", gap)

    def refuse_other_prior(self, start: Array) -> None:
        """Raises InvalidInput where the prior's curvature about `start`, a point, is not the stated one.

        Nothing here depends on data. It finds another scale or sign; elsewhere the curvature is taken at its
        word.
        """
        if self._prior is None:
            return
        low, high = map(float, self._of_prior)
        step = 1e-3 * max(1.0, float(np.max(np.abs(start), initial=0.0)))
        here = self._log_prior(start)
        for direction in np.random.default_rng(0).normal(size=(_DIRECTIONS, *start.shape)):
            move = direction * (step / np.linalg.norm(direction))
            there = self._log_prior(start + move)
            curvature = float(np.vdot(here - there, move)) / step**2
            slack = 1e-6 * max(abs(low), abs(high)) + 1e-12 * float(np.linalg.norm(here)) / step
            if not low - slack <= curvature <= high + slack:
                raise InvalidInput(
                    "log_prior_gradient",
                    f"expected one whose −log prior has curvature in [{low!r}, {high!r}] (prior_curvature), "
                    f"got {plain(curvature, 3)} near x0: is it the gradient of log prior, a sum, not a mean?",
                )

    def _log_prior(self, x: Array) -> Array:
        assert self._prior is not None
        return returned("log_prior_gradient", self._prior(read_only(x)), x.shape, "x.shape")

    def __call__(self, x: Array, rows: Any = None) -> Array:
        """(chains, *shape) ↦ (chains, *shape)."""
        require(rows is None, "batches", "expected FullBatch() with a gradient from log densities")
        points = np.asarray(x, dtype=np.float64)
        return np.stack([self._at(np.ascontiguousarray(point)) for point in points])

    def _at(self, x: Array) -> Array:
        total = Total(x.shape)
        between = max(1, _HELD // max(x.size, 1))
        for first in range(0, self._n, between):
            rows = np.arange(first, min(first + between, self._n))
            shape = (len(rows), *x.shape)
            each = returned(
                "log_likelihood_gradients",
                self._likelihood(read_only(x), rows),
                shape,
                "(len(rows), *x.shape)",
            )
            total.add(np.sum(clip_norms(each, self._bound), axis=0))
        if self._prior is not None:
            total.add(self._log_prior(x))
        return np.asarray(-total.value / self._n)


_POINTS = 32  # of a block

_NAMED: dict[str, LinearLoss] = {"logistic": Logistic(), "linear": Squared(math.inf)}


class _Linear:
    """A linear model and its records; the base of gradients and losses. Nothing of it can be assigned."""

    _final = False

    def __setattr__(self, name: str, value: Any) -> None:
        require(not self._final, name, "expected a new one, made of other arguments")
        super().__setattr__(name, value)

    def __init__(self, X: Any, y: ArrayLike, model: str | Loss, l2: float) -> None:
        require(
            not isinstance(model, Loss) or l2 == 0.0,
            "l2",
            "expected none beside a loss, which has its own",
        )
        self.model = model
        self.loss = model if isinstance(model, Loss) else None
        self.l2 = validate.number("l2", self.loss.l2 if self.loss else l2, at_least=0.0)
        parameters = dict(self.loss.parameters) if self.loss else {}
        self._linear_loss = _linear_loss(model)
        records = _records(X, parameters.get("feature_norm"))
        self.n, self.d = records.n, records.width
        self._rows = records.dense(np.arange(self.n))
        self._targets = targets_of(self._linear_loss, y, self.n)
        if self._linear_loss.response == "sign":
            # Rows times their labels, so that predictors are margins.
            self._rows *= self._targets[:, None]

    def refuse_other(self, loss: Loss, n: int) -> None:
        """Raises InvalidInput where this is not of the mean loss that is described."""
        for name, mine, described in (("n", self.n, n), ("l2", self.l2, loss.l2)):
            must_be(mine == described, name, f"{described!r} as described", mine)
        # What is merely called convex, say, may be any model; a linear one is that one alone.
        if loss.kind in LINEAR_LOSSES and self.loss != loss:
            expected = f"{loss!r} as described, to whose feature_norm rows are scaled"
            must_be(False, "model", expected, self.model)
        # Of one record the Hessian has rank 1.
        require(
            loss.holds_of_zero or self.d == 1,
            "loss",
            f"expected no {loss.kind} loss: a record of a linear model is flat in most directions; state a "
            "regulariser as l2",
        )
        most = None if loss.curvature is None else loss.curvature[1]
        self.warn_of_more(loss.gradient_bound, most)

    def warn_of_more(
        self, bound: float | None, curvature: float | None, reach: float = 0.0
    ) -> None:
        """Warns where gradients may be longer, or steeper, than is described, if no set keeps them.

        `reach`: the largest norm of a point where gradients with the regulariser are described.
        """
        mine = self.loss.gradient_bound if self.loss else math.inf
        steepest = (math.inf, math.inf) if self.loss is None else self.loss.curvature
        if mine is not None:
            mine += self.l2 * reach
        if bound is not None and mine is not None and mine > bound * _EQUAL:
            what = f"gradient may have norm {mine!r}, and at most {bound!r}"
        elif curvature is not None and steepest is not None and steepest[1] > curvature * _EQUAL:
            what = f"loss may have curvature {steepest[1]!r}, and at most {curvature!r}"
        else:
            return
        warn(
            f"a record's {what} is described: unless the set or the rows keep it below, ε is too small; a "
            "loss's feature_norm shortens rows",
            PrivacyWarning,
        )

    def _points(self, x: ArrayLike) -> Array:
        points = np.ascontiguousarray(x, dtype=np.float64)
        require(
            points.ndim == 2 and points.shape[1] == self.d,
            "x",
            f"expected shape (points, {self.d}), got {points.shape}",
        )
        return points

    def _data(self, rows: Any) -> tuple[Array, Array]:
        if rows is None:
            return self._rows, self._targets
        chosen = np.asarray(rows)
        require(
            chosen.ndim == 1 and chosen.dtype.kind in "iu",
            "rows",
            f"expected an array of integers in 0..{self.n - 1}",
        )
        require(
            not np.any((chosen < 0) | (chosen >= self.n)),
            "rows",
            f"expected integers in 0..{self.n - 1}",
        )
        return self._rows[chosen], self._targets[chosen]


class MeanGradient(_Linear):
    """The gradient of a linear model's mean loss, a callable; `mean_gradient` makes it."""

    def __init__(
        self, X: Any, y: ArrayLike, model: str | Loss, l2: float, size: int | None
    ) -> None:
        super().__init__(X, y, model, l2)
        self.size = self.n if size is None else validate.integer("size", size, at_least=1)
        # What rounding may add to the sum on two adjacent data sets together is taken off before
        # (`pabi.execute.sums`).
        room = 2.0 * self.n * (additions_of_blocks(self.n) + 16.0) * HALF_ULP
        self._share = (1.0 - room) / self.size
        self._weighted = self._rows * self._share
        self._final = True

    def __call__(self, x: ArrayLike, rows: NDArray[np.intp] | None = None) -> Array:
        """∇L at `x`, (points, d) ↦ (points, d); with `rows` the sum over those, divided by `size`."""
        points = self._points(x)
        return self.l2 * points + self.of_data(points, rows)

    def of_data(self, points: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """∇L at (points, d) `points` without the regulariser: what the rounding margin is about."""
        result = np.zeros(points.shape)
        data, targets = self._data(rows)
        weighted = self._weighted if rows is None else data * self._share
        with np.errstate(over="ignore", invalid="ignore"):
            # Sums are compared in which a record stands at different places: a single chain's batches
            # may be random, and its predictors must not depend on the place.
            anywhere = rows is not None and len(points) == 1
            for some, part, z in _predictors(points, data, anywhere):
                self._linear_loss.differentiate(z, targets[part])
                result[some] += z @ weighted[part]
        return result


class MeanLoss(_Linear):
    """A linear model's mean loss, a callable; `mean_loss` makes it."""

    _reach = math.inf  # the largest norm of a point where it is asked for

    def __init__(self, X: Any, y: ArrayLike, model: str | Loss, l2: float) -> None:
        super().__init__(X, y, model, l2)
        self._final = True

    def within(self, reach: float) -> MeanLoss:
        """This loss at points of norm up to `reach`, but for a constant, which no target makes large."""
        near = copy(self)
        object.__setattr__(near, "_reach", reach)
        return near

    def __call__(self, points: ArrayLike, rows: NDArray[np.intp] | None = None) -> Array:
        """L at `points`, (k, d) ↦ (k,); with `rows` the mean is over those."""
        at = self._points(points)
        data, targets = self._data(rows)
        total = np.zeros(len(at))
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(self._linear_loss, Clipped) and self._reach < math.inf:
                # A target beyond it is as good there: at all those points the record's loss is linear.
                far = np.linalg.norm(data, axis=1) * self._reach + self._linear_loss.bound
                targets = np.clip(targets, -far * _EQUAL, far * _EQUAL)
            for some, part, z in _predictors(at, data, False):
                total[some] += np.sum(self._linear_loss.value(z, targets[part]), axis=1)
            result: Array = total / len(data) + 0.5 * self.l2 * np.einsum("ij,ij->i", at, at)
        return result


def mean_gradient(
    X: Any,
    y: ArrayLike,
    model: str | Loss = "logistic",
    l2: float = 0.0,
    *,
    size: int | None = None,
) -> MeanGradient:
    """The gradient of a linear model's mean loss, (points, d) ↦ (points, d), for `langevin`.

    Parameters
    ----------
    X : (n, d) array-like or `pabi.learn.Records`
        Features. A dense float64 copy is held, whatever their type.
    y : (n,) array-like
        Labels in {0, 1} or {−1, 1}, or targets.
    model : str or Loss
        "logistic", "linear" (½(x·θ − y)², whose gradient nothing bounds but the domain), or a `pabi.Loss`
        of kind logistic, squared, huber, smoothed_hinge, poisson or gamma. A loss brings its l2, and rows
        longer than its `feature_norm` are scaled down to it, each by itself; the chain's own loss is best.
    l2 : float
        λ ≥ 0 of (λ/2)‖θ‖², beside a model given by name. A prior N(0, I/τ) has λ = τ/n.
    size : int, optional
        What sums of gradients are divided by: the batch size of the chain. Default: n.

    Returns
    -------
    callable
        (points, d) ↦ (points, d) float64. Called with `rows` too, integers, it sums over those records alone
        and divides by `size`.

    Raises
    ------
    InvalidInput
        An argument is wrong; the error names it, and no message shows data.

    Notes
    -----
    Rounding never carries the sum past the loss's promise: gradients are smaller by a relative
    2n(m + 16)·2⁻⁵³, m the additions a coordinate goes through.

    References
    ----------
    docs, "Training", the fast path.
    """
    return MeanGradient(X, y, model, l2, size)


def mean_loss(X: Any, y: ArrayLike, model: str | Loss = "logistic", l2: float = 0.0) -> MeanLoss:
    """A linear model's mean loss with its regulariser, (k, d) ↦ (k,), for `gibbs_rejection`.

    Parameters
    ----------
    X : (n, d) array-like or `pabi.learn.Records`
        Features. A dense float64 copy is held, whatever their type.
    y : (n,) array-like
        Labels in {0, 1} or {−1, 1}, or targets.
    model : str or Loss
        As for `mean_gradient`.
    l2 : float, ≥ 0
        λ of (λ/2)‖θ‖², beside a model given by name.

    Returns
    -------
    callable
        (k, d) ↦ (k,) float64. Called with `rows` too, integers, it is the mean over those records.

    Raises
    ------
    InvalidInput
        An argument is wrong; the error names it, and no message shows data.
    """
    return MeanLoss(X, y, model, l2)


def _predictors(points: Array, data: Array, anywhere: bool) -> Iterator[tuple[slice, slice, Array]]:
    """(points, records, their predictors) block by block; the memory is the caller's until the next."""
    together = min(_POINTS, len(points))
    length = max(1, min(len(data), max(LEAST_ROWS, BLOCK // max(together, 1))))
    block = np.empty((together, length))
    for first in range(0, len(points), together or 1):
        some = slice(first, min(first + together, len(points)))
        for start in range(0, len(data), length):
            part = slice(start, min(start + length, len(data)))
            z = block[: some.stop - some.start, : part.stop - part.start]
            if anywhere:
                z[:] = by_row("ij,kj->ki", data[part], points[some])
            else:
                np.matmul(points[some], data[part].T, out=z)
            yield some, part, z


def _records(X: Any, feature_norm: float | None) -> Records:
    if not isinstance(X, Records):
        return Records(X, feature_norm)
    if feature_norm is not None and X.feature_norm is None:
        raise InvalidInput("feature_norm", "expected Records with one, or the features themselves")
    if feature_norm is not None:
        refuse_longer(X, feature_norm, " in the loss")
    return X


def _linear_loss(model: str | Loss) -> LinearLoss:
    """The loss of the predictor of `model`, a loss or a name. Raises InvalidInput."""
    one_predictor = [k for k, cls in LINEAR_LOSSES.items() if cls.response in ("sign", "number")]
    if type(model) is Loss and model.kind in one_predictor:
        return executable(model.kind, **dict(model.parameters))
    if isinstance(model, str) and model in _NAMED:
        return _NAMED[model]
    names = f"{', '.join(_NAMED)}, or a pabi.Loss: {', '.join(one_predictor)}"
    name = model.kind if isinstance(model, Loss) else model
    raise InvalidInput("model", f"expected one of {names}, got {name!r}")
