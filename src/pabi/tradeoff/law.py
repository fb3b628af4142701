"""Privacy losses of mixtures of Gaussians, of which an outcome does not tell the part.

Above 0 they are those of one half, below 0, in the other order, those of another (docs, "Theory", 6.1, 10.2
and 20).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from pabi.numbers.rounding import Array
from pabi.tradeoff.halves import APART, FAR, VAST, Half, HalfParts
from pabi.tradeoff.pairs import (
    LARGE,
    SQRT_2PI,
    Discrete,
    Indices,
    LossCells,
    Pair,
    convex_part,
    mirrored,
    normal_mass,
    order_above,
)

# Moments, of many pairs at once.
#
# Beyond 1 a moment E e^(λY) is an integral over each half, of Q·(x^(λ+1) - 1 - (λ+1)(x - 1)) and of
# Q·(x^-λ - 1 + λ(x - 1)), x = P/Q: what they add to E e^(λY) cancels, as both halves have the same δ(0).
# The nodes of all halves stand in one array, one half after the other.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEAST_PANELS, _MOST_PANELS = 6, 40_000
_TOGETHER = 30_000  # panels in one array, about
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
# (λ + 1) times a size from which a moment is taken for that with the part in sight: of a half of which
# P or Q is N(0, 1), of others of one part, of others.
_PLAIN_MOST, _SINGLE_MOST, _MOST = 1e6, 1e4, 2e3
_CLOSE, _BEYOND = np.linspace(0.0, 40.0, 80), np.linspace(0.0, 1.0, 160)
_SPACING = 0.1  # of the places at which an integrand of several parts is looked at first
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


def log_moments(laws: Sequence[MixtureLaw], power: float) -> Array:
    """log E e^(λY) of every law, λ = `power` > 0."""
    share, exact = order_above(power)
    near = np.array([i for i, law in enumerate(laws) if law.within(exact)], dtype=np.intp)
    moments = np.array([0.0 if law.within(exact) else law.in_sight(exact) for law in laws])
    size = np.array([laws[i].size for i in near])
    panels = ((exact + 1.0) * size + 30.0) * (1.0 + size)
    if any(len(laws[i].upper.parts) > 1 for i in near):
        panels[:] = _TOGETHER
    groups = np.split(near, np.flatnonzero(np.diff(np.cumsum(panels) // _TOGETHER)) + 1)
    for part in groups if near.size else ():
        above = _log_integrals(tuple(laws[i].upper for i in part), exact + 1.0)
        below = _log_integrals(tuple(laws[i].lower for i in part), -exact)
        moments[part] = np.logaddexp(0.0, np.logaddexp(above, below))
    return np.asarray(share * moments)


def _log_integrals(halves: tuple[Half, ...], order: float) -> Array:
    """log of the integral over P > Q of Q·(x^s - 1 - s(x - 1)), x = P/Q, s = `order` > 1 or < 0."""
    nodes = _nodes(halves, *_range(order, max(half.size for half in halves)))
    y, power = nodes.loss, order - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        if order > 1.0:
            rest = power * np.exp(-power * y) * np.expm1(-y) - np.expm1(-power * y)
            exponent = order * y + np.log(np.maximum(rest, 0.0))
        else:
            rest = order * np.expm1(-y) + np.exp(-y) * np.expm1(order * y)
            exponent = y + np.log(np.maximum(rest, 0.0))
        near = np.flatnonzero(y < min(1.0, LARGE / abs(order)))
        small = y[near]
        exponent[near] = np.log(np.maximum(convex_part(np.expm1(small), small, order), 0.0))
        exponent += nodes.log_q
        top = np.maximum.reduceat(exponent, nodes.first)
        # Where it is -∞, all terms are below the least double.
        level = np.where(top > -np.inf, top, 0.0)
        terms = nodes.weight * np.exp(exponent - np.repeat(level, nodes.each))
        return np.asarray(level + np.log(np.add.reduceat(terms, nodes.first)))


def _range(order: float, size: float) -> tuple[float, ...]:
    """Orders that one set of nodes serves: from a power of 2 to the next, if modes are not too far apart."""
    if order < 1.0:
        return (1.0,)
    high = 2.0 ** math.ceil(math.log2(order))
    return (0.5 * high, high) if high * size <= FAR else (order,)


def _places(rows: HalfParts, far: Array, orders: Sequence[float]) -> Array:
    """Places, (halves, …), that show where Q·x^order matters. It may have a mode where x grows as e^(at),
    e^(mt) or not at all, and where it changes from one to the next: where e^(at) or e^(bt) is κ."""
    if rows.one.shape[0] > 1:
        return _SPACING * np.arange(math.ceil(far.max() / _SPACING) + 1.0)[None]
    a, b, m = rows.one[0], rows.two[0], rows.apart[0]
    k = rows.log_rest - rows.log_weight[0] - 0.5 * a * b
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        turns = [np.where(x != 0.0, k / x, 0.0) for x in (a, b)]
        grows = ((m, b),) if (a == m).all() else ((a, 0.0), (m, b))
        modes = [order * x + y - rows.origin for order in orders for x, y in grows]
    centres = [np.clip(c, 0.0, far) + _WINDOW for c in (*modes, *turns)]
    scan = np.concatenate([_CLOSE + 0.0 * far, 40.0 * (far / 40.0) ** _BEYOND, *centres], axis=1)
    return np.sort(np.maximum(scan, 0.0), axis=1)


@lru_cache(maxsize=32)
def _nodes(halves: tuple[Half, ...], *orders: float) -> Nodes:
    """Panels for these orders s, and all between them."""
    rows = HalfParts.of(*halves)
    scan = _places(rows, (1.0 + 2.0 * (orders[-1] - 1.0)) * rows.size + 40.0, orders)
    seen = rows.seen(scan)
    log_q = seen.log_q - 0.5 * np.square(rows.origin + scan)
    # Where the loss is small the integrand is about its square, which hides most of Q if it is drawn rarely.
    with np.errstate(divide="ignore"):
        exponents = [
            order * seen.loss + 2.0 * np.log(-np.expm1(-order * seen.loss)) + log_q
            for order in orders
        ]
    near = np.any([e >= e.max(axis=1, keepdims=True) - _MATTERS for e in exponents], axis=0)
    every, last = np.arange(len(halves)), scan.shape[1] - 1
    begin = scan[every, np.maximum(near.argmax(axis=1) - 1, 0)]
    end = scan[every, np.minimum(last - near[:, ::-1].argmax(axis=1) + 1, last)]
    # Where Q's parts are in balance its log bends by (b/2)², s times which makes a mode narrow.
    sizes = np.maximum(np.abs(rows.one) + rows.size, 0.5 * np.abs(rows.two) * math.sqrt(orders[-1]))
    number = 0.5 * (end - begin) * np.maximum(1.0, sizes.max(axis=0)[:, 0])
    panels = np.clip(np.ceil(number), _LEAST_PANELS, _MOST_PANELS).astype(np.intp)
    width = 0.5 * (end - begin) / panels
    # The panels of all halves, and which each is of its half.
    which = np.arange(panels.sum()) - np.repeat(np.cumsum(panels) - panels, panels)
    middle = np.repeat(begin, panels) + np.repeat(width, panels) * (2.0 * which + 1.0)
    half_width = np.repeat(width, panels)[:, None]
    t, rows = middle[:, None] + half_width * _NODES, rows.at(np.repeat(every, panels))
    seen = rows.seen(t)
    count = panels * _NODES.size
    return Nodes(
        seen.loss.ravel(),
        (seen.log_q - 0.5 * np.square(rows.origin + t)).ravel(),
        (half_width * _WEIGHTS).ravel() / SQRT_2PI,
        np.cumsum(count) - count,
        count,
    )


# Pairs.


@dataclass(frozen=True)
class Labelled(Pair):
    """The pair (j, G(μ_j)) with P(j) = w_j: the mixture of losses N(μ_j²/2, μ_j²)."""

    mus: tuple[float, ...]
    weights: tuple[float, ...]

    symmetric = True  # as its parts are

    @property
    def _parts(self) -> list[tuple[float, float]]:
        """(μ_j, w_j) of all parts."""
        return list(zip(self.mus, self.weights, strict=True))

    @property
    def _proper(self) -> list[tuple[Half, float]]:
        """(the losses of G(μ_j) above 0, w_j) of the parts that neither reveal nothing nor everything."""
        return [(Half.single(m, m, 1.0), w) for m, w in self._parts if 0.0 < m < math.inf]

    @property
    def infinity(self) -> float:
        """The weight of μ = ∞."""
        return math.fsum(w for m, w in self._parts if m == math.inf)

    @property
    def atom(self) -> float:
        """The weight of μ = 0."""
        return math.fsum(w for m, w in self._parts if m == 0.0)

    @property
    def simplified(self) -> Pair:
        """With μ = ∞ for every part of a loss over some 10¹¹."""
        if not any(VAST < m < math.inf for m in self.mus):
            return self
        return Labelled(tuple(m if m <= VAST else math.inf for m in self.mus), self.weights)

    def cells(self, edges: Array) -> LossCells:
        """The weighted sum of the parts' cells."""
        mass, excess = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
        for half, weight in self._proper:
            part = half.cells(edges)
            mass, excess = mass + weight * part.mass, excess + weight * part.excess
        return LossCells(mass, excess)

    def above(self, y: float) -> tuple[float, float]:
        """The weighted sums of the parts' (mass, excess)."""
        parts = [(w, *half.above(y)) for half, w in self._proper]
        return math.fsum(w * a for w, a, _ in parts), math.fsum(w * b for w, _, b in parts)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, the largest high of the parts, of each for its share of the tail)."""
        proper = self._proper
        shares = ((half, tail / (w * len(proper))) for half, w in proper)
        return 0.0, max((half.high(share) for half, share in shares if share < 1.0), default=0.0)

    @property
    def most(self) -> float:
        """The largest possible loss: ∞, or 0 where no part has a finite loss but 0."""
        return math.inf if self._proper else 0.0

    def finite_log_moment(self, power: float) -> float:
        """log E[e^(power·Y); Y < ∞], in closed form; -∞ where every loss is infinite."""
        scale = 0.5 * power * (power + 1.0)  # ∞ from 1e154 on
        terms = [(scale * m * m if m else 0.0, w) for m, w in self._parts if m < math.inf]
        top = max((e for e, _ in terms), default=0.0)
        if top == math.inf or not terms:
            return top if terms else -math.inf
        if self.weights == (1.0,):
            return top
        if top < 1.0:
            return math.log1p(math.fsum(w * math.expm1(e) for e, w in terms) - self.infinity)
        return top + math.log(math.fsum(w * math.exp(e - top) for e, w in terms))


NOTHING = Labelled((0.0,), (1.0,))  # the loss of what reveals nothing


@dataclass(frozen=True)
class MixtureLaw(Pair):
    """The pair with the losses of `upper` above 0 and, below 0, those of `lower` in the other order; the
    rest of the mass lies at 0. Parts are in sight where sizes are more than 100."""

    upper: Half
    lower: Half

    @classmethod
    def of(cls, half: Half) -> Self:
        """That of P and Q themselves."""
        return cls(half, half.turned)

    @property
    def symmetric(self) -> bool:
        """Whether losses below 0 follow from those above."""
        return self.upper == self.lower

    @property
    def reversed(self) -> Self:
        """The pair in the other order."""
        return type(self)(self.lower, self.upper)

    @property
    def size(self) -> float:
        """The largest |a_j|, |b_j| or m_j."""
        return max(self.upper.size, self.lower.size)

    @property
    def most(self) -> float:
        """The largest loss."""
        return self.upper.most

    @property
    def edge(self) -> float:
        """The largest loss or the least, or that of the common part, near which much of the mass lies."""
        return next((x for x in (self.upper.most, -self.lower.most) if math.isfinite(x)), 0.0)

    @property
    def atom(self) -> float:
        """P(Y = 0): the mass of N(0, 1) between the two places where a loss is 0, times c."""
        ends = np.array([-self.upper.origin]), np.array([self.lower.origin])
        return self.upper.rest * float(normal_mass(*ends)[0])

    @property
    def simplified(self) -> Pair:
        """That of infinite sizes, where a part is seen or not drawn, from a loss of some 5000 on."""
        if self.size <= APART:
            return self
        rest, log_rest = self.upper.rest, self.upper.log_rest
        if not self.upper.plain or self.lower != self.upper.turned:
            # What is not drawn is as likely under P as under Q, of which neither is N(0, 1).
            return Labelled((0.0, math.inf), (rest, self.upper.share))
        if self.upper.most < math.inf:
            return Discrete(np.array([-log_rest]), np.array([1.0]))
        return Discrete(np.array([log_rest]), np.array([rest]), self.upper.share)

    def cells(self, edges: Array) -> LossCells:
        """The cells of both halves; what lies at 0 is in the cell on its right, or nowhere if symmetric."""
        split = int(np.searchsorted(edges, 0.0))
        inside = 0 < split < edges.size and edges[split] > 0.0
        cut = np.insert(edges, split, 0.0) if inside else edges
        below, above = cut[cut <= 0.0], cut[cut >= 0.0]
        mass, excess = np.zeros(cut.size - 1), np.zeros(cut.size - 1)
        if above.size > 1:
            first = cut.size - above.size
            mass[first:], excess[first:] = self.upper.cells(above)
            if above[0] == 0.0 and not self.symmetric:
                mass[first] += self.atom
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
        mass, level = mass + self.atom, math.exp(y)
        own = mass - level * (mass - excess)
        return float(cell.mass[0]) + mass, float(cell.excess[0]) + own

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high), from 0 on where losses below it follow from those above."""
        return 0.0 if self.symmetric else -self.lower.depth(slack), self.upper.high(tail)

    def within(self, power: float) -> bool:
        """Whether E e^(power·Y) is found by quadrature."""
        several = len(self.upper.parts) > 1
        most = _MOST if several else _PLAIN_MOST if self.upper.plain else _SINGLE_MOST
        return self.size <= APART and (power + 1.0) * self.size <= most

    def in_sight(self, power: float) -> float:
        """log E e^(power·Y), or more: where parts are in sight, and no loss is more than the largest."""
        rest, parts = self.upper.rest, [(m, float(w)) for _, m, w in self.upper.parts]
        if self.size > APART and self.upper.plain and self.most == math.inf:
            return _apart(*parts[0], power, symmetric=self.symmetric)
        seen = Labelled(*zip((0.0, rest), *parts, strict=True)).finite_log_moment(power)
        return min(seen, power * self.most)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return self.finite_log_moments([self], power)[0]

    @classmethod
    def finite_log_moments(cls, pairs: Sequence[Self], power: float) -> list[float]:
        """Those of many pairs, by quadrature for all at once."""
        moments: list[float] = log_moments(pairs, power).tolist()
        return moments


def _apart(mu: float, p: float, power: float, *, symmetric: bool) -> float:
    """log E e^(power·Y) where no outcome is likely both with the one part, of a `plain` half, and without it.

    The likelihood ratio is 1 - p where it is not seen, p·e^(μz - μ²/2) where it is. What lies between changes
    a moment by a relative e^(-μ²/8)/√p at most.
    """
    seen = 0.5 * (1.0 + power) * power * mu * mu + power * math.log(p)
    if seen > LARGE:
        return seen + math.log(p + (1.0 - p) * math.exp(-seen))
    unseen = 0.0 if symmetric else (1.0 - p) * math.expm1(power * math.log1p(-p))
    return math.log1p(p * math.expm1(seen) + unseen)
