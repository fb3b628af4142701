"""Payments in advance: half of a use is paid before it, where it is known to pull to one side.

The gradient of a record whose loss falls with its margin is a multiple of one vector, always on the same side
of 0; that of one with several classes stays in a cone. So a use moves the run by something between 0 and s
along a line, and whoever moves the other run by half of that beforehand leaves s/2 to be paid afterwards. The
last uses, which have few steps after them, gain most; those before are paid for as in `shifted_interpolation`
(docs, "Payments in advance").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product, starmap, takewhile
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.account.analyses.secret_order import (
    Solved,
    averaged,
    buckets,
    in_last_two_epochs,
    last_two_epochs,
    shuffled_once,
)
from pabi.account.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    in_order,
    require_hidden_path,
)
from pabi.account.analyses.writing import Case, RunProof, computed
from pabi.account.facts.positions import Constants, OrderedView, Uses, check_position
from pabi.account.shifts.advance import SLOPE, Between, PulledSteps, ball, solve
from pabi.account.shifts.epochs import (
    Advance,
    Record,
    derived,
    energy_of,
    record,
)
from pabi.describe.batches import FAILING, Fractions, KnownUses, SecretOrder
from pabi.describe.iteration import Steps
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import Gaussian
from pabi.verification.granting import Proposal

NAME = "payments in advance"

_AHEAD = 256  # steps before the last use from which on it is paid for in advance
_EVERY = 10**9
_LEFT = (0, 1, 2, 5, _EVERY)  # uses before that with which nothing is done until then
_PLACES = 16  # last positions: the others have steps enough after their last use
_MOST_POSITIONS = 512  # of a secret order
# Batches of an epoch where the last two places are known together: in two epochs, so many steps, and others.
_PAIRED_IN_TWO, _PAIRED_IN_SHORT, _SHORT, _PAIRED = 50, 30, 200, 20
_MOST_BEFORE = 8  # ranges of them in the last epoch but one, of longer epochs
_MOST_STEPS = 60_000  # of all these positions together
_MOST_CHECKED = 400_000  # steps times positions where all are solved: a checker takes some seconds
_FAR = 1e4  # uses: what is farther apart before the last ones is not worth paying for
_LARGE = 700.0  # whose power of e is a double


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate where uses pull to one side, in batches that come in an order."""
    require_hidden_path(run)
    order = in_order(run)
    _require_one_side(run)
    view = OrderedView(run, FAILING * (delta or DEFAULT_DELTA))
    match order:
        case KnownUses() if position is not None:
            (one,) = _records(view, [check_position(run, position)], 1)
            solved: list[tuple[Record, Case | None]] = [(one, None)]
        case KnownUses():
            solved = [*_in_known_order(view)]
        case SecretOrder():
            places = _at_one_place(view, order) if order.once else _at_any_place(view, order)
            return computed(averaged(NAME, view, places, view.fractions))
        case _:
            assert_never(order)
    curve = Gaussian(max(one.mu for one, _ in solved))
    return computed(RunProof(NAME, run, curve, solved, position))


def _require_one_side(run: NoisySGD) -> None:
    """NotApplicable unless every use moves the run within a cone around one direction."""
    if run.loss.cone is None:
        raise NotApplicable("a record's gradient may have any direction")
    if run.prox is not None or run.diameter is not None:
        raise NotApplicable(
            "a proximal map, or what else keeps iterates within a diameter, moves what was paid in advance"
        )
    if run.unit != "record":
        raise NotApplicable("several records together pull in several directions")
    if run.loss.effective_curvature(run.clip_norm, run.clipping) is None:
        raise NotApplicable("clipped gradients need not be those of a loss: clip the loss instead")
    if run.gradient_sensitivity is not None:
        raise NotApplicable("the stated sensitivity does not say where a record pulls to")


