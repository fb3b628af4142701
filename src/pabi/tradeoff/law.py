"""Privacy losses of mixtures of Gaussians, of which an outcome does not tell the part.

Above 0 they are those of one half, below 0, in the other order, those of another (docs, "Theory", 6.1, 10.2
and 20).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    Discrete,
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
    order_above,
    short_mass,
)

# Privacy losses above 0 of mixtures of Gaussians.
#
# P = c·N(0, 1) + Σ w_j·N(a_j, 1) against Q = c·N(0, 1) + Σ w_j·N(b_j, 1), b_j = a_j - m_j, m_j > 0. Only
# losses above 0 are asked for: they grow with t = z - z_0, where z_0 is the place of the loss 0. At z the
# parts of P are e^d_j times those of Q, d_j = m_j·(z - a_j + m_j/2), which keeps its digits at t = 0.


APART = 100.0  # the size from which the parts are: e^(-100²/8) is less than 1e-540
_FAR = 60.0  # Φ(-60) is below every positive double
_GREAT = 700.0  # whose power of e is a double
_SHORT = 1e-3  # a distance across which differences of normal probabilities cancel
_LARGE = 30.0  # e^30 - 1 is e^30 to 13 digits
_VAST = 1e6  # μ of a Gaussian, whose losses are about μ²/2
_TABLE = 0.05  # spacing of the places between which Newton's method begins
_ROUNDS, _NEAR = 80, 1e-9  # of Newton's method, and by how much the last one moves
_SAME = 1e-15  # relative: a bracket so short that nothing in it is told apart
_ENTRIES = 1 << 20  # of a working array
_LOSS = 2e-12  # more than a loss of up to 1600 is off by, relative to the terms of a small one


def _total(x: Array) -> Array:
    """The sum over all parts."""
    return np.asarray(x[0] if len(x) == 1 else x.sum(axis=0))


class Seen(NamedTuple):
    """What outcomes show, an array of all of them for every part: d_j, log of Q's part over Q, the loss, and
    log of Q's density over that of N(0, 1)."""

    more: Array
    part: Array
    loss: Array
    log_q: Array


class MovedPart(NamedTuple):
    """One part: m_j, a_j, b_j, w_j, and how far places are from a_j and from b_j."""

    apart: float
    one: float
    two: float
    weight: float
    from_p: Array
    from_q: Array

    @property
    def density(self) -> Array:
        """That of P's part, over that of N(0, 1) at 0."""
        return np.asarray(self.weight * np.exp(-0.5 * np.square(self.from_p)))

    @property
    def between(self) -> Array:
        """The mass of N(0, 1) between the two."""
        if self.apart <= _SHORT:
            return short_mass(self.from_p, self.apart)
        return normal_mass(self.from_p, self.from_q)

    def surplus(self, loss: Array) -> Array:
        """By how much it is more than e^l times that of Q's part."""
        less = loss - 0.5 * self.apart * (self.from_p + self.from_q)
        near = -self.density * np.expm1(np.minimum(less, 1.0))
        if less.max(initial=0.0) < 1.0:
            return near
        far = self.density - self.weight * np.exp(loss - 0.5 * np.square(self.from_q))
        return np.where(less < 1.0, near, far)


