"""Forgetting: the steps after a request hide what withdrawn records have left in the model.

A run that goes on without some records is compared with one of as many steps that never saw them. The two
are a noisy iteration as any other: withdrawn records move a step by at most s until their request, and not
at all afterwards. So the optimal shifts of `account.shifts` prove a bound, whose payments may wait for the
steps after the last request (docs, "Forgetting"; the interpolation is that of Bok, Su, Altschuler 2024, Thm
C.3).

Several records may share a batch. Where an order is secret, the bound averages over the batch that is worst
among theirs. Given a model that was handed out, nothing is known of the distance but a diameter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import assert_never

from pabi.account.analyses import composition
from pabi.account.analyses.nonlinear_shifts import MOST_WORK, BentSteps
from pabi.account.analyses.random_batches import one_sided_plan as planned
from pabi.account.analyses.secret_order import averaged, reshuffled, solved_once
from pabi.account.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    of_tuned,
    require_hidden_path,
    sampled_view,
    worst,
)
from pabi.account.analyses.writing import RunProof, but_for, computed, least
from pabi.account.facts.positions import OrderedView, Uses
from pabi.account.facts.sampled import SampledRun
from pabi.account.facts.step_moduli import StepModuli
from pabi.account.shifts.epochs import Record, derived
from pabi.account.shifts.nonlinear import MOST_STEPS
from pabi.account.shifts.start import Start
from pabi.describe.batches import FAILING, Fractions, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.unlearning import Unlearning
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.tradeoff import Gaussian
from pabi.verification.granting import Proposal

SHIFTS, NONLINEAR = "unlearning", "unlearning, any modulus"
RANDOM, COMPOSED = "unlearning, random batches", "unlearning, composition"

_NO_USES = Uses(0, 0)
_DRAWN = "the batches are drawn afresh at every step: see unlearning, random batches"


def shifts(unlearning: Unlearning, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of forgetting for linear moduli and batches that come in an order."""
    run, at = unlearning.whole, delta or DEFAULT_DELTA
    require_hidden_path(run)
    view = OrderedView(unlearning, FAILING * at)
    if unlearning.published:
        require_given(unlearning)
        return _of_steps(view, view.every(view.fractions.cap), "none")
    if isinstance(run.order, FreshSubsets):
        raise NotApplicable(_DRAWN)
    for way in (_of_cases, _of_last):
        with suppress(NotApplicable):
            return way(view)
    every = _of_steps(view, view.every(view.fractions.cap), "every")
    if view.period == 1:
        return every
    latest = _of_steps(view, view.latest(), "latest")
    return (every, latest)[least([every.curve, latest.curve], at)]


def _of_cases(view: OrderedView) -> Proposal:
    """All withdrawn records in one batch, the worst one or any with its probability."""
    if len(view.demand.requests) > 1:
        raise NotApplicable("records of several requests may be in different batches")
    order = view.run.order
    match order:
        case KnownUses():
            return _proven(SHIFTS, view, worst(view), view.fractions, "uses")
        case SecretOrder():
            solved = solved_once(view, order) if order.once else reshuffled(view, order)
            return computed(
                averaged(SHIFTS, view, solved, view.fractions, stated=True, demands="uses")
            )
        case FreshSubsets():
            raise NotApplicable(_DRAWN)
        case _:
            assert_never(order)


def _of_last(view: OrderedView) -> Proposal:
    """Each withdrawn record in the batch that is used last before its request."""
    order = view.run.order
    if not view.moves_later or (isinstance(order, SecretOrder) and not order.once):
        raise NotApplicable("an earlier use can be worse than a later one")
    return _of_steps(view, view.last(), "last")


def _of_steps(view: OrderedView, owed: Array, demands: str) -> Proposal:
    """What hiding `owed`, (steps,), costs; after a model that was handed out it begins at the diameter."""
    first = view.demand.begin
    start = view.run.range_diameter if first else 0.0
    record = derived(view, _NO_USES, owed[first:], first, start)
    if isinstance(record.shifts, Start):
        record = record._replace(shifts=record.shifts.after(first))
    return _proven(SHIFTS, view, [record], view.fractions, demands)


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
    name: str, view: OrderedView, records: Sequence[Record], sizes: Fractions, demands: str
) -> Proposal:
    """The guarantee of the worst of these records, or of all together."""
    curve = but_for(Gaussian(max(record.mu for record in records)), sizes)
    cases, cap = [(record, None) for record in records], sizes.random_cap
    # Steps of all records together are derived again: what is stated would be checked by nobody.
    steps = view if demands == "uses" else None
    return computed(
        RunProof(name, view.description, curve, cases, cap=cap, view=steps, demands=demands)
    )


def any_modulus(unlearning: Unlearning, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of forgetting for moduli of any shape. Raises NotApplicable."""
    run = unlearning.whole
    require_hidden_path(run)
    if unlearning.published:
        require_given(unlearning)
    elif isinstance(run.order, FreshSubsets):
        raise NotApplicable(_DRAWN)
    view = OrderedView(unlearning)
    sizes = view.demand.fractions(FAILING * (delta or DEFAULT_DELTA))
    moduli = StepModuli(unlearning, sizes)
    if run.steps > MOST_STEPS:
        raise NotApplicable(f"more than {MOST_STEPS} steps, whose moduli are not linear")
    first, owed = view.demand.begin, view.every(sizes.cap)
    _, sigma = run.step_constants(*run.schedule(first, run.steps))
    steps = BentSteps(view, moduli.shapes(first, run.steps), owed[first:], sigma, first)
    one = unlearning.records == 1 and isinstance(run.order, KnownUses) and not first
    if one and view.period * run.steps <= MOST_WORK:
        records = [steps.record(view.uses(j)) for j in range(view.period)]
        return _proven(NONLINEAR, view, records, sizes, "uses")
    demands = "none" if unlearning.published else "every"
    return _proven(NONLINEAR, view, [steps.solved(_NO_USES)], sizes, demands)


def random_batches(unlearning: Unlearning, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of forgetting with batches drawn afresh at every step, for slopes."""
    view = sampled_view(unlearning, delta)
    if unlearning.published:
        raise NotApplicable("no withdrawn record is left in later batches: see unlearning")
    return of_tuned(RANDOM, view, lambda power: planned(view, power))


def composed(unlearning: Unlearning, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of forgetting if every iterate is released: what the records have paid until their
    requests."""
    if unlearning.published:
        raise NotApplicable("given a model that was handed out, nothing was paid for")
    if isinstance(unlearning.whole.order, FreshSubsets):
        return composition.of_every_step(COMPOSED, SampledRun(unlearning, delta or DEFAULT_DELTA))
    return RunProof(COMPOSED, unlearning, Gaussian(_paid(unlearning)), demands="all")


def _paid(unlearning: Unlearning) -> float:
    """μ of all withdrawn records: each pays until its request, and together they pay at most the sum."""
    total = 0.0
    for stage, (_, records) in zip(unlearning.stages, unlearning.requests, strict=True):
        total += records * composition.worst(unlearning.whole, stage.end)
    return total
