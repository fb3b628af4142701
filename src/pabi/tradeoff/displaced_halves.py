"""Privacy losses above 0 where a record comes into a random batch in the place of another.

P = p·N(a, 1) + (1 - p)·N(0, 1) against Q = p·N(b, 1) + (1 - p)·N(0, 1), a > 0 and b < a. Only losses above 0
are asked for. With z = (a + b)/2 + t and κ = e^(-ab/2)·(1 - p)/p the loss is log((κ + e^(at))/(κ + e^(bt))):
0 at t = 0, and growing with t from there on (docs, "Theory", 10.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy  # its parts are loaded on first use
from numpy.typing import NDArray

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    Indices,
    LossCells,
    Masses,
    Rule,
    cells_of,
    excess_of,
    normal_mass,
)

APART = 100.0  # the size from which the parts are: e^(-100²/8) is less than 1e-540
_FAR = 700.0  # whose power of e is a double
_LARGE = 30.0  # e^30 - 1 is e^30 to 13 digits
_POINTS, _RANGE = 400, 45.0  # of a spline in log t from which a place is first guessed
_NEWTON, _NEAR = 8, 1e-9  # steps from the guess at most, and how small the last one is


@dataclass(frozen=True, eq=False)
class Halves:
    """The losses above 0 of P against Q, b = `norm` - `apart`, of arrays that broadcast with t."""

    norm: Array
    apart: Array
    p: Array

    @classmethod
    def rows(cls, halves: Sequence[Half]) -> Halves:
        """Several, as arrays (halves, 1)."""
        fields = np.array([(half.norm, half.apart, half.p) for half in halves])
        return cls(*np.split(fields, 3, axis=1))

    def at(self, index: NDArray[np.intp]) -> Halves:
        """Those of these rows."""
        return Halves(self.norm[index], self.apart[index], self.p[index])

    @cached_property
    def other(self) -> Array:
        """b, Q's place."""
        return self.norm - self.apart

    @cached_property
    def origin(self) -> Array:
        """z where the loss is 0."""
        return 0.5 * (self.norm + self.other)

    @cached_property
    def log_kappa(self) -> Array:
        """log κ."""
        return np.asarray(np.log1p(-self.p) - np.log(self.p) - 0.5 * self.norm * self.other)

    def log_rise(self, t: Array) -> Array:
        """log(e^Y - 1) at `t` ≥ 0."""
        grown = self.apart * t
        with np.errstate(divide="ignore"):
            rise = np.log(-np.expm1(-grown)) + grown
        return np.asarray(rise - np.logaddexp(0.0, self.log_kappa - self.other * t))

    def log_rise_and_slope(self, t: Array) -> tuple[Array, Array]:
        """(`log_rise`, its derivative by log t), at `t` > 0."""
        grown, moved = self.apart * t, self.other * t
        gone, rest = -np.expm1(-grown), self.log_kappa - moved
        rise = np.log(gone) + grown - np.logaddexp(0.0, rest)
        return rise, grown / gone + moved * scipy.special.expit(rest)

    def loss(self, t: Array) -> Array:
        """The loss at `t` ≥ 0."""
        return np.asarray(np.logaddexp(0.0, self.log_rise(t)))

    def log_density(self, t: Array, place: Array) -> Array:
        """log of the density of p·N(place, 1) + (1 - p)·N(0, 1) over that of N(0, 1) at 0."""
        z = self.origin + t
        shifted = np.log(self.p) + place * z - 0.5 * place * place
        return np.asarray(np.logaddexp(np.log1p(-self.p), shifted) - 0.5 * z * z)


