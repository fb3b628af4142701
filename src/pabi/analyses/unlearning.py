"""Forgetting: the steps after a request hide what withdrawn records have left in the model.

A run that goes on without some records is compared with one of as many steps that never saw them. The two
are a noisy iteration as any other: withdrawn records move a step by at most s until their request, and not
at all afterwards. So the optimal shifts of `pabi.shifts` prove a bound, whose payments may wait for the
steps after the last request (docs, "Forgetting"; the interpolation is that of Bok, Su, Altschuler 2024, Thm
C.3).

Several records may share a batch. Where an order is secret, the bound averages over the batch that is worst
among theirs. Given a model that was handed out, nothing is known of the distance but a diameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from pabi.analyses import composition
from pabi.analyses.one_sided_shift import planned
from pabi.analyses.secret_order import buckets
from pabi.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    MOST_SOLVED,
    product,
    require_hidden_path,
    tuned,
)
from pabi.analyses.writing import Case, RunProof, SampledProof
from pabi.describe.iteration import Steps
from pabi.describe.orders import FAILING, Fractions, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning, unlearning_sentences
from pabi.guarantees.guarantee import Guarantee, least
from pabi.guarantees.proof import Proof
from pabi.normal_forms.forgetting import (
    ForgettingModuli,
    ForgettingSampled,
    ForgettingView,
    chance_of_none,
    sizes_of,
)
from pabi.normal_forms.positions import Uses
from pabi.normal_forms.sampled import every_step, require_sampling
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, fraction_up, up
from pabi.shifts.epochs import Record, Shifts, solve_schedule
from pabi.shifts.nonlinear import MOST_STEPS, solve
from pabi.shifts.start import Start
from pabi.tradeoff import Gaussian, Product, TradeOff, average

SHIFTS, NONLINEAR = "unlearning", "unlearning, any modulus"
RANDOM, COMPOSED = "unlearning, random batches", "unlearning, composition"
SOURCE = "docs, Forgetting; Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"
SOURCE_RANDOM = "docs, Forgetting; Bok, Su, Altschuler 2024, Thm 4.10, extended"
SOURCE_COMPOSED = "docs, Forgetting; Dong, Roth, Su 2022, Cor. 3.3"

_MAX_POSITIONS = 2048  # positions solved one by one under a permutation that is drawn once
_MAX_LAST, _MAX_PREVIOUS = 256, 4  # under reshuffling, for the last two epochs; pairs are solved
_WORK = 20_000_000  # steps times solves for schedules that vary
_BENT_WORK = (
    300_000  # positions times steps up to which every position is solved, for moduli not linear
)
_NO_USES = Uses(0, 0)
Way = Callable[[ForgettingView], Guarantee]


def shifts(unlearning: Unlearning, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of forgetting for linear moduli and batches that come in an order. Raises
    NotApplicable."""
    run, at = unlearning.whole, delta or DEFAULT_DELTA
    require_hidden_path(run)
    view = ForgettingView.of(unlearning, at)
    if unlearning.published:
        require_given(unlearning)
        return _of_steps(view, np.zeros(run.steps), "none")
    order = run.order
    match order:
        case KnownUses():
            ways = [_of_known, _of_last]
        case SecretOrder():
            ways = [_of_secret, _of_last]
        case FreshSubsets():
            raise NotApplicable(
                "the batches are drawn afresh at every step: see unlearning, random batches"
            )
        case _:
            assert_never(order)
    return _first(view, ways, at)


def _first(view: ForgettingView, ways: Sequence[Way], delta: float) -> Guarantee:
    """What the first of these ways proves that applies, or else the better one of two that cover any
    order."""
    for way in ways:
        with suppress(NotApplicable):
            return way(view)
    every = _of_steps(view, view.every(view.fractions.cap), "every")
    if view.period == 1:
        return every
    return least([every, _of_steps(view, view.latest(), "latest")], delta)


def _of_known(view: ForgettingView) -> Guarantee:
    """All withdrawn records in one batch, the worst one."""
    if len(view.forgetting.requests) > 1:
        raise NotApplicable("records of several requests may be in different batches")
    records = [_record(view, j) for j in _worst(view)]
    curve = Gaussian(max(record.mu for record in records))
    return _proven(view, curve, [(record, None) for record in records], "uses")


def _of_last(view: ForgettingView) -> Guarantee:
    """Each withdrawn record in the batch that is used last before its request."""
    order = view.run.order
    if not view.moves_later or (isinstance(order, SecretOrder) and not order.once):
        raise NotApplicable("an earlier use can be worse than a later one")
    return _of_steps(view, view.last(), "last")


