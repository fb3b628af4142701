"""Secret orders, as of shuffled batches: average over where in the order the record fell.

The order is drawn uniformly, independently of the data, and never revealed, so that the release is a mixture
over the record's position J, and by joint convexity δ(ε) = Σ_j P(J = j)·δ_{G(μ_j)}(ε), μ_j from the optimal
shifts for position j (docs, "Secret order").

With one permutation for all epochs, or with records thrown into batches once, J is the batch. With a fresh
permutation every epoch, J are the batches of the last two epochs, and every older epoch uses the record at
its very end, which is worst when steps do not expand and step sensitivities do not fall. If there are too
many positions, a range of them is replaced by its latest one, where that is never safer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, assert_never

import numpy as np

from pabi.account.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    MOST_SOLVED,
    require_hidden_path,
)
from pabi.account.analyses.writing import Case, RunProof, but_for, computed
from pabi.account.facts.positions import OrderedView, Uses
from pabi.account.shifts.epochs import Record, Resting, Rests, cyclic, derived, record
from pabi.describe.batches import (
    FAILING,
    FixedSizes,
    Fractions,
    FreshSubsets,
    KnownUses,
    RandomSizes,
    SecretOrder,
)
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import SecretMixture, average
from pabi.tradeoff.mixture import LARGEST_MEAN
from pabi.verification.granting import Proposal

NAME = "secret order"

_MAX_POSITIONS = 2048  # positions solved one by one under shuffle-once
_MAX_LAST, _MAX_PREVIOUS = 256, 4  # under reshuffling, for the last two epochs; pairs are solved
MAX_WORK = 20_000_000  # steps times solves for schedules that vary

Solved = tuple[Record, Case]
Place = tuple[
    tuple[int, int] | None, Fraction
]  # positions, None for none of them, and a probability


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when the order of the batches stays secret."""
    order = hidden_order(run)
    view = OrderedView(run, FAILING * (delta or DEFAULT_DELTA))
    solved = solved_once(view, order) if order.once else reshuffled(view, order)
    return computed(averaged(NAME, view, solved, view.fractions, stated=True))


def hidden_order(run: NoisySGD) -> SecretOrder:
    """The order of a run of which it stays secret, as does the path; NotApplicable for any other."""
    order = secret_order_of(run)
    require_hidden_path(run)
    return order


def secret_order_of(run: NoisySGD) -> SecretOrder:
    """The order of a run of which it stays secret; NotApplicable for any other."""
    order = run.order
    match order:
        case SecretOrder():
            return order
        case KnownUses():
            raise NotApplicable("the batches come in a fixed order: there is no secret order")
        case FreshSubsets():
            raise NotApplicable(
                "the batches are drawn afresh at every step: there is no secret order"
            )
        case _:
            assert_never(order)


def averaged(
    name: str,
    view: OrderedView,
    solved: Sequence[Solved],
    sizes: Fractions,
    *,
    stated: bool = False,
    **written: Any,
) -> RunProof:
    """The proof that the mixture of G(μ) over the cases covers a record. With the probability that a batch
    is larger than `sizes` cover, nothing is claimed. `stated`: whether the steps of `view` may be written
    out; `written`: what else the proof says."""
    weights = [float(case.weight) for _, case in solved]
    curve = but_for(average([record.mu for record, _ in solved], weights), sizes)
    steps, cap = view if stated else None, sizes.random_cap
    return RunProof(name, view.description, curve, solved, cap=cap, view=steps, **written)


