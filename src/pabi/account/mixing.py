"""Mixing times of the projected Langevin chain: after how many steps it has forgotten where it began.

Two chains with the same potential, on a set of diameter D, are at most D apart wherever they begin, so
that T steps bring them G(μ_T)-close and within κ_T = 2Φ(μ_T/2) − 1 in total variation, μ_T from the
shifts with w_0 = D and no sensitivity (docs, "Mixing"). The largest distance over all pairs of starts is
submultiplicative, hence kT steps bring them within κ_T^k. If one of the two begins in the chain's own
stationary law it stays there: these are distances to that law. How far it is from exp(−βL) is another
matter, which a smaller step size settles and more steps do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, assert_never

import numpy as np

from pabi.describe.losses import Loss, checked_loss
from pabi.describe.moduli import (
    Affine,
    FromFunction,
    Linear,
    Modulus,
    Part,
    Sqrt,
    Unbounded,
    parts_of,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, require
from pabi.numbers.rounding import EPS_LONG, Array, bisected_whole

# Steps of one stretch, where the shifts are solved for numerically.
_LENGTHS = tuple(sorted({int(1.25**i) for i in range(38)}))
_MOST_BLOCKS = 1_000_000
_CLOSED = 1 << 22  # steps of one stretch where there is a closed form with a sum
_MARGIN = 1.0 + 1e-12  # above the roundings of the closed forms
_SAME = 1.0 + 1e-9  # squares of one shift, however they were rounded


def mixing_time(
    loss: Loss,
    diameter: float,
    step_size: float,
    total_variation: float,
    inverse_temperature: float = 1.0,
) -> int:
    """Steps after which the chain is within `total_variation` of its own stationary law, from any start.

    The chain is x ← Π(x − ηβ∇L(x) + √(2η)Z) on a convex set. The bound holds for a cyclic pass of stochastic
    gradients of such losses as well. It is the least of T·⌈ln ε/ln κ_T⌉ over the lengths T that are tried, ε
    being `total_variation`.

    Parameters
    ----------
    loss : Loss
        L is a mean of losses of this kind, its l2 included.
    diameter : float > 0
        D, of the convex set.
    step_size : float > 0
        η.
    total_variation : float in (0, 1)
        The distance to be reached.
    inverse_temperature : float > 0
        β.

    Returns
    -------
    int
        Steps ≥ 1, an upper bound on the mixing time.

    Raises
    ------
    InvalidInput
        For a number out of its range, naming the field.
    NotApplicable
        Where nothing bounds how far a step stretches, or the bound leaves the range of numbers.

    References
    ----------
    docs, "Mixing"; compare Bravo, Flores-Mella, Guzmán, Thm 4.2 (`pabi.literature.bravo`).
    """
    target = validate.number("total_variation", total_variation, above=0.0, below=1.0)
    square = _squared_mu(*_checked(loss, diameter, step_size, inverse_temperature))
    best, length, k = math.inf, 0, 1
    while k < min(best, _MOST_BLOCKS):
        steps = square.first_below(_mu_for(target ** (1.0 / k)) ** 2, best / k)
        if steps is not None and (total := steps * _blocks(target, square(steps))) < best:
            best, length = total, steps
        k += max(1, k // 16)
    if not math.isfinite(best):
        raise NotApplicable("no bound on the mixing time within the range of numbers")
    if square.exactly is not None and length in _LENGTHS:
        best = _refined(square.exactly, target, best, length)
    return int(best)


def _refined(exactly: Callable[[int], float], target: float, best: float, length: int) -> float:
    """The least number of steps with stretches of a length between those tried and `length`."""
    low, high, blocks = int(0.8 * length), length, best / length
    while high - low > max(1, length // 64):
        middle = (low + high) // 2
        total = middle * _blocks(target, exactly(middle))
        low, high = (low, middle) if total <= middle * blocks else (middle, high)
        best = min(best, total)
    return best


def total_variation_bound(
    loss: Loss,
    diameter: float,
    step_size: float,
    steps: Any,
    inverse_temperature: float = 1.0,
) -> Any:
    """A bound on the total-variation distance of the chain to its own stationary law after `steps`.

    The chain is that of `mixing_time`. The bound is the least κ_T^k over some k and T with kT ≤ steps.

    Parameters
    ----------
    loss : Loss
        L is a mean of losses of this kind, its l2 included.
    diameter : float > 0
        D, of the convex set.
    step_size : float > 0
        η.
    steps : int or array of int, of any shape, ≥ 1
        How many steps the chain has taken.
    inverse_temperature : float > 0
        β.

    Returns
    -------
    float or array
        Distances in [0, 1], of the shape of `steps`.

    Raises
    ------
    InvalidInput
        For a number out of its range, naming the field.
    NotApplicable
        Where nothing bounds how far a step stretches.

    References
    ----------
    docs, "Mixing"; compare Bravo, Flores-Mella, Guzmán, Thm 4.2 (`pabi.literature.bravo`).
    """
    square = _squared_mu(*_checked(loss, diameter, step_size, inverse_temperature))
    counts = np.atleast_1d(np.asarray(steps))
    bounds = np.empty(counts.shape)
    for place, count in np.ndenumerate(counts):
        length = validate.integer("steps", count, at_least=1)
        blocks = np.unique(np.geomspace(1, length, 64).astype(np.int64)).tolist()
        best = min(0.0, *(k * _log_kappa(square(length // k)) for k in blocks))
        bounds[place] = min(1.0, math.exp(best) * _MARGIN)
    return float(bounds[0]) if np.ndim(steps) == 0 else bounds.reshape(np.shape(steps))


def _checked(
    loss: Loss, diameter: float, step_size: float, inverse_temperature: float
) -> tuple[Modulus, float, float]:
    """(modulus of a step, D, σ²)."""
    checked_loss(loss)
    require(diameter is not None, "diameter", "missing: chains far apart need long to meet")
    d = validate.number("diameter", diameter, above=0.0)
    eta = validate.number("step_size", step_size, above=0.0)
    beta = validate.number("inverse_temperature", inverse_temperature, above=0.0)
    if not 0.0 < eta * beta < math.inf:
        raise InvalidInput(
            "inverse_temperature", "its product with step_size leaves the range of numbers"
        )
    modulus = loss.modulus(eta * beta)
    if isinstance(modulus, Unbounded):
        raise NotApplicable(f"nothing is known of how far a {loss.kind} loss's steps stretch")
    return modulus, d, 2.0 * eta


def _log_kappa(square: float) -> float:
    """ln κ, κ = 2Φ(μ/2) − 1, rounded up; 0, which is no bound, where κ is 1 in doubles."""
    return math.log1p(-math.erfc(math.sqrt(square / 8.0) * _MARGIN) / _MARGIN) / _MARGIN


def _blocks(target: float, square: float) -> float:
    """How many stretches of this μ² bring the distance below `target`."""
    log_kappa = _log_kappa(square)
    return math.ceil(math.log(target) / log_kappa * _MARGIN) if log_kappa < 0.0 else math.inf


def _mu_for(kappa: float) -> float:
    """The μ at which κ = 2Φ(μ/2) − 1."""
    from scipy.special import erfcinv, erfinv

    half = float(erfinv(kappa)) if kappa < 0.5 else float(erfcinv(1.0 - kappa))
    return 2.0 * math.sqrt(2.0) * half


class _Squares:
    """T ↦ μ_T², nonincreasing, from the cost f(R) of exactly R steps: chains that have met stay together."""

    def __init__(
        self,
        of: Callable[[int], float],
        longest: int,
        exactly: Callable[[int], float] | None = None,
    ) -> None:
        self._of, self.longest, self.exactly = cache(of), longest, exactly

    def __call__(self, steps: int) -> float:
        return self._of(min(steps, self.longest))

    def first_below(self, square: float, limit: float) -> int | None:
        """The least T < `limit` found with μ_T² ≤ `square`; None if there is none."""
        most = self.longest if limit > self.longest else math.ceil(limit) - 1
        if most < 1:
            return None
        high = 1
        while self(high) > square:
            if high >= most:
                return None
            high = min(2 * high, most)
        return bisected_whole(
            lambda steps: self(steps) <= square,
            high // 2,
            high,
            lambda a, b: b - a <= max(1, a // 4096),
        )[1]


def _squared_mu(modulus: Modulus, diameter: float, variance: float) -> _Squares:
    every = parts_of(modulus)
    parts = [part for part in every if not _beaten(part, every)]
    forms = [_closed_form(part, diameter, variance) for part in parts]
    closed = [form for form in forms if form is not None]
    if len(closed) == len(parts) == 1:
        return closed[0]

    exactly = cache(partial(_solved, modulus, diameter, variance))

    def square(steps: int) -> float:
        # Far apart one part matters, near each other another: both in turn is better than either.
        lengths = [length for length in _LENGTHS if length <= steps]
        return min((*(form(steps) for form in closed), *map(exactly, lengths)))

    return _Squares(square, max((form.longest for form in closed), default=_LENGTHS[-1]), exactly)


def _closed_form(part: Part, diameter: float, variance: float) -> _Squares | None:
    """The squares of a modulus that has a closed form; None for the others."""
    match part:
        case Linear():
            return _Squares(lambda t: _of_slope(part.slope, diameter, variance, t), 1 << 62)
        case Sqrt():
            return _Squares(
                _of_root(kappa=part.kappa, h=part.h, diameter=diameter, variance=variance), _CLOSED
            )
        case Affine() | FromFunction() | Unbounded():
            return None
        case _:
            assert_never(part)


def _beaten(part: Part, parts: Sequence[Part]) -> bool:
    """Whether `part` is δ + ζ, and √(δ² + ζ²) is known but for roundings. Leaving it out is sound."""
    return isinstance(part, Affine) and any(
        isinstance(p, Sqrt) and p.kappa <= part.slope**2 and p.h <= part.shift**2 * _SAME
        for p in parts
    )


def _of_slope(c: float, diameter: float, variance: float, steps: int) -> float:
    """D²c^2T/(σ²(1 + c² + … + c^2(T−1)))."""
    ratio = diameter * diameter / variance * _MARGIN
    if c == 1.0:
        return ratio / steps
    if c == 0.0:
        return 0.0
    # c^2T·(1 − c²)/(1 − c^2T) = (1 − c²)/(c^−2T − 1)
    exponent = -2.0 * steps * math.log(c)
    gap = (1.0 - c) * (1.0 + c)
    if exponent > 700.0:
        return ratio * gap * math.exp(-min(exponent, 740.0)) * _MARGIN
    return ratio * gap / math.expm1(exponent)


def _of_root(*, kappa: float, h: float, diameter: float, variance: float) -> Callable[[int], float]:
    """Bravo, Flores-Mella, Guzmán, Thm 3.4: D²κ^R/(σ²g(R)) + Σ_{r ≤ R} hκ^(r−1)/(σ²g(r)) with
    g(r) = 1 + κ + … + κ^(r−1); the least over R ≤ T, for chains that have met stay together."""

    @cache
    def least(most: int) -> Array:
        """The least value within T steps, for every T ≤ `most`: (most,)."""
        r = np.arange(1, most + 1, dtype=np.longdouble)
        log = np.log(np.longdouble(kappa)) if kappa else -np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            # κ^(r−1)/g(r), without overflow
            last = 1.0 / r if log == 0.0 else np.expm1(-log) / np.expm1(-log * r)
            if not kappa:
                last = np.where(r == 1.0, 1.0, 0.0)
            f = (diameter * diameter * kappa * last + h * np.cumsum(last)) / variance
        # A running sum loses half a unit a term, and `last` up to 2000 where a long double is a double: as
        # many as its exponents reach, twice.
        summed = 1.0 + (most + 2048.0) * EPS_LONG
        return np.asarray(np.minimum.accumulate(f.astype(np.float64)) * _MARGIN * summed)

    def square(steps: int) -> float:
        # The least power of four ≥ `steps`: a length that does not depend on what was asked before.
        bits = (steps - 1).bit_length()
        return float(least(max(1024, 1 << (bits + bits % 2)))[steps - 1])

    return square


def _solved(modulus: Modulus, diameter: float, variance: float, steps: int) -> float:
    """μ² of the best shifts found for any modulus."""
    from pabi.account.facts.step_moduli import shapes
    from pabi.account.shifts.nonlinear import solve

    sigma = np.full(steps, math.sqrt(variance))
    with np.errstate(all="ignore"):
        payments = solve(shapes([modulus] * steps), np.zeros(steps), sigma, diameter, diameter)
    return payments.square * _MARGIN
