"""Data sets whose models show whether a trainer does what a run says, with canaries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pabi.describe.accounted import changed
from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    FixedSizes,
    FreshSubsets,
    KnownUses,
    Poisson,
    RandomSizes,
    Reshuffle,
    SecretOrder,
    ShuffleOnce,
)
from pabi.describe.prox import ball, box, elastic_net, l1, l2
from pabi.describe.runs import NoisySGD
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.updates import Momentum, Other
from pabi.describe.vector_losses import LINEAR_LOSSES, executable
from pabi.numbers.errors import InvalidInput, NotApplicable, require
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array
from pabi.numbers.showing import plain

# How many rows of each kind the batches of many trainings have, which are drawn side by side.


Counts = NDArray[np.int64]

_SPAN = 12.0  # standard deviations that sums keep


class BatchCounts:
    """The rows of each kind that are in the batch of a step, for many trainings at once.

    `kinds`: (n,) the kind of every row, 0 to `rest`; rows of the kind `rest` are not asked for.
    """

    def __init__(
        self,
        run: NoisySGD,
        kinds: NDArray[np.int64],
        rest: int,
        trainings: int,
        generator: np.random.Generator,
    ) -> None:
        self._run, self._order = run, run.order
        self._kinds, self._trainings, self._generator = kinds, trainings, generator
        self._totals = np.bincount(kinds, minlength=rest + 1)
        self._drawn: dict[int, Counts] = {}  # of an order that comes back, by place
        self._left = np.zeros((len(self._totals), trainings), dtype=np.int64)

    def at(self, step: int) -> Counts:
        """(kinds, trainings) or (kinds, 1); steps are asked for in turn."""
        match self._order:
            case KnownUses(period=period):
                size = self._run.batch_size
                rows = self._kinds[step % period * size :][:size]
                return np.bincount(rows, minlength=len(self._totals))[:, None]
            case SecretOrder() as order:
                return self._in_secret_order(order, step)
            case FreshSubsets(probability=p, sizes=sizes):
                return self._fresh(sizes, float(p))
            case order:
                assert_never(order)

    def _in_secret_order(self, order: SecretOrder, step: int) -> Counts:
        place = step % order.period
        if order.once and step >= order.period:
            return self._drawn[place]
        if place == 0:
            self._left[:] = self._totals[:, None]
        counts = self._taken(order, place)
        self._left -= counts
        match order.sizes:
            case FixedSizes():
                pass
            case RandomSizes(cap=cap):
                counts = _capped(counts, cap)
            case sizes:
                assert_never(sizes)
        if order.once:
            self._drawn[place] = counts.astype(np.int32)
        return counts

    def _taken(self, order: SecretOrder, place: int) -> Counts:
        """What the batch in this place takes of the rows that are left."""
        closes = place == order.period - 1
        if closes and not order.spare:
            return self._left.copy()
        match order.sizes:
            case FixedSizes(size=size, last=last):
                return self._without_replacement(self._left, last if closes else size)
            case RandomSizes():
                share = 1.0 / (order.period - place)
                return self._generator.binomial(self._left, share)
            case sizes:
                assert_never(sizes)

    def _fresh(self, sizes: FixedSizes | RandomSizes, probability: float) -> Counts:
        shape = len(self._totals), self._trainings
        match sizes:
            case FixedSizes(size=size):
                every = np.broadcast_to(self._totals[:, None], shape)
                return self._without_replacement(every, size)
            case RandomSizes(cap=cap):
                counts = np.zeros(shape, dtype=np.int64)
                kinds = len(self._totals) if cap is not None else len(self._totals) - 1
                for kind in range(kinds):
                    first, sums = _binomial(int(self._totals[kind]), probability)
                    drawn = self._generator.random(self._trainings)
                    counts[kind] = first + np.searchsorted(sums, drawn, side="right")
                return _capped(counts, cap)
            case _:
                assert_never(sizes)

    def _without_replacement(self, left: Counts, size: int) -> Counts:
        """`size` of the rows that are left, at random."""
        counts = np.zeros_like(left)
        rest, rest_of_batch = left.sum(axis=0), np.full(self._trainings, size)
        for kind in range(len(left) - 1):
            rest = rest - left[kind]
            counts[kind] = self._generator.hypergeometric(left[kind], rest, rest_of_batch)
            rest_of_batch = rest_of_batch - counts[kind]
        counts[-1] = rest_of_batch
        return counts


def window(total: int, share: float, left: float = 1.0) -> tuple[int, int]:
    """The least and the most of `total` that have a property, but for what 12 standard deviations leave out;
    `left`: what drawing without replacement leaves of the variance."""
    mean, span = total * share, _SPAN * math.sqrt(total * share * (1.0 - share) * left) + 40.0
    return max(0, int(mean - span)), min(total, int(mean + span) + 1)


@lru_cache(maxsize=64)
def _binomial(total: int, probability: float) -> tuple[int, Array]:
    """(the least value, what the sums of probabilities up to each value but the last are), but for what
    `window` leaves out: one lookup is far quicker than a draw."""
    low, high = window(total, probability)
    return low, np.asarray(binom.cdf(np.arange(low, high), total, probability))


def _capped(counts: Counts, cap: int | None) -> Counts:
    """Batches of more rows than the cap are empty."""
    return counts if cap is None else np.where(counts.sum(axis=0) > cap, 0, counts)


# Data sets with a canary, for trainers of linear models that are audited from outside.
#
# All rows but the canary are zero. So the canary alone moves its coordinate, and whoever reads the
# coefficients reads it there. Half of the other labels are of either kind, so that an intercept has
# nothing to learn.


_LABELLED = ("logistic", "smoothed_hinge")  # two classes, 0 and 1
_REAL = ("squared", "huber")


@dataclass(frozen=True, eq=False)
class CanaryData:
    """A data set with a canary.

    Attributes
    ----------
    X : float64 array, (n, d)
        The rows.
    y : array, (n,)
        Labels 0 and 1, or real targets.
    """

    X: Array
    y: NDArray[Any]


def canary_pair(run: NoisySGD, target: float = 1.0) -> tuple[CanaryData, CanaryData]:
    """Two neighbouring data sets for the loss of a linear model.

    The canary is one row of the largest norm. In the other data set its label, or its target, is the other
    one ("replace_one"), or its row is zero ("zero_out").

    Parameters
    ----------
    run : NoisySGD
        What is audited: n, its loss and its adjacency. A canary in a known order is in the last batch.
    target : float > 0
        The size of real targets.

    Returns
    -------
    (CanaryData, CanaryData)
        One column each.

    Raises
    ------
    InvalidInput
        For a loss that is not a linear model's with two classes or one real target.
    """
    labels, norm = two_targets(run, target), _feature_norm(run)
    row = _canary_row(run)
    y = labels[np.arange(run.n) % 2]
    X = np.zeros((run.n, 1))
    X[row], y[row] = norm, labels[1]
    other = CanaryData(X.copy(), y.copy())
    if changed(run.adjacency) == 2:
        other.y[row] = labels[0]
    else:
        other.X[row] = 0.0
    return CanaryData(X, y), other


def many_canaries(run: NoisySGD, included: NDArray[np.bool_]) -> CanaryData:
    """A data set with many canaries, each with a coordinate of its own; those left out are zero rows.

    `included`: (m,), m ≤ n. The canaries are spread over all batches.
    """
    labels, m = two_targets(run), len(included)
    rows = np.arange(m) * run.n // m
    y = labels[np.arange(run.n) % 2]
    X = np.zeros((run.n, m))
    X[rows, np.arange(m)] = _feature_norm(run) * included
    y[rows] = labels[1]
    return CanaryData(X, y)


def coefficients(model: Any) -> Array:
    """(d,) what a trainer returned: an array, or a fitted estimator with `coef_`."""
    values = getattr(model, "coef_", model)
    try:
        flat = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInput(
            "train", f"expected coefficients or a fitted estimator, got a {type(model).__name__}"
        ) from None
    require(flat.size and np.isfinite(flat).all(), "train", "expected finite coefficients")
    return flat


def two_targets(run: NoisySGD, target: float = 1.0) -> NDArray[Any]:
    """Both labels, or two opposite targets. Raises InvalidInput for a loss that has neither."""
    if run.loss.kind in _LABELLED:
        return np.array([0, 1])
    if run.loss.kind in _REAL:
        return np.array([-target, target])
    raise InvalidInput(
        "run",
        f"expected a loss of {', '.join((*_LABELLED, *_REAL))} to make canaries for, got {run.loss.kind}",
    )


def _feature_norm(run: NoisySGD) -> float:
    return float(dict(run.loss.parameters).get("feature_norm", 1.0))


def _canary_row(run: NoisySGD) -> int:
    """A row of the batch that is used last, where that is known."""
    match run.order:
        case KnownUses(period=period):
            place = (run.steps - run.cooldown_steps - 1) % period
            return min(run.n - 1, place * run.batch_size)
        case _:
            return run.n - 1


NAMES = (
    "a canary",
    "its neighbour",
    "nine rows of ten alike",
    "seven tenths alike, then opposite ones",
)
_COUNTED = 2_000_000  # batches of an order that comes back, over all models at once
_AT_ONCE = 20_000


def probes(run: NoisySGD) -> tuple[CanaryData, ...]:
    """The data sets, in the order of `NAMES`. Raises InvalidInput for a loss without canaries."""
    targets = two_targets(run)
    canary, neighbour = canary_pair(run)
    rows = np.arange(run.n)
    X = np.full((run.n, 1), float(np.max(np.abs(canary.X))))
    alike = CanaryData(X, targets[np.where(rows % 10 == 9, 0, 1)])
    return canary, neighbour, alike, CanaryData(X, targets[np.where(10 * rows < 7 * run.n, 1, 0)])


def refuse_untested(run: NoisySGD) -> None:
    """Raises NotApplicable for runs whose models are not trained side by side here."""
    if run.unit == "user":
        raise NotApplicable("users have several rows")
    if isinstance(run.rule, Other):
        raise NotApplicable("what the update does is not described")
    if not isinstance(run.prox, None | l1 | l2 | elastic_net | ball | box):
        raise NotApplicable("the proximal map is not one of a number")


def models(run: NoisySGD, data: CanaryData, count: int, generator: np.random.Generator) -> Array:
    """(count,) what the run releases on a data set of one column, from a start at 0."""
    period = run.steps_per_epoch
    size = max(1, min(_AT_ONCE, _COUNTED // period))
    parts = [min(size, count - first) for first in range(0, count, size)]
    return np.concatenate([_side_by_side(run, data, part, generator) for part in parts])


def _side_by_side(
    run: NoisySGD, data: CanaryData, count: int, generator: np.random.Generator
) -> Array:
    slopes, targets, kinds = _kinds(run, data)
    uses = BatchCounts(run, kinds, len(slopes), count, generator)
    loss = executable(run.loss.kind, **dict(run.loss.parameters))
    eta, noise = run.schedule(0, run.steps)
    x, rule, bound = np.zeros(count), run.rule, run.record_gradient_bound
    state = rule.start(x)
    for k in ticking(range(run.steps)):
        total = np.zeros(count)
        if k < run.data_steps:
            used = uses.at(k)
            for kind, (slope, target) in enumerate(zip(slopes, targets, strict=True)):
                if used[kind].any():
                    total += used[kind] * _gradient(loss, x, float(slope), float(target), bound)
        noisy = total / run.batch_size + noise[k] * generator.standard_normal(count)
        x, state = rule.step(x, run.loss.l2 * x + noisy, float(eta[k]), state, k)
        x = _mapped(run, x, float(eta[k]))
    return x


def _kinds(run: NoisySGD, data: CanaryData) -> tuple[Array, NDArray[np.float64], NDArray[np.int64]]:
    """(entries of the kinds of rows that pull, their targets, the kind of every row); those at rest last."""
    entries, targets = data.X[:, 0], np.asarray(data.y, dtype=np.float64)
    if LINEAR_LOSSES[run.loss.kind].response == "sign":
        targets = np.where(targets > 0.0, 1.0, -1.0)
    pulling = entries != 0.0
    pairs, own = np.unique(np.stack([entries, targets])[:, pulling], axis=1, return_inverse=True)
    kinds = np.full(len(entries), pairs.shape[1])
    kinds[pulling] = own.ravel()
    return pairs[0], pairs[1], kinds


def _gradient(
    loss: LinearLoss, x: Array, entry: float, target: float, bound: float | None
) -> Array:
    """(m,) the clipped gradient of a row at each model."""
    signed = entry * target if loss.response == "sign" else entry
    z = signed * x
    loss.differentiate(z, np.full(len(x), target))
    z *= signed
    return z if bound is None else np.clip(z, -bound, bound, out=z)


def _mapped(run: NoisySGD, x: Array, step_size: float) -> Array:
    match run.prox:
        case None:
            return x
        case ball(radius=radius, center=center):
            middle = 0.0 if center is None else float(np.ravel(center)[0])
            return np.clip(x, middle - radius, middle + radius)
        case _:  # entry by entry
            return np.asarray(run.prox(x, step_size), dtype=np.float64)


# What may be wrong.


@dataclass(frozen=True, eq=False)
class Fault:
    """Runs that a trainer may do in place of the one that is promised, from hardly different to very.

    `sizes`: by how much, in words. `usual`: which of them the tests are made for.
    """

    kind: str
    sizes: tuple[str, ...]
    runs: tuple[NoisySGD, ...]
    usual: int


_NOISE = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25)
_CLIP = (1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)
_EPOCHS = (1, 2, 3, 5, 10, 30)
_MOMENTUM = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9)
_SCHEMES: dict[str, type[Batches]] = {
    "rows in their own order": Cyclic,
    "one shuffle": ShuffleOnce,
    "a shuffle every epoch": Reshuffle,
    "balls in bins": BallsInBins,
    "batches of fixed size, drawn": FixedSize,
    "Poisson batches": Poisson,
}


def faults(run: NoisySGD) -> Iterator[Fault]:
    """Those that a trainer of this run may have."""
    std = run.gradient_noise_std
    noises = [_changed(run, noise_std=f * std) for f in _NOISE]
    yield Fault("noise", tuple(f"× {plain(f)}" for f in _NOISE), tuple(noises), _NOISE.index(0.9))
    if run.clip_norm is not None:
        clips = [_changed(run, clip_norm=f * run.clip_norm) for f in _CLIP]
        sizes = tuple(f"× {plain(f)}" for f in _CLIP)
        yield Fault("clip norm", sizes, tuple(clips), _CLIP.index(2.0))
    sizes = tuple(f"+ {more}" for more in _EPOCHS)
    yield Fault("epochs", sizes, tuple(_longer(run, more) for more in _EPOCHS), 0)
    if run.rule.plain:
        heavy = [_changed(run, update=Momentum(m)) for m in _MOMENTUM]
        sizes = tuple(plain(m) for m in _MOMENTUM)
        yield Fault("momentum", sizes, tuple(heavy), _MOMENTUM.index(0.5))
    if run.batch_size < run.n:
        for name, scheme in _SCHEMES.items():
            if type(run.batches) is not scheme:
                batches = scheme(run.batch_size)  # type: ignore[call-arg]
                yield Fault(name, ("",), (_changed(run, batches=batches),), 0)


def _changed(run: NoisySGD, **changes: Any) -> NoisySGD:
    """The run with as many steps and as much noise, and something else that is not as described."""
    noise = {"noise_std": run.gradient_noise_std, "noise_multiplier": None}
    return replace(run, **{"epochs": None, "total_steps": run.steps, **noise, **changes})


def _longer(run: NoisySGD, more: int) -> NoisySGD:
    """The run with so many more epochs; schedules go on with their last entries."""
    extra = more * run.steps_per_epoch

    def padded(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return np.append(value, np.full(extra, value[-1]))

    return _changed(
        run,
        total_steps=run.steps + extra,
        step_size=padded(run.step_size),
        noise_std=padded(run.gradient_noise_std),
    )
