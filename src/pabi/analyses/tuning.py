"""Choosing the free parameters of an analysis of random batches at the δ asked for.

Whatever is chosen is valid. The first guess is the tilt of a Gaussian limit (Bok, Su, Altschuler 2024,
Props C.14 and C.15, choose by it alone); then the tilt is taken from the exact composition of the
best plan so far, and what is reported is the exact composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import numpy as np

from pabi.rounding import Array
from pabi.tradeoff import Gaussian, PoissonSubsampled, Product, Subsampled, TradeOff

DEFAULT_DELTA = 1e-10  # at which plans are compared where δ = 0 is asked for: ε is infinite there
_MARGIN = 1e-11  # relative, over the roundings of a factor's parameter
_LEAST = 1e-9  # a Gaussian parameter below which nothing is gained
_CLOSE = 2e-4  # relative: parameters so close are rounded up to the largest of them
_ALIKE = 1.02  # up to so much more, moments do not tell which plan is better
_BINS = 48  # distinct parameters that are composed


class Plan(Protocol):
    """A choice of free parameters, and what it proves."""

    @property
    def curve(self) -> TradeOff: ...


P = TypeVar("P", bound=Plan)


def tuned(plan_at: Callable[[float], P], delta: float) -> P:
    """The plan of least ε at `delta` > 0 among those that are best for a few tilts λ.

    The first tilt is that of G(1), whatever the run, so that runs that differ only in what is forgotten
    are treated alike. Then it is taken from the moments of the exact composition of the plan before;
    those that are about as good by their moments are compared by their ε.
    """
    power = math.sqrt(2.0 * math.log(1.0 / delta))
    plans: list[tuple[float, P]] = []
    for attempt in range(7):
        plan = plan_at(power)
        following, epsilon = moments(plan.curve, delta)
        plans.append((epsilon, plan))
        if abs(math.log(following / power)) < 0.03:
            break
        # Close to the fixed point it overshoots.
        power = following if attempt < 2 else math.sqrt(power * following)
    plans.sort(key=lambda found: found[0])
    few = [plan for epsilon, plan in plans[:3] if epsilon <= _ALIKE * plans[0][0]]
    return min(few, key=lambda plan: _roughly(plan.curve, delta)) if len(few) > 1 else few[0]


def _roughly(curve: TradeOff, delta: float) -> float:
    """An upper value of ε on a coarser grid, for comparison."""
    return curve.rough_epsilon(delta) if isinstance(curve, Product) else curve.epsilon(delta)


def moments(curve: TradeOff, delta: float) -> tuple[float, float]:
    """(λ, ε): what Rényi divergences say of ε at `delta`, and the tilt (order - 1) that says it."""
    if isinstance(curve, Product):
        left = delta - curve.failure
        return curve.by_moments(left if left > 0.0 else delta)
    mu = max(curve.epsilon(delta) / math.sqrt(2.0 * math.log(1.0 / delta)), 1e-9)
    return math.sqrt(2.0 * math.log(1.0 / delta)) / mu, curve.epsilon(delta)


def product(
    gaussian: float,
    records: Iterable[tuple[Array, Array]],
    probability: float,
    poisson: bool,
    failure: float,
) -> TradeOff:
    """G(gaussian) ⊗ the records' factors, given as arrays of parameters and counts.

    `poisson`: factors O_p, for a record that is there or not; otherwise C_p. Parameters are rounded up to
    at most 48 distinct ones.
    """
    mus = np.concatenate([m for m, _ in records] or [np.zeros(0)])
    counts = np.concatenate([n for _, n in records] or [np.zeros(0)])
    factors: list[tuple[TradeOff, int]] = []
    for mu, count in binned(mus * (1.0 + _MARGIN), counts):
        base: TradeOff = (
            PoissonSubsampled(mu, probability) if poisson else Subsampled(Gaussian(mu), probability)
        )
        factors.append((base, count))
    if gaussian > 0.0:
        factors.append((Gaussian(max(gaussian * (1.0 + _MARGIN), _LEAST)), 1))
    if not factors:
        factors.append((Gaussian(0.0), 1))
    return Product(factors, failure)


def binned(mus: Array, counts: Array) -> list[tuple[float, int]]:
    """(parameter, count), close ones together, rounded up to few distinct ones; zeros left out."""
    kept = (mus > 0.0) & (counts > 0)
    level = np.ceil(np.log(mus[kept]) / _CLOSE)
    levels, index = np.unique(level, return_inverse=True)
    values = np.zeros(levels.size)
    np.maximum.at(values, index, mus[kept])
    totals = np.bincount(index, counts[kept], values.size)
    if values.size > _BINS:
        # Bins that hold about equal parts of Σ count·μ², what rounding up costs is then spread evenly.
        weight = np.cumsum(totals * values**2)
        bins = np.minimum((weight / weight[-1] * _BINS).astype(np.int64), _BINS - 1)
        last = np.append(np.flatnonzero(np.diff(bins)), values.size - 1)
        sums = np.diff(np.append(0.0, np.cumsum(totals)[last]))
        values, totals = values[last], sums
    return [(float(v), round(float(n))) for v, n in zip(values, totals, strict=True)]
