"""Runs that forget: the steps of the training and those after every request, derived from the description.

Until its request a withdrawn record moves a step, afterwards it does not. After the last request the two
sides of the comparison take steps on the same data, so that nothing is added to the distance. (Docs,
"Forgetting".)

A step is a map of both data sets; the modulus of one of the two maps will do. Before the first request it
is that of the step with all records in it. After a request any batch may lack as many records as were
withdrawn so far, if their gradients are zero, and a slope or modulus for the largest and the least part
speaks for all between.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, assert_never

import numpy as np
from flint import arb, fmpq, fmpz

from pabi.describe.batches import BallsInBins, Poisson
from pabi.describe.unlearning import Unlearning, unlearning_sentences
from pabi.verification.arithmetic import (
    Refused,
    above,
    double_above,
    double_below,
    exact,
    fraction_of,
    in_time,
    positions,
    timed,
)
from pabi.verification.derivation import Derived
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.replay import RoundedSteps
from pabi.verification.schemes import (
    Drawn,
    Fractions,
    Ordered,
)
from pabi.verification.theorem import Adjacency

_BITS = 16  # of an exact probability that count as one position


def left(neighbours: Adjacency, fractions: Fractions, withdrawn: int, size: int) -> Fractions:
    """The least and the largest part of a full batch that is left where so many records may be withdrawn."""
    if not fractions:
        raise Refused("cap: missing: how far a step moves depends on the size of its batch")
    match neighbours:
        case "zero_out":
            return max(fmpq(0), min(fractions) - fmpq(withdrawn, size)), max(fractions)
        case "replace_one":
            return min(fractions), max(fractions)
        case _:
            assert_never(neighbours)


class Forgetting(Derived):
    """What forgetting adds to a run. `requests`: (steps after it, records) of each. `gone`: the records of
    the first so many requests. `records`: of all. `ends`: the step, from 0, before which each request comes.
    `published`: whether models were handed out before."""

    def forget(self, unlearning: Unlearning) -> None:
        """Reads the requests; the run has been read."""
        self.unlearning, self.published = unlearning, unlearning.published
        self.learnt = self.total
        self.requests = [(int(k), int(m)) for k, m in unlearning.requests]
        self.gone = [0, *accumulate(m for _, m in self.requests)]
        self.records = self.gone[-1]
        cooldown = self.total - self.data
        if cooldown and len(self.requests) > 1:
            raise Refused("requests: a cool-down before several of them")
        self.ends = [self.data]
        for steps, _ in self.requests[:-1]:
            self.ends.append(self.ends[-1] + steps)
        self.total += sum(k for k, _ in self.requests)
        self.data, self.cooled = self.ends[-1], cooldown > 0
        self.last, self.drawn = self.total - self.requests[-1][0], self.total - cooldown
        own = unlearning.step_size
        alike = own is None or (np.ndim(own) == 0 and own == unlearning.run.step_size)
        self.constant = self.constant and alike and len(self.requests) == 1
        self.adjacency = "retrained"
        self.compared = self.records, self.neighbours, self.published

    def sentences(self, hidden: bool) -> tuple[str, ...]:
        """The sentences of the description, with those that hide its path or without."""
        return unlearning_sentences(self.unlearning, hidden=hidden)

    def step_size(self, k: int) -> Any:
        """The step size η of step k, a rational: after the training as stated, or its last one."""
        own = self.unlearning.step_size
        if k < self.learnt or own is None:
            return super().step_size(min(k, self.learnt - 1))
        return exact(own[k - self.learnt] if isinstance(own, np.ndarray) else own)

    def noise(self, k: int) -> Any:
        """The noise of step k; after the training its last one."""
        return super().noise(min(k, self.learnt - 1))

    def withdrawn(self, k: int) -> int:
        """How many records were withdrawn before step k."""
        return self.gone[bisect_right(self.ends, k)]

    def none_in(self, share: Any) -> Fraction:
        """The probability that no withdrawn record is where one is with the probability `share`: each by
        itself, or as one of share·n places that are drawn without replacement."""
        share, n = fmpq(share), self.run.n
        in_time()
        # Of how many bits the numbers are of which it is made.
        positions("requests", self.records * max(int(share.q), n).bit_length() // _BITS)
        if type(self.run.batches) in (BallsInBins, Poisson):
            return fraction_of((1 - share) ** self.records)
        places = fraction_of(share) * n
        if places.denominator != 1:
            raise Refused("ranges: no whole number of records is there")
        if n.bit_length() > 63:
            raise Refused("n: too many records for how many are withdrawn")
        some, every = (fmpz.bin_uiui(k, self.records) for k in (n - int(places), n))
        return fraction_of(fmpq(some, every))

    def idle_parts(self, fractions: Fractions) -> Fractions:
        """The parts of a full batch after the last request, the cool-down of the training included."""
        parts = left(self.neighbours, fractions, self.records, self.size)
        return (fmpq(0), max(parts)) if self.cooled else parts


class ForgettingOrder(Forgetting, OrderedRun):
    """A run that forgets, with batches that come in an order."""

    CALLED = "of forgetting with these batches"
    withdraws = True

    def __init__(self, unlearning: Unlearning, scheme: Ordered) -> None:
        OrderedRun.__init__(self, unlearning.run, scheme)
        self.forget(unlearning)

    def one(self, k: int) -> Any:
        """The sensitivity of step k to one record."""
        return OrderedRun.s(self, k)

    def s(self, k: int) -> Any:
        """The sensitivity of step k to all records that are withdrawn later."""
        return self.one(k) * (self.records - self.withdrawn(k))

    @property
    def idle(self) -> Fractions:
        """The parts of a full batch that a step after the last request may be on."""
        return self.idle_parts((*self.scheme.usual, *self.scheme.last))

    def fractions(self, k: int) -> Fractions:
        """The parts of a full batch that the batch of step k may be."""
        fractions = OrderedRun.fractions(self, k)
        if k >= self.data or not self.withdrawn(k):
            return fractions
        return left(self.neighbours, fractions, self.withdrawn(k), self.size)

    @property
    def largest(self) -> int:
        """The most records in a batch."""
        return int(max((*self.scheme.usual, *self.scheme.last)) * self.size)

    def moves_later(self) -> bool:
        """Whether moving single uses to later steps never makes a record safer (rule (ii) of "The worst
        record"): no step that uses records stretches distances, and step sizes do not fall."""
        if self.constant:
            taken = self.kinds(0, min(self.data, self.period))
            return all(self.slope(k) <= 1 for k in taken)
        etas = [self.step_size(k) for k in range(self.data)]
        rising = all(a <= b for a, b in pairwise(etas))
        return rising and all(c <= 1 for c in self.slopes[: self.data])

    @cached_property
    def steps(self) -> RoundedSteps:
        """All steps, as if every batch were used: slopes and sensitivities are rounded up to the next
        doubles, noises down."""
        positions("steps", self.total)
        c = [double_above(fraction_of(x)) for x in timed(self.slopes)]
        s = [double_above(fraction_of(self.s(k))) for k in timed(range(self.data))]
        sigma = [double_below(fraction_of(self.sigma(k))) for k in timed(range(self.total))]
        return RoundedSteps(*map(np.array, (c, s + [0.0] * (self.total - self.data), sigma)))

    def every(self) -> list[Any]:
        """What withdrawn records may add in every step, as many in each batch as fit."""
        positions("steps", self.total)
        carried = (self.records - self.withdrawn(k) for k in range(self.total))
        return [self.one(k) * min(m, self.largest) for k, m in enumerate(timed(carried))]

    def last_uses(self) -> list[Any]:
        """The same, where each record is in the batch that uses it last before its request."""
        counts = [0] * self.total
        for end, (_, m) in timed(zip(self.ends, self.requests, strict=True)):
            for k in range((end - 1) % self.period, end, self.period):
                counts[k] += m
        return [self.one(k) * m for k, m in enumerate(counts)]

    def latest_uses(self) -> list[Any]:
        """The same, where the use in every epoch stands at its end, or at the last step before the request:
        the largest of the uses in that epoch, each times the slopes of the steps after it."""
        owed, slopes = [fmpq(0)] * self.total, self.slopes
        for end, (_, m) in zip(self.ends, self.requests, strict=True):
            standing = fmpq(0)
            for k in timed(range(end)):
                standing = max(
                    self.one(k), 0 if k % self.period == 0 else above(arb(standing * slopes[k]))
                )
                if k % self.period == self.period - 1 or k == end - 1:
                    owed[k] += m * standing
        return owed


class ForgettingDraws(Forgetting, DrawnRun):
    """A run that forgets, with batches that are drawn anew at every step."""

    CALLED = "of forgetting with random batches"

    def __init__(self, unlearning: Unlearning, scheme: Drawn) -> None:
        DrawnRun.__init__(self, unlearning.run, scheme)
        self.forget(unlearning)
        self.pull = self.pull * self.records

    @property
    def probability(self) -> Fraction:
        """The probability that any withdrawn record is in a batch. Refused where none can be without."""
        p = self.scheme.probability
        none = self.none_in(fmpq(p.numerator, p.denominator))
        if none == 0:
            raise Refused("requests: every batch holds a record that is withdrawn")
        return 1 - none

    def left(self, fractions: Fractions) -> tuple[Fractions, Fractions]:
        """The parts of a full batch before the last request, and after it."""
        before = self.records - self.requests[-1][1]
        busy = left(self.neighbours, fractions, before, self.size) if before else fractions
        return busy, self.idle_parts(fractions)
