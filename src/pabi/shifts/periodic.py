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
from typing import NamedTuple

from pabi.iteration import Group, Groups, Stretch
from pabi.rounding import TINY

_SLACK = 1.0 + 4e-13  # exponentials of arguments up to 700, each off by at most 700 half units
_CAPACITY = 1e300  # less than infinite: a capacity that overflows is understated, never a demand
_UNROLL = 1000  # repetitions taken out of a group one by one before settling for a feasible optimum


class Piece(NamedTuple):
    """z ↦ exp(log_c)·z + d with capacity v: some steps merged, in units of the distance at their end."""

    log_c: float
    d: float
    v: float

    def then(self, later: Piece) -> Piece:
        """Both, one after the other."""
        c = _exp(later.log_c)
        d = max(self.d * c, TINY) if self.d > 0.0 else 0.0
        return Piece(
            self.log_c + later.log_c, d + later.d, min(self.v * c * c + later.v, _CAPACITY)
        )

    def repeated(self, times: int) -> Piece:
        """`times` repetitions in a row."""
        d = self.d * _geometric(self.log_c, times) if self.d > 0.0 else 0.0
        v = min(self.v * _geometric(2.0 * self.log_c, times), _CAPACITY)
        return Piece(self.log_c * times, d, v)

    @property
    def slope(self) -> float:
        return self.d / self.v

    @property
    def energy(self) -> float:
        """What it costs to pay d in one block."""
        return self.d * self.slope if self.d > 0.0 else 0.0


def _exp(x: float) -> float:
    return math.inf if x > 709.0 else math.exp(x)


def _geometric(log_ratio: float, terms: int) -> float:
    """1 + r + … + r^(terms−1), stable for r near 1; ∞ on overflow."""
    if log_ratio == 0.0 or terms == 1:
        return float(terms)
    if log_ratio * terms > 700.0:
        return math.inf
    return math.expm1(log_ratio * terms) / math.expm1(log_ratio)


class Block(NamedTuple):
    """`times` equal blocks in a row, each clearing `groups` (the last ones of what came before)."""

    times: int
    groups: tuple[Group, ...]
    piece: Piece


class PeriodicShifts(NamedTuple):
    """The solution: the steps from τ on in `groups`, each block returning the distance to zero.

    `distance` is z_τ; `energy` is μ², rounded up; `skipped` the number of steps before `groups`.
    """

    energy: float
    distance: float
    skipped: int
    blocks: tuple[Block, ...]


_FREE = PeriodicShifts(0.0, 0.0, 0, ())


def _log(c: float) -> float:
    return math.log1p(c - 1.0) if 0.5 < c < 2.0 else math.log(c)


def _piece(stretches: tuple[Stretch, ...]) -> Piece:
    """The merged steps of one repetition."""
    total: Piece | None = None
    for n, c, s, sigma in stretches:
        here = Piece(_log(c), s, sigma * sigma).repeated(n)
        total = here if total is None else total.then(here)
    assert total is not None
    return total


def _demand_first(group: Group) -> bool:
    """Whether a repetition has its only demand in its first step, as every use of a record does."""
    head, *rest = group.stretches
    return (head.n == 1 or head.s == 0.0) and all(x.s == 0.0 for x in rest)


def solvable(groups: Groups) -> bool:
    """Whether this module covers the schedule: noise and slopes positive, demands first."""
    return all(
        _demand_first(g) and all(x.sigma > 0.0 and x.c > 0.0 for x in g.stretches) for g in groups
    )


def solve(groups: Groups, start: float = 0.0) -> PeriodicShifts:
    """The best payments from distance `start`."""
    blocks: list[Block] = []
    skipped = 0
    for i, group in enumerate(groups):
        piece = _piece(group.stretches)
        if i == 0 and start > 0.0:
            if group.times > 1:
                rest = Groups((group._replace(times=group.times - 1), *groups[1:]))
                return solve(Groups((group._replace(times=1), *rest)), start)
            arriving = start * _exp(piece.log_c) * _SLACK
            piece = piece._replace(d=piece.d + max(arriving, TINY))
        if piece.d == 0.0 and not blocks:
            skipped += group.steps
            continue
        for block in _as_blocks(group, piece):
            _push(blocks, block)
    if not blocks:
        return _FREE
    energy = sum(b.times * b.piece.energy for b in blocks) * _SLACK
    energy = math.inf if math.isnan(energy) else max(energy, TINY)
    return PeriodicShifts(energy, start, skipped, tuple(blocks))


def _as_blocks(group: Group, piece: Piece) -> Iterator[Block]:
    """A group as it enters the regression: pooled if its slopes fall, repetitions apart if they rise."""
    if group.times == 1 or piece.log_c <= 0.0 or piece.d == 0.0:
        yield Block(1, (group,), piece.repeated(group.times))
    else:
        once = group._replace(times=1)
        yield Block(1, (once,), piece)
        yield Block(group.times - 1, (once,), piece)


def _push(blocks: list[Block], new: Block) -> None:
    """Pool adjacent violators, on blocks that may stand for many."""
    unrolled = 0
    while blocks:
        last = blocks[-1]
        # Slopes in units of the end of `new`'s first repetition: an earlier slope shrinks by its C.
        if new.piece.d > 0.0 and last.piece.slope < new.piece.slope * _exp(new.piece.log_c):
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
        new = Block(1, last.groups + new.groups, last.piece.then(new.piece))
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
            ) -> PeriodicShifts | None:
                left = _after_demand(groups, i, m)
                if not left:
                    return None
                skipped = before + (group.times - m - 1) * (group.steps // group.times) + 1
                shifts = solve(left, diameter)
                return shifts._replace(skipped=shifts.skipped + skipped)

            def energy(m: int) -> float:
                shifts = cost(m)
                return math.inf if shifts is None else shifts.energy

            found = cost(_least(energy, group.times - 1))
            if found is not None and found.energy < best.energy:
                best = found
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
    low = 0
    while high - low > 2:
        a = low + (high - low) // 3
        b = high - (high - low) // 3
        if f(a) <= f(b):
            high = b
        else:
            low = a
    return min(range(low, high + 1), key=f)
