"""A run as the noisy iteration that one record sees: of a record in a known batch, or of the worst record."""

from __future__ import annotations

import math
from typing import Any, assert_never

import numpy as np

from pabi.describe.files import understood
from pabi.describe.iteration import Groups, NoisyIteration
from pabi.describe.moduli import Modulus
from pabi.describe.orders import FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.normal_forms.positions import OrderedView, Uses, check_position
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.shifts.records import cyclic


def iteration(run: NoisySGD, position: int | None = None) -> NoisyIteration:
    """The normal form of `run` for a record in batch `position`, or for the worst record."""
    understood(run)
    if position is not None:
        check_position(run, position)
    order = run.order
    if isinstance(order, FreshSubsets):
        raise InvalidInput(
            "batches",
            "with random batches no step is known to use a record: there is no normal form",
        )
    view = OrderedView(run)
    diameter = None if math.isinf(run.range_diameter) else run.range_diameter
    try:
        uses = _worst(view, order) if position is None else view.uses(position)
        schedule = view.schedule(uses)
    except NotApplicable:
        return _without_moduli(view, order, position, diameter)
    columns: tuple[Any, ...] = schedule.columns() if isinstance(schedule, Groups) else schedule
    c, s, sigma = columns
    return NoisyIteration(c, s, sigma, diameter=diameter, adjacency=run.adjacency, unit=run.unit)


def _redrawn(order: KnownUses | SecretOrder) -> bool:
    """Whether a record's place changes from epoch to epoch."""
    match order:
        case KnownUses():
            return False
        case SecretOrder():
            return not order.once
        case _:
            assert_never(order)


def _worst(view: OrderedView, order: KnownUses | SecretOrder) -> Uses:
    """The uses of the worst record."""
    run = view.run
    if _redrawn(order):
        if not (view.nonexpansive and view.later_is_worse):
            raise InvalidInput(
                "batches",
                "reshuffled steps that expand, or whose sensitivity falls, have no worst record",
            )
        return Uses(view.period - 1, -(-run.data_steps // view.period) - 1, (run.data_steps - 1,))
    if view.later_is_worse:
        return view.uses(view.last_position)
    return max(cyclic(view), key=lambda r: r.mu).uses


def _without_moduli(
    view: OrderedView, order: KnownUses | SecretOrder, position: int | None, diameter: float | None
) -> NoisyIteration:
    """The normal form where no modulus is known, so that only composition applies: its worst record."""
    run, period = view.run, view.period
    step, noise = run.schedule(0, run.steps)
    s, sigma = run.step_constants(step, noise)
    paid = np.zeros(-(-run.data_steps // period) * period)
    paid[: run.data_steps] = 1.0 / noise[: run.data_steps] ** 2
    per_epoch = paid.reshape(-1, period)
    if position is not None:
        used = view.uses(position).steps(period)
    elif _redrawn(order):
        used = per_epoch.argmax(axis=1) + period * np.arange(len(per_epoch))
    else:
        totals = per_epoch.sum(axis=0)  # the last of the largest
        used = view.uses(period - 1 - int(totals[::-1].argmax())).steps(period)
    own = np.zeros_like(s)
    own[used] = s[used]
    return NoisyIteration(
        moduli=Modulus.unbounded(),
        step_sensitivity=own,
        step_noise_std=sigma,
        diameter=diameter,
        adjacency=run.adjacency,
        unit=run.unit,
    )
