"""What groups of records and selections among runs cost.

Data sets that differ in k records are a chain P_0, …, P_k of adjacent pairs. For all real x and y
P_0(S) ≤ e^x·P_a(S) + δ_a(x) and, with b = k - a, P_a(S) ≤ e^y·P_k(S) + δ_b(y). So
δ_k(x + y) ≤ δ_a(x) + e^x·δ_b(y). The least of these over all x is the function of 1 - (1 - f)∘…∘(1 - f)
exactly; here it is taken over the points of a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from pabi.numbers.locking import tick
from pabi.numbers.mixtures import checked_shape, gamma_of
from pabi.numbers.rounding import (
    EIGHT_ROUNDINGS,
    GOLDEN,
    Array,
    bisected,
    down,
    fraction_down,
    fraction_up,
    up,
)
from pabi.numbers.validate import NONNEGATIVE, Checked, by, integer, number
from pabi.numbers.vectorised import both_signs
from pabi.tradeoff.allocation import RandomAllocation
from pabi.tradeoff.approx_dp import ApproxDP
from pabi.tradeoff.base import FARTHEST, Corner, Readers, TradeOff, levels, supported
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.grids import SLACK, OfPoints, checked_both_orders, lower_hull
from pabi.tradeoff.mixture import Mixture
from pabi.tradeoff.product import Product

_POINTS, _LEAST_DELTA = 1000, 1e-290  # of a link's grid, and what its end leaves
_FEW_POINTS, _MORE_DELTA = 100, 1e-20  # the same where every δ takes a transform, if that will do
_SLOW, _ENDED = Product | Best | RandomAllocation, 1e-13  # it does where a chain ends so
_MOST = 4000  # points of a chain's grid; of finer ones every second point is kept
_BITS = 40  # of a spacing: the 2·_MOST points of a sum take the other 13
_SLACK = 1e-10  # relative: more than rounding moves a point of the hull
_POWERS = 1e-12  # relative: more than e^x is off by where x, of at most 600, was rounded
_MOST_GROUPED = 10**9
_BASE: Readers = {"base": lambda _, table: TradeOff.from_dict(table)}


@dataclass(frozen=True)
class Grouped(Checked, OfPoints):
    """What a chain of adjacent data sets reveals: 1 - (1 - f)∘…∘(1 - f), f of one link.

    `grouped` has closed forms where there are some.

    Parameters
    ----------
    base : TradeOff
        The function of one link, for both orders of the data sets.
    size : int
        The number of links, from 2 to 10⁹.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.14; docs, "Theory", 19.
    """

    base: TradeOff = field(metadata=by(checked_both_orders))
    size: int = field(metadata=by(partial(integer, at_least=2, at_most=_MOST_GROUPED)))

    kind: ClassVar[str] = "grouped"
    _readers = _BASE

    def _rdp(self, order: float) -> float:
        order = number("order", order, above=1.0)
        pure = self.base._epsilon(0.0) * self.size
        return min(self.zcdp * order, pure) * (1.0 + EIGHT_ROUNDINGS)

    @property
    def zcdp(self) -> float:
        """The ρ = k²·ρ_1, with ρ_1 of one link.

        References
        ----------
        Bun, Steinke 2016, Prop. 1.9.
        """
        own = self.base.zcdp
        return own if own in (0.0, math.inf) else fraction_up(Fraction(own) * self.size**2)

    def _delta_array(self, epsilon: Array) -> Array:
        """On chords over e^ε between the points, where δ is convex, and constant beyond the last."""
        x, y = self._hull
        size = np.minimum(np.abs(epsilon), x[-1])
        after = np.clip(np.searchsorted(x, size), 1, x.size - 1)
        share = np.expm1(size - x[after - 1]) / np.expm1(x[after] - x[after - 1])
        chord = y[after - 1] + (y[after] - y[after - 1]) * np.clip(share, 0.0, 1.0)
        value = np.clip(chord * (1.0 + _SLACK), 0.0, 1.0)
        return np.where(epsilon == -math.inf, 1.0, both_signs(epsilon, value))

    def _epsilon(self, delta: float) -> float:
        if delta >= self._delta(0.0):
            return 0.0
        x, y = self._hull
        beyond = np.flatnonzero(y * (1.0 + _SLACK) <= delta)
        if beyond.size == 0:
            return math.inf
        ends = float(x[beyond[0] - 1]), float(x[beyond[0]])
        _, high = bisected(
            lambda e: self._delta(e) <= delta, *ends, close=lambda a, b: b - a <= _SLACK * b
        )
        return high

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        """From below that of one link, from above by the grid."""
        if delta >= 1.0:
            return 0.0, 0.0
        low, _ = self.base._epsilon_bounds(delta, rtol)
        high = self._epsilon(delta)
        return min(low, high), high

    def _tradeoff(self, alpha: Array) -> Array:
        epsilon, _ = self._profile
        delta = self._delta_array(epsilon)
        return supported(alpha, epsilon, left=delta, right=delta)

    @cached_property
    def _hull(self) -> tuple[Array, Array]:
        """The points of the profile at the corners of its lower hull over e^ε."""
        epsilon, delta = self._profile
        corners = lower_hull(np.exp(epsilon), delta)
        return epsilon[corners], delta[corners]

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        """(ε, upper bounds on δ) on a grid from 0 on."""
        short = isinstance(self.base, _SLOW)
        epsilon, delta = self._points(_MORE_DELTA if short else _LEAST_DELTA)
        if not short or delta[-1] <= _ENDED or self.base._delta(math.inf) > _ENDED:
            return epsilon, delta
        # Farther out, and coarser: at every ε the less of both.
        more = self._points(_LEAST_DELTA)
        epsilon, delta = np.append(epsilon, more[0]), np.append(delta, more[1])
        order = np.lexsort((delta, epsilon))
        epsilon, first = np.unique(epsilon[order], return_index=True)
        return epsilon, np.minimum.accumulate(delta[order][first])

    def _points(self, least: float) -> tuple[Array, Array]:
        return _Chain.link(self.base, least).power(self.size).points()


@dataclass(frozen=True)
class _Chain:
    """Upper bounds on δ at 0, h, 2h, …, the same in both orders, for a chain of links."""

    spacing: float
    delta: Array

    @classmethod
    def link(cls, base: TradeOff, least: float) -> _Chain:
        """The bounds of one link, up to where δ is what it is at ∞ but for `least`."""
        slow = isinstance(base, _SLOW)
        points = _FEW_POINTS if slow else _POINTS
        end = base._epsilon(min(1.0, base._delta(math.inf) * (1.0 + _SLACK) + least))
        spacing = _short(min(max(end, 1e-9), FARTHEST) / points)
        read = TradeOff._delta_array if slow else type(base)._delta_array
        return cls(spacing, read(base, _multiples(spacing, points)))

    def power(self, k: int) -> _Chain:
        """The bounds of k such chains one after the other."""
        if k == 1:
            return self
        half = self.power(k // 2)
        whole = half.then(half)
        return whole.then(self) if k % 2 else whole

    def then(self, other: _Chain) -> _Chain:
        """The bounds of this chain followed by another, whose spacing is at most this one's."""
        one, two, spacing = self, other, self.spacing
        while two.spacing < spacing:
            two = two.coarser()
        joined = _Chain(spacing, _joined(spacing, one.delta, two.delta))
        while joined.delta.size > _MOST:
            joined = joined.coarser()
        return joined

    def coarser(self) -> _Chain:
        """Every second point; where the last is left out, it stands a step further, as δ falls."""
        delta = self.delta if self.delta.size % 2 else np.append(self.delta, self.delta[-1])
        return _Chain(2.0 * self.spacing, delta[::2])

    def points(self) -> tuple[Array, Array]:
        """(ε, δ)."""
        return _multiples(self.spacing, self.delta.size - 1), self.delta


