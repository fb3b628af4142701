"""Estimates of how far a Langevin chain is from its target. No proof or guarantee rests on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.mixing import mixing_time, total_variation_bound
from pabi.describe import prox
from pabi.describe.langevin import LangevinChain
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import Array, bisected, bisected_whole
from pabi.numbers.showing import exact, plain, shown
from pabi.tradeoff.guarantee import Guarantee

NEAR = 0.1  # standard deviations of the target, and shares of one, that count as near
_LEAST = 0.001  # standard deviations below which none are told apart
_AS_MUCH = 1.01  # times the price of one draw, which a whole path may cost to be offered
_AS_NEAR = 0.04  # total variation of Gaussians that are so far apart, rounded up
_SAME = 1e-4  # relative, of two temperatures
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
        return bisected_whole(near, high // 2, high)[1]

    @cached_property
    def enough(self) -> float | None:
        """The least curvature of L with which the chain's own number of steps is enough, None if none is."""
        low, high = self.curvature[0], min(self.curvature[1], self._fastest)
        if self.off <= NEAR:
            return low
        if self._off(self.chain.steps, high) > NEAR:
            return None
        return bisected(
            lambda least: self._off(self.chain.steps, least) <= NEAR,
            low,
            high,
            close=lambda low, high: high <= low * 1.001,
            middle=lambda low, high: math.sqrt(low * high),
        )[1]

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
    def path_costs_as_much(self) -> bool:
        """Whether the whole path has, to a hundredth of ε, the price of the last iterate released instead."""
        path, last = self._prices
        return self.chain.release == "last" and path <= _AS_MUCH * last

    def __str__(self) -> str:
        advice = [self._tempered(), self.advice, self.offer, self._proven()]
        return "\n".join(
            [f"{self.chain.steps:,} steps: {self._distances()}", *filter(None, advice)]
        )

    @property
    def warning(self) -> str:
        """One line on a chain that may be far from its target, "" for one that is near. It has no prices,
        which may take long, as draws wait for it."""
        if self.near:
            return ""
        count = f"{self.chain.steps:,} steps"
        return (
            f"draws after {count} may be far from their target, {self._distances()}: "
            f"{self._advice(priced=False)}"
        )

    @property
    def advice(self) -> str:
        """What would bring the chain near its target, and what it costs; "" where it is near."""
        return self._advice(priced=True)

    def _advice(self, *, priced: bool) -> str:
        parts, now = [], f"{self.chain.steps:,}"
        if self.off > NEAR and self.steps is not None:
            price = self._priced(self.steps) if priced else ""
            parts.append(f"{self.steps:,} steps do{price}")
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
        """What the whole path costs and brings, "" where it costs more than what is released of it, or may
        never settle."""
        if not self.path_costs_as_much or math.isinf(self.off):
            return ""
        path, last = (shown(price, 3) for price in self._prices)
        return (
            f'release="path" costs ε = {path}, the last iterates {last}, at δ = {exact(self.delta)}: the '
            f"path brings R̂ and is worth {plain(self.effective, 2)} draws a chain"
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
        far = f"up to {shown(self.off, 2)}" if self.off >= _LEAST else f"under {exact(_LEAST)}"
        off, wide = f"{far} standard deviations off", self.too_wide
        return (
            off if wide is None else f"{off} and {shown(wide, decimals=0, percent=True)} too wide"
        )

    def _tempered(self) -> str:
        """How wide the target is beside the posterior, "" where it is that, but for a chain made colder or
        warmer for its roundings."""
        share = self.chain.inverse_temperature / self.chain.n
        if abs(share - 1.0) < _SAME:
            return ""
        wide = plain(1.0 / math.sqrt(share), 3)
        return (
            f"β = {plain(share, 2)}·n, a posterior's is n: the target is about {wide} times as wide"
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
        raise NotApplicable(
            "no curvature of L above 0 is known; ask outlook(chain, curvature=…) with that of public or "
            "simulated records"
        )
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
        raise NotApplicable(
            "nothing public says how far the minimum of L may be; ask outlook(chain, distance=…), or project "
            "on a set (prox)"
        )
    return min(bounds)
