"""Mixing times of the projected Langevin chain: after how many steps it has forgotten where it began; and
beside these proofs an estimate of how far it is from its target.

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
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, assert_never

import numpy as np
from numpy.typing import ArrayLike

from pabi.describe import prox
from pabi.describe.langevin import LangevinChain
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
from pabi.numbers.rounding import EPS_LONG, Array
from pabi.numbers.showing import exact, plain, shown
from pabi.tradeoff.guarantee import Guarantee

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
        low = high // 2
        while high - low > max(1, low // 4096):
            middle = (low + high) // 2
            low, high = (low, middle) if self(middle) <= square else (middle, high)
        return high


def _squared_mu(modulus: Modulus, diameter: float, variance: float) -> _Squares:
    every = parts_of(modulus)
    parts = [part for part in every if not _beaten(part, every)]
    forms = [_closed_form(part, diameter, variance) for part in parts]
    closed = [form for form in forms if form is not None]
    if len(closed) == len(parts) == 1:
        return closed[0]

    @cache
    def exactly(steps: int) -> float:
        return _solved(modulus, diameter, variance, steps)

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


# Estimates of how far a chain is from its target. They promise nothing, and no guarantee rests on them.

NEAR = 0.1  # standard deviations of the target, and shares of one, that count as near
_AS_MUCH = 1.01  # times the price of one draw, which a whole path may cost to be offered
_AS_NEAR = 0.04  # total variation of Gaussians that are so far apart, rounded up
_MOST_STEPS = 1 << 53


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """How far a Langevin chain is from its target ∝ exp(−βL), estimated from public numbers alone.

    Its text says all of it, with what would help and what that costs. Where L has curvature λ, the target's
    standard deviation is 1/√(βλ), the chain forgets all but |1 − hλ|^K of its start in K steps of h = ηβ,
    and its own law is 1/√(1 − hλ/2) times as wide as the target. That is exact for Gaussian targets. Every
    number is the worst over the curvatures that are possible.

    Attributes
    ----------
    chain : LangevinChain
        The description.
    curvature : (float, float)
        The least and the largest curvature of L; ∞ where none is known.
    distance : float
        How far from the start the middle of the target may be.
    delta : float
        At which prices are compared.
    guarantee : Guarantee or None
        What the chain costs, None where no analysis applies.

    References
    ----------
    docs, "How far it is"; of the least curvature on a bounded set Payne, Weinberger 1960.
    """

    chain: LangevinChain
    curvature: tuple[float, float]
    distance: float
    delta: float
    guarantee: Guarantee | None

    @cached_property
    def off(self) -> float:
        """How many standard deviations of the target the last iterate's mean is off."""
        return self._off(self.chain.steps, self.curvature[0])

    @cached_property
    def too_wide(self) -> float | None:
        """By which share the chain's own law is wider than the target, None where no curvature bounds it."""
        turn = self.chain.gradient_step * self.curvature[1] / 2.0
        if math.isinf(turn):
            return None
        return 1.0 / math.sqrt(1.0 - turn) - 1.0 if turn < 1.0 else math.inf

    @cached_property
    def steps(self) -> int | None:
        """Steps that bring `off` to a tenth, None where no number does."""

        def near(count: int) -> bool:
            return self._off(count, self.curvature[0]) <= NEAR

        high = 1
        while not near(high):
            if high >= _MOST_STEPS:
                return None
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if near(middle) else (middle, high)
        return high

    @cached_property
    def enough(self) -> float | None:
        """The least curvature of L with which the chain's own number of steps is enough, None if none is."""
        low, high = self.curvature[0], min(self.curvature[1], self._fastest)
        if self.off <= NEAR:
            return low
        if self._off(self.chain.steps, high) > NEAR:
            return None
        while high > low * 1.001:
            middle = math.sqrt(low * high)
            near = self._off(self.chain.steps, middle) <= NEAR
            low, high = (low, middle) if near else (middle, high)
        return high

    @property
    def effective(self) -> float:
        """Effective draws of the whole path of one chain, K·hλ/(2 − hλ) with the least curvature."""
        turn = min(self.chain.gradient_step * self.curvature[0], 1.0)
        return self.chain.steps * turn / (2.0 - turn)

    @property
    def near(self) -> bool:
        """Whether it is at most a tenth of a standard deviation off, and a tenth too wide."""
        return self.off <= NEAR and (self.too_wide or 0.0) <= NEAR

    @property
    def path_costs_no_more(self) -> bool:
        """Whether the whole path has, to a hundredth of ε, the price of the last iterate released instead."""
        path, last = self._prices
        return self.chain.release == "last" and path <= _AS_MUCH * last

    def __str__(self) -> str:
        advice = [self.advice, self.offer, self._proven()]
        return "\n".join(
            [f"{self.chain.steps:,} steps: {self._distances()}", *filter(None, advice)]
        )

    @property
    def warning(self) -> str:
        """One line on a chain that may be far from its target, "" for one that is near."""
        if self.near:
            return ""
        count = f"{self.chain.steps:,} steps"
        return (
            f"draws after {count} may be far from their target, {self._distances()}: {self.advice}"
        )

    @property
    def advice(self) -> str:
        """What would bring the chain near its target, and what it costs; "" where it is near."""
        parts, now = [], f"{self.chain.steps:,}"
        if self.off > NEAR and self.steps is not None:
            parts.append(f"{self.steps:,} steps do{self._priced(self.steps)}")
        if self.off > NEAR and self.enough is not None:
            enough, least = plain(self.enough, 3), plain(self.curvature[0], 3)
            parts.append(f"{now} do if L curves by {enough} or more everywhere (known: {least})")
        if (self.too_wide or 0.0) > NEAR:
            largest = 2.0 * (1.0 - (1.0 + NEAR) ** -2) / self.curvature[1]
            size = plain(0.999 * largest / self.chain.inverse_temperature, 3)
            parts.append(f"with step_size={size} the chain's own law is at most a tenth too wide")
        if not parts and not self.near:
            return "no number of steps is known to do"
        return "; ".join(parts)

    @property
    def offer(self) -> str:
        """That the whole path costs what is released of it, "" where it costs more."""
        if not self.path_costs_no_more:
            return ""
        path, last = (shown(price, 3) for price in self._prices)
        return (
            f'release="path" costs no more than the last iterates (ε = {path} and {last} at δ = '
            f"{exact(self.delta)}) and brings R̂; it is worth {plain(self.effective, 2)} draws a chain"
        )

    @cached_property
    def _prices(self) -> tuple[float, float]:
        """ε of the whole path and of what is released of it; (∞, 0) where either is not known."""
        own = self.guarantee
        if own is None or own.composition is None:
            return math.inf, 0.0
        return own.composition.epsilon(self.delta), own.epsilon(self.delta)

    def _distances(self) -> str:
        if math.isinf(self.off):
            return "the steps are so long that the chain may never settle"
        off, wide = f"up to {shown(self.off, 2)} standard deviations off", self.too_wide
        return (
            off if wide is None else f"{off} and {shown(wide, decimals=0, percent=True)} too wide"
        )

    def _proven(self) -> str:
        """What is proven, of the chain's own law; "" where nothing is."""
        if math.isinf(self.off):
            return ""
        chain = self.chain
        law = (chain.loss, chain.run.range_diameter, chain.step_size)
        beta = chain.inverse_temperature
        try:
            distance = total_variation_bound(*law, chain.steps, beta)
            steps = mixing_time(*law, _AS_NEAR, beta)
        except (NotApplicable, InvalidInput):
            return ""
        return (
            f"proven, from the chain's own law: total variation {shown(distance, 2)} after {chain.steps:,} "
            f"steps, {exact(_AS_NEAR)} after {steps:,}"
        )

    @property
    def _fastest(self) -> float:
        """The curvature along which one step forgets everything."""
        return 1.0 / self.chain.gradient_step

    def _off(self, steps: int, least: float) -> float:
        """Standard deviations off after so many steps, the worst over curvatures of at least `least`.

        A start counts as a standard deviation away at least, for the spread has to be reached as well.
        """
        h, beta = self.chain.gradient_step, self.chain.inverse_temperature
        most = min(self.curvature[1], self._fastest) if self.too_wide is None else self.curvature[1]
        if h * most >= 2.0:
            return math.inf
        worst = min(max(self._fastest / (2.0 * steps + 1.0), least), most)  # of √λ(1 − hλ)^K
        return max(
            max(self.distance * math.sqrt(beta * c), 1.0) * abs(1.0 - h * c) ** steps
            for c in (least, worst, most)
        )

    def _priced(self, steps: int) -> str:
        """What so many steps cost, beside what the chain's own do."""
        if self.guarantee is None:
            return ""
        try:
            then = replace(self.chain, steps=steps).guarantee(self.delta).epsilon(self.delta)
        except (NotApplicable, InvalidInput):
            return ""
        now = shown(self.guarantee.epsilon(self.delta), 3)
        return f" (ε = {shown(then, 3)} in place of {now} at δ = {exact(self.delta)})"


