"""Secret steps: every iterate is released, and nobody knows in which of the batches the record is.

Secret groups: the same of the last iterate, where the batches of an epoch are cut into groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import accumulate, pairwise
from typing import Any, assert_never

import numpy as np
from flint import arb, fmpq

from pabi.describe.batches import BallsInBins
from pabi.verification.arithmetic import (
    Refused,
    closed,
    fraction_of,
    integer,
    positions,
    root_up,
    timed,
)
from pabi.verification.bounds import JointBound
from pabi.verification.factors import Factor
from pabi.verification.factors.allocations import Allocation, Allocations, LabelGroup
from pabi.verification.factors.closed_forms import Failure, Gaussians
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce, binomial_tail
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven, named
from pabi.verification.theorems.secret_order import against_none

_BINS, _SHUFFLED, _FULL = (f"docs, Theory, 6.3 (Theorem {number})" for number in (53, 54, 55))
_PARTLY_FULL = "docs, Theory, 6.3 (Theorems 54 and 55)"
_COMPOSED = "Dong, Roth, Su 2022, Cor. 3.3"

_LONGEST = 4096  # steps that pay for one use
_LEAST_SLOPE = 1e-6  # smaller ones count as this
_MOST_RANGES = 64

Label = tuple[Fraction, Any]  # its probability, and Σ (s_k/σ_k)² of its steps


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    closed("the plan", payload["plan"], ())
    if "cap" in payload:
        raise Refused("cap: secret steps are about batches of any size")
    assumptions = run.assumptions(hidden=False)
    displaces = type(run.run.batches) is not BallsInBins
    alone, opposite = _alone(run, displaces)
    drawn = [(labels, times) for labels, times in _drawn(alone) if labels]
    cap = Failure(_above_cap(run))

    def bound(hub: bool) -> JointBound:
        factors = (_factor(*one, opposite, displaces=displaces, hub=hub) for one in drawn)
        return JointBound.of(*factors, cap)

    seen = bound(False)
    # With a hub every batch is used once, and all others before the last one.
    again = type(run.scheme) is SecretOnce and run.data > run.period
    return Proven(assumptions, (seen,) if again else tuple(dict.fromkeys((bound(True), seen))))


def _alone(run: OrderedRun, displaces: bool) -> tuple[OrderedRun, bool]:
    """(the run with one record against none, whether another record moves the other data set's)."""
    alone, opposite = against_none(run)
    if displaces and run.run.gradient_sensitivity is not None:
        raise Refused("gradient_sensitivity: it says nothing of the records that are displaced")
    return alone, opposite


def _factor(
    labels: list[Label], times: int, opposite: bool, *, displaces: bool, hub: bool
) -> Factor:
    """What is revealed of a place that is drawn so many times. Where the record takes the place of another
    and none is left out, that one goes to the last batch, the hub, or the place is taken to be seen."""
    size = 0.0
    if displaces and sum(share for share, _ in labels) == 1:
        if not hub or len(labels) == 1:
            largest = max(square for _, square in labels)
            return Gaussians.single(root_up(times * largest * (4 if opposite else 1)))
        *labels, (_, last) = labels
        size = root_up(last)
    counts = Counter(labels)
    groups = tuple(LabelGroup(share * n, (root_up(x),), n) for (share, x), n in counts.items())
    return Allocations((Allocation(groups, opposite, displaces, times, size),))


def _drawn(run: OrderedRun) -> list[tuple[list[Label], int]]:
    """(the labels of a place, how often it is drawn)."""
    epochs, rest = divmod(run.data, run.period)
    match run.scheme:
        case SecretOnce():
            return [(_once(run, epochs, rest), 1)]
        case SecretEveryEpoch():
            pass
        case KnownPositions():
            raise Refused("theorem: everybody knows in which batch a record is")
        case _:
            assert_never(run.scheme)
    if not isinstance(run.noises, np.ndarray):
        one = run.privacy_loss(0)
        drawn = [(_labels(run, [one] * run.period), epochs)] if epochs else []
        return drawn + ([(_labels(run, [one] * rest), 1)] if rest else [])
    positions("steps", run.data)
    losses = [run.privacy_loss(k) for k in timed(range(run.data))]
    worst = [max(losses[a : a + run.period]) for a in range(0, run.data, run.period)]
    lengths = [run.period] * epochs + ([rest] if rest else [])
    return [
        (_labels(run, [x] * length), 1) for x, length in timed(zip(worst, lengths, strict=True))
    ]


def _once(run: OrderedRun, epochs: int, rest: int) -> list[Label]:
    used = run.period if epochs else rest
    if not isinstance(run.noises, np.ndarray):
        one = run.privacy_loss(0)
        return _labels(run, [one * (epochs + (j < rest)) for j in range(used)])
    positions("steps", run.data)
    losses = [run.privacy_loss(k) for k in timed(range(run.data))]
    return _labels(run, [sum(losses[j :: run.period], fmpq(0)) for j in range(used)])


def _labels(run: OrderedRun, squares: list[Any]) -> list[Label]:
    """The first batches of an epoch."""
    positions("batches", len(squares))
    return [
        (fraction_of(run.scheme.share(j, j)), square) for j, square in timed(enumerate(squares))
    ]


def _above_cap(run: OrderedRun) -> Fraction:
    """The probability that the record may bring a batch above the cap: that so many others are in one."""
    batches = run.run.batches
    cap = batches.cap if isinstance(batches, BallsInBins) else None
    if cap is None:
        return Fraction(0)
    bins = run.period if isinstance(run.scheme, SecretOnce) else run.data
    return min(Fraction(1), bins * binomial_tail(run.run.n, fmpq(1, run.period), cap - 1))


def _named(run: OrderedRun) -> tuple[Names, ...]:
    if type(run.run.batches) is BallsInBins:
        return (Names("secret steps", _BINS),)
    if run.scheme.spare > 0 or run.data < run.period:
        sources = [_SHUFFLED]
    elif run.data % run.period:
        # Or full epochs are seen, as in older files.
        sources = [_PARTLY_FULL, f"{_SHUFFLED}; {_COMPOSED}"]
    else:
        sources = [_FULL]
    return tuple(Names("secret steps", source) for source in sources)


# Secret groups. Everybody may know a part U of 1, and the record, if it is in group g of the batches, is in
# the batch where that part of the group's places ends. Its use is paid for by the noise up to the batch of
# the next group (docs, "Theory", 6.4). Ranges of U count with their worst, which is where they begin or where
# the batch moves on.


class _Groups:
    """The first batches of an epoch, cut into groups: for every group and every range of U, in which batch
    the use can be, and in which one the next group's. Those of the next epoch count on."""

    def __init__(self, run: OrderedRun, groups: list[int], ranges: int) -> None:
        length, records = sum(groups), run.run.n
        positions("batches", length)
        begins = list(accumulate(groups, initial=0))
        self.shares = [fraction_of(run.scheme.share(a, b - 1)) for a, b in pairwise(begins)]
        places = [share * records for share in self.shares]
        batch = fraction_of(run.scheme.share(0, 0)) * records
        self.cases: list[list[list[tuple[int, int]]]] = []
        for g, size in timed(enumerate(groups)):
            h = (g + 1) % len(groups)
            beyond = begins[h] if h else length
            moves = [j * batch / places[g] for j in range(1, size)]
            edges = [Fraction(i, ranges) for i in range(ranges + 1)]
            self.cases.append(
                [
                    [
                        (begins[g] + u * places[g] // batch, beyond + u * places[h] // batch)
                        for u in (low, *(x for x in moves if low < x < high))
                    ]
                    for low, high in pairwise(edges)
                ]
            )


class _Uses:
    """What uses cost that are paid for by the noise from their step on. `epochs`: how many are like this
    one."""

    def __init__(self, run: OrderedRun) -> None:
        self.run, self.known = run, dict[Any, Any]()
        self.step = cache(self._step)
        # Of a constant schedule, all epochs but the last two are alike.
        whole_epochs, rest = divmod(run.data, run.period)
        alike = max(0, whole_epochs - 1) if run.constant else 0
        others = range(alike, whole_epochs + (rest > 0))
        self.epochs = ({0: alike} if alike else {}) | dict.fromkeys(others, 1)

    def square(self, start: int, end: int) -> Any:
        """(s/σ)² of a use at step `start` paid for before `end`: s²/Σ(σ_k/W_k)², W_k the product of the
        slopes after the use."""
        end = min(end, start + _LONGEST)
        key = self._key(start, end)
        if key not in self.known:
            energy, product = arb(0), arb(1)
            for k in timed(range(start, end)):
                slope, sigma = self.step(self.run.alike(k))
                if k > start:
                    product *= slope
                energy += (sigma / product) ** 2
            if not energy > 0:
                raise Refused(f"step {start + 1}: there is no noise to pay with")
            self.known[key] = arb(self.run.s(start)) ** 2 / energy
        return self.known[key]

    def in_every_epoch(self, start: int, end: int) -> Any:
        """Σ (s/σ)² of the uses at step `start` of all epochs, each paid for before step `end` after the
        epoch's beginning; the last one before the end of the run."""
        run, total = self.run, arb(0)
        for epoch, times in self.epochs.items():
            first = epoch * run.period
            if first + start < run.data:
                after = first + end if first + end < run.data else run.total
                total += times * self.square(first + start, after)
        return total

    def within(self, start: int, end: int, *, epochs: range, length: int, until: int) -> Any:
        """The largest square of a use at step `start` of one of these epochs, paid for before step `end`, or
        before `until` where that is none of the epoch's first `length`."""
        after = end if end < length else until
        begins = (epoch * self.run.period for epoch in epochs)
        return _largest(self.square(first + start, first + after) for first in begins)

    def _key(self, start: int, end: int) -> Any:
        """What the cost depends on: of a constant schedule, where an epoch ends and where the cool-down
        begins."""
        if not self.run.constant:
            return start, end
        closing = self.run.period - 1 - start % self.run.period
        return min(closing, end - start), end - start, min(end, self.run.data) - start

    def _step(self, k: int) -> tuple[Any, Any]:
        """(slope, noise) of step k."""
        return arb(self.run.slope(k)).max(arb(_LEAST_SLOPE)), arb(self.run.sigma(k))


def _grouped(run: OrderedRun, payload: Payload) -> Proven:
    plan = payload["plan"]
    closed("the plan", plan, ("offsets", "groups"))
    assumptions = run.assumptions(hidden=True)
    if type(run.run.batches) is BallsInBins:
        raise Refused("theorem: a record's place changes those of no others")
    alone, opposite = _alone(run, True)
    if not run.scheme.spare > 0:
        raise Refused("theorem: no place of the permutation is left out")
    ranges = integer("offsets", plan["offsets"])
    if not 1 <= ranges <= _MOST_RANGES:
        raise Refused(f"offsets: expected 1 to {_MOST_RANGES}, got {ranges}")
    stated = {sum(groups): groups for groups in map(_read_groups, plan["groups"])}
    factors = []
    for labels, times in _in_groups(alone, stated, ranges):
        kinds = Counter(labels)
        groups = tuple(LabelGroup(share * n, sizes, n) for (share, sizes), n in kinds.items())
        factors.append(Allocations((Allocation(groups, opposite, True, times),)))
    if len(plan["groups"]) != len(factors):
        raise Refused(f"groups: expected {len(factors)} lists, one for each length of an epoch")
    return Proven(assumptions, (JointBound.of(*factors),))


def _read_groups(stated: Any) -> list[int]:
    if not isinstance(stated, list) or not stated:
        raise Refused("groups: expected lists of numbers of batches")
    sizes = [integer("groups", size) for size in stated]
    if not all(sizes):
        raise Refused("groups: expected at least one batch in each")
    return sizes


_Sized = tuple[Fraction, tuple[float, ...]]  # a label's share, and its size in every range of U


def _in_groups(
    run: OrderedRun, stated: dict[int, list[int]], ranges: int
) -> list[tuple[list[_Sized], int]]:
    """(the labels of a place, how often it is drawn)."""
    period, uses = run.period, _Uses(run)
    whole_epochs, rest = divmod(run.data, period)
    match run.scheme:
        case SecretOnce():
            draws = [(period, uses.in_every_epoch, 1)]
        case SecretEveryEpoch():
            # Nothing is paid after an epoch, but after one that is the only one or cut short.
            draws, within = [], uses.within
            if whole_epochs:
                alike = range(1 if run.constant else whole_epochs)
                until = run.total if run.data == period else period
                square = partial(within, epochs=alike, length=period, until=until)
                draws.append((period, square, whole_epochs))
            if rest:
                last, left = range(whole_epochs, whole_epochs + 1), rest + run.total - run.data
                draws.append((rest, partial(within, epochs=last, length=rest, until=left), 1))
        case KnownPositions():
            raise Refused("theorem: everybody knows in which batch a record is")
        case _:
            assert_never(run.scheme)
    return [
        (_sized(_groups_of(run, stated, length, ranges), square), times)
        for length, square, times in draws
    ]


def _groups_of(run: OrderedRun, stated: dict[int, list[int]], length: int, ranges: int) -> _Groups:
    if length not in stated:
        raise Refused(f"groups: expected some of {length} batches in all")
    return _Groups(run, stated[length], ranges)


def _sized(groups: _Groups, square: Callable[[int, int], Any]) -> list[_Sized]:
    """Every group's share, and the largest size of its uses in every range of U."""
    return [
        (share, tuple(root_up(_largest(square(*case) for case in cases)) for cases in parts))
        for share, parts in timed(zip(groups.shares, groups.cases, strict=True))
    ]


def _largest(squares: Iterable[Any]) -> Any:
    return reduce(lambda a, b: a.max(b), squares)


_KEYS = ("run", "claim", "position", "plan", "reading")

THEOREMS = {
    "secret steps": of_runs(ordered=ProofCheck(_KEYS, _ordered, _named)),
    "secret groups": of_runs(
        ordered=ProofCheck(
            _KEYS, _grouped, named("secret groups", "docs, Theory, 6.4 (Theorem 56)")
        )
    ),
}