def _joined(spacing: float, first: Array, second: Array) -> Array:
    """min over i of δ_a(ih) + e^(ih)·δ_b((n - i)h) for every n from 0 on, rounded up."""
    a, b = first.size - 1, second.size - 1
    one, two = _at_both_signs(spacing, first), _at_both_signs(spacing, second)
    last = min(a + b, max(a, b, int(FARTHEST / spacing)))
    least = np.ones(last + 1)
    for i in range(-a, a + 1):
        tick()
        low, high = max(0, i - b), min(last, i + b)
        if low <= high:
            value = one[i + a] + math.exp(i * spacing) * two[low - i + b : high - i + b + 1]
            np.minimum(least[low : high + 1], value, out=least[low : high + 1])
    return np.minimum(least * (1.0 + _POWERS), 1.0)


def _at_both_signs(spacing: float, delta: Array) -> Array:
    """The bounds at -mh, …, mh."""
    m = delta.size - 1
    every = np.concatenate([delta[:0:-1], delta])
    return both_signs(_multiples(spacing, m, -m), every)


def _short(x: float) -> float:
    """`x` > 0, rounded up to so few bits that sums of its multiples in a chain are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(mantissa, _BITS)), exponent - _BITS)


def _multiples(spacing: float, last: int, first: int = 0) -> Array:
    """From first·h to last·h."""
    return spacing * np.arange(first, last + 1, dtype=np.float64)


def grouped(base: TradeOff, size: int) -> TradeOff:
    """What a mechanism reveals of groups of `size` records, from what it reveals of one.

    Parameters
    ----------
    base : TradeOff
        The function of one record, for both orders of the data sets.
    size : int
        The records of a group, from 1 to 10⁹.

    Returns
    -------
    TradeOff
        G(kμ) of G(μ), kε-DP of ε-DP, otherwise a `Grouped`.

    Raises
    ------
    InvalidInput
        For a `size` out of range, and for a function of one order of the data sets.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.14; docs, "Theory", 19.
    """
    base = checked_both_orders("base", base)
    k = integer("size", size, at_least=1, at_most=_MOST_GROUPED)
    match base:
        case _ if k == 1:
            return base
        case Gaussian(mu=mu):
            return Gaussian(_times_up(mu, k))
        case ApproxDP(epsilon_0=epsilon, delta_0=0.0):
            return ApproxDP(_times_up(epsilon, k))
        case _:
            return Grouped(base, k)


def _times_up(x: float, k: int) -> float:
    """k·x, rounded up."""
    return x if math.isinf(x) else fraction_up(Fraction(x) * k)


# The best of a random number of runs: δ grows by a factor, and the privacy loss by a summand.


_CLOSE = 1e-12  # relative: how far apart the bounds on log R may be
_ROUGH = 1.004  # by how much log R is raised where a checker computes it numerically
_POINTS_SELECTED = 4000  # of the grid on which the curve is drawn, and made a pair
_LEAST_DELTA_SELECTED = 1e-17  # what a grid's end leaves
_FEW_POINTS_SELECTED, _MORE_DELTA_SELECTED = 100, 1e-11  # the same where every δ takes a transform
_FARTHEST_SELECTED = 300.0  # the end of a grid: e^300 is far from the largest double
_SHRINKS, _FEWER_SHRINKS = 60, 24  # of the interval in which the kink is searched


@dataclass(frozen=True)
class Selected(Checked, OfPoints):
    """The best of a random number K of independent runs: δ(ε) ≤ min{1, E[K]·δ_0(ε - c)}, δ_0 of one run.

    `selected` computes c from the law of K. At small ε the bound is above what it implies by itself, from
    larger ε and for both orders of the data sets: δ is what is implied.

    Parameters
    ----------
    base : TradeOff
        The function of one run, for both orders of the data sets.
    mean_trials : float
        E[K] ≥ 1.
    log_ratio : float
        c ≥ 0, by how much the privacy loss may grow.

    References
    ----------
    docs, "Theory", 17.
    """

    base: TradeOff = field(metadata=by(checked_both_orders))
    mean_trials: float = field(metadata=by(partial(number, at_least=1.0)))
    log_ratio: float = field(metadata=by(NONNEGATIVE))

    kind: ClassVar[str] = "selected"
    _readers = _BASE

    def _rdp(self, order: float) -> float:
        own = self.base._rdp(order)  # checks the order
        more = math.log(self.mean_trials) / (order - 1.0) + self.log_ratio
        return (own + more) * (1.0 + EIGHT_ROUNDINGS)

    @property
    def zcdp(self) -> float:
        """The ρ = ρ_0 + 2√(ρ_0·log E[K]) + c, with ρ_0 of one run."""
        own = self.base.zcdp
        root = math.sqrt(own * math.log(self.mean_trials)) if own < math.inf else math.inf
        return (own + 2.0 * root + self.log_ratio) * (1.0 + EIGHT_ROUNDINGS)

    def _delta(self, epsilon: float) -> float:
        if epsilon == -math.inf:
            return 1.0
        size = abs(epsilon)
        at = math.inf if size == math.inf else math.nextafter(size - self.log_ratio, -math.inf)
        value = np.array([min(1.0, up(self.mean_trials * self.base._delta(at)))])
        return float(
            both_signs(np.array([epsilon]), self._corner.least(np.array([size]), value))[0]
        )

    def _delta_array(self, epsilon: Array) -> Array:
        size = np.abs(epsilon)
        at = np.where(np.isinf(size), math.inf, np.nextafter(size - self.log_ratio, -math.inf))
        one_by_one = TradeOff._delta_array if self._slow else type(self.base)._delta_array
        value = self.mean_trials * one_by_one(self.base, at)
        value = np.where(value > 0.0, np.nextafter(value, math.inf), 0.0)
        value = self._corner.least(size, np.minimum(1.0, value))
        return np.where(epsilon == -math.inf, 1.0, both_signs(epsilon, value))

    @cached_property
    def _corner(self) -> Corner:
        """About the best corner, of δ' = E[K]·δ_0(ε' - c).

        δ' is convex in e^ε' where it is below 1, so that a' has one maximum, which a search
        by golden sections finds. It is below h + log 3 where δ' is ½ at h: a' ≤ 1/(1 + e^ε').
        """
        half = self._epsilon(0.5)
        if half > _FARTHEST_SELECTED:
            return Corner(0.0, 0.0)
        low, high = 0.0, half + 1.1
        for _ in range(_FEWER_SHRINKS if self._slow else _SHRINKS):
            step = GOLDEN * (high - low)
            left, right = high - step, low + step
            # Equal where both are 0: the maximum is to the right of where δ' is 1.
            if self._level(left) <= self._level(right):
                low = left
            else:
                high = right
        every = (Corner(e, self._level(e)) for e in (0.0, low, high))
        return max(every, key=lambda corner: corner.level)

    def _level(self, epsilon: float) -> float:
        """a' at ε', δ' = min{1, E[K]·δ_0(ε' - c)}."""
        own = self.base._delta(math.nextafter(epsilon - self.log_ratio, -math.inf))
        delta = min(1.0, up(self.mean_trials * own))
        return float(levels(np.array([epsilon]), np.array([delta]))[0])

    def _epsilon(self, delta: float) -> float:
        if delta >= 1.0:
            return 0.0
        share = fraction_down(Fraction(delta) / Fraction(self.mean_trials))
        return up(self.base._epsilon(share) + self.log_ratio)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if delta >= 1.0:
            return 0.0, 0.0
        share = min(1.0, fraction_up(Fraction(delta) / Fraction(self.mean_trials)))
        low, _ = self.base._epsilon_bounds(share, rtol)
        least = down(low + self.log_ratio) if low > 0.0 else 0.0
        return least, max(least, self._epsilon(delta))

    @property
    def _slow(self) -> bool:
        """Whether δ of one run takes a transform: then it is read where it is wanted, and nowhere else."""
        return isinstance(self.base, _SLOW)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        """(ε, δ) on a grid from 0 up to where δ is about what it is at ∞."""
        points, least = (
            (_FEW_POINTS_SELECTED, _MORE_DELTA_SELECTED)
            if self._slow
            else (_POINTS_SELECTED, _LEAST_DELTA_SELECTED)
        )
        end = self._epsilon(min(1.0, self._delta(math.inf) * (1.0 + SLACK) + least))
        end = min(max(end, self.log_ratio, 1e-9), _FARTHEST_SELECTED)
        epsilon = np.linspace(0.0, end, points + 1)
        return epsilon, self._delta_array(epsilon)


def selected(base: TradeOff, mean_trials: float, shape: float = 0.0) -> Selected:
    """What the best of K independent runs of a mechanism reveals, K of the truncated negative binomial law.

    Parameters
    ----------
    base : TradeOff
        The function of one run, for both orders of the data sets.
    mean_trials : float
        E[K], in [1.01, 10⁶].
    shape : float
        η in (-1, 10]: 0 is the logarithmic law, 1 the geometric one.

    Returns
    -------
    Selected
        With c = (η + 1)·log R, R the least r ≥ 1 with δ_0(log r) ≤ (r - 1)·γ/(1 - γ).

    Raises
    ------
    InvalidInput
        For numbers out of range, and for a function of one order of the data sets.

    References
    ----------
    docs, "Theory", 17.
    """
    base, eta = checked_both_orders("base", base), checked_shape(shape)
    root = log_ratio_root(base, gamma_of(mean_trials, eta))
    return Selected(base, mean_trials, fraction_up((1 + Fraction(eta)) * Fraction(root)))


def log_ratio_root(base: TradeOff, gamma: float) -> float:
    """log R rounded up: a number x ≥ 0 with δ(x) ≤ (e^x - 1)·γ/(1 - γ), and hardly more than the least.

    Of a function whose ε a checker computes numerically, it is raised by 0.4 %.
    """
    odds = down(gamma / up(1.0 - gamma))

    def holds(x: float) -> bool:
        return base._delta(x) <= math.expm1(x) * odds * (1.0 - EIGHT_ROUNDINGS)

    if base._delta(0.0) == 0.0:
        return 0.0
    most = -math.log(gamma) * (1.0 + EIGHT_ROUNDINGS)  # where the right side is 1
    _, root = bisected(holds, 0.0, most, close=lambda a, b: b - a <= _CLOSE * b)
    return root if isinstance(base, Gaussian | Mixture) else min(root * _ROUGH, most)
