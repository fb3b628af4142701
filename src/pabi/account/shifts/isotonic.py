"""The best payments from a given start: weighted isotonic regression.

A sequence of pieces (one step, or several merged) acts as z ↦ c·z + d, and paying y at its end costs
y²/v. With W_k the product of the later c, demands d_k·W_k and weights v_k·W_k², the optimal payments
have slopes q = (isotonic regression of demand/weight), because the cumulated payments are the shortest
path under the obstacle of cumulated demands: its greatest convex minorant.

W ranges over thousands of orders of magnitude in long runs. The pieces are cut into segments in which
it stays within the range of doubles; `scipy.optimize.isotonic_regression` solves each, and blocks are
merged across the cuts with the scale kept apart as mantissa and exponent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.rounding import EPS_LONG, TINY, Array

LongArray = NDArray[np.longdouble]

_RANGE = 400.0  # |log2 W| within a segment; W² then stays far inside the range of doubles
_EPS = float(np.finfo(np.float64).eps)
_SUM = 1.0 + 4.0 * _EPS  # above the roundings of a product and a sum


class BlockPayments(NamedTuple):
    """Feasible payments in blocks, and what they cost.

    Block i ends with piece `ends[i]` (the first begins with piece `first`), where the distance
    returns to zero. Within it, piece k pays q·2^shift·v_k·W_k/W_end, W_end at the block's last piece;
    shift is 0 unless the slope is no double.
    """

    energy: float  # about μ², the cost of exactly these payments
    first: int
    ends: NDArray[np.int64]
    q: Array
    shift: NDArray[np.int64]
    costs: Array  # of each block; they add up to about `energy`


_NONE = np.zeros(0, np.int64)
_NOTHING = BlockPayments(0.0, 0, _NONE, np.zeros(0), _NONE, np.zeros(0))
_IMPOSSIBLE = BlockPayments(math.inf, 0, _NONE, np.zeros(0), _NONE, np.zeros(0))


class _Scale(NamedTuple):
    """A positive number of any magnitude: mantissa·2^exponent."""

    mantissa: float
    exponent: int

    def times(self, x: float) -> _Scale:
        """self·x."""
        m, e = math.frexp(self.mantissa * x)
        return _Scale(m, self.exponent + e)

    def over(self, other: _Scale) -> float:
        """self/other as a double: 0 or ∞ beyond their range."""
        ratio = self.mantissa / other.mantissa
        e = self.exponent - other.exponent
        return math.inf if e > 1000 else math.ldexp(ratio, e)


class _Block:
    """Demand and weight of a run of pieces, in units of `scale`."""

    __slots__ = ("demand", "end", "scale", "weight")

    def __init__(self, demand: float, weight: float, scale: _Scale, end: int) -> None:
        self.demand, self.weight, self.scale, self.end = demand, weight, scale, end

    def violates(self, later: _Block) -> bool:
        """Whether this block's slope is at least the later one's, so that they must merge."""
        # The slope in common units is demand/(weight·scale).
        ratio = later.scale.over(self.scale)
        return self.demand / self.weight * ratio >= later.demand / later.weight

    def with_later(self, later: _Block) -> _Block:
        """The block of both, in the larger of the two scales, rounded against ourselves."""
        above = later.scale.over(self.scale) <= 1.0
        large, small = (self, later) if above else (later, self)
        ratio = small.scale.over(large.scale)
        demand = large.demand + _keep(small.demand, ratio)
        weight = large.weight + small.weight * ratio * ratio
        return _Block(demand, weight, large.scale, later.end)


class _Chunk:
    """Consecutive blocks in one scale; those before `stop` are left."""

    def __init__(
        self, demand: Array, weight: Array, ends: NDArray[np.int64], scale: _Scale
    ) -> None:
        self.demand, self.weight, self.ends, self.scale = demand, weight, ends, scale
        self.stop = len(demand)

    def block(self, i: int) -> _Block:
        """Block i by itself."""
        return _Block(float(self.demand[i]), float(self.weight[i]), self.scale, int(self.ends[i]))

    def between(self, begin: int, stop: int) -> _Chunk:
        """The blocks begin, …, stop − 1 as a chunk of their own."""
        s = slice(begin, stop)
        return _Chunk(self.demand[s], self.weight[s], self.ends[s], self.scale)


class _Blocks(NamedTuple):
    """The pooled blocks: (blocks,) arrays, each in units of mantissa·2^exponent."""

    demand: Array
    weight: Array
    ends: NDArray[np.int64]
    mantissa: Array
    exponent: NDArray[np.int64]


def scaled(mantissa: Array, exponent: NDArray[np.int64]) -> Array:
    """mantissa·2^exponent for mantissas near 1: 0 where it is below all doubles, and never ∞, the exponent
    being held at 1000."""
    within = np.clip(exponent, -2000, 1000).astype(np.int32)
    return np.asarray(np.ldexp(mantissa, within))


def _keep(x: float, ratio: float) -> float:
    """x·ratio; a positive demand never underflows to none."""
    return max(x * ratio, TINY) if x > 0.0 else 0.0


class Segment(NamedTuple):
    """Pieces lo..hi−1 with demands and weights in units of W at their last piece."""

    lo: int
    hi: int
    demand: LongArray
    weight: LongArray
    relative: LongArray  # W of each piece in that unit
    scale: _Scale  # of the unit, in units of W at the very end
    product: float  # of all slopes of the segment


def solve(c: Any, d: Any, v: Any, start: float = 0.0, steps: int = 0) -> BlockPayments:
    """The best payments for pieces z ↦ c·z + d of capacity v, from distance `start`.

    `c`, `d`, `v`: (n,) nonnegative arrays, v in squared units of d. `steps`: from how many steps the
    pieces were merged, in long double, if not one each. Energy ∞ where a demand meets no
    noise any more. O(n). Relative excess over the optimum: a few 1e-13 for 10⁶ pieces.
    Source: the docs' theory page, "Optimal shifts".
    """
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        return _solve(np.asarray(c), np.asarray(d), np.asarray(v), start, steps)


def _solve(c: Any, d: Any, v: Any, start: float, steps: int) -> BlockPayments:
    n = len(c)
    zeros = np.flatnonzero(c == 0.0)
    first = int(zeros[-1]) if zeros.size else 0
    c, d, v = c[first:], d[first:], v[first:]
    if zeros.size:
        c = np.concatenate(([1.0], c[1:]))  # whatever came before is forgotten
    elif start > 0.0:
        d = d.copy()
        d[0] = (d[0] + np.asarray(c[0], d.dtype) * start) * _SUM
    used = np.flatnonzero(d > 0.0)
    if not used.size:
        return _NOTHING
    first += int(used[0])
    c, d, v = c[used[0] :], d[used[0] :], v[used[0] :]
    index = np.arange(first, n, dtype=np.int64)
    if not all(np.isfinite(x.astype(np.float64)).all() for x in (c, d, v)):
        return _IMPOSSIBLE
    unit = float(np.sqrt(v.max())) or 1.0
    d = np.where(d > 0.0, np.maximum(d / unit, TINY), 0.0)
    v = v / unit / unit
    if not (v >= TINY).all():
        c, d, v, index = _absorb_noiseless(c, d, v, index)
        if d[-1] > 0.0 and v[-1] < TINY:
            return _IMPOSSIBLE
    segments = list(segments_of(c, d, v))
    payments = _finish(segments, _blocks(segments), max(len(c), steps))
    if not math.isfinite(payments.energy):
        return _IMPOSSIBLE
    # Capacities were divided by unit² and demands by unit, so that q = demand/weight gains 1/unit.
    return payments._replace(first=first, ends=index[payments.ends], q=payments.q / unit)


def _absorb_noiseless(c: Array, d: Any, v: Any, index: Any) -> tuple[Array, Any, Any, Any]:
    """Merge every piece without noise into the next one that has some: it pays nothing itself."""
    keep = v >= TINY
    c, d = c.copy(), d.copy()
    for k in np.flatnonzero(~keep):
        if k + 1 < len(c):
            carried = max(c[k + 1] * d[k], TINY) if d[k] > 0.0 else 0.0
            d[k + 1] = (d[k + 1] + carried) * _SUM
            c[k + 1] = max(c[k + 1] * c[k], TINY) * _SUM
        elif d[k] > 0.0:
            keep[k] = True  # a demand that no noise is left to hide
    # Trailing noiseless pieces without demand leave a distance of zero at zero, and are dropped.
    return c[keep], d[keep], v[keep], index[keep]


def _cuts(c: Array) -> list[int]:
    """Segment boundaries, from the end: within one, log2 W moves by at most `_RANGE`."""
    log_w = -np.cumsum(np.log2(c[::-1].astype(np.float64)))  # from the end
    n, cuts, begin = len(c), [len(c)], 0
    while begin < n:
        size, base = 4096, log_w[begin]
        stop = begin + 1
        while stop < n:
            reach = min(n, stop + size)
            far = np.abs(log_w[stop:reach] - base) > _RANGE
            if far.any():
                stop += int(np.argmax(far))
                break
            stop, size = reach, 2 * size
        cuts.append(n - stop)
        begin = stop
    return cuts


def segments_of(c: Array, d: Any, v: Any) -> Iterator[Segment]:
    """The segments from the last to the first."""
    scale = _Scale(1.0, 0)
    cuts = _cuts(c)
    for hi, lo in pairwise(cuts):
        relative = np.ones(hi - lo, dtype=np.longdouble)
        np.cumprod(c[lo + 1 : hi][::-1], dtype=np.longdouble, out=relative[1:])
        relative = relative[::-1]
        product = float(relative[0] * c[lo])
        demand = d[lo:hi] * relative
        weight = v[lo:hi] * relative * relative
        yield Segment(lo, hi, demand, weight, relative, scale, product)
        if lo:
            scale = scale.times(max(product, TINY))


def _pool(segment: Segment) -> _Chunk:
    """The blocks of one segment by itself."""
    from scipy.optimize import isotonic_regression

    weights = np.maximum(segment.weight.astype(np.float64), TINY)
    means = segment.demand.astype(np.float64) / weights
    starts = isotonic_regression(means, weights=weights).blocks[:-1]
    demand = np.add.reduceat(segment.demand, starts).astype(np.float64)
    weight = np.maximum(np.add.reduceat(segment.weight, starts).astype(np.float64), TINY)
    ends = np.append(starts[1:], segment.hi - segment.lo) + (segment.lo - 1)
    return _Chunk(demand, weight, ends.astype(np.int64), segment.scale)


def _blocks(segments: list[Segment]) -> _Blocks:
    """Pool adjacent violators, inside the segments and then across their cuts."""
    chunks: list[_Chunk] = []
    for segment in reversed(segments):
        fresh = _pool(segment)
        if not chunks:
            chunks.append(fresh)
            continue
        current, taken = fresh.block(0), 1
        while True:
            if chunks and (before := chunks[-1].block(chunks[-1].stop - 1)).violates(current):
                current = before.with_later(current)
                chunks[-1].stop -= 1
                if chunks[-1].stop == 0:
                    chunks.pop()
            elif taken < fresh.stop and current.violates(after := fresh.block(taken)):
                current = current.with_later(after)
                taken += 1
            else:
                break
        joint = np.array([current.demand]), np.array([current.weight]), np.array([current.end])
        chunks.append(_Chunk(*joint, current.scale))
        if taken < fresh.stop:
            chunks.append(fresh.between(taken, fresh.stop))
    left = [chunk.between(0, chunk.stop) for chunk in chunks]
    sizes = [chunk.stop for chunk in left]
    return _Blocks(
        np.concatenate([chunk.demand for chunk in left]),
        np.concatenate([chunk.weight for chunk in left]),
        np.concatenate([chunk.ends for chunk in left]),
        np.repeat([chunk.scale.mantissa for chunk in left], sizes),
        np.repeat(np.array([chunk.scale.exponent for chunk in left], dtype=np.int64), sizes),
    )


def _finish(segments: list[Segment], blocks: _Blocks, n: int) -> BlockPayments:
    """Slopes in units of each block's end, raised until the payments surely suffice."""
    slopes = np.maximum(blocks.demand / blocks.weight, TINY)  # in each block's own unit; never zero
    costs = blocks.demand * slopes
    # Products and sums of n terms in long double are off by at most n/2 units each; the payments
    # need 3n units of slack to cover every demand for sure.
    factor = _shortfall(segments, blocks, slopes)
    factor *= 1.0 + 3.5 * n * EPS_LONG + 64.0 * _EPS
    q, shift = np.empty_like(slopes), np.zeros(len(slopes), dtype=np.int64)
    stop = len(slopes)
    for segment in segments:  # from the end
        begin = int(np.searchsorted(blocks.ends, segment.lo))
        own = slice(begin, stop)
        at_end = segment.relative[blocks.ends[own] - segment.lo]
        mantissa = slopes[own] * factor * at_end * (segment.scale.mantissa / blocks.mantissa[own])
        q[own], exponent = np.frexp(mantissa)
        shift[own] = exponent + (segment.scale.exponent - blocks.exponent[own])
        stop = begin
    energy = float(np.sum(costs, dtype=np.longdouble)) * factor * factor
    plain = (shift >= -1021) & (shift < 1000)  # normal doubles
    q = np.where(plain, np.ldexp(q, np.where(plain, shift, 0).astype(np.int32)), q)
    q = np.nextafter(q, np.inf)
    return BlockPayments(max(energy, TINY), 0, blocks.ends, q, np.where(plain, 0, shift), costs)


