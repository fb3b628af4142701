"""Payments in advance: half of a use is paid before it, where it is known to pull to one side.

The gradient of a record whose loss falls with its margin is a multiple of one vector, and always on the same
side of 0; those of several classes stay in a cone. So a use moves the run by something between 0 and s along a
line, and whoever moves the other run by half of that beforehand leaves s/2 to be paid afterwards. The last
uses, which have few steps after them, gain most; those before are paid for as in `shifted_interpolation`
(docs, "Payments in advance").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from pabi.account.analyses.secret_order import averaged, shuffled_once
from pabi.account.analyses.shifted_interpolation import in_order, require_hidden_path, run_of
from pabi.account.analyses.writing import Case, RunProof, promised
from pabi.account.facts.positions import OrderedView, Uses, check_position
from pabi.account.shifts.advance import Between, PulledSteps, solve
from pabi.account.shifts.epochs import (
    Advance,
    Record,
    Shifts,
    derived,
    energy_of,
    record,
)
from pabi.describe.batches import FixedSizes, KnownUses, SecretOrder
from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import Gaussian
from pabi.tradeoff.guarantee import Guarantee

NAME = "payments in advance"
SOURCE = "docs, Theory, 4.5 (Theorem 57)"

_LAST_USES, _FEW_USES, _LONG = 3, 2, 30  # that are paid for in advance; batches from which on fewer are
_MOST_STEPS = 60_000  # of all positions together that are paid for in advance
_KNOWN = 8  # last positions of a known order: the others have steps enough after their last use
_SLOPE = 8.0 * 2.0**-52  # more than a slope is off by
_SURE = 1.0 + 1e-9  # relative: above the roundings of whoever checks it


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate where uses pull to one side, in batches that come in an order."""
    run = run_of(description)
    require_hidden_path(run)
    order = in_order(run)
    _require_one_side(run)
    view = OrderedView(run)
    match order:
        case KnownUses() if position is not None:
            (found,) = _records(view, [check_position(run, position)], 1)
            solved = [(found, None)]
        case KnownUses():
            solved = _known(view)
        case SecretOrder():
            _require_one_place(order)
            most = _most(view)
            places = shuffled_once(
                view, order, lambda js: _records(view, js, most), view.later_is_worse, 2 * most
            )
            return promised(averaged(NAME, view, places, view.fractions), SOURCE)
        case _:
            assert_never(order)
    curve = Gaussian(max(found.mu for found, _ in solved))
    return promised(RunProof(NAME, run, curve, solved, position), SOURCE)


def _require_one_side(run: NoisySGD) -> None:
    """NotApplicable unless every use moves the run within a cone around one direction."""
    if run.loss.cone is None:
        raise NotApplicable("a record's gradient may have any direction")
    if run.prox is not None:
        raise NotApplicable("a proximal map moves what was paid in advance")
    if run.unit != "record":
        raise NotApplicable("several records together pull in several directions")
    if run.clipping == "coordinates" and run.clip_norm is not None:
        raise NotApplicable("clipped coordinates change the direction of a gradient")
    if run.adjacency == "replace_one" and run.gradient_sensitivity is not None:
        raise NotApplicable(
            "the stated sensitivity says how far two records are apart, not what one of them moves"
        )


def _require_one_place(order: SecretOrder) -> None:
    """NotApplicable where a record has more than one place, or its place changes those of no others."""
    if not order.once:
        raise NotApplicable("a record's place changes every epoch: see secret order")
    if not isinstance(order.sizes, FixedSizes):
        raise NotApplicable("a record's place changes those of no others: see secret place")


def _known(view: OrderedView) -> list[tuple[Record, Case]]:
    """What is proven of a record in each batch of a known order, the last ones in advance and the others, as
    one range that stands at its end, afterwards."""
    period, rest = view.period, view.run.data_steps % view.period
    others = period - min(period, _KNOWN, _most(view))
    ranges = [(0, others - 1)] if others else []
    ranges += [(i, i) for i in range(others, period)]
    records = _records(view, [(rest + last) % period for _, last in ranges], period - others)
    return [
        (found, Case(found.uses, Fraction(1), (where,)))
        for found, where in zip(records, ranges, strict=True)
    ]


