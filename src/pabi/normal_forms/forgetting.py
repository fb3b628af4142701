"""A run that forgets records, step by step: who is in the batches after a request, and what is left to hide.

The steps after the last request use none of the withdrawn records, on either side of the comparison, so
that nothing is added to the distance there. Both sides are maps of the data that are left. Which part of a
batch is left nobody knows, so that the modulus of such a step has to hold for every part that may be (docs,
"Forgetting").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import assert_never

import numpy as np

from pabi.describe.accounted import changed
from pabi.describe.batches import order_of
from pabi.describe.iteration import Steps
from pabi.describe.orders import FAILING, FixedSizes, Fractions, RandomSizes, fractions
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.normal_forms.positions import OrderedView, standing
from pabi.normal_forms.sampled import SampledRun
from pabi.normal_forms.step_moduli import StepModuli
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, fraction_up, up

MOST_WRITTEN = 4_000_000  # steps up to which a schedule is written out


def left(run: NoisySGD, parts: tuple[Fraction, ...], withdrawn: int) -> tuple[Fraction, ...]:
    """The least and the largest part of its divisor that a batch of one of these parts can be once so many
    records are withdrawn, all of which may be in it."""
    gone = Fraction(withdrawn, run.batch_size) if changed(run.adjacency) == 1 else Fraction(0)
    least, most = max(Fraction(0), min(parts) - gone), max(parts)
    return (most,) if least == most else (least, most)


def sizes_of(unlearning: Unlearning, failing: float = 0.0) -> Fractions:
    """The records of a batch over its divisor, in all steps with data, those after requests included.

    `failing`: how likely it may be that a batch of random size has more records.
    """
    run = unlearning.run
    drawn = unlearning.steps - run.cooldown_steps
    sizes = order_of(run.batches, run.n, drawn).sizes
    return fractions(sizes, run.batch_size, failing)


def idle_parts(unlearning: Unlearning, sizes: Fractions) -> tuple[Fraction, ...]:
    """The least and the largest part of its divisor that the batch of a step can be that uses no withdrawn
    record: after the last request, and in the cool-down of the training."""
    parts = left(unlearning.run, (*sizes.full, *sizes.last), unlearning.records)
    if not unlearning.run.cooldown_steps:
        return parts
    return (Fraction(0), max(parts))


@dataclass(frozen=True)
class ForgettingView(OrderedView):
    """A run that forgets, with batches that come in an order. Sensitivities are those of a step whose batch
    holds all withdrawn records that are still used."""

    unlearning: Unlearning | None = None

    @classmethod
    def of(cls, unlearning: Unlearning, delta: float) -> ForgettingView:
        """The view at a target `delta`, of which batches of random size may take a share."""
        return cls(unlearning.whole, FAILING * delta, unlearning)

    @property
    def forgetting(self) -> Unlearning:
        """What the run is part of."""
        assert self.unlearning is not None
        return self.unlearning

    def _fractions(self, failing: float) -> Fractions:
        return sizes_of(self.forgetting, failing)

    @property
    def idle(self) -> tuple[Fraction, ...]:
        """The parts of a batch in the steps that use no withdrawn record."""
        return idle_parts(self.forgetting, self.fractions)

    def _pulls(self, step: Array, noise: Array) -> tuple[Array, Array]:
        """(s of a step that uses all withdrawn records, σ)."""
        run = self.run
        all_of_them = fraction_up(
            Fraction(run.sensitivity) * self.forgetting.records / run.batch_size
        )
        return np.nextafter(step * all_of_them, np.inf), run.step_constants(step, noise)[1]

    @cached_property
    def arrays(self) -> Steps:
        """Slopes, sensitivities of a step that uses all withdrawn records that are left, and noises."""
        if self.run.steps > MOST_WRITTEN:
            raise NotApplicable(f"more than {MOST_WRITTEN} steps that vary, or several requests")
        c, s, sigma = self._written_out
        stages = self.forgetting.stages
        for stage in stages[1:]:
            c[stage.first : stage.end] = self._slopes_of(stage.first, stage.end, stage.withdrawn)
            share = fraction_up(Fraction(stage.carried, self.forgetting.records))
            s[stage.first : stage.end] = np.nextafter(s[stage.first : stage.end] * share, np.inf)
        return Steps(c, s, sigma)

    def _slopes_of(self, first: int, end: int, withdrawn: int) -> Array:
        """The slopes of steps from whose batches so many records may be missing."""
        step, _ = self.run.schedule(first, end)
        parts = (left(self.run, x, withdrawn) for x in (self.fractions.full, self.fractions.last))
        full, last = (self._largest_slopes(step, x) for x in parts)
        closing = np.arange(first, end) % self.period == self.period - 1
        return np.where(closing, last, full)

    @cached_property
    def moves_later(self) -> bool:
        """Whether moving a record's uses to later steps never makes it safer, each use by itself, by rule
        (ii) of "The worst record"."""
        return self.nonexpansive_data and self._rising

    @cached_property
    def nonexpansive_data(self) -> bool:
        """Whether no step that uses records has a slope above one."""
        if self.run.constant:
            taken = [self.constants.full] if self.period > 1 else []
            taken += [self.constants.last] if self.run.data_steps >= self.period else []
            return all(c <= 1.0 for c in taken)
        return bool(np.all(self.arrays.c[: self.run.data_steps] <= 1.0))

    @property
    def _rising(self) -> bool:
        """Whether a record's own sensitivity never falls."""
        if self.run.constant:
            return True
        step, _ = self.run.schedule(0, self.run.data_steps)
        return bool(np.all(np.diff(step) >= 0.0))

    def every(self, cap: int) -> Array:
        """What withdrawn records may add to the distance, (steps,): in every step as many as fit into a
        batch of `cap` records, whatever the order."""
        count = np.zeros(self.run.steps)
        for stage in self.forgetting.stages:
            count[stage.first : stage.end] = min(stage.carried, cap)
        return self._times(count)

    def last(self) -> Array:
        """The same, (steps,), where each record is in the batch that uses it last before its request."""
        count = np.zeros(self.run.steps)
        for stage, (_, records) in zip(
            self.forgetting.stages, self.forgetting.requests, strict=True
        ):
            count[(stage.end - 1) % self.period : stage.end : self.period] += records
        return self._times(count)

    def latest(self) -> Array:
        """The same, (steps,), where the use in every epoch stands at its end, or at the last step before the
        request, as large as it has to be there. It covers every order."""
        own, period = np.zeros(self.run.steps), self.period
        c, one = self.arrays.c, self._times(np.ones(self.run.steps))
        for stage, (_, records) in zip(
            self.forgetting.stages, self.forgetting.requests, strict=True
        ):
            for a in range(0, stage.end, period):
                b = min(a + period, stage.end)
                own[b - 1] = up(own[b - 1] + up(records * standing(c[a:b], one[a:b])))
        return own

    def _times(self, count: Array) -> Array:
        """The sensitivities of steps to so many records, rounded up."""
        one, _ = self.run.step_constants(*self.run.schedule(0, self.run.steps))
        return np.where(count > 0.0, np.nextafter(one * count, np.inf), 0.0)


