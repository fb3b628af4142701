"""Which records the cases of a run have to be about, and how likely each is.

Of a known order they are about the worst position, or about every one; of a secret order about every place,
or every range of places, with its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from flint import fmpq

from pabi.verification.arithmetic import Refused, integer, positions, timed
from pabi.verification.factors.closed_forms import Part
from pabi.verification.ordered_runs import OrderedRun, UseSteps

Range = tuple[int, int] | None  # positions, None for an epoch that misses the record
# The μ of every case, each about these uses.
Check = Callable[[Iterable[tuple[dict[str, Any], UseSteps]]], list[float]]


def worst_position(
    run: OrderedRun, cases: Sequence[Any], check: Check, *, later_is_worse: bool
) -> list[Part]:
    """One case for everybody: that of the stated position, of the one used last if no earlier one can be
    worse, or of every position, which will always do."""
    if run.position is not None:
        needed = [run.position]
    elif later_is_worse and len(cases) != run.period:
        needed = [(run.data - 1) % run.period]
    else:
        needed = list(range(positions("positions", run.period)))
    if len(cases) != len(needed):
        raise Refused(f"cases: expected {len(needed)}, one for every position that can be worst")
    for case in cases:
        if "weight" in case or "ranges" in case:
            raise Refused("weight, ranges: only of a secret order")
    mus = check((case, run.uses(j)) for case, j in zip(cases, needed, strict=True))
    return [(Fraction(1), max(mus))]


def last_to_first(
    run: OrderedRun, cases: Sequence[Any]
) -> Iterator[tuple[dict[str, Any], UseSteps]]:
    """Every position of a known order, by itself or rounded to one that is used later."""
    period, rest = run.period, run.data % run.period
    ranges = [_positions_of(case) for case in cases]
    _check_partition(ranges, period, missed=False)
    if any(a < b for a, b in ranges) and not run.later_is_worse:
        raise Refused("ranges: a position may not be rounded to a later one")
    for case, (_, last) in zip(cases, ranges, strict=True):
        check_weight(case, Fraction(1))
        yield case, run.uses((rest + last) % period)


def weights_of(run: OrderedRun, shares: Sequence[Any]) -> list[Fraction]:
    """The probability of each class to be the last one in which any of the records is, where `shares` are
    those of one record."""
    beyond, none, weights = fmpq(0), Fraction(1), []
    for share in reversed(shares):
        beyond, before = beyond + share, none
        none = run.none_in(beyond)
        weights.append(before - none)
    return weights[::-1]


def every_position(
    run: OrderedRun, cases: Sequence[Any], check: Check, *, later_is_worse: bool | None = None
) -> list[Part]:
    """Every position, by itself or rounded to one that is used later, with the probability that it is the
    worst of those where the records are. They come in the order of their last use; those of withdrawn
    records, where later uses may be safer, in that of what is proven. Before them comes the case of records
    that are in no batch, where there may be such. `later_is_worse`: None if that has to be found out."""
    period = run.period
    rest = run.data % period  # by last use, positions come in the order rest.., 0..rest − 1
    never, cases = (cases[:1], cases[1:]) if run.scheme.spare else ((), cases)
    ranges = [_positions_of(case) for case in cases]
    _check_partition(ranges, period, missed=False)
    rounded = [[a, b] for a, b in ranges if a < b]
    if later_is_worse is None:
        later_is_worse = bool(rounded or run.withdraws) and run.later_is_worse
    if rounded and not later_is_worse:
        raise Refused(f"ranges: positions {rounded[0]} may not be rounded to a later one")
    shares = [run.scheme.share((rest + a) % period, (rest + b) % period) for a, b in ranges]
    weights = weights_of(run, shares)
    for case, weight in timed(list(zip(cases, weights, strict=True))):
        check_weight(case, weight)
    mus = check(
        (case, run.uses((rest + b) % period)) for case, (_, b) in zip(cases, ranges, strict=True)
    )
    if run.withdraws and not later_is_worse:
        mus = [*accumulate(mus, max)]  # whatever is last in this order is the worst
    elif ranges != sorted(ranges):
        raise Refused("ranges: expected them in order")
    beside = 1 - sum(weights, Fraction(0))
    return [_in_no_batch(run, case, beside, check) for case in never] + list(
        zip(weights, mus, strict=True)
    )


def _in_no_batch(run: OrderedRun, case: dict[str, Any], weight: Fraction, check: Check) -> Part:
    """The case of records that no step uses."""
    if list(map(read_range, case["ranges"])) != [None]:
        raise Refused(f"ranges: expected none, of records in no batch, got {case['ranges']}")
    check_weight(case, weight)
    (mu,) = check([(case, UseSteps(0, 0, period=run.period))])
    return weight, mu


Weighed = tuple[dict[str, Any], Fraction, UseSteps]  # a case, its probability, and its uses


def every_pair(run: OrderedRun, cases: Sequence[Any]) -> Iterator[Weighed]:
    """The cases of a place that changes every epoch: one for every pair of ranges of positions in the last
    two epochs, each range at its end and older uses at those of their epochs."""
    epochs, rest = -(-run.data // run.period), run.data % run.period
    lengths = [run.period if epochs > 1 else 0, rest or run.period]
    return _every_choice(run, cases, epochs - 2, lengths)


def pairs_of_later_uses(run: OrderedRun, cases: Sequence[Any], check: Check) -> list[Part]:
    """What is proven of every pair where a use stands for all that may come before it."""
    if not run.moves_later():
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    return weighed(every_pair(run, cases), check)


def weighed(cases: Iterable[Weighed], check: Check) -> list[Part]:
    """What is proven of each of these cases, with its probability."""
    every = list(cases)
    mus = check((case, uses) for case, _, uses in every)
    return [(weight, mu) for (_, weight, _), mu in zip(every, mus, strict=True)]


def every_last_place(run: OrderedRun, cases: Sequence[Any]) -> Iterator[Weighed]:
    """The cases of a place that changes every epoch: one for every range of positions in the last epoch, at
    its end, and older uses at the ends of their epochs."""
    older, rest = -(-run.data // run.period) - 1, run.data % run.period
    return _every_choice(run, cases, older, [rest or run.period])


def _every_choice(
    run: OrderedRun, cases: Sequence[Any], older: int, lengths: Sequence[int]
) -> Iterator[Weighed]:
    """One case for every choice of ranges from epochs of these lengths, which come after `older` others."""
    choices = [tuple(map(read_range, case["ranges"])) for case in cases]
    if {len(choice) for choice in choices} != {len(lengths)}:
        raise Refused(f"ranges: expected cases of {len(lengths)} each, one for an epoch")
    chances = [
        _chances(run, set(ranges), length)
        for ranges, length in zip(zip(*choices, strict=True), lengths, strict=True)
    ]
    if len(set(choices)) != len(choices):
        raise Refused("ranges: some come twice")
    if len(choices) != math.prod(map(len, chances)):
        raise Refused("ranges: some pairs are missing")
    for case, choice in timed(list(zip(cases, choices, strict=True))):
        weight, then = Fraction(1), []
        for epoch, (where, chance) in enumerate(zip(choice, chances, strict=True), older):
            weight *= chance[where]
            if where is not None:
                then.append(epoch * run.period + where[1])
        check_weight(case, weight)
        yield case, weight, UseSteps(run.period - 1, max(0, older), period=run.period, then=then)


def _chances(run: OrderedRun, ranges: set[Range], length: int) -> dict[Range, Fraction]:
    """The probability that the last record among the first `length` positions is in each of these ranges, and
    that none is there."""
    _check_partition(ranges, length, missed=length < run.period or bool(run.scheme.spare))
    cut = sorted(r for r in ranges if r is not None)
    weights = weights_of(run, [run.scheme.share(a, b) for a, b in cut])
    chances: dict[Range, Fraction] = dict(zip(cut, weights, strict=True))
    return chances | ({None: 1 - sum(weights, Fraction(0))} if None in ranges else {})


def _check_partition(ranges: Collection[Range], length: int, *, missed: bool) -> None:
    """Refuse unless the ranges cut 0..length−1, and None stands for being elsewhere, if that may be."""
    following = 0
    for a, b in sorted(r for r in ranges if r is not None):
        if a != following or b < a:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        following = b + 1
    if following != length or (None in ranges) != missed:
        raise Refused(f"ranges: expected 0..{length - 1} to be covered")


def _positions_of(case: dict[str, Any]) -> tuple[int, int]:
    """The only range of positions that a case is about."""
    (covered,) = map(read_range, case["ranges"])
    if covered is None:
        raise Refused("ranges: every position is in the order, got none")
    return covered


def read_range(value: Any) -> Range:
    """The positions from `first` to `last` of [first, last], or None."""
    return None if value is None else (integer("ranges", value[0]), integer("ranges", value[1]))


def check_weight(case: dict[str, Any], weight: Fraction) -> None:
    """Refuse another probability than the one that follows from the description."""
    if list(case["weight"]) != [weight.numerator, weight.denominator]:
        raise Refused(f"weight: expected {weight}, got {case['weight']!r}")
