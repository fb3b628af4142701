"""Best start and payments for a run-length encoded schedule, without writing it out.

A constant run repeats the same few stretches: each time one demand, then steps without. Such a
repetition is a piece z ↦ C·z + d of capacity v (see `isotonic`), and m repetitions are again one piece,
by geometric sums. If C ≤ 1 their slopes fall, so that the regression pools all of them: one block. If
C > 1 their slopes rise, so that each is a block of its own. Only the few pieces at the joints need the
regression itself, so a run of 10⁹ steps costs as much as one of ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

from pabi.describe.iteration import Group, Groups, Stretch
from pabi.numbers.rounding import TINY, power_of_two_near

_SURE = 1.0 + 4e-13  # relative: no block may seem to pay before what it pays for arises
_UNROLL = 1000  # repetitions taken out of a group one by one before settling for a feasible optimum


class ScaledPiece(NamedTuple):
    """z ↦ exp(log_c)·z + d with capacity v: some steps merged.

    d and √v are in units of exp(unit) at the piece's end, so that neither over- nor underflows.
    """

    log_c: float
    d: float
    v: float
    unit: float = 0.0

    def then(self, later: ScaledPiece) -> ScaledPiece:
        """The steps of this piece and then those of `later`."""
        carried = self.unit + later.log_c
        unit = max(carried, later.unit)
        early, late = _exp(carried - unit), _exp(later.unit - unit)
        d = _keep(self.d, early) + _keep(later.d, late)
        return ScaledPiece(
            log_c=self.log_c + later.log_c,
            d=d,
            v=self.v * early * early + later.v * late * late,
            unit=unit,
        )

    def repeated(self, times: int) -> ScaledPiece:
        """`times` repetitions in a row."""
        # The largest term of the geometric sums is the unit: the last one if C ≤ 1, else the first.
        falling = -abs(self.log_c)
        return ScaledPiece(
            log_c=self.log_c * times if times > 1 else self.log_c,
            d=self.d * _geometric(falling, times),
            v=self.v * _geometric(2.0 * falling, times),
            unit=self.unit + (max(self.log_c, 0.0) * (times - 1) if times > 1 else 0.0),
        )

    @property
    def slope(self) -> float:
        """d/v, in units of exp(−unit)."""
        if self.v == 0.0:
            return math.inf if self.d > 0.0 else 0.0
        return self.d / self.v

    @property
    def energy(self) -> float:
        """What it costs to pay d in one block."""
        return self.d * self.slope if self.d > 0.0 else 0.0


def _keep(x: float, ratio: float) -> float:
    """x·ratio; a positive demand never underflows to none, and ∞·0 stays ∞."""
    if x == 0.0:
        return 0.0
    y = x * ratio
    return math.inf if math.isnan(y) else max(y, TINY)


def _exp(x: float) -> float:
    return math.inf if x > 709.0 else math.exp(x)


def _geometric(log_ratio: float, terms: int) -> float:
    """1 + r + … + r^(terms−1) for log r ≤ 0, stable for r near 1."""
    if log_ratio == 0.0 or terms == 1:
        return float(terms)
    return math.expm1(log_ratio * terms) / math.expm1(log_ratio)


class EqualBlocks(NamedTuple):
    """`times` equal blocks in a row, each clearing `groups` (the last ones of what came before)."""

    times: int
    groups: tuple[Group, ...]
    piece: ScaledPiece


class PeriodicShifts(NamedTuple):
    """The solution: the steps from τ on in `groups`, each block returning the distance to zero.

    `distance` is z_τ; `energy` is about μ²; `skipped` the number of steps before `groups`.
    """

    energy: float
    distance: float
    skipped: int
    blocks: tuple[EqualBlocks, ...]


_FREE = PeriodicShifts(0.0, 0.0, 0, ())
_NOTHING_LEFT = PeriodicShifts(math.inf, 0.0, 0, ())  # to pay with


def _log(c: float) -> float:
    if c == 0.0 or math.isinf(c):
        return -math.inf if c == 0.0 else math.inf
    return math.log1p(c - 1.0) if 0.5 < c < 2.0 else math.log(c)


def _piece(stretches: tuple[Stretch, ...], unit: float) -> ScaledPiece:
    """The merged steps of one repetition, in multiples of `unit`."""
    return reduce(ScaledPiece.then, (_equal_steps(stretch, unit) for stretch in stretches))


def _equal_steps(stretch: Stretch, unit: float) -> ScaledPiece:
    n, c, s, sigma = stretch
    v = (sigma / unit) * (sigma / unit)
    # A capacity that loses digits is taken for none.
    return ScaledPiece(_log(c), _keep(s, 1.0 / unit), v if v >= TINY else 0.0).repeated(n)


def _demand_first(group: Group) -> bool:
    """Whether a repetition has its only demand in its first step, as every use of a record does."""
    head, *rest = group.stretches
    return (head.n == 1 or head.s == 0.0) and all(x.s == 0.0 for x in rest)


def solvable(groups: Groups) -> bool:
    """Whether every repetition has its demand first; then what `solve` returns is feasible."""
    return all(_demand_first(g) for g in groups)


def solve(groups: Groups, start: float = 0.0) -> PeriodicShifts:
    """The best payments from distance `start`."""
    blocks: list[EqualBlocks] = []
    skipped, unit = 0, power_of_two_near(max(x.sigma for _, x in groups.stretches()))
    for i, group in enumerate(groups):
        piece = _piece(group.stretches, unit)
        if i == 0 and start > 0.0:
            if group.times > 1:
                rest = Groups((group._replace(times=group.times - 1), *groups[1:]))
                return solve(Groups((group._replace(times=1), *rest)), start)
            piece = ScaledPiece(0.0, _keep(start * _SURE, 1.0 / unit), 0.0).then(piece)
        if piece.d == 0.0 and not blocks:
            skipped += group.steps
            continue
        for block in _as_blocks(group, piece):
            _push(blocks, block)
    if not blocks:
        return _FREE
    energy = sum(b.times * b.piece.energy for b in blocks)
    return PeriodicShifts(math.inf if math.isnan(energy) else energy, start, skipped, tuple(blocks))


def _as_blocks(group: Group, piece: ScaledPiece) -> Iterator[EqualBlocks]:
    """A group as it enters the regression: pooled if its slopes fall, repetitions apart if they rise."""
    if group.times == 1 or piece.log_c <= 0.0 or piece.d == 0.0:
        yield EqualBlocks(1, (group,), piece.repeated(group.times))
    else:
        once = group._replace(times=1)
        yield EqualBlocks(1, (once,), piece)
        yield EqualBlocks(group.times - 1, (once,), piece)


def _push(blocks: list[EqualBlocks], new: EqualBlocks) -> None:
    """Pool adjacent violators, on blocks that may stand for many."""
    unrolled = 0
    while blocks:
        last = blocks[-1]
        # In common units: the earlier slope counts less by the product of the later slopes.
        apart = last.piece.unit + new.piece.log_c - new.piece.unit
        if new.piece.d > 0.0 and last.piece.slope < new.piece.slope * _exp(apart):
            break
        if unrolled >= _UNROLL:
            break  # still feasible: every block pays for itself
        if new.times > 1:
            first, rest = new._replace(times=1), new._replace(times=new.times - 1)
            _push(blocks, first)
            new = rest
            unrolled += 1
            continue
        if last.times > 1:
            blocks[-1] = last._replace(times=last.times - 1)
            unrolled += 1
        else:
            blocks.pop()
        new = EqualBlocks(1, last.groups + new.groups, last.piece.then(new.piece))
    blocks.append(new)


def best_start(groups: Groups, diameter: float = math.inf, start: float = 0.0) -> PeriodicShifts:
    """The cheapest start and its payments, for a schedule of nonexpansive repetitions.

    With a diameter D, the only starts that can beat the first step are those at which the distance
    is cut off at D, and with nonexpansive steps that is right after a demand: at the head of some
    repetition, after its first step. Within a group the cost of such a start is convex in C^m, m the
    repetitions that remain, hence unimodal in m.
    """
    best = solve(groups, start)
    if math.isinf(diameter):
        return best
    before = 0
    for i, group in enumerate(groups):
        if group.stretches[0].s > 0.0:

            def cost(
                m: int, i: int = i, group: Group = group, before: int = before
            ) -> PeriodicShifts:
                left = _after_demand(groups, i, m)
                if not left:
                    return _NOTHING_LEFT
                skipped = before + (group.times - m - 1) * (group.steps // group.times) + 1
                shifts = solve(left, diameter)
                return shifts._replace(skipped=shifts.skipped + skipped)

            shifts = cost(_least(lambda m: cost(m).energy, group.times - 1))
            best = min(best, shifts, key=lambda shifts: shifts.energy)
        before += group.steps
    return best


def _after_demand(groups: Groups, i: int, m: int) -> Groups:
    """What remains after the first step of a repetition of group i that m more repetitions follow."""
    group = groups[i]
    head, rest = group.stretches[0], group.stretches[1:]
    left = ((head._replace(n=head.n - 1),) if head.n > 1 else ()) + rest
    parts: tuple[Group, ...] = (Group(1, left),) if left else ()
    if m:
        parts += (group._replace(times=m),)
    return Groups((*parts, *groups[i + 1 :]))


def _least(f: Callable[[int], float], high: int) -> int:
    """An integer in 0..high at which the unimodal f is least; on a plateau, the smallest found."""
    low, ends = 0, {0, min(1, high), high}
    while high - low > 2:
        a = low + (high - low) // 3
        b = high - (high - low) // 3
        if f(a) <= f(b):
            high = b
        else:
            low = a
    # Rounding can make a plateau of a slope; the ends are what it hides.
    candidates: list[int] = sorted({*range(low, high + 1), *ends})
    return min(candidates, key=f)
