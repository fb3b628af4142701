"""Privacy losses above 0 of mixtures of Gaussians, of which an outcome does not tell the part."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.rounding import Array, bisected
from pabi.tradeoff.pairs import (
    LARGE,
    LARGEST_EXPONENT,
    SQRT_2PI,
    Indices,
    LossCells,
    Masses,
    Rule,
    cells_of,
    excess_of,
    normal_mass,
    short_mass,
)

# P = c·N(0, 1) + Σ w_j·N(a_j, 1) against Q = c·N(0, 1) + Σ w_j·N(b_j, 1), b_j = a_j - m_j, m_j > 0. Only
# losses above 0 are asked for: they grow with t = z - z_0, where z_0 is the place of the loss 0. At z the
# parts of P are e^d_j times those of Q, d_j = m_j·(z - a_j + m_j/2), which keeps its digits at t = 0.


APART = 100.0  # the size from which the parts are: e^(-100²/8) is less than 1e-540
FAR = 60.0  # Φ(-60) is below every positive double
_SHORT = 1e-3  # a distance across which differences of normal probabilities cancel
VAST = 1e6  # μ of a Gaussian, whose losses are about μ²/2
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


_ARRAYS = "one", "apart", "weight", "log_rest", "origin"


@dataclass(frozen=True, eq=False)
class HalfParts:
    """The parts of a half, or of several halves of one part each: arrays (parts, …) that broadcast with t."""

    one: Array  # the a_j
    apart: Array  # the m_j
    weight: Array  # the w_j
    log_rest: Array  # the log c
    origin: Array  # the z_0

    @classmethod
    def of(cls, *halves: Half) -> HalfParts:
        """One half, arrays (parts, 1, 1), or several of one part, (1, halves, 1)."""
        parts = np.array([part for half in halves for part in half.parts], dtype=np.float64).T
        rests = np.array([(half.log_rest, half.origin) for half in halves]).T
        arrays = *parts.reshape(3, -1, len(halves), 1), *rests[..., None]
        return cls(**dict(zip(_ARRAYS, arrays, strict=True)))

    def at(self, index: Indices) -> HalfParts:
        """Those of these halves, of the only one for all of them."""
        return self.each(lambda x: x if x.shape[-2] == 1 else x[..., index, :])

    def each(self, function: Callable[[Array], Array]) -> HalfParts:
        """What a function makes of every array."""
        return HalfParts(**{name: function(getattr(self, name)) for name in _ARRAYS})

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
        return np.asarray(np.log(self.weight))

    @property
    def size(self) -> Array:
        """The largest |a_j|, |b_j| or m_j."""
        return np.asarray(np.max([self.one, self.apart, np.abs(self.two)], axis=(0, 1)))

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
            far, near = top + np.log(total), np.log1p(np.exp(np.minimum(top, LARGE)) * total)
        loss = np.where(top > LARGE, far, near)
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
        return HalfParts.of(self).each(lambda x: x[..., 0])

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
        parts = [(float(w), a, a - m) for a, m, w in self.parts]

        def holds(z: float) -> bool:
            one, two = (
                [math.log(w) + x[i] * z - 0.5 * x[i] ** 2 for w, *x in parts] for i in (0, 1)
            )
            top, pairs = max(*one, *two), zip(one, two, strict=True)
            return not math.fsum(math.exp(x - top) - math.exp(y - top) for x, y in pairs) < 0.0

        return bisected(holds, min(middles), max(middles), rounds=_ROUNDS)[1]

    @property
    def farthest(self) -> float:
        """A z beyond which P and Q have less than every double."""
        return self.highest + FAR

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
            grown = np.expm1(sign * np.minimum(losses, LARGE)) / p
            small = sign * np.log1p(np.maximum(grown, -1.0))
            if a:
                rest = np.log1p(-self.rest * np.exp(-np.maximum(losses, 1.0)))
                small = np.where(losses > LARGE, losses - math.log(p) + rest, small)
            else:  # e^-l and c cancel near the largest loss, -log c
                left = np.log(np.expm1(np.maximum(self.most - losses, 0.0)))
                small = np.where(grown < -0.5, math.log(p) - self.log_rest - left, small)
        small = losses if p == 1.0 else small
        return np.asarray(np.minimum(small / m, self.farthest - self.origin))

    def _opposed(self, losses: Array) -> Array:
        """`place` where b is -a: sinh(at - y/2) = κ·sinh(y/2), in logarithms."""
        ((a, _, p),), half = self.parts, 0.5 * losses
        with np.errstate(divide="ignore", under="ignore"):
            log_sinh = half + np.log(-0.5 * np.expm1(-losses))
            log_right = 0.5 * a * a + self.log_rest - math.log(p) + log_sinh
            small = np.arcsinh(np.exp(np.minimum(log_right, LARGE)))
        more = half + np.where(log_right > LARGE, log_right + math.log(2.0), small)
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
        sizes = max(abs(a) + abs(a - m) for a, m, _ in self.parts)

        def difference(wide: Indices) -> tuple[Array, Array]:
            own, other, gap = self._between(left[wide], t[1:][wide])
            return own, excess_of(gap, edges[:-1][wide], own=own, other=other)

        return cells_of(
            width * (np.maximum(z[:-1], z[1:]) + sizes + 1.0),
            lambda now, rule: self._by_quadrature(left[now], width[now], edges[:-1][now], rule),
            difference,
        )

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
            # Where the two are close, their difference is lost in their rounding.
            short = low.weight * (low.between - high.between) if low.apart <= _SHORT else one - two
            own, other, gap = own + one, other + two, gap + short
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
        return min(self._loss_beyond(place, slack / (1.0 + self.size)), LARGEST_EXPONENT)

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