def _worst(view: ForgettingView) -> Sequence[int]:
    """The positions that can be the worst for all withdrawn records."""
    if view.later_is_worse or view.moves_later:
        return [view.last_position]
    if view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    return range(view.period)


def _diameter(view: ForgettingView) -> float:
    """D, where several records are no worse in several batches than in one; otherwise none is used."""
    together = view.forgetting.records == 1 or view.moves_later
    return view.run.range_diameter if together else math.inf


def _record(view: ForgettingView, position: int, uses: Uses | None = None) -> Record:
    """The bound where all withdrawn records have these uses, or those of a position."""
    uses = view.uses(position) if uses is None else uses
    if uses.total == 0:
        return Record(uses)
    return Record(uses, *solve_schedule(view.schedule(uses), _diameter(view), stated=view.stated))


def _of_steps(view: ForgettingView, owed: Array, demands: str) -> Guarantee:
    """What hiding `owed`, (steps,), costs; after a model that was handed out it begins at the diameter."""
    c, _, sigma = view.arrays
    first, start = _beginning(view, demands)
    steps = Steps(c[first:], owed[first:], sigma[first:])
    schedule, solved = solve_schedule(steps, view.run.range_diameter, start, stated=False)
    record = Record(_NO_USES, schedule, _later(solved, first))
    return _proven(view, Gaussian(record.mu), [(record, None)], demands)


def _beginning(view: ForgettingView, demands: str) -> tuple[int, float]:
    """The step from which the two runs are looked at, and how far apart they are there."""
    return (view.forgetting.last, view.run.range_diameter) if demands == "none" else (0, 0.0)


def _later(solved: Shifts, steps: int) -> Shifts:
    """The same shifts, of a run whose first steps were left out."""
    if not steps:
        return solved
    assert isinstance(solved, Start)
    payments = solved.payments
    moved = payments._replace(first=payments.first + steps, ends=payments.ends + steps)
    return solved._replace(tau=solved.tau + steps, payments=moved)


def require_given(unlearning: Unlearning) -> None:
    """NotApplicable where a model that was handed out leaves nothing to be said."""
    run = unlearning.whole
    if isinstance(run.order, SecretOrder):
        raise NotApplicable(
            "a model that was handed out may tell something of the secret order, in which later batches come"
        )
    if math.isinf(run.range_diameter):
        raise NotApplicable(
            "no later step takes back what a model that was handed out says of the records: both together "
            "have its own guarantee, that of 0 steps after the request. Given it, only a diameter bounds how "
            "far retraining may be from it, and the run has none"
        )
    if unlearning.last == unlearning.steps:
        raise NotApplicable("no step follows on the model that was handed out")


def _proven(
    view: ForgettingView, curve: TradeOff, every: Sequence[tuple[Record, Case | None]], demands: str
) -> Guarantee:
    """The guarantee of these cases, and its proof. With the probability that a batch is larger than the
    slopes cover, nothing is claimed."""
    sizes = view.fractions
    if sizes.failure > 0.0:
        curve = Product([(curve, 1)], sizes.failure)
    cap, unlearning = sizes.random_cap, view.forgetting
    # Steps of all records together are derived again: what is stated would be checked by nobody.
    stated = view if demands == "uses" else None
    proof = RunProof(SHIFTS, unlearning, curve, every, cap=cap, view=stated, demands=demands)
    return _guarantee(unlearning, curve, SHIFTS, SOURCE, proof)


# Secret orders.


def _of_secret(view: ForgettingView) -> Guarantee:
    order = view.run.order
    assert isinstance(order, SecretOrder)
    if len(view.forgetting.requests) > 1:
        raise NotApplicable(
            "records of several requests may be in different batches: see every batch"
        )
    cases = _shuffled_once(view, order) if order.once else _reshuffled(view, order)
    curve = average(
        [record.mu for record, _ in cases], [fraction_up(case.weight) for _, case in cases]
    )
    return _proven(view, curve, cases, "uses")