class ForgettingModuli(StepModuli):
    """The moduli of a run that forgets. Raises NotApplicable where a step's modulus is unknown, and where all
    are linear."""

    def __init__(self, unlearning: Unlearning, sizes: Fractions) -> None:
        run, withdrawn = unlearning.run, unlearning.stages[-1].withdrawn
        full, last = (left(run, x, withdrawn) for x in (sizes.full, sizes.last))
        reduced = sizes._replace(full=full, last=last)
        super().__init__(unlearning.whole, reduced, idle_parts(unlearning, sizes))


@dataclass(frozen=True)
class ForgettingSampled(SampledRun):
    """A run that forgets, whose batches are drawn afresh at every step. A step's factor is that of a batch
    with any of the withdrawn records in it, whose pulls all add up."""

    unlearning: Unlearning | None = None

    @classmethod
    def of(cls, unlearning: Unlearning, delta: float) -> ForgettingSampled:
        """The view at a target `delta`."""
        return cls(unlearning.whole, delta, unlearning)

    @cached_property
    def covered(self) -> Fractions:
        """The batches that the moduli must cover."""
        assert self.unlearning is not None
        return sizes_of(self.unlearning, FAILING * self.delta)

    @property
    def records(self) -> int:
        """How many records are withdrawn."""
        assert self.unlearning is not None
        return self.unlearning.records

    @cached_property
    def probability(self) -> float:
        """The probability that any of them is in a batch, rounded up. Raises NotApplicable where some batch
        cannot do without."""
        none = chance_of_none(self.run, self.order.probability, self.records)
        if none == 0:
            raise NotApplicable(
                "every batch holds one of the forgotten records: fewer are left than a batch"
            )
        return min(1.0, fraction_up(1 - none))

    @cached_property
    def record_norm(self) -> float:
        """The norm of what all of them add to a batch."""
        alone = SampledRun(self.run, self.delta).record_norm
        return fraction_up(Fraction(alone) * self.records)

    @property
    def _steepness(self) -> float:
        steep = SampledRun(self.run, self.delta)._steepness
        return fraction_up(Fraction(steep) * self.records) if steep < np.inf else steep

    def _columns(self, step: Array, noise: Array) -> tuple[Array, Array, Array, Array, Array]:
        """(c with data, c after the last request, s, σ, ρ) for these step sizes and noises."""
        assert self.unlearning is not None
        run, withdrawn = self.run, self.unlearning.stages[-1].withdrawn
        kinds = left(run, self.covered.full, withdrawn), idle_parts(self.unlearning, self.covered)
        busy, idle = (
            np.max([run.loss.slopes(step, run.clip_norm, f, run.clipping) for f in parts], axis=0)
            for parts in kinds
        )
        return busy, idle, *self.pull_columns(step, noise)


def chance_of_none(run: NoisySGD, share: Fraction, records: int) -> Fraction:
    """The probability that none of so many records is where one of them is with probability `share`: in a
    batch, or in some of the batches of an epoch."""
    sizes = run.order.sizes
    match sizes:
        case RandomSizes():
            return (1 - share) ** records
        case FixedSizes():
            there = int(share * run.n)
            return Fraction(math.comb(run.n - there, records), math.comb(run.n, records))
        case _:
            assert_never(sizes)