@dataclass(frozen=True, eq=False)
class HalfParts:
    """The parts of a half, or of several halves of one part each: arrays (parts, …) that broadcast with t."""

    parts: Array  # a_j, m_j and w_j
    rests: Array  # log c and z_0

    @classmethod
    def of(cls, *halves: Half) -> HalfParts:
        """One half, arrays (parts, 1, 1), or several of one part, (1, halves, 1)."""
        parts = np.array([part for half in halves for part in half.parts], dtype=np.float64).T
        rests = np.array([(half.log_rest, half.origin) for half in halves]).T
        return cls(parts.reshape(3, -1, len(halves), 1), rests[..., None])

    def at(self, index: Indices) -> HalfParts:
        """Those of these halves, of the only one for all of them."""
        fields = self.parts, self.rests
        return HalfParts(*(x if x.shape[-2] == 1 else x[..., index, :] for x in fields))

    @property
    def one(self) -> Array:
        """The a_j."""
        return np.asarray(self.parts[0])

    @property
    def apart(self) -> Array:
        """The m_j."""
        return np.asarray(self.parts[1])

    @property
    def log_rest(self) -> Array:
        """The log c."""
        return np.asarray(self.rests[0])

    @property
    def origin(self) -> Array:
        """The z_0."""
        return np.asarray(self.rests[1])

    @cached_property
    def two(self) -> Array:
        """The b_j."""
        return self.one - self.apart

    @cached_property
    def shift(self) -> Array:
        """z_0 less the place where the densities of a part are the same."""
        single = self.one.shape[0] == 1
        return 0.0 * self.one if single else self.origin - self.one + 0.5 * self.apart

    @cached_property
    def log_weight(self) -> Array:
        """The log w_j."""
        return np.asarray(np.log(self.parts[2]))

    @property
    def size(self) -> Array:
        """The largest |a_j|, |b_j| or m_j."""
        largest = np.maximum(np.maximum(self.one, self.apart), np.abs(self.two))
        return np.asarray(largest.max(axis=0))

    def seen(self, t: Array) -> Seen:
        """What places `t` show."""
        z, two = self.origin + t, self.two
        more = self.apart * (t + self.shift)
        part = self.log_weight + two * z - 0.5 * two * two
        log_q = 0.0 * z
        if two.any():  # else Q is N(0, 1)
            log_q = functools.reduce(np.logaddexp, part, self.log_rest + log_q)
        part = part - log_q
        # e^loss - 1 is the sum of part·(e^more - 1), over e^top so that no term overflows.
        exponent = part + np.maximum(more, 0.0)
        top = np.maximum(exponent[0] if len(exponent) == 1 else exponent.max(axis=0), 0.0)
        terms = np.copysign(np.exp(exponent - top) * -np.expm1(-np.abs(more)), more)
        total = np.maximum(_total(terms), 0.0)
        with np.errstate(divide="ignore"):
            far, near = top + np.log(total), np.log1p(np.exp(np.minimum(top, _LARGE)) * total)
        loss = np.where(top > _LARGE, far, near)
        return Seen(more=more, part=part, loss=loss, log_q=log_q)

    def slope(self, seen: Seen) -> Array:
        """The derivative of the loss."""
        step = seen.more - seen.loss
        larger = np.exp(seen.part + np.maximum(step, 0.0))  # of the shares of a part in P and in Q
        gap = np.copysign(-np.expm1(-np.abs(step)) * larger, step)
        own = np.where(step > 0.0, larger, larger + gap)
        return _total(own * self.apart + gap * self.two)