def _shuffled_once(view: ForgettingView, order: SecretOrder) -> list[tuple[Record, Case]]:
    """The cases by the batch that is worst among those of the withdrawn records, with their probabilities.

    Positions are taken in the order of their last use, in ranges where later uses are worse; otherwise one by
    one, in the order of what is proven of them.
    """
    period, rest = view.period, view.run.data_steps % view.period
    ordered = view.later_is_worse or view.moves_later
    if not ordered and period > MOST_SOLVED:
        raise NotApplicable(f"any of {period} positions can be the worst: too many to solve")
    affordable = _MAX_POSITIONS if view.run.constant else max(1, _WORK // view.run.steps)
    ranges = buckets(period, min(_MAX_POSITIONS, affordable) if ordered else period)
    records = [_record(view, (rest + b) % period) for _, b in ranges]
    if not ordered:
        by_mu = sorted(range(period), key=lambda i: records[i].mu)
        ranges, records = [ranges[i] for i in by_mu], [records[i] for i in by_mu]
    weights = worst_of(view.run, _shares(order, rest, ranges), view.forgetting.records)
    return [
        (record, Case(record.uses, weight, (covered,)))
        for record, weight, covered in zip(records, weights, ranges, strict=True)
    ]


def _shares(order: SecretOrder, rest: int, ranges: Sequence[tuple[int, int]]) -> list[Fraction]:
    """The probability of a record to be in each range of positions, which are counted from the batch
    `rest`."""
    shares, period = [], order.period
    for a, b in ranges:
        first, last = (rest + a) % period, (rest + b) % period
        if first <= last:
            shares.append(order.share(first, last))
        else:
            shares.append(order.share(first, period - 1) + order.share(0, last))
    return shares


def worst_of(run: NoisySGD, shares: Sequence[Fraction], records: int) -> list[Fraction]:
    """The probability of each class to be the last one in which any of so many records is, where `shares` are
    those of one record. What is left to 1 is the probability that none is in any class."""
    beyond, weights = Fraction(0), []
    for share in reversed(shares):
        before = chance_of_none(run, beyond, records)
        beyond += share
        weights.append(before - chance_of_none(run, beyond, records))
    return weights[::-1]


def _reshuffled(view: ForgettingView, order: SecretOrder) -> list[tuple[Record, Case]]:
    """The cases by the worst batch in each of the last two epochs that use the records; older uses are at the
    ends of their epochs."""
    if not view.moves_later:
        raise NotApplicable(
            "steps that expand, or step sizes that fall: an earlier use can be worse than a later one"
        )
    run, period = view.run, view.period
    whole, rest = divmod(run.data_steps, period)
    epochs = whole + (1 if rest else 0)
    many = run.constant
    most = _MAX_LAST if many else max(1, min(_MAX_LAST, _WORK // run.steps))
    previous = _places(view, order, period, _MAX_PREVIOUS if many else 1) if epochs > 1 else None
    cases = []
    for last, p in _places(view, order, rest or period, most):
        for before, q in previous or [(None, Fraction(1))]:
            then = [
                epoch * period + where[1]
                for epoch, where in ((epochs - 2, before), (epochs - 1, last))
                if where is not None
            ]
            uses = Uses(period - 1, max(0, epochs - 2), tuple(then))
            cases.append((_record(view, 0, uses), Case(uses, p * q, (before, last))))
    return cases


def _places(
    view: ForgettingView, order: SecretOrder, length: int, most: int
) -> list[tuple[tuple[int, int] | None, Fraction]]:
    """Ranges of the first `length` positions with the probability that the last record among them is in each,
    and the probability that none is."""
    ranges = buckets(length, most)
    weights = worst_of(view.run, [order.share(a, b) for a, b in ranges], view.forgetting.records)
    places: list[tuple[tuple[int, int] | None, Fraction]] = list(zip(ranges, weights, strict=True))
    if length == order.period:
        return places
    return [*places, (None, 1 - sum(weights, Fraction(0)))]


# Moduli that are not linear.


def any_modulus(unlearning: Unlearning, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of forgetting for moduli of any shape. Raises NotApplicable."""
    run, at = unlearning.whole, delta or DEFAULT_DELTA
    require_hidden_path(run)
    if unlearning.published:
        require_given(unlearning)
    elif isinstance(run.order, FreshSubsets):
        raise NotApplicable(
            "the batches are drawn afresh at every step: see unlearning, random batches"
        )
    sizes = sizes_of(unlearning, FAILING * at)
    moduli = ForgettingModuli(unlearning, sizes)
    if run.steps > MOST_STEPS:
        raise NotApplicable(f"more than {MOST_STEPS} steps, whose moduli are not linear")
    return _Bent(ForgettingView.of(unlearning, at), moduli, sizes).guarantee()


class _Bent:
    """A run that forgets under moduli that are not linear."""

    def __init__(self, view: ForgettingView, moduli: ForgettingModuli, sizes: Fractions) -> None:
        self.view, self.moduli, self.sizes = view, moduli, sizes

    @property
    def demands(self) -> str:
        """Which records are in which batches: one of known place, as many as fit, or none that is left."""
        view = self.view
        if view.forgetting.published:
            return "none"
        one = view.forgetting.records == 1 and isinstance(view.run.order, KnownUses)
        return "uses" if one and view.period * view.run.steps <= _BENT_WORK else "every"

    def guarantee(self) -> Guarantee:
        """What is proven of the worst record, or of all of them."""
        view, demands, unlearning = self.view, self.demands, self.view.forgetting
        if demands == "uses":
            records = [self._of_uses(view.uses(j)) for j in range(view.period)]
        elif demands == "every":
            records = [self._solved(_NO_USES, view.every(self.sizes.cap))]
        else:
            records = [self._solved(_NO_USES, np.zeros(view.run.steps))]
        curve: TradeOff = Gaussian(max(record.mu for record in records))
        if self.sizes.failure > 0.0:
            curve = Product([(curve, 1)], self.sizes.failure)
        cases = [(record, None) for record in records]
        cap = self.sizes.random_cap
        proof = RunProof(NONLINEAR, unlearning, curve, cases, cap=cap, demands=demands)
        return _guarantee(unlearning, curve, NONLINEAR, SOURCE, proof)

    def _of_uses(self, uses: Uses) -> Record:
        """The bound for a record with these uses."""
        if not uses.total:
            return Record(uses)
        owed, steps = self.view.every(self.sizes.cap), uses.steps(self.view.period)
        own = np.zeros_like(owed)
        own[steps] = owed[steps]
        return self._solved(uses, own)

    def _solved(self, uses: Uses, owed: Array) -> Record:
        run = self.view.run
        first, start = _beginning(self.view, self.demands)
        _, sigma = run.step_constants(*run.schedule(first, run.steps))
        shape = self.moduli.shapes(first, run.steps)
        payments = solve(shape, owed[first:], sigma, run.range_diameter, start)
        return Record(uses, shifts=payments._replace(first=payments.first + first))


# Random batches, and every iterate.


def random_batches(unlearning: Unlearning, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of forgetting with batches drawn afresh at every step, for slopes. Raises
    NotApplicable."""
    run, at = unlearning.whole, delta or DEFAULT_DELTA
    require_sampling(run)
    require_hidden_path(run)
    if unlearning.published:
        raise NotApplicable("no withdrawn record is left in later batches: see unlearning")
    view = ForgettingSampled.of(unlearning, at)
    best = tuned(lambda power: planned(view, power), at)
    proof = SampledProof(RANDOM, unlearning, best.curve, at, best.to_dict)
    return _guarantee(unlearning, best.curve, RANDOM, SOURCE_RANDOM, proof)


def composed(unlearning: Unlearning, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of forgetting if every iterate is released: what the records have paid until their
    requests.

    Raises NotApplicable.
    """
    run, at = unlearning.whole, delta or DEFAULT_DELTA
    if unlearning.published:
        raise NotApplicable("given a model that was handed out, nothing was paid for")
    curve: TradeOff
    if isinstance(run.order, FreshSubsets):
        view = ForgettingSampled.of(unlearning, at)
        sizes, counts = every_step(run, view.factor)
        pulls = sizes.times(float(unlearning.records))
        curve = product(0.0, [(pulls, counts)], view.probability, view.factor, 0.0)
        proof: Proof = SampledProof(COMPOSED, unlearning, curve, at)
    else:
        curve = Gaussian(_paid(unlearning))
        proof = RunProof(COMPOSED, unlearning, curve, demands="all")
    return _guarantee(unlearning, curve, COMPOSED, SOURCE_COMPOSED, proof, hidden=False)


def _guarantee(
    unlearning: Unlearning,
    curve: TradeOff,
    name: str,
    source: str,
    proof: Proof,
    *,
    hidden: bool = True,
) -> Guarantee:
    """What is promised of forgetting. `hidden`: whether the path has to stay hidden."""
    sentences, unit = unlearning_sentences(unlearning, hidden=hidden), unlearning.unit
    return Guarantee(curve, unlearning.adjacency, name, source, sentences, proof=proof, unit=unit)


def _paid(unlearning: Unlearning) -> float:
    """μ of all withdrawn records: each pays until its request, and together they pay at most the sum."""
    total = 0.0
    for stage, (_, records) in zip(unlearning.stages, unlearning.requests, strict=True):
        total = up(total + up(records * composition.worst(_until(unlearning.whole, stage.end))))
    return total


def _until(run: NoisySGD, end: int) -> NoisySGD:
    """The first `end` steps of a run."""
    names = ("step_size", "noise_std", "noise_multiplier")
    changes: dict[str, Any] = {"epochs": None, "steps": end, "cooldown_steps": 0}
    cut = {name: x[:end] for name in names if np.ndim(x := getattr(run, name))}
    return replace(run, **changes | cut)