@dataclass(frozen=True)
class Half:
    """The losses above 0 of P against Q, b = `norm` - `apart`. `norm`, `apart` > 0 and at most 100 or so;
    `p` in (0, 1)."""

    norm: float
    apart: float
    p: float

    @property
    def other(self) -> float:
        """b, Q's place."""
        return self.norm - self.apart

    @property
    def origin(self) -> float:
        """z where the loss is 0."""
        return 0.5 * (self.norm + self.other)

    @property
    def log_kappa(self) -> float:
        """log κ."""
        return math.log1p(-self.p) - math.log(self.p) - 0.5 * self.norm * self.other

    @cached_property
    def elementwise(self) -> Halves:
        """The same, of arrays."""
        return Halves(np.asarray(self.norm), np.asarray(self.apart), np.asarray(self.p))

    def log_rise(self, t: Array) -> Array:
        """log(e^Y - 1) at `t` ≥ 0."""
        return self.elementwise.log_rise(t)

    def loss(self, t: Array) -> Array:
        """The loss at `t` ≥ 0."""
        return self.elementwise.loss(t)

    def place(self, losses: Array) -> Array:
        """The t of these losses ≥ 0."""
        with np.errstate(divide="ignore", over="ignore"):
            rise = np.where(losses > _LARGE, losses, np.log(np.expm1(np.minimum(losses, _LARGE))))
        positive = rise > -_FAR  # subnormal losses are next to 0
        rise = np.where(positive, rise, 0.0)
        places = _places(self)
        x = places.near(rise)
        for _ in range(_NEWTON):
            value, slope = self.elementwise.log_rise_and_slope(np.exp(x))
            before, x = x, np.minimum(x + (rise - value) / slope, places.farthest)
            if np.abs(x - before).max(initial=0.0) < _NEAR:  # the next would be its square
                break
        return np.where(positive, np.exp(x), 0.0)

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, by quadrature; wide ones by differences of normal probabilities."""
        t = self.place(edges)
        left, width = t[:-1], np.diff(t)
        z = self.origin + left
        size = width * (np.abs(z) + width + abs(self.norm) + abs(self.other) + 1.0)

        def quadrature(now: Indices, rule: Rule) -> tuple[Array, Array]:
            return self._by_quadrature(left[now], width[now], rule)

        def difference(wide: Indices) -> tuple[Array, Array]:
            own, other, gap = self._masses_between(left[wide], t[1:][wide])
            return own, excess_of(gap, edges[:-1][wide], own=own, other=other)

        return cells_of(size, quadrature, difference)

    def _by_quadrature(self, left: Array, width: Array, rule: Rule) -> tuple[Array, Array]:
        a, b, p, k = self.norm, self.other, self.p, self.log_kappa
        # The shares of the record's part in the two densities, at the left end.
        own, opposite = scipy.special.expit(a * left - k), scipy.special.expit(b * left - k)
        step, z = rule.nodes[:, None] * width, self.origin + left
        with np.errstate(under="ignore"):
            density = p * np.exp(-0.5 * np.square(z - a)) + (1.0 - p) * np.exp(-0.5 * z * z)
            fall = np.exp(-step * (z + 0.5 * step))
        # P over `density` is (1 + grown)·fall, and P less e^l·Q, l the loss at the left end, is the rest.
        grown = own * np.expm1(a * step)
        rest = np.maximum(grown - opposite * np.expm1(b * step), 0.0)
        share = density * width / SQRT_2PI
        return rule.weights @ (fall * (1.0 + grown)) * share, rule.weights @ (fall * rest) * share

    def masses(self, low: Array, high: Array) -> Masses:
        """The masses of the losses ≥ 0 between `low` and `high`."""
        return self._masses_between(self.place(low), self.place(high))

    def _masses_between(self, left: Array, right: Array) -> Masses:
        p, low, high = self.p, self.origin + left, self.origin + right
        plain = (1.0 - p) * normal_mass(low, high)
        own, other = (p * normal_mass(low - m, high - m) for m in (self.norm, self.other))
        return Masses(own + plain, other + plain, own - other)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y` ≥ 0."""
        p, loss, end = self.p, np.array([y]), np.array([np.inf])
        t, half = self.place(loss), 0.5 * self.apart
        plain = (1.0 - p) * normal_mass(self.origin + t, end)
        own, other = (p * normal_mass(t + m, end) + plain for m in (-half, half))
        excess = excess_of(p * normal_mass(t - half, t + half), loss, own=own, other=other)
        return float(own[0]), float(excess[0])

    def high(self, tail: float) -> float:
        """A loss above which there is about the mass `tail` at most."""
        z = self.norm - float(scipy.special.ndtri(min(0.5, max(tail, 1e-305))))
        return float(self.loss(np.array([max(0.0, z - self.origin)]))[0])

    def depth(self, slack: float) -> float:
        """A loss beyond which Q's mass is so small that raising it to there adds about `slack` or less."""
        share = min(0.5, max(slack / (1.0 + self.norm), 1e-300))
        z = max(self.other, 0.0) - float(scipy.special.ndtri(share))
        return min(float(self.loss(np.array([max(0.0, z - self.origin)]))[0]), _FAR)


@dataclass(frozen=True, eq=False)
class _Places:
    """log t by log(e^Y - 1): `spline` from `first` on, where the loss is no longer a line, up to `last`,
    beyond which P's mass is below every double, at `farthest`."""

    spline: Callable[[Array], Array]
    first: float
    last: float
    farthest: float

    def near(self, rise: Array) -> Array:
        """A guess."""
        inside = self.spline(np.clip(rise, self.first, self.last))
        return np.asarray(inside + np.minimum(rise - self.first, 0.0))


@lru_cache(maxsize=1024)
def _places(half: Half) -> _Places:
    from scipy.interpolate import CubicHermiteSpline

    far = math.log(2.0 * (abs(half.norm) + abs(half.other)) + 80.0)
    x = np.linspace(far - _RANGE, far, _POINTS)
    rise, slope = half.elementwise.log_rise_and_slope(np.exp(x))
    return _Places(CubicHermiteSpline(rise, x, 1.0 / slope), rise[0], rise[-1], far)