@dataclass(frozen=True)
class Half:
    """The losses above 0 of P against Q; `parts`: (a_j, m_j, w_j) with m_j > 0. Their sizes are 100 or so at
    most, and what is missing of the weights, floats or fractions, is that of N(0, 1) in both."""

    parts: tuple[tuple[float, float, float | Fraction], ...]

    @classmethod
    def single(cls, place: float, apart: float, weight: float) -> Half:
        """That of one part."""
        return cls(((place, apart, weight),))

    @cached_property
    def turned(self) -> Half:
        """The losses below 0 in the other order, if `a_j` - `m_j` are doubles."""
        return Half(tuple((0.0 if a == m else m - a, m, w) for a, m, w in self.parts))

    @cached_property
    def arrays(self) -> HalfParts:
        """The parts as arrays (parts, 1)."""
        rows = HalfParts.of(self)
        return HalfParts(rows.parts[..., 0], rows.rests[..., 0])

    @cached_property
    def rest(self) -> float:
        """c."""
        if len(self.parts) == 1:
            return 1.0 - float(self.parts[0][2])
        return float(1 - sum(Fraction(w) for _, _, w in self.parts))

    @property
    def plain(self) -> bool:
        """Whether there is one part, and P or Q is N(0, 1)."""
        a, m, _ = self.parts[0]
        return len(self.parts) == 1 and a in (0.0, m)

    @property
    def share(self) -> float:
        """1 - c."""
        return math.fsum(float(w) for _, _, w in self.parts)

    @property
    def log_rest(self) -> float:
        """log c."""
        if self.rest > 0.5:
            return math.log1p(-self.share)
        return math.log(self.rest) if self.rest > 0.0 else -math.inf

    @property
    def most(self) -> float:
        """The largest loss: P is N(0, 1), and Q is c times that far out; or ∞."""
        return -self.log_rest if all(a == 0.0 for a, _, _ in self.parts) else math.inf

    @cached_property
    def highest(self) -> float:
        """The largest of a_j and 0."""
        return max(0.0, *(a for a, _, _ in self.parts))

    @cached_property
    def size(self) -> float:
        """The largest |a_j|, |b_j| or m_j."""
        return max(max(abs(a), m, abs(a - m)) for a, m, _ in self.parts)

    @cached_property
    def origin(self) -> float:
        """z_0."""
        middles = [a - 0.5 * m for a, m, _ in self.parts]
        low, high = min(middles), max(middles)
        parts = [(float(w), a, a - m) for a, m, w in self.parts]
        for _ in range(_ROUNDS):
            if not low < (z := 0.5 * (low + high)) < high:
                break
            one, two = (
                [math.log(w) + x[i] * z - 0.5 * x[i] ** 2 for w, *x in parts] for i in (0, 1)
            )
            top = max(*one, *two)
            rise = math.fsum(
                math.exp(x - top) - math.exp(y - top) for x, y in zip(one, two, strict=True)
            )
            low, high = (z, high) if rise < 0.0 else (low, z)
        return high

    @property
    def farthest(self) -> float:
        """A z beyond which P and Q have less than every double."""
        return self.highest + _FAR

    def doubt(self, losses: Array) -> Array:
        """More than losses of places are off by: as their terms, which may cancel where they are several."""
        terms = np.expm1(np.minimum(losses, 1.0))
        if len(self.parts) > 1:
            seen = self.arrays.seen(self.place(losses))
            size = np.exp(np.minimum(seen.part + np.maximum(seen.more, 0.0), 0.0))
            terms = _total(size * -np.expm1(-np.abs(seen.more)))
        return np.asarray(_LOSS * np.minimum(1.0, terms))

    def loss(self, t: Array) -> Array:
        """The loss at `t` ≥ 0."""
        return self._chunked(lambda x: self.arrays.seen(x).loss, t)

    def place(self, losses: Array) -> Array:
        """The t of these losses ≥ 0; that of the largest place beyond it."""
        a, m, weight = self.parts[0]
        if len(self.parts) == 1 and 2.0 * a == m:
            return self._opposed(losses)
        if not self.plain:
            return self._chunked(self._sought, losses)
        p, sign = float(weight), 1.0 if a else -1.0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            grown = np.expm1(sign * np.minimum(losses, _LARGE)) / p
            small = sign * np.log1p(np.maximum(grown, -1.0))
            if a:
                rest = np.log1p(-self.rest * np.exp(-np.maximum(losses, 1.0)))
                small = np.where(losses > _LARGE, losses - math.log(p) + rest, small)
            else:  # e^-l and c cancel near the largest loss, -log c
                left = np.log(np.expm1(np.maximum(self.most - losses, 0.0)))
                small = np.where(grown < -0.5, math.log(p) - self.log_rest - left, small)
        more = losses if p == 1.0 else small
        return np.asarray(np.minimum(more / m, self.farthest - self.origin))

    def _opposed(self, losses: Array) -> Array:
        """`place` where b is -a: sinh(at - y/2) = κ·sinh(y/2), in logarithms."""
        ((a, _, p),), half = self.parts, 0.5 * losses
        with np.errstate(divide="ignore", under="ignore"):
            log_sinh = half + np.log(-0.5 * np.expm1(-losses))
            log_right = 0.5 * a * a + self.log_rest - math.log(p) + log_sinh
            small = np.arcsinh(np.exp(np.minimum(log_right, _LARGE)))
        more = half + np.where(log_right > _LARGE, log_right + math.log(2.0), small)
        return np.asarray(np.minimum(more / a, self.farthest))

    def _chunked(self, function: Callable[[Array], Array], x: Array) -> Array:
        size = max(1, _ENTRIES // len(self.parts))
        with np.errstate(under="ignore"):
            if x.size <= size:
                return function(x)
            return np.concatenate([function(x[i : i + size]) for i in range(0, x.size, size)])

    def _sought(self, losses: Array) -> Array:
        """`place` by Newton's method, kept within a bracket that it would leave where the loss is flat."""
        grid, values = _table(self)
        after = np.clip(np.searchsorted(values, losses), 1, grid.size - 1)
        low, high, t = grid[after - 1], grid[after], np.interp(losses, values, grid)
        t = np.where(losses == values[after], high, t)
        t = np.where(losses <= values[0], grid[0], np.where(losses >= values[-1], grid[-1], t))
        left = np.flatnonzero(
            (losses > values[0]) & (losses < values[-1]) & (losses != values[after])
        )
        for _ in range(_ROUNDS):
            if left.size == 0:
                break
            at = t[left]
            seen = self.arrays.seen(at)
            gap, slope = seen.loss - losses[left], self.arrays.slope(seen)
            low[left] = np.where(gap < 0.0, at, low[left])
            high[left] = np.where(gap > 0.0, at, high[left])
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                nearer = at - gap / slope
            inside = (nearer >= low[left]) & (nearer <= high[left])
            t[left] = np.where(inside, nearer, 0.5 * (low[left] + high[left]))
            moved = np.abs(t[left] - at)  # the next step of Newton's would be its square
            settled = (inside & (moved < _NEAR)) | (moved <= _SAME * at)
            left = left[~settled]
        return t

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, by quadrature; wide ones by differences of normal probabilities."""
        t = self.place(edges)
        left, width = t[:-1], np.diff(t)
        z = np.abs(self.origin + t)
        size = width * (np.maximum(z[:-1], z[1:]) + self._sizes + 1.0)

        def quadrature(now: Indices, rule: Rule) -> tuple[Array, Array]:
            return self._by_quadrature(left[now], width[now], edges[:-1][now], rule)

        def difference(wide: Indices) -> tuple[Array, Array]:
            own, other, gap = self._between(left[wide], t[1:][wide])
            return own, excess_of(gap, edges[:-1][wide], own=own, other=other)

        return cells_of(size, quadrature, difference)

    @cached_property
    def _sizes(self) -> float:
        return max(abs(a) + abs(a - m) for a, m, _ in self.parts)

    def _by_quadrature(
        self, left: Array, width: Array, loss: Array, rule: Rule
    ) -> tuple[Array, Array]:
        z, step = self.origin + left, rule.nodes[:, None] * width
        excess = np.zeros_like(step)
        with np.errstate(under="ignore", over="ignore"):
            mass = self.rest * np.exp(-0.5 * z * z) + excess
            # P at the left end, where it is e^l·Q, and what its parts have grown by are to be multiplied by
            # `fall`; what they have grown by more than those of e^l·Q is the excess.
            fall = np.exp(-step * (z + 0.5 * step))
            for part in self.moved(left):
                own, surplus, b = part.density, part.surplus(loss), part.two
                apart = np.expm1(part.apart * step)
                two = np.expm1(b * step) if b else np.zeros(1)
                mass += own * (1.0 + apart + two + apart * two)
                excess += own * (1.0 + two) * apart + (surplus * two if b else 0.0)
        mass, excess = mass * fall, np.maximum(excess, 0.0) * fall
        share = width / SQRT_2PI
        return rule.weights @ mass * share, rule.weights @ excess * share

    def masses(self, low: Array, high: Array) -> Masses:
        """The masses of the losses ≥ 0 between `low` and `high`."""
        return self._between(self.place(low), self.place(high))

    def _between(self, left: Array, right: Array) -> Masses:
        plain = normal_mass(self.origin + left, self.origin + right)
        own = other = self.rest * plain
        gap = np.zeros_like(plain)
        for low, high in zip(self.moved(left), self.moved(right), strict=True):
            one = low.weight * (normal_mass(low.from_p, high.from_p) if low.one else plain)
            two = low.weight * (normal_mass(low.from_q, high.from_q) if low.two else plain)
            own, other, gap = own + one, other + two, gap + (one - two)
        return Masses(own, other, gap)

    def _beyond(self, t: Array) -> Masses:
        own, other, _ = self._between(t, np.full_like(t, np.inf))
        gaps = (x.weight * x.between for x in self.moved(t))
        return Masses(own, other, np.asarray(sum(gaps)))  # without cancellation

    def moved(self, t: Array) -> Iterator[MovedPart]:
        """How far places are from each of the parts."""
        shifts = np.ravel(self.arrays.shift).tolist()
        for (a, m, w), shift in zip(self.parts, shifts, strict=True):
            yield MovedPart(
                apart=m,
                one=a,
                two=a - m,
                weight=float(w),
                from_p=t + shift - 0.5 * m,
                from_q=t + shift + 0.5 * m,
            )

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y` ≥ 0."""
        if y >= self.most:
            return 0.0, 0.0
        loss = np.array([y])
        own, other, gap = self._beyond(self.place(loss))
        return float(own[0]), float(excess_of(gap, loss, own=own, other=other)[0])

    def high(self, tail: float) -> float:
        """A loss above which the excess is `tail` at most; the largest where that is not far beyond."""
        beyond = self._loss_beyond(self.highest, tail)
        return self.most if self.most <= 8.0 * beyond else beyond

    def depth(self, slack: float) -> float:
        """A loss beyond which Q's mass is so small that raising it to there adds about `slack` or less."""
        place = max(0.0, *(a - m for a, m, _ in self.parts))
        return min(self._loss_beyond(place, slack / (1.0 + self.size)), _GREAT)

    def _loss_beyond(self, place: float, share: float) -> float:
        z = place - float(scipy.special.ndtri(min(0.5, max(share, 1e-305))))
        return float(self.loss(np.array([max(0.0, z - self.origin)]))[0])


@lru_cache(maxsize=1024)
def _table(half: Half) -> tuple[Array, Array]:
    """Places, and the losses there."""
    end = half.farthest - half.origin
    t = _TABLE * np.arange(math.ceil(end / _TABLE) + 1, dtype=np.float64)
    values = np.maximum.accumulate(half.loss(t))
    values[0] = 0.0
    return t, values


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
    near = [i for i, law in enumerate(laws) if law.within(exact)]
    moments = np.array([0.0 if law.within(exact) else law.in_sight(exact) for law in laws])
    size = np.array([laws[i].size for i in near])
    panels = ((exact + 1.0) * size + 30.0) * (1.0 + size)
    if any(len(laws[i].upper.parts) > 1 for i in near):
        panels[:] = _TOGETHER
    for part in _split(near, np.cumsum(panels) // _TOGETHER):
        above = _log_integrals(tuple(laws[i].upper for i in part), exact + 1.0)
        below = _log_integrals(tuple(laws[i].lower for i in part), -exact)
        moments[part] = np.logaddexp(0.0, np.logaddexp(above, below))
    return np.asarray(share * moments)


def _split(indices: list[int], groups: Array) -> list[list[int]]:
    """The indices of each group."""
    ends = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(indices)]
    return [indices[i:j] for i, j in itertools.pairwise(ends) if j > i]


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
        near = np.flatnonzero(y < min(1.0, _LARGE / abs(order)))
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
    return (0.5 * high, high) if high * size <= _FAR else (order,)


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

    @property
    def symmetric(self) -> bool:
        """Yes: the pairs are."""
        return True

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
        if not any(_VAST < m < math.inf for m in self.mus):
            return self
        return Labelled(tuple(m if m <= _VAST else math.inf for m in self.mus), self.weights)

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
    if seen > _LARGE:
        return seen + math.log(p + (1.0 - p) * math.exp(-seen))
    unseen = 0.0 if symmetric else (1.0 - p) * math.expm1(power * math.log1p(-p))
    return math.log1p(p * math.expm1(seen) + unseen)
