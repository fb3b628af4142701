"""Chains for posteriors that are stated as log densities: a prior, and a likelihood of each record."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.describe.langevin import LangevinChain
from pabi.describe.losses import Loss
from pabi.describe.neighbours import Adjacency, changed, checked_adjacency
from pabi.describe.runs import Prox
from pabi.describe.stated_run import COUNT
from pabi.execute.clipping import clip_norms
from pabi.execute.hiding import read_only, returned
from pabi.execute.sums import Total
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import LEAST_SCALED, Array, fraction_down, fraction_up

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
    gradient_bound : float, ≥ 1e-290
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
        above 0 anywhere, or an argument of the chain is wrong.

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
    bound = validate.number("gradient_bound", gradient_bound, at_least=LEAST_SCALED)
    chain = LangevinChain(
        _loss(_ends("curvature", curvature), _ends("prior_curvature", prior_curvature), n),
        n=n,
        inverse_temperature=float(n),
        step_size=step_size,
        steps=steps,
        gradient_gap=fraction_up(Fraction(bound) * changed(adjacency) / n),
        adjacency=adjacency,
        prox=prox,
    )
    for name, function in (
        ("log_likelihood_gradients", log_likelihood_gradients),
        ("log_prior_gradient", log_prior_gradient),
    ):
        if function is not None and not callable(function):
            raise InvalidInput(name, f"expected a callable, got a {type(function).__name__}")
    return Posterior(
        chain, _MeanOfLogs(log_likelihood_gradients, log_prior_gradient, n, bound).gradient
    )


def _ends(field: str, value: Any) -> tuple[Fraction, Fraction]:
    """(low, high), low ≤ high. Raises InvalidInput naming `field`."""
    if not isinstance(value, (list, tuple, np.ndarray)) or len(value) != 2:
        raise InvalidInput(field, f"expected (low, high), got {value!r}")
    low, high = (validate.number(field, end) for end in value)
    if low > high:
        raise InvalidInput(field, f"expected (low, high) with low ≤ high, got {value!r}")
    return Fraction(low), Fraction(high)


def _loss(likelihood: tuple[Fraction, Fraction], prior: tuple[Fraction, Fraction], n: int) -> Loss:
    """The loss of a record with its share of the prior, its curvature rounded outwards."""
    low = fraction_down(likelihood[0] + prior[0] / n)
    high = fraction_up(likelihood[1] + prior[1] / n)
    if not high > 0.0:
        raise InvalidInput(
            "curvature", f"expected a high end > 0 together with the prior's, got {high!r}"
        )
    if low > 0.0:
        return Loss.strongly_convex(low, high)
    if low == 0.0:
        return Loss.convex(high)
    return Loss.weakly_convex(-low, max(high, -low))


class _MeanOfLogs:
    """The gradient of −(1/n)(Σ log p + log prior), at each chain's point by itself."""

    def __init__(
        self, likelihood: Gradients, prior: PriorGradient | None, n: int, bound: float
    ) -> None:
        self._likelihood, self._prior, self._n, self._bound = likelihood, prior, n, bound

    def gradient(self, x: Array, rows: Any = None) -> Array:
        """(chains, *shape) ↦ (chains, *shape)."""
        if rows is not None:
            raise InvalidInput("batches", "expected FullBatch() with a gradient from log densities")
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
            total.add(returned("log_prior_gradient", self._prior(read_only(x)), x.shape, "x.shape"))
        return np.asarray(-total.value / self._n)
