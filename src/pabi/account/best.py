"""The best guarantee: every analysis of a description is asked for a proposal, and the least that the kernel
grants counts."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from pabi.account.analyses import EVERY_ITERATE, analyses_of
from pabi.account.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.account.analyses.writing import least
from pabi.account.facts.positions import OrderedView, Uses, check_position
from pabi.account.shifts.epochs import cyclic
from pabi.describe.batches import FreshSubsets, KnownUses, SecretOrder
from pabi.describe.files import Description, understood
from pabi.describe.iteration import Groups, NoisyIteration
from pabi.describe.moduli import Modulus
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be, require
from pabi.numbers.locking import tick, waiting
from pabi.tradeoff import TradeOff
from pabi.tradeoff.guarantee import Guarantee
from pabi.verification.arithmetic import Refused
from pabi.verification.granting import Proposal, grant

# Nothing but the names of analyses and of classes of descriptions, and times: see docs, "Logging".
_LOGGER = logging.getLogger("pabi")


# How many proposals of a theorem the kernel refused in this process: each is a mistake of an analysis.
refused: Counter[str] = Counter()


@dataclass(frozen=True, eq=False)
class Outcome:
    """The answer of one analysis about the records in batch `position` of a description, or about all: a
    proposal, or the reason why it does not apply."""

    name: str
    proposal: Proposal | None
    reason: str | None
    description: Description
    position: int | None = None

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What the kernel grants of the proposal; None where there is none, or where it is refused."""
        if self.proposal is None:
            return None
        try:
            return grant(self.description, self.proposal, self.position)
        except Refused as refusal:
            refused[self.name] += 1
            _LOGGER.warning("%s of %s: refused", self.name, type(self.description).__name__)
            _LOGGER.debug("%s", refusal)
            return None

    @property
    def granted(self) -> bool:
        """Whether the kernel was asked, and granted what it found."""
        return vars(self).get("guarantee") is not None

    @property
    def curve(self) -> TradeOff | None:
        """What is granted, or proposed where the kernel was not asked; None where nothing is, or where it
        refused."""
        if "guarantee" in vars(self):
            return None if self.guarantee is None else self.guarantee.curve
        return None if self.proposal is None else self.proposal.curve


def outcomes(
    description: Description, delta: float, position: int | None = None, only: str | None = None
) -> list[Outcome]:
    """The answer of every analysis of a description at `delta` in [0, 1), or of that one named `only`. Raises
    InvalidInput for a δ out of range and for what is no description of pabi's."""
    validate.number("delta", delta, at_least=0.0, below=1.0)
    understood(description)
    answers = []
    for analysis in analyses_of(description):
        if only not in (None, analysis.name):
            continue
        started = perf_counter()
        tick()
        try:
            # What overflows becomes ∞ and what is undefined NaN; the solvers treat both as no bound.
            with np.errstate(all="ignore"):
                proposal = analysis.apply(description, delta, position)
            answers.append(Outcome(analysis.name, proposal, None, description, position))
        except NotApplicable as no:
            answers.append(Outcome(analysis.name, None, no.reason, description, position))
        _LOGGER.debug(
            "%s of %s: %s (%.3f s)",
            analysis.name,
            type(description).__name__,
            "does not apply" if answers[-1].proposal is None else "applies",
            perf_counter() - started,
        )
    return answers


def least_of(answers: list[Outcome], delta: float) -> Outcome:
    """The answer whose curve has the least ε at `delta`; NotApplicable when no analysis applies."""
    curves = {o: curve for o in answers if (curve := o.curve) is not None}
    if not curves:
        reasons = "; ".join(f"{o.name}: {o.reason or 'refused'}" for o in answers)
        raise NotApplicable(f"no analysis covers this description ({reasons})")
    # At δ = 0 every Gaussian guarantee reads ε = ∞: if all do, compare where they differ.
    # Of equals the first in the table: of runs composition, which assumes least.
    differ = delta > 0.0 or any(math.isfinite(one.epsilon(0.0)) for one in curves.values())
    return [*curves][least([*curves.values()], delta if differ else DEFAULT_DELTA)]


def best_of(answers: list[Outcome], delta: float) -> Guarantee:
    """The granted guarantee of least ε at `delta` among all answers; NotApplicable when no analysis applies.

    Where the kernel refuses a proposal, or finds that it proves less, the next best one is tried.
    """
    while not (best := least_of(answers, delta)).granted:
        _ = best.guarantee
    assert best.guarantee is not None
    every_iterate = next((o.guarantee for o in answers if o.name in EVERY_ITERATE), None)
    curve = every_iterate.curve if every_iterate else None
    return replace(best.guarantee, tuned_at=delta, composition=curve)


def best_guarantee(
    description: Description, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the analysis that proves the least ε at `delta`. Raises NotApplicable where none
    applies, and InvalidInput as `outcomes` does."""
    with waiting("accounting"):
        return best_of(outcomes(description, delta, position), delta)


# A run as the noisy iteration that one record sees: of a record in a known batch, or of the worst record.


def iteration(run: NoisySGD, position: int | None = None) -> NoisyIteration:
    """The normal form of `run` for a record in batch `position`, or for the worst record. Raises InvalidInput
    where there is none, as for computed steps: those of a normal form are exact."""
    understood(run)
    must_be(run.rounding == 0.0, "rounding", "0: a normal form has exact steps", run.rounding)
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
    return isinstance(order, SecretOrder) and not order.once


def _worst(view: OrderedView, order: KnownUses | SecretOrder) -> Uses:
    """The uses of the worst record."""
    run = view.run
    if _redrawn(order):
        require(
            view.nonexpansive and view.later_is_worse,
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