def outlook(
    chain: LangevinChain,
    x0: ArrayLike = 0.0,
    *,
    curvature: float | None = None,
    distance: float | None = None,
    delta: float = 1e-5,
) -> Outlook:
    """How far `chain` is from its target, estimated from public numbers alone: ask before drawing.

    Parameters
    ----------
    chain : LangevinChain
        What would be drawn from.
    x0 : array
        Where it starts, as for `pabi.sampling.langevin`.
    curvature : float > 0, optional
        The least curvature of L, regulariser included, around its minimum and out to the start, as public or
        simulated data say.
        By default what the description proves: its lower end, and on a set of diameter D π²/(βD²) for
        convex losses.
    distance : float > 0, optional
        How far from the start the minimum of L may be. By default as far as the farthest point of the set
        that the chain is projected on, or as one within G/m of 0, G the bound on gradients and m the lower
        end of the curvature.
    delta : float
        At which prices are compared.

    Returns
    -------
    Outlook
        Its text says how far, what would help and what that costs.

    Raises
    ------
    InvalidInput
        For an argument that is wrong, naming it.
    NotApplicable
        Where `curvature` or `distance` is not known and not given.

    References
    ----------
    docs, "How far it is"; of the least curvature on a bounded set Payne, Weinberger 1960.
    """
    validate.instance("chain", chain, LangevinChain, "a pabi.LangevinChain")
    try:
        start = validate.reals(x0)
    except (TypeError, ValueError, OverflowError):
        start = np.array(math.nan)
    if not np.all(np.isfinite(start)):
        raise InvalidInput("x0", f"expected finite numbers, got {validate.excerpt(x0)}")
    each = start.ndim >= 2 and len(start) == chain.chains
    starts = start.reshape(chain.chains if each else 1, -1)
    try:
        guarantee = chain.guarantee(delta)
    except NotApplicable:
        guarantee = None
    return outlook_on(chain, starts, guarantee, delta, curvature, distance)