def buckets(count: int, most: int) -> list[tuple[int, int]]:
    """0..count−1 cut into at most `most` ranges [first, last].

    μ rises steeply towards the last position, so half of the ranges are single positions at the end
    and the others are of nearly equal length.
    """
    single = count if count <= most else most // 2
    rest, k = count - single, most - most // 2
    wide = [(i * rest // k, (i + 1) * rest // k - 1) for i in range(k)] if rest else []
    return [*wide, *((i, i) for i in range(rest, count))]


def solved_once(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record whose batch is chosen once for all epochs, case by case."""
    later = view.later_is_worse
    if not later and view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    one_by_one = view.demand.forgets and not view.run.constant
    most = max(1, MAX_WORK // view.run.steps) if one_by_one else _MAX_POSITIONS
    return shuffled_once(view, order, lambda js: cyclic(view, js), later, min(most, _MAX_POSITIONS))


def shuffled_once(
    view: OrderedView,
    order: SecretOrder,
    solve: Callable[[list[int]], list[Record]],
    later_is_worse: bool,
    most: int,
) -> list[Solved]:
    """The cases of a record whose batch is chosen once for all epochs, each with its probability; of several
    records the worst one's batch counts. `solve`: what is proven of a record at each of these positions.

    Where records used later are never safer (`later_is_worse`), ranges of positions are replaced by their
    latest one, so that there are at most `most` cases. Sorted by their last use, positions run rest, …,
    period − 1 (last used in the last whole epoch) and then 0, …, rest − 1 (used in the partial one), where
    rest is the number of batches in the partial epoch. Positions that are never used come first, and before
    them records that are in no batch. Where later positions may be safer, those of several records are in the
    order of what is proven.
    """
    period = view.period
    rest = view.run.data_steps % period
    ranges = buckets(period, most if later_is_worse else period)
    records = solve([(rest + b) % period for _, b in ranges])
    if view.demand.forgets and not later_is_worse:
        by_mu = sorted(range(period), key=lambda i: records[i].mu)
        ranges, records = [ranges[i] for i in by_mu], [records[i] for i in by_mu]
    shares = [_share(order, (rest + a) % period, (rest + b) % period) for a, b in ranges]
    weights = view.demand.last_in(shares)
    solved = [
        (record, Case(record.uses, weight, (covered,)))
        for record, weight, covered in zip(records, weights, ranges, strict=True)
    ]
    if not order.spare:
        return solved
    never = Record(Uses(0, 0))
    return [(never, Case(never.uses, 1 - sum(weights, Fraction(0)), (None,))), *solved]


def _share(order: SecretOrder, first: int, last: int) -> Fraction:
    """The probability of the positions `first`, …, `last`, which may go on in the next epoch."""
    if first <= last:
        return order.share(first, last)
    return order.share(first, order.period - 1) + order.share(0, last)


def reshuffled(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record by its batches in the last two epochs, of which the last may be partial."""
    return [(record(view, case.uses), case) for case in in_last_two_epochs(view, order)]


def in_last_two_epochs(view: OrderedView, order: SecretOrder, previous: int = 0) -> list[Case]:
    """The cases of a record whose place changes every epoch; NotApplicable where a later use need not be
    worse. `previous`: how many ranges of positions in the last epoch but one, where they are not too many."""
    if view.demand.forgets and not view.moves_later:
        raise NotApplicable(
            "steps that expand, or step sizes that fall: an earlier use can be worse than a later one"
        )
    if not (view.demand.forgets or view.nonexpansive):
        raise NotApplicable(
            "with steps that can expand, an earlier use can be worse than a later one"
        )
    if not view.later_is_worse:
        raise NotApplicable(
            "with falling step sensitivities, an earlier use can be worse than a later one"
        )
    most, few = _MAX_LAST, _MAX_PREVIOUS
    if not view.run.constant:
        most, few = max(1, min(_MAX_LAST, MAX_WORK // view.run.steps)), 1
    cases = min(_MAX_LAST * _MAX_PREVIOUS, MAX_WORK // view.run.steps)
    previous = min(previous, cases // min(most, view.period))
    return last_two_epochs(view, order, most, max(few, previous))


def changing_places(run: NoisySGD, delta: float) -> tuple[OrderedView, SecretOrder]:
    """A run with a secret order for every epoch, in which a later use need not be worse; NotApplicable for
    any other."""
    order = hidden_order(run)
    if order.once:
        raise NotApplicable("a record keeps its place in all epochs: see secret order")
    view = OrderedView(run, FAILING * delta)
    if view.nonexpansive and view.later_is_worse:
        raise NotApplicable("later uses are worse as they are: see secret order")
    return view, order


def last_two_epochs(
    view: OrderedView, order: SecretOrder, most: int, most_previous: int
) -> list[Case]:
    """A case for every pair of ranges of positions, at most `most` in the last epoch, which may be
    partial, and `most_previous` in the one before; a use in a range stands at its end, and older ones at
    those of their epochs."""
    period = view.period
    older, rest = -(-view.run.data_steps // period) - 2, view.run.data_steps % period
    before = places(view, order, period, most_previous) if older >= 0 else [(None, Fraction(1))]
    cases = []
    for last, p in places(view, order, rest or period, most):
        for previous, q in before:
            epochs = enumerate((previous, last), older)
            then = tuple(epoch * period + where[1] for epoch, where in epochs if where is not None)
            uses = Uses(period - 1, max(0, older), then)
            cases.append(Case(uses, p * q, (previous, last)))
    return cases


def places(view: OrderedView, order: SecretOrder, length: int, most: int) -> list[Place]:
    """Ranges of the first `length` positions with the probability that the record, or the last of several,
    is in each, and the probability that none is."""
    ranges = buckets(length, most)
    weights = view.demand.last_in([order.share(a, b) for a, b in ranges])
    cases: list[Place] = list(zip(ranges, weights, strict=True))
    if length == order.period and not order.spare:
        return cases
    return [*cases, (None, 1 - sum(weights, Fraction(0)))]


# Secret place: what the noise hides of a record that is in one batch or another, and nobody knows which.
#
# Where all other records are does not depend on where the record is (balls in bins). So the run without
# the record is the same whatever its place j, and each place moves that run by shifts of its own, of size
# m_j. Nobody sees j: what is released reveals no more than one number moved by m_j with probability w_j,
# which is compared with the number as it is (zero_out), or with one that another record moves the other
# way (replace_one). `secret_order` has j in sight (docs, "Theory", 6.1).


PLACE = "secret place"

_MOST_PLACES = 48  # of the mixture; more are rounded to larger means


def secret_place(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when the record's place moves no other record."""
    order = hidden_order(run)
    require_independent_places(run, order)
    # What one record moves by itself is what it moves if its neighbour is zero.
    view = OrderedView(replace(run, adjacency="zero_out"), FAILING * (delta or DEFAULT_DELTA))
    solved = solved_once(view, order)
    places = _merged([(record.mu, case.weight) for record, case in solved])
    if places[-1][0] > LARGEST_MEAN:
        raise NotApplicable("the record moves the model by so much that its place is seen")
    means, weights = zip(*((mean, float(weight)) for mean, weight in places), strict=True)
    mixture = SecretMixture(means, weights, opposite=run.adjacency == "replace_one")
    curve, cap = but_for(mixture, view.fractions), view.fractions.random_cap
    return computed(RunProof(PLACE, run, curve, solved, cap=cap, view=view))


def require_independent_places(run: NoisySGD, order: SecretOrder) -> None:
    """NotApplicable unless the record has one place, and all others are where they are whatever it is."""
    match order.sizes:
        case FixedSizes():
            raise NotApplicable(
                "a record takes the place of another, whose batch tells something about its own"
            )
        case RandomSizes(cap=cap):
            if cap is not None:
                raise NotApplicable("the record's place can bring a batch above the cap")
        case _:
            assert_never(order.sizes)
    if not order.once:
        raise NotApplicable("a record's place changes every epoch: see secret order")
    if run.adjacency == "replace_one" and run.gradient_sensitivity is not None:
        raise NotApplicable(
            "the stated sensitivity says how far two records are apart, not what one of them moves"
        )


def _merged(places: Sequence[tuple[float, Fraction]]) -> list[tuple[float, Fraction]]:
    """(m_j, w_j) in increasing order; where they are many, the lower half in ranges, each at its largest."""
    ordered = sorted(places)
    return [
        (ordered[b][0], sum((weight for _, weight in ordered[a : b + 1]), Fraction(0)))
        for a, b in buckets(len(ordered), _MOST_PLACES)
    ]


# Latest uses: a secret order for every epoch where steps expand, or sensitivities fall.
#
# As in `secret_order` the last two epochs are averaged over, and all older uses are taken to be at the
# ends of their epochs. That a later use is worse holds for steps that do not expand and sensitivities
# that do not fall. In general it does once the later use is made large enough: a use at step i is no
# worse than one at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of step k (docs, "The
# worst record", rule (ii)). So a use anywhere in a range of steps stands at the range's end, with the
# largest of these numbers.


LATEST = "latest uses"

_MOST_RANGES, _MOST_BEFORE = 64, 8  # of positions in the last epoch and in the one before
# Steps times cases, which a checker goes through one by one. Fewer cases cost less than 0.1 % of ε.
_CHECKED = 4_000_000


def latest_uses(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when every epoch has a secret order of its own."""
    view, order = changing_places(run, delta or DEFAULT_DELTA)
    if view.run.steps > MAX_WORK:
        raise NotApplicable(f"more than {MAX_WORK} steps, whose uses are moved one by one")
    affordable = _CHECKED // view.run.steps
    most = max(1, min(_MOST_RANGES, affordable))
    before = max(1, min(_MOST_BEFORE, affordable // most))
    uses = _Uses(view)
    solved = [(uses.record(case), case) for case in last_two_epochs(view, order, most, before)]
    return computed(averaged(LATEST, view, solved, view.fractions))


class _Uses:
    """The steps of a run, and how large a use has to be that stands for those of a range."""

    def __init__(self, view: OrderedView) -> None:
        self.view, self.standing = view, cache(view.standing)
        self.epochs = -(-view.run.data_steps // view.period)
        begins = range(0, (self.epochs - 2) * view.period, view.period)
        self._older = [self.standing(first, first + view.period - 1) for first in begins]

    def record(self, case: Case) -> Record:
        """The bound for a record with these uses."""
        own, period = np.zeros(self.view.run.steps), self.view.period
        own[period - 1 : period * len(self._older) : period] = self._older
        for epoch, covered in enumerate(case.ranges, self.epochs - 2):
            if covered is not None:
                first, last = (epoch * period + where for where in covered)
                own[last] = self.standing(first, last)
        return derived(self.view, case.uses, own) if case.uses.total else Record(case.uses)


# Epoch by epoch: a secret order for every epoch, whatever the steps do, at distances fixed between
# epochs.
#
# Whoever knows the record's place in every epoch but the last may pay accordingly. So fix how far apart
# the runs may be after each of these epochs; wherever the record is in one, payments bring the distance
# before it to that after it, at the cost of the dearest place (docs, "Secret order"). The last epoch
# begins at the last of these distances and is averaged over, as in `secret_order`.


EPOCHS = "epoch by epoch"

_MOST_STEPS = 1_000_000
# Ranges of positions in the last epoch: of the proof, and where distances are compared.
_MOST_RANGES_EPOCHS, _FEW_RANGES = 64, 12


def epoch_by_epoch(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when every epoch has a secret order of its own."""
    at = delta or DEFAULT_DELTA
    view, order = changing_places(run, at)
    if view.run.steps > _MOST_STEPS:
        raise NotApplicable(f"more than {_MOST_STEPS} steps, which are looked at one by one")
    last = _LastEpoch(view, order)
    if not last.older:
        raise NotApplicable("there is one epoch only: see latest uses")
    rests = Rests(view.arrays, view.period, last.older, view.run.range_diameter)
    paths = rests.paths()
    if not paths:
        raise NotApplicable("the distance between the runs overflows")

    @cache
    def refined(i: int) -> Resting:
        return rests.refined(paths[i])

    @cache
    def epsilon(i: int) -> float:
        return last.epsilon(refined(i), at)

    # Of the least ε, if that falls and then rises along the list.
    but_one = range(len(paths) - 1)
    best = refined(bisect_left(but_one, True, key=lambda i: epsilon(i) <= epsilon(i + 1)))
    solved = last.records(best, _MOST_RANGES_EPOCHS)
    return computed(averaged(EPOCHS, view, solved, view.fractions, resting=best.r[1:]))


class _LastEpoch:
    """The last epoch, which may be partial, and the cool-down."""

    def __init__(self, view: OrderedView, order: SecretOrder) -> None:
        self.view, self.order = view, order
        self.older = -(-view.run.data_steps // view.period) - 1
        self.first = self.older * view.period
        self.length = view.run.data_steps - self.first

    def records(self, resting: Resting, most: int) -> list[Solved]:
        """What is proven of a record in each of at most `most` ranges of positions."""
        every = places(self.view, self.order, self.length, most)
        return [self._solved(where, weight, resting) for where, weight in every]

    def epsilon(self, resting: Resting, delta: float) -> float:
        """About the ε of these distances."""
        solved = self.records(resting, _FEW_RANGES)
        weights = [float(case.weight) for _, case in solved]
        return average([r.mu for r, _ in solved], weights).epsilon(delta)

    def _solved(self, where: tuple[int, int] | None, weight: Fraction, resting: Resting) -> Solved:
        own, then = np.zeros(self.view.run.steps - self.first), list[int]()
        if where is not None:
            first, last = (self.first + place for place in where)
            own[where[1]] = self.view.standing(first, last)
            then.append(last)
        uses = Uses(self.view.period - 1, self.older, tuple(then))
        record = derived(self.view, uses, own, self.first, float(resting.r[-1]))
        return record._replace(paid=resting.cost), Case(uses, weight, (where,))