def _shortfall(segments: list[Segment], blocks: _Blocks, slopes: Array) -> float:
    """By how much (≥ 1) the payments must be raised so that from every piece on they cover what is
    left to pay: rounding in the regression may have left them short by a few 1e-14."""
    worst, carry_demand, carry_paid = 1.0, np.longdouble(0.0), np.longdouble(0.0)
    for segment in segments:
        begin = int(np.searchsorted(blocks.ends, segment.lo))
        stop = int(np.searchsorted(blocks.ends, segment.hi - 1)) + 1
        within = slice(begin, stop)
        lengths = np.diff(np.minimum(blocks.ends[within], segment.hi - 1), prepend=segment.lo - 1)
        mantissa, exponent = segment.scale
        unit = scaled(mantissa / blocks.mantissa[within], exponent - blocks.exponent[within])
        q = np.repeat(slopes[within] * unit, lengths)
        demand = np.cumsum(segment.demand[::-1]) + carry_demand
        paid = np.cumsum((segment.weight * q)[::-1]) + carry_paid
        short = demand > paid
        if short.any():
            worst = max(worst, float(np.max(demand[short] / paid[short])))
        carry_demand, carry_paid = demand[-1], paid[-1]
        if carry_paid > 0.0:
            # Only the ratio matters from here on; keep the magnitudes representable.
            shrink = max(segment.product, 1e-250 * float(carry_paid))
            carry_demand, carry_paid = carry_demand / shrink, carry_paid / shrink
    return worst