def outlook_on(
    chain: LangevinChain,
    starts: Array,
    guarantee: Guarantee | None,
    delta: float,
    curvature: float | None = None,
    distance: float | None = None,
) -> Outlook:
    """What `outlook` returns for (chains, coordinates) starts, where the chain has this guarantee."""
    least, most = _curvature_of(chain)
    if curvature is not None:
        least = max(least, validate.number("curvature", curvature, above=0.0, at_most=most))
    if not least > 0.0:
        raise NotApplicable("no curvature of L above 0 is known (curvature)")
    if distance is None:
        distance = _farthest(chain, starts)
    else:
        distance = validate.number("distance", distance, above=0.0)
    return Outlook(
        chain=chain,
        curvature=(least, most),
        distance=distance,
        delta=delta,
        guarantee=guarantee,
    )


def _curvature_of(chain: LangevinChain) -> tuple[float, float]:
    """(least, largest) known curvature of L; −∞ and ∞ where none is.

    Of a convex potential on a convex set of diameter D the spectral gap is at least (π/D)² (Payne and
    Weinberger), as if L had curvature π²/(βD²).
    """
    loss, diameter = chain.loss, chain.run.range_diameter
    least = loss.least_curvature
    low = -math.inf if least is None else least + loss.l2
    if low >= 0.0:
        low = max(low, (math.pi / diameter) ** 2 / chain.inverse_temperature)
    return low, math.inf if loss.curvature is None else max(low, loss.curvature[1] + loss.l2)


def _farthest(chain: LangevinChain, starts: Array) -> float:
    """How far the minimum of L may be from (chains, coordinates) starts."""

    def longest(offsets: Array) -> float:
        return float(np.max(np.linalg.norm(offsets, axis=1), initial=0.0))

    bounds = [chain.run.range_diameter]  # starts outside of the set are in it after a step
    if isinstance(chain.prox, prox.ball):
        centre = np.zeros(1) if chain.prox.center is None else np.reshape(chain.prox.center, -1)
        if centre.size > 1 < starts.shape[1] != centre.size:
            raise InvalidInput("x0", f"expected {centre.size} coordinates, got {starts.shape[1]}")
        bounds.append(chain.prox.radius + longest(starts - centre))
    loss = chain.loss
    strong = (loss.least_curvature or 0.0) + loss.l2
    if loss.gradient_bound is not None and strong > 0.0:
        bounds.append(longest(starts) + loss.gradient_bound / strong)
    if math.isinf(min(bounds)):
        raise NotApplicable("nothing public says how far the minimum of L may be (distance)")
    return min(bounds)