def _most(view: OrderedView) -> int:
    """How many positions are paid for in advance. NotApplicable where that is none, or where any of the
    others can be the worst."""
    run = view.run
    epochs = min(_uses(view) + 1, -(-run.data_steps // view.period))
    most = _MOST_STEPS // (epochs * view.period + run.cooldown_steps)
    if most == 0:
        raise NotApplicable(f"more than {_MOST_STEPS} steps from the last uses on")
    if most < view.period and not view.later_is_worse:
        raise NotApplicable("an earlier use can be worse than a later one: too many to solve")
    return most


def _uses(view: OrderedView) -> int:
    """How many uses of a record are paid for in advance."""
    return _LAST_USES if view.period <= _LONG else _FEW_USES


def _records(view: OrderedView, positions: Sequence[int], most: int) -> list[Record]:
    """What is proven of records in these batches, of the last `most` in advance where that is better."""
    several = [view.uses(j) for j in positions]
    records = [_afterwards(view, uses) for uses in several]
    late = max(0, len(positions) - most)
    better = _in_advance(view, several[late:])
    pairs = zip(records[late:], better, strict=True)
    return records[:late] + [min(pair, key=lambda found: found.mu) for pair in pairs]


def _afterwards(view: OrderedView, uses: Uses) -> Record:
    """What payments after the uses prove."""
    nothing = Between(np.zeros(0), np.zeros(0), 0.0)
    return _joined(view, uses, view.run.steps, 0, nothing)


def _in_advance(view: OrderedView, several: Sequence[Uses]) -> list[Record]:
    """What payments in advance of the last uses prove, and payments after those before them."""
    tried = [(i, *window) for i, uses in enumerate(several) for window in _windows(view, uses)]
    chains = [_pulled(view, several[i], begin, ahead) for i, begin, ahead in tried]
    best = [Record(uses) for uses in several]
    for (i, begin, ahead), found in zip(tried, solve(chains) if chains else [], strict=True):
        record = _joined(view, several[i], begin, ahead, found)
        if best[i].shifts is None or record.mu < best[i].mu:
            best[i] = record
    return best


def _windows(view: OrderedView, uses: Uses) -> list[tuple[int, int]]:
    """Steps from which uses may be paid for in advance, each with how many of the last uses are. A cone that
    is no half-line has more in its ball than itself: then the last use alone is tried as well."""
    steps, count = uses.steps(view.period).tolist(), _uses(view)
    if not steps:
        return []
    begin = steps[-count] if len(steps) > count else 0
    count = min(count, len(steps))
    return [(begin, ahead) for ahead in ([count] if view.run.loss.cone == 1 else {1, count})]


def _joined(view: OrderedView, uses: Uses, begin: int, ahead: int, between: Between) -> Record:
    """A record whose uses before step `begin` are paid for afterwards, and the others as said."""
    if not uses.total:
        return Record(uses)
    before = _paid_before(view, uses, begin)
    square = between.square + (0.0 if before is None else energy_of(_shifts(before)))
    return Record(uses, shifts=Advance(begin, ahead, before, between, square * _SURE))


def _shifts(found: Record) -> Shifts:
    assert found.shifts is not None  # of a record that is used
    return found.shifts


def _paid_before(view: OrderedView, uses: Uses, end: int) -> Record | None:
    """What payments before step `end`, each after its use, prove of the uses before it; None if there are
    none."""
    left = -(-(end - uses.first) // view.period)
    earlier = Uses(uses.first, max(0, min(uses.epochs, left)))
    if not earlier.total:
        return None
    if end < view.run.steps:
        view = OrderedView(until(view.run, end))
    if view.run.constant:
        return record(view, earlier)
    return derived(view, earlier, view.steps(earlier).s)


def until(run: NoisySGD, end: int) -> NoisySGD:
    """The first steps of a run."""

    def part(x: Any) -> Any:
        return x[:end] if isinstance(x, np.ndarray) else x

    names = "step_size", "noise_std", "noise_multiplier"
    schedules = {name: part(getattr(run, name)) for name in names}
    idle = max(0, end - run.data_steps)
    return replace(run, epochs=None, total_steps=end, cooldown_steps=idle, **schedules)


def _pulled(view: OrderedView, uses: Uses, begin: int, ahead: int) -> PulledSteps:
    """The steps from `begin` on, of which the last `ahead` uses are known to pull to one side."""
    run, parts = view.run, view.fractions
    k = np.arange(begin, run.steps)
    closing = k % view.period == view.period - 1
    part = np.where(closing, _most_of(parts.last), _most_of(parts.full))
    part[k >= run.data_steps] = 0.0
    eta, noise = run.schedule(begin, run.steps)
    s, sigma = run.step_constants(eta, noise)
    used = uses.steps(view.period)
    s[~np.isin(k, used)] = 0.0
    centre, radius = (np.where(k >= used[-ahead], x, y) for x, y in zip(_ball(run.loss), (0, 1)))
    curvature = run.loss.effective_curvature(run.clip_norm, run.clipping)
    assert curvature is not None and curvature[0] >= 0.0  # of a loss that falls with the margin
    pull = eta * (run.loss.l2 + part * curvature[1])
    low, high = (1.0 - pull) - _SLOPE * (1.0 + pull), 1.0 - eta * run.loss.l2
    high = high + _SLOPE * (1.0 + pull)
    return PulledSteps(low, high, s * centre, s * radius, sigma)


def _ball(loss: Loss) -> tuple[float, float]:
    """(where on its axis, how large) a ball around the part of the cone within distance 1 is, rounded up."""
    assert loss.cone is not None  # as was asked
    cosine = math.sqrt(loss.cone)
    centre = 0.5 / cosine if 2 * loss.cone >= 1 else cosine
    radius = math.sqrt(max(0.0, 1.0 - 2.0 * centre * cosine + centre * centre))
    return centre, max(centre, radius) * (1.0 + _SLOPE)


def _most_of(parts: Sequence[Fraction]) -> float:
    """The largest part of its divisor that a batch is."""
    return fraction_up(max(parts))
