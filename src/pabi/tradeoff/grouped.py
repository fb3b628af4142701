"""Data sets that differ in k records: a chain of k adjacent pairs, of each of which one function holds.

For the chain P_0, …, P_k and all real x and y, P_0(S) ≤ e^x·P_a(S) + δ_a(x) and, with b = k - a,
P_a(S) ≤ e^y·P_k(S) + δ_b(y). So δ_k(x + y) ≤ δ_a(x) + e^x·δ_b(y). The least of these over all x is the
function of 1 - (1 - f)∘…∘(1 - f) exactly; here it is taken over the points of a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from pabi.convert.vectorised import both_signs
from pabi.numbers.locking import tick
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, fraction_up
from pabi.numbers.validate import integer, keep, number
from pabi.tradeoff.approx_dp import ApproxDP
from pabi.tradeoff.base import TradeOff, supported
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.hulls import checked_both_orders, lower_hull, pair_above
from pabi.tradeoff.pairs import Discrete, Pair
from pabi.tradeoff.product import Product

_POINTS, _LEAST_DELTA = 1000, 1e-290  # of a link's grid, and what its end leaves
_FEW_POINTS, _MORE_DELTA = 100, 1e-20  # the same where every δ takes a transform
_MOST = 4000  # points of a chain's grid; of finer ones every second point is kept
_BITS = 40  # of a spacing: the 2·_MOST points of a sum take the other 13
_FARTHEST = (
    600.0  # the end of a grid: products of e^600 and a probability are no larger than a double
)
_SLACK = 1e-10  # relative: more than rounding moves a point of the hull
_POWERS = 1e-12  # relative: more than e^x is off by where x, of at most 600, was rounded
_MOST_GROUPED = 10**9


@dataclass(frozen=True, init=False)
class Grouped(TradeOff):
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

    base: TradeOff
    size: int

    kind: ClassVar[str] = "grouped"

    def __init__(self, base: TradeOff, size: int) -> None:
        keep(
            self,
            base=checked_both_orders(base),
            size=integer("size", size, at_least=2, at_most=_MOST_GROUPED),
        )

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

    def losses(self) -> tuple[Pair, ...]:
        """The loss of a pair of finitely many outcomes that reveals no less, the same in both orders."""
        return (self._pair,)

    @cached_property
    def _pair(self) -> Discrete:
        """A pair of finitely many outcomes that reveals no less."""
        return pair_above(*self._profile)

    def _delta(self, epsilon: float) -> float:
        return float(self._delta_array(np.array([epsilon]))[0])

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
        low, high = float(x[beyond[0] - 1]), float(x[beyond[0]])
        while high - low > _SLACK * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._delta(middle) <= delta else (middle, high)
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
        return _Chain.link(self.base).power(self.size).points()

    def _fields(self) -> dict[str, Any]:
        return {"base": self.base.to_dict(), "size": self.size}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        base = TradeOff.from_dict(fields.pop("base"))
        return cls(base, fields.pop("size"))


@dataclass(frozen=True)
class _Chain:
    """Upper bounds on δ at 0, h, 2h, …, the same in both orders, for a chain of links."""

    spacing: float
    delta: Array

    @classmethod
    def link(cls, base: TradeOff) -> _Chain:
        """The bounds of one link, up to where δ is about what it is at ∞."""
        slow = isinstance(base, Product | Best)
        points, least = (_FEW_POINTS, _MORE_DELTA) if slow else (_POINTS, _LEAST_DELTA)
        end = base._epsilon(min(1.0, base._delta(math.inf) * (1.0 + _SLACK) + least))
        spacing = _short(min(max(end, 1e-9), _FARTHEST) / points)
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
    last = min(a + b, max(a, b, int(_FARTHEST / spacing)))
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
    base, k = checked_both_orders(base), integer("size", size, at_least=1, at_most=_MOST_GROUPED)
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
