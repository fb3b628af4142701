"""Whom a proof follows through a run: one record, or those that are withdrawn from it.

One record is used until the data end. Withdrawn ones are used until their requests; the steps after the last
request use none of them, on either side of the comparison, so that nothing is added to the distance there.
Both sides are maps of the data that are left. Which part of a batch is left nobody knows, so that the modulus
of such a step has to hold for every part that may be (docs, "Forgetting").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import assert_never

import numpy as np

from pabi.describe.accounted import changed
from pabi.describe.batches import FixedSizes, Fractions, RandomSizes, fractions, order_of
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Stage, Unlearning
from pabi.numbers.rounding import Array


@dataclass(frozen=True)
class Demand:
    """Whom the guarantee of a description is about.

    `forgets`: whether records are withdrawn. `run`: all steps, those that no longer use the records as its
    cool-down; `trained`: the run before any request. `requests`: (steps after it, records) of every one; one
    record that stays is withdrawn at the end. `stages`: the parts of the run that use some of the records.
    `begin`: the step from which on two runs are compared: where models were handed out, the first one after
    the last of them.
    """

    forgets: bool
    run: NoisySGD
    trained: NoisySGD
    requests: Sequence[tuple[int, int]]
    stages: tuple[Stage, ...]
    begin: int

    @classmethod
    def of(cls, subject: NoisySGD | Unlearning) -> Demand:
        """That of a description."""
        if isinstance(subject, NoisySGD):
            whole = Stage(first=0, end=subject.data_steps, carried=1, withdrawn=0)
            return cls(False, subject, subject, ((0, 1),), (whole,), 0)
        begin = subject.last if subject.published else 0
        return cls(True, subject.whole, subject.run, subject.requests, subject.stages, begin)

    @cached_property
    def records(self) -> int:
        """How many records are followed."""
        return sum(records for _, records in self.requests)

    def fractions(self, failing: float = 0.0) -> Fractions:
        """The records of a batch over its divisor, in all steps with data, those after requests included.

        `failing`: how likely it may be that a batch of random size has more records.
        """
        run = self.trained
        drawn = self.run.steps - run.cooldown_steps
        return fractions(order_of(run.batches, run.n, drawn).sizes, run.batch_size, failing)

    def left(self, parts: Sequence[Fraction], withdrawn: int) -> tuple[Fraction, ...]:
        """The least and the largest part of its divisor that a batch of one of these parts can be once so
        many records are withdrawn, all of which may be in it."""
        one_sided = changed(self.run.adjacency) == 1
        gone = Fraction(withdrawn, self.run.batch_size) if one_sided else Fraction(0)
        least, most = max(Fraction(0), min(parts) - gone), max(parts)
        return (most,) if least == most else (least, most)

    def idle(self, sizes: Fractions) -> tuple[Fraction, ...]:
        """The least and the largest part of its divisor that the batch of a step can be that uses none of the
        records: after the last request, and in a cool-down, where it is empty."""
        if not self.forgets:
            return (Fraction(0),)
        parts = self.left((*sizes.full, *sizes.last), self.records)
        return (Fraction(0), max(parts)) if self.trained.cooldown_steps else parts

    def none_in(self, share: Fraction) -> Fraction:
        """The probability that none of the records is where one of them is with probability `share`: in a
        batch, or in some of the batches of an epoch."""
        run, sizes = self.run, self.run.order.sizes
        match sizes:
            case RandomSizes():
                return (1 - share) ** self.records
            case FixedSizes():
                elsewhere = run.n - int(share * run.n)
                return Fraction(math.comb(elsewhere, self.records), math.comb(run.n, self.records))
            case _:
                assert_never(sizes)

    def last_in(self, shares: Sequence[Fraction]) -> list[Fraction]:
        """The probability of each class to be the last one in which any of the records is, where `shares` are
        those of one record. What is left to 1 is the probability that none is in any class."""
        beyond, none, weights = Fraction(0), Fraction(1), []
        for share in reversed(shares):
            beyond, before = beyond + share, none
            none = self.none_in(beyond)
            weights.append(before - none)
        return weights[::-1]


@dataclass(frozen=True)
class View:
    """A description step by step, for those whom its guarantee is about."""

    description: NoisySGD | Unlearning

    @cached_property
    def demand(self) -> Demand:
        """Whom the view follows."""
        return Demand.of(self.description)

    @cached_property
    def run(self) -> NoisySGD:
        """All steps."""
        return self.demand.run

    def slopes_over(self, step: Array, parts: Sequence[Fraction]) -> Array:
        """The largest slopes of steps on batches of these parts of their divisor, and all between: slopes are
        convex in the part, so that the ends cover what is between."""
        run = self.run
        slopes = [run.loss.slopes(step, run.clip_norm, f, run.clipping) for f in parts]
        return np.asarray(np.max(slopes, axis=0))