def _at_one_place(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record that keeps its place in all epochs."""
    most = _most(view)
    return shuffled_once(
        view, order, lambda js: _records(view, js, most), view.later_is_worse, _MOST_POSITIONS
    )


def _at_any_place(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record whose place changes every epoch: its last use is paid for in advance where
    it is among the last ones, and the one before it where its place is known as well. An earlier use that
    stands at the end of a range is paid for before, or leaves a distance: both are the larger, the later it
    is, or it is made as large as it has to be there."""
    most, paired = _most(view), _pairs(view)
    affordable = _affordable(view, 2 * view.period if paired else _AHEAD + _PLACES)
    if view.later_is_worse:
        cases = in_last_two_epochs(view, order, affordable // most if paired else 0)
    elif view.run.constant or view.demand.forgets:
        raise NotApplicable(
            "with steps that can expand, an earlier use can be worse than a later one"
        )
    else:
        before = affordable // most if paired else min(_MOST_BEFORE, affordable // view.period)
        before = max(1, before)  # ranges of the last epoch but one
        cases = last_two_epochs(view, order, view.period, before)
        view = _Standing(view.description, view.failing, before)
    records = [_joined(view, case.uses, _Window.none(view), _NOTHING) for case in cases]
    alone = [_uses_alone(view, case, most) for case in cases]
    late = [i for i, several in enumerate(alone) if several]
    alike: dict[Any, list[int]] = {}
    for i in late[-affordable:]:
        alike.setdefault((cases[i].ranges[0], alone[i]), []).append(i)
    for (_, several), some in alike.items():
        _improve(view, records, some, range(1, several + 1))
    return list(zip(records, cases, strict=True))


def _pairs(view: OrderedView) -> bool:
    """Whether the last two places are known together: of long epochs that takes seconds, and of many it gains
    little."""
    period, steps = view.period, view.run.data_steps
    if steps <= 2 * period:
        return period <= _PAIRED_IN_TWO
    return period <= (_PAIRED_IN_SHORT if steps <= _SHORT else _PAIRED)


def _affordable(view: OrderedView, longest: int = _AHEAD + _PLACES) -> int:
    """How many places can be paid for in advance, each in so many steps at most."""
    return _MOST_STEPS // (min(_AHEAD + _PLACES, longest) + view.run.cooldown_steps)


def _uses_alone(view: OrderedView, case: Case, most: int) -> int:
    """How many of the last uses are in one batch each; none where the last is not among the last `most` of
    the run."""
    used = [where for where in case.ranges if where is not None]
    if not used or case.uses.then[-1] < view.run.data_steps - most:
        return 0
    return sum(1 for _ in takewhile(lambda where: where[0] == where[1], reversed(used)))


def _in_known_order(view: OrderedView) -> list[tuple[Record, Case]]:
    """What is proven of a record in each batch of a known order, the last ones in advance and the others, as
    one range that stands at its end, afterwards."""
    period, rest = view.period, view.run.data_steps % view.period
    others = period - _most(view)
    ranges = [(0, others - 1)] if others else []
    ranges += [(i, i) for i in range(others, period)]
    records = _records(view, [(rest + last) % period for _, last in ranges], period - others)
    return [
        (one, Case(one.uses, Fraction(1), (where,)))
        for one, where in zip(records, ranges, strict=True)
    ]


def _most(view: OrderedView) -> int:
    """How many positions are paid for in advance: the last ones, or all where any can be the worst.
    NotApplicable where that is none, or too many."""
    affordable = _affordable(view)
    most = min(view.period, _PLACES if view.later_is_worse else view.period, affordable)
    if most == 0:
        raise NotApplicable(f"more than {_MOST_STEPS} steps after the last use")
    many = most < view.period or view.period * view.run.steps > _MOST_CHECKED
    if many and not view.later_is_worse:
        raise NotApplicable("an earlier use can be worse than a later one: too many to solve")
    return most


def _records(view: OrderedView, positions: Sequence[int], most: int) -> list[Record]:
    """What is proven of records in these batches, of the last `most` in advance where that is better."""
    several = [view.uses(j) for j in positions]
    records = [_joined(view, uses, _Window.none(view), _NOTHING) for uses in several]
    late = [i for i in range(len(several)) if i >= len(several) - most and several[i].total]
    _improve(view, records, late)
    return records


def _improve(
    view: OrderedView, records: list[Record], late: Sequence[int], most: Iterable[int] = (_EVERY,)
) -> None:
    """Put what is proven in advance, of one of these numbers of uses at most, in place of these records where
    it is better."""
    if not late:
        return
    plan = _best_plan(view, records[late[-1]].uses, most)
    better = _solved(view, [records[i].uses for i in late], [plan] * len(late))
    for i, other in zip(late, better, strict=True):
        records[i] = min(records[i], other or records[i], key=lambda one: one.mu)


_NOTHING = Between(np.zeros(0), np.zeros(0), 0.0)


class _Plan(NamedTuple):
    """How many steps before the last use the payments in advance begin, of how many uses they are at most,
    and how many of the uses before that are left to them, with nothing paid in between."""

    reach: int
    most: int
    left: int


class _Window(NamedTuple):
    """Uses before step `paid` are paid for before it, those from there on from step `begin` on, the last
    `ahead` of them in advance."""

    paid: int
    begin: int
    ahead: int

    @classmethod
    def none(cls, view: OrderedView) -> _Window:
        """All uses are paid for afterwards."""
        return cls(view.run.steps, view.run.steps, 0)

    @classmethod
    def of(cls, view: OrderedView, uses: Uses, plan: _Plan) -> _Window:
        """That of a record that is used."""
        period, total = view.period, uses.total
        begin = max(0, uses.step(total - 1, period) - plan.reach)
        if plan.most < total:
            begin = max(begin, uses.step(total - plan.most - 1, period) + 1)
        late = uses.before(begin, period)
        if begin and total - late > 1 and not plan.left:
            begin = uses.step(late, period)  # where a use is, everything before it may be paid for
        if plan.left >= late:
            return cls(0, begin, total - late)
        paid = uses.step(late - plan.left, period) if plan.left else begin
        return cls(paid, begin, total - late)


def _best_plan(view: OrderedView, uses: Uses, most: Iterable[int]) -> _Plan:
    """The plan that is best for a record."""
    reaches = {_AHEAD, min(_AHEAD, 2 * view.period)}
    every = starmap(_Plan, product(reaches, most, _LEFT))
    plans = list({_Window.of(view, uses, plan): plan for plan in every}.values())
    proven = _solved(view, [uses] * len(plans), plans)
    mus = [math.inf if one is None else one.mu for one in proven]
    return plans[mus.index(min(mus))]


def _solved(
    view: OrderedView, several: Sequence[Uses], plans: Sequence[_Plan]
) -> list[Record | None]:
    """What each plan proves of a record with these uses, None where it leaves too much. A cone that is no
    half-line has more in its ball than itself: then to pay the last use alone in advance is tried as well."""
    tried, chains = [], []
    for i, (uses, plan) in enumerate(zip(several, plans, strict=True)):
        every = _Window.of(view, uses, plan)
        for ahead in {every.ahead} if view.run.loss.cone == 1 else {1, every.ahead}:
            chain = _pulled(view, uses, window := every._replace(ahead=ahead))
            if chain.start < _FAR * float(np.max(chain.q + chain.u)):
                tried.append((i, window))
                chains.append(chain)
    best: dict[int, Record] = {}
    for (i, window), between in zip(tried, solve(chains) if chains else [], strict=True):
        one = _joined(view, several[i], window, between)
        if i not in best or one.mu < best[i].mu:
            best[i] = one
    return [best.get(i) for i in range(len(several))]


def _joined(view: OrderedView, uses: Uses, window: _Window, between: Between) -> Record:
    """A record whose uses are paid for as said."""
    if not uses.total:
        return Record(uses)
    before = _paid_before(view, uses, window.paid)
    square = between.square + energy_of(before.shifts)
    return Record(uses, shifts=Advance(*window, before, between, square))


@np.errstate(over="ignore", invalid="ignore")
def _apart(view: OrderedView, uses: Uses, window: _Window) -> float:
    """How far apart the runs are where nothing is paid between `paid` and `begin`; rounded up."""
    (paid, begin, _), period = window, view.period
    start, end = uses.before(paid, period), uses.before(begin, period)
    if start == end:
        return 0.0
    first, sure = uses.step(start, period), 1.0 + SLOPE * (begin + 16.0)
    if not view.run.constant:
        c, s, _ = (x[first:begin] for x in view.steps(uses))
        later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        return float(s @ later) * sure
    full, closing, _, one, _ = map(np.float64, view.constants)  # of which powers overflow to ∞

    def grown(first: int, end: int) -> np.float64:
        ends = end // period - first // period
        return np.float64(full ** (end - first - ends) * closing**ends)

    # From one periodic use to the next all distances grow alike.
    epoch, count = float(grown(1, period + 1)), max(0, min(end, uses.epochs) - start)
    if epoch < 0.5:
        total = (1.0 - epoch**count) / (1.0 - epoch)
    elif epoch == 1.0:
        total = float(count)
    else:
        growth = count * math.log1p(epoch - 1.0)
        total = math.expm1(growth) / (epoch - 1.0) if growth < _LARGE else math.inf
    apart, last = one * total, uses.step(start + max(0, count - 1), period)
    for use in (uses.step(i, period) for i in range(start + count, end)):
        apart, last = apart * grown(last + 1, use + 1) + one, use
    distance = float(apart * grown(last + 1, begin)) * sure
    return math.inf if math.isnan(distance) else distance


@dataclass(frozen=True)
class _Beginning(OrderedView):
    """The first steps of a run, whose slopes cover the batches that those of all its steps do."""

    whole: OrderedView = field(kw_only=True)

    @cached_property
    def fractions(self) -> Fractions:
        """Those of the whole run."""
        return self.whole.fractions

    @cached_property
    def constants(self) -> Constants:
        """Those of the whole run."""
        return self.whole.constants

    @cached_property
    def arrays(self) -> Steps:
        """Those of the whole run."""
        return Steps(*(column[: self.run.steps] for column in self.whole.arrays))


@dataclass(frozen=True)
class _Standing(OrderedView):
    """A run whose uses before the last epoch stand at the ends of theirs, or of one of `before` ranges of the
    last but one, as large as they have to be."""

    before: int = 1

    @cached_property
    def _moved(self) -> Steps:
        """Its steps, with what stands for a use of a range at each of these ends."""
        c, s, sigma = self.arrays
        own, period = s.copy(), self.period
        last = (self.run.data_steps - 1) // period * period
        ranges = [(k, k + period - 1) for k in range(0, last - period, period)]
        if last:
            ends = buckets(period, self.before)
            ranges += [(last - period + a, last - period + b) for a, b in ends]
        for a, b in ranges:
            own[b] = self.standing(a, b)
        return Steps(c, own, sigma)

    def steps(self, uses: Uses) -> Steps:
        """The normal form of a record with these uses, as arrays of one entry a step."""
        c, s, sigma = self._moved
        used = np.isin(np.arange(s.size), uses.steps(self.period))
        return Steps(c, np.where(used, s, 0.0), sigma)


def _paid_before(view: OrderedView, uses: Uses, end: int) -> Record:
    """What payments before step `end`, each after its use, prove of the uses before it."""
    then = tuple(k for k in uses.then if k < end)
    earlier = Uses(uses.first, uses.before(end, view.period) - len(then), then)
    if not earlier.total:
        return Record(earlier)
    whole = view
    if end < view.run.steps:
        view = _Beginning(_until(view.run, end), whole=view)
    if view.run.constant:
        return record(view, earlier)
    return derived(view, earlier, whole.steps(earlier).s[:end])


def _until(run: NoisySGD, end: int) -> NoisySGD:
    """The first steps of a run, all of them with data."""
    cut: dict[str, Any] = {
        name: schedule[:end]
        for name in ("step_size", "noise_std", "noise_multiplier")
        if isinstance(schedule := getattr(run, name), np.ndarray)
    }
    return replace(run, epochs=None, total_steps=end, cooldown_steps=0, **cut)


def _pulled(view: OrderedView, uses: Uses, window: _Window) -> PulledSteps:
    """The steps from `begin` on, where the last `ahead` uses are known to pull to one side."""
    run, parts, (_, begin, ahead) = view.run, view.fractions, window
    k = np.arange(begin, run.steps)
    closing = k % view.period == view.period - 1
    part = np.where(closing, _most_of(parts.last), _most_of(parts.full))
    part[k >= run.data_steps] = 0.0
    eta, noise = run.schedule(begin, run.steps)
    s, sigma = run.step_constants(eta, noise)
    if not sigma.all():
        raise NotApplicable("a step has no noise")
    first = uses.before(begin, view.period)
    used = [uses.step(i, view.period) for i in range(first, uses.total)]
    s[~np.isin(k, used)] = 0.0
    assert run.loss.cone is not None  # as was asked
    centre, radius = ball(run.loss.cone, run.order.sizes.most)
    sided = k >= used[-ahead]
    curvature = run.loss.effective_curvature(run.clip_norm, run.clipping)
    assert curvature is not None  # of a loss of linear predictors that is clipped as it may be
    pull = eta * (run.loss.l2 + part * curvature[1])
    low = (1.0 - pull) - SLOPE * (1.0 + pull)
    high = (1.0 - eta * run.loss.l2) + SLOPE * (1.0 + pull)
    q, u = s * np.where(sided, centre, 0.0), s * np.where(sided, radius, 1.0)
    start = _apart(view, uses, window)
    return PulledSteps(low=low, high=high, q=q, u=u, sigma=sigma, start=start)


def _most_of(parts: Sequence[Fraction]) -> float:
    """The largest part of its divisor that a batch is."""
    return fraction_up(max(parts))
