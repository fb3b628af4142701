"""Privacy losses of Gaussians on random batches into which a record comes in the place of another.

Above 0 they are those of one half, below 0, in the other order, those of another (docs, "Theory", 10.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    Indices,
    LossCells,
    Masses,
    Pair,
    Rule,
    cells_of,
    convex_part,
    excess_of,
    mirrored,
    normal_mass,
)

# Privacy losses above 0 where a record comes into a random batch in the place of another.
#
# P = p·N(a, 1) + (1 - p)·N(0, 1) against Q = p·N(b, 1) + (1 - p)·N(0, 1), a > 0 and b < a. Only losses
# above 0 are asked for. With z = (a + b)/2 + t and κ = e^(-ab/2)·(1 - p)/p the loss is log((κ +
# e^(at))/(κ + e^(bt))): 0 at t = 0, and growing with t from there on (docs, "Theory", 10.2).


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


# Moments of the privacy losses of records that displace others, of many pairs at once.
#
# Beyond 1 a moment E e^(λY) is an integral over each half, of Q·(x^(λ+1) - 1 - (λ+1)(x - 1)) and of
# Q·(x^-λ - 1 + λ(x - 1)), x = P/Q: what they add to E e^(λY) cancels, as both halves have the same δ(0).
# The nodes of all halves stand in one array, one half after the other.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEAST_PANELS, _MOST_PANELS = 6, 40_000
_TOGETHER = 30_000  # panels in one array, about
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
_LEAST_POWER = 2.0**-26  # from which on 1 + λ tells λ to eight digits, and exactly there
_MOST_SIZE = 2000.0  # of (λ + 1) times a size: beyond it a moment is that of a Gaussian but for 1 %
_CLOSE, _FAR_NODES = np.linspace(0.0, 40.0, 80), np.linspace(0.0, 1.0, 160)
# Around a mode, which is no wider than that of a normal density.
_WINDOW = np.linspace(-12.0, 12.0, 49)


class Nodes(NamedTuple):
    """Losses, logs of Q's density, and weights, at nodes that cover where the integrands of some halves
    matter: `first` is where those of each half begin, and `each` how many they are."""

    loss: Array
    log_q: Array
    weight: Array
    first: Indices
    each: Indices


def log_moments(uppers: Sequence[Half], lowers: Sequence[Half], power: float) -> Array:
    """log E e^(λY) of every pair of halves, λ = `power` > 0."""
    sizes = np.array(
        [max(a.norm, b.norm, a.apart) for a, b in zip(uppers, lowers, strict=True)], dtype=float
    )
    moments = 0.5 * power * (power + 1.0) * sizes * sizes
    # Farther out a moment is taken for that of the Gaussian, which is never less.
    near = np.flatnonzero((power + 1.0) * sizes <= _MOST_SIZE)
    panels = ((power + 1.0) * sizes[near] + 30.0) * (1.0 + sizes[near])
    least = max(power, _LEAST_POWER)  # K is convex and 0 at 0
    for part in _split(near, np.cumsum(panels) // _TOGETHER):
        above = _log_integrals(tuple(uppers[i] for i in part), least + 1.0)
        below = _log_integrals(tuple(lowers[i] for i in part), -least)
        moments[part] = power / least * np.logaddexp(0.0, np.logaddexp(above, below))
    return np.asarray(moments)


def _split(indices: Indices, groups: Array) -> list[Indices]:
    """The indices of each group."""
    return np.split(indices, np.flatnonzero(np.diff(groups)) + 1) if indices.size else []


def _log_integrals(halves: tuple[Half, ...], order: float) -> Array:
    """log of the integral over P > Q of Q·(x^s - 1 - s(x - 1)), x = P/Q, s = `order` > 1 or < 0."""
    nodes = _nodes(halves, math.ceil(math.log2(order)) if order > 1.0 else 0)
    y, power = nodes.loss, order - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        if order > 1.0:
            rest = power * np.exp(-power * y) * np.expm1(-y) - np.expm1(-power * y)
            exponent = order * y + np.log(np.maximum(rest, 0.0))
        else:
            rest = order * np.expm1(-y) + np.exp(-y) * np.expm1(order * y)
            exponent = y + np.log(np.maximum(rest, 0.0))
        near = np.flatnonzero(y < min(1.0, _LARGE / abs(order)))
        small = y[near]
        exponent[near] = np.log(np.maximum(convex_part(np.expm1(small), small, order), 0.0))
        exponent += nodes.log_q
        top = np.maximum.reduceat(exponent, nodes.first)
        level = np.where(
            top > -np.inf, top, 0.0
        )  # where it is, all terms are below the least double
        terms = nodes.weight * np.exp(exponent - np.repeat(level, nodes.each))
        return np.asarray(level + np.log(np.add.reduceat(terms, nodes.first)))


def _centres(rows: Halves, order: float) -> list[Array]:
    """Where Q·x^order may have a mode: x grows as e^(at), e^(mt) or not at all, and changes from one to the
    next where e^(at) or e^(bt) is κ."""
    a, b, k = rows.norm, rows.other, rows.log_kappa
    positive = b > 0.0
    return [
        order * a - rows.origin,
        order * rows.apart + b - rows.origin,
        k / a,
        np.where(positive, k / np.where(positive, b, 1.0), 0.0),
    ]


@lru_cache(maxsize=32)
def _nodes(halves: tuple[Half, ...], level: int) -> Nodes:
    """Panels for all orders s from 2^(`level` - 1) to 2^`level`, or of level 0 for those below 1."""
    rows = Halves.rows(halves)
    size = np.maximum(rows.norm, np.abs(rows.other))
    orders = (2.0 ** (level - 1), 2.0**level) if level else (1.0,)
    far = (1.0 + 2.0 * (orders[-1] - 1.0)) * size + 40.0
    with np.errstate(over="ignore"):
        centres = [np.minimum(c, far) + _WINDOW for s in orders for c in _centres(rows, s)]
    scan = np.concatenate([_CLOSE + 0.0 * far, _FAR_NODES * far, *centres], axis=1)
    scan = np.sort(np.maximum(scan, 0.0), axis=1)
    y, log_q = rows.loss(scan), rows.log_density(scan, rows.other)
    exponents = [order * y + log_q for order in orders]
    near = np.any([e >= e.max(axis=1, keepdims=True) - _MATTERS for e in exponents], axis=0)
    every, last = np.arange(len(halves)), scan.shape[1] - 1
    begin = scan[every, np.maximum(near.argmax(axis=1) - 1, 0)]
    end = scan[every, np.minimum(last - near[:, ::-1].argmax(axis=1) + 1, last)]
    number = 0.5 * (end - begin) * np.maximum(1.0, rows.norm + size)[:, 0]
    panels = np.clip(np.ceil(number), _LEAST_PANELS, _MOST_PANELS).astype(np.intp)
    width = 0.5 * (end - begin) / panels
    # The panels of all halves, and which each is of its half.
    which = np.arange(panels.sum()) - np.repeat(np.cumsum(panels) - panels, panels)
    middle = np.repeat(begin, panels) + np.repeat(width, panels) * (2.0 * which + 1.0)
    half_width = np.repeat(width, panels)[:, None]
    t, every = middle[:, None] + half_width * _NODES, np.repeat(every, panels)
    rows = rows.at(every)
    count = panels * _NODES.size
    return Nodes(
        rows.loss(t).ravel(),
        rows.log_density(t, rows.other).ravel(),
        (half_width * _WEIGHTS).ravel() / SQRT_2PI,
        np.cumsum(count) - count,
        count,
    )


@dataclass(frozen=True)
class DisplacedLoss(Pair):
    """The pair with the losses of `upper` above 0 and, below 0, those of `lower` in the other order; the
    rest of the mass lies at 0."""

    upper: Half
    lower: Half

    @property
    def rest(self) -> float:
        """P(Y = 0): the mass of N(0, 1) between the two places where a loss is 0, times 1 - p."""
        ends = np.array([-self.upper.origin]), np.array([self.lower.origin])
        return (1.0 - self.upper.p) * float(normal_mass(*ends)[0])

    def cells(self, edges: Array) -> LossCells:
        """The cells of both halves; what lies at 0 is in the cell on its right."""
        split = int(np.searchsorted(edges, 0.0))
        inside = 0 < split < edges.size and edges[split] > 0.0
        cut = np.insert(edges, split, 0.0) if inside else edges
        below, above = cut[cut <= 0.0], cut[cut >= 0.0]
        mass, excess = np.zeros(cut.size - 1), np.zeros(cut.size - 1)
        if above.size > 1:
            first = cut.size - above.size
            mass[first:], excess[first:] = self.upper.cells(above)
            if above[0] == 0.0:
                mass[first] += self.rest
        if below.size > 1:
            count = below.size - 1
            mass[:count], excess[:count] = mirrored(self.lower.cells, self.lower.masses, below)
        if not inside:
            return LossCells(mass, excess)
        # The cell around 0 from its parts: seen from its left end, those on the right have grown.
        left, right, level = split - 1, split, math.exp(edges[split - 1])
        excess[left] += mass[right] - level * (mass[right] - excess[right])
        mass[left] += mass[right]
        return LossCells(np.delete(mass, right), np.delete(excess, right))

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        if y >= 0.0:
            return self.upper.above(y)
        mass, excess = self.upper.above(0.0)
        cell = self.cells(np.array([y, 0.0]))
        mass, level = mass + self.rest, math.exp(y)
        own = mass - level * (mass - excess)
        return float(cell.mass[0]) + mass, float(cell.excess[0]) + own

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high)."""
        return -self.lower.depth(slack), self.upper.high(tail)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return self.finite_log_moments([self], power)[0]

    @classmethod
    def finite_log_moments(cls, pairs: Sequence[Self], power: float) -> list[float]:
        """Those of many pairs, by quadrature for all at once."""
        uppers, lowers = zip(*((pair.upper, pair.lower) for pair in pairs), strict=True)
        moments: list[float] = log_moments(uppers, lowers, power).tolist()
        return moments


class SymmetricDisplacedLoss(DisplacedLoss):
    """The same of two equal halves."""

    symmetric = True

    @property
    def atom(self) -> float:
        """P(Y = 0)."""
        return self.rest

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, without what lies at 0."""
        return self.upper.cells(edges)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, high): losses below 0 follow from those above."""
        return 0.0, self.upper.high(tail)
