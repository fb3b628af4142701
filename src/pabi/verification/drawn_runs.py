"""Runs that draw every batch afresh, seen step by step.

A step with data has a slope c, that of its batch without the record; the record moves the iterate by at
most s besides; the noise has standard deviation σ; and the pulls of two records differ by ρz more at two
places z apart than they can at one. (Docs, "Certificates" and "Random batches".) Distances are balls; a
larger distance is a worse problem, so that upper bounds will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, assert_never

from flint import arb, fmpq

from pabi.describe.runs import NoisySGD
from pabi.verification.arithmetic import (
    Refused,
    above,
    geometric,
    in_time,
    positions,
    root_up,
    timed,
)
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import NO_DATA, Derived
from pabi.verification.factors.closed_forms import Failure, Gaussians
from pabi.verification.factors.mixtures import (
    DISPLACING,
    PRESENT,
    REPLACED,
    Sampled,
    SampledGaussians,
)
from pabi.verification.losses import Omega
from pabi.verification.schemes import Drawn, Exchange, Fractions
from pabi.verification.theorem import Names

_MOST_FOLLOWED = 100_000  # steps whose moduli are gone through one by one if there is a diameter
_MOST_KNOWN = 100_000  # different steps that are kept
_NOTHING = Gaussians()


class Needed(NamedTuple):
    """What `times` steps reveal of a record that may be drawn: over the noise, it moves the sum by `norm` on
    the one data set, what takes its place by `other` on the second, and the two sums are `apart`."""

    apart: float
    norm: float
    other: float
    times: int


class Moved(NamedTuple):
    """The same before noise, as balls or rationals."""

    apart: Any
    norm: Any
    other: Any

    def over(self, noise: Any, times: int, share: Any = 1) -> Needed:
        """Over the part `share` of a noise variance, rounded up."""
        apart, norm, other = (root_above((x / noise) ** 2 / share) for x in self)
        return Needed(apart, norm, other, times)


class DrawnRun(Derived):
    """A run whose scheme draws fresh subsets. `pull`: what the drawn record adds to the gradient sum;
    `records`: how many pull together; `drawn`: how many steps draw a batch."""

    CALLED = "for random batches"
    records = 1

    def __init__(self, run: NoisySGD, scheme: Drawn) -> None:
        super().__init__(run, scheme.size)
        self.scheme, self.exchange = scheme, scheme.exchange(self.neighbours)
        self.pull, self.drawn = self.changed_by(self.exchange.gradients), self.data

    @property
    def probability(self) -> Fraction:
        """The probability that the record is in a batch."""
        return self.scheme.probability

    def _sampled(self, needed: Needed) -> Sampled:
        """What steps reveal of a record that may be drawn."""
        p, (apart, norm, other, times) = self.probability, needed
        match self.exchange:
            case Exchange.PRESENCE:
                return Sampled(PRESENT, p, apart, times)
            case Exchange.EITHER:
                return Sampled(REPLACED, p, norm, times)
            case Exchange.DISPLACED | Exchange.ZEROED:
                return Sampled(DISPLACING, p, apart, times, norm, other)
            case _:
                assert_never(self.exchange)

    def moved(self) -> Moved:
        """How far apart gradient sums can be at one place, and what their records add to each."""
        exchange = self.exchange
        return Moved(self.pull * exchange.change, self.pull, self.pull * exchange.other)

    def left(self, fractions: Fractions) -> tuple[Fractions, Fractions]:
        """The parts of a full batch that a step is on that may use the record, and one that uses none."""
        return fractions, NO_DATA

    def bound(
        self,
        needed: Sequence[Needed],
        *,
        hidden: Gaussians = _NOTHING,
        failure: Fraction = Fraction(0),
    ) -> JointBound:
        """Gaussians, the sampled factors that are needed beside them, and a failure, together."""
        sampled = tuple(self._sampled(one) for one in needed)
        return JointBound.of(hidden, SampledGaussians(sampled), Failure(failure))


def named_by_exchange(method: str, on_both: str, on_one: str) -> Callable[[DrawnRun], tuple[Names]]:
    """One method, and a source for records that are drawn on both data sets and another for one."""
    return lambda run: (Names(method, on_both if run.exchange.on_both else on_one),)


class Step(NamedTuple):
    """One step: c, s, σ, ρ, as balls."""

    c: Any
    s: Any
    sigma: Any
    rho: Any


class Capped:
    """The steps of a run whose batches have at most `cap` records, but for a probability `failure`."""

    def __init__(self, run: DrawnRun, cap: int) -> None:
        self.run, self.exchange = run, run.exchange
        fractions, self.failure = run.scheme.up_to(cap, run.drawn)
        self.fractions, self.idle = run.left(fractions)
        self.diameter = None if run.diameter is None else arb(run.diameter)
        self._known: dict[Any, Step] = {}

    def at(self, k: int, bent: bool = False) -> Step:
        """What is known of step k, from 0; with `bent` its slope is left out, as 0."""
        run, idle = self.run, k >= self.run.data
        eta, noise = run.step_size(k), run.noise(k)
        key = idle, eta, noise, bent
        if key not in self._known:
            fractions = self.idle if idle else self.fractions
            c = fmpq(0) if bent else run.gradients.slope_for(eta, fractions)
            if c is None:
                raise Refused(f"step {k + 1}: loss: no slope is known of its steps")
            s = 0 if idle else eta * run.pull / run.size
            spread = self._spread()
            bounded = not idle and spread is not None
            rho = eta * run.records * spread / run.size if bounded else 0 if idle else arb("inf")
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[key] = Step(c=arb(c), s=arb(s), sigma=arb(eta * noise), rho=arb(rho))
        return self._known[key]

    def _spread(self) -> Any:
        """How much more two pulls of one record differ per unit of distance, None if nothing bounds it: the
        record's and its zero, or those of two records."""
        gradients = self.run.gradients
        match self.exchange:
            case Exchange.ZEROED:
                return gradients.steepness
            case Exchange.PRESENCE | Exchange.EITHER | Exchange.DISPLACED:
                if gradients.curvature is not None:
                    lo, hi = gradients.curvature
                    return hi - lo
                return None if gradients.steepness is None else 2 * gradients.steepness
            case _:
                assert_never(self.exchange)

    def modulus(self, k: int) -> Omega:
        """The modulus of step k that holds for every batch that it may have."""
        fractions = self.fractions if k < self.run.data else self.idle
        return self.run.gradients.modulus(self.run.step_size(k), fractions)

    def within(self, distance: Any) -> Any:
        """`distance`, or the diameter where that is less."""
        if self.diameter is None or distance <= self.diameter:
            return distance
        return self.diameter

    def distance(self, count: int, pull: Any = 1) -> Any:
        """A bound on the distance after the first `count` steps: w ↦ min(D, c·w + pull·s) from 0 on."""
        run = self.run
        if run.constant:
            busy = min(count, run.data)
            w = arb(0)
            if busy:
                c, s, _, _ = self.at(0)
                w = self.within(pull * s * geometric(c, busy))
            if count > busy:
                w = self.within(w * self.at(run.data).c ** (count - busy))
            return w
        positions("steps", count)
        w = arb(0)
        for k in timed(range(count)):
            step = self.at(k)
            w = self.within(step.c * w + pull * step.s)
        return w

    def bent_distance(self, count: int) -> Any:
        """A bound on the distance after the first `count` steps, from 0, by their moduli."""
        if count > _MOST_FOLLOWED and self.diameter is not None:
            return self.diameter
        positions("steps", count)
        w, k, data = arb(0), 0, self.run.data
        while k < count:
            in_time()
            pull = self.exchange.change * self.at(k, bent=True).s
            after = self.within(arb(above(self.modulus(k)(w) + pull)))
            # Equal steps that leave the diameter as it is go on doing so.
            settled = self.run.constant and after is w is self.diameter and k < data
            k, w = (min(count, data) if settled else k + 1), after
        return w

    def moved(self, step: Step, distance: Any) -> Moved:
        """The record's pulls on two runs so far apart.

        Within a block the distance is at most the larger of those at its ends. If c ≤ 1 it falls. If c > 1,
        it is A·c^i + B·c^−i with B ≥ 0 after i steps, which falls if A ≤ 0 and is convex otherwise.
        """
        apart, other = self.exchange.change * step.s, self.exchange.other * step.s
        match self.exchange:
            case Exchange.PRESENCE | Exchange.EITHER:
                pass
            case Exchange.DISPLACED | Exchange.ZEROED:
                most = step.s + other
                further = step.rho.is_finite()
                apart = most.min(apart + step.rho * distance) if further else most
            case _:
                assert_never(self.exchange)
        return Moved(apart, step.s, other)


def root_above(square: Any) -> float:
    """A double not below the root of a ball or rational."""
    square = arb(square).upper()
    if not square.is_finite():
        return math.inf
    root = root_up(square)
    return root if root > 0.0 or square.is_zero() else math.ulp(0.0)
