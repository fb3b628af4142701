"""Runs whose batches come in an order: slopes and sensitivities of every step, and who is worst off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq

from pabi.describe.runs import NoisySGD
from pabi.verification.arithmetic import (
    EqualSteps,
    Refused,
    Repeated,
    double_above,
    exact,
    fraction_of,
    positions,
    timed,
)
from pabi.verification.derivation import NO_DATA, Derived
from pabi.verification.losses import Omega
from pabi.verification.replay import MOST_STEPS, RoundedSteps
from pabi.verification.roundings import Integers, products_above, products_below, slopes_above
from pabi.verification.schemes import Fractions, KnownPositions, Ordered
from pabi.verification.theorem import gradients_changed

# Which steps use a record.


class UseSteps:
    """Steps that use a record: first + i·period for i < count, and those of `then`."""

    def __init__(self, first: int, count: int, *, period: int, then: Sequence[int] = ()) -> None:
        self.first, self.count, self.then, self.period = first, count, tuple(then), period

    def among(self, a: int, b: int) -> bool:
        """Whether any of the steps a..b−1 uses the record."""
        if any(a <= k < b for k in self.then):
            return True
        last = self.first + (self.count - 1) * self.period
        if self.count == 0 or b <= self.first or a > last:
            return False
        following = a + (self.first - a) % self.period if a > self.first else self.first
        return following < b and following <= last

    def all(self) -> Iterator[int]:
        """All steps that use the record."""
        count = positions("uses", self.count)
        yield from (self.first + i * self.period for i in range(count))
        yield from self.then

    def steps(self) -> Integers:
        """The same as an array, in order and each once."""
        every = self.first + self.period * np.arange(self.count)
        return np.unique(np.append(every, np.array(self.then, dtype=np.int64)))

    @property
    def total(self) -> int:
        """The number of steps that use the record."""
        return self.count + len(self.then)


def check_uses(case: dict[str, Any], uses: UseSteps) -> None:
    """Refuse unless the case is about a record with these uses."""
    first, count, then = case["uses"]
    if [first, count, list(then)] != [uses.first, uses.count, list(uses.then)]:
        raise Refused(
            f"uses: expected {[uses.first, uses.count, list(uses.then)]}, got {case['uses']}"
        )


class OrderedRun(Derived):
    """A run whose scheme is an order. `withdraws`: whether it is followed for records that are withdrawn, of
    which the worst counts."""

    CALLED = "for these batches"
    withdraws = False

    def __init__(self, run: NoisySGD, scheme: Ordered, position: int | None = None) -> None:
        super().__init__(run, scheme.size)
        self.scheme, self.period, self.position = scheme, scheme.period, position
        self.keys, self.drawn = scheme.keys, self.data
        self.sensitivity = self.changed_by(gradients_changed(self.neighbours))
        if position is None:
            return
        if not isinstance(scheme, KnownPositions):
            raise Refused("position: it is known in cyclic runs only")
        if position >= self.period:
            raise Refused(f"position: expected less than {self.period}, got {position}")

    # One step.

    @property
    def idle(self) -> Fractions:
        """The parts of a full batch that a step may be on that uses no record: none, in the cool-down."""
        return NO_DATA

    def s(self, k: int) -> Any:
        """The sensitivity of step k when the record is in its batch."""
        return self.step_size(k) * self.sensitivity / self.size

    def privacy_loss(self, k: int) -> Any:
        """(s_k/σ_k)², which does not depend on the step size."""
        ratio = self.sensitivity / (self.size * self.noise(k))
        return ratio * ratio

    def fractions(self, k: int) -> Fractions:
        """The parts of a full batch that the batch of step k may be."""
        if k >= self.data:
            return self.idle
        fractions = self.scheme.fractions(k % self.period)
        if not fractions:
            raise Refused("cap: missing: how far a step moves depends on the size of its batch")
        return fractions

    def slope(self, k: int) -> Any:
        """The least slope of step k that holds for every batch that it may have."""
        slope = self.gradients.slope_for(self.step_size(k), self.fractions(k))
        if slope is None:
            raise Refused("loss: no slope is known of its steps")
        return slope

    def modulus(self, k: int) -> Omega:
        """The modulus of step k that holds for every batch that it may have."""
        return self.gradients.modulus(self.step_size(k), tuple(self.fractions(k)))

    # All steps.

    @cached_property
    def slopes(self) -> list[Any]:
        """The slopes of all steps."""
        return [self.slope(k) for k in timed(range(positions("steps", self.total)))]

    def kinds(self, a: int, b: int) -> list[int]:
        """One step of every kind (any batch but the last of an epoch, the last, cool-down) in a..b−1."""
        steps = []
        if b > self.data and b > a:
            steps.append(max(a, self.data))
        b = min(b, self.data)
        closing = a + (self.period - 1 - a % self.period)
        if a < b and closing < b:
            steps.append(closing)
        if a < b and self.period > 1:
            plain = a if a % self.period != self.period - 1 else a + 1
            if plain < b:
                steps.append(plain)
        return steps

    @cached_property
    def slopes_by_kind(self) -> dict[int, Any]:
        """For a constant schedule: the slope of every kind of step that is taken."""
        return {k: self.slope(k) for k in self.kinds(0, min(self.total, self.period))} | {
            k: self.slope(k) for k in self.kinds(self.data, self.total)
        }

    def nonexpansive(self) -> bool:
        """Whether no step stretches distances."""
        if self.constant:
            return all(c <= 1 for c in self.slopes_by_kind.values())
        return bool((self.steps.c <= 1.0).all())

    def moves_later(self) -> bool:
        """Rule (ii) of "The worst record": moving single uses to later steps never makes a record safer."""
        if not self.nonexpansive():
            return False
        return self.constant or self._rising()

    @cached_property
    def later_is_worse(self) -> bool:
        """Rules (i) and (ii) of "The worst record": no earlier use can be worse than a later one."""
        if (
            self.constant
            and self.data == self.total
            and len(set(self.slopes_by_kind.values())) == 1
        ):
            return True
        return self.moves_later()

    def _rising(self) -> bool:
        """Whether no step is less sensitive to a record than the one before."""
        etas = self.run.step_size
        if self.sensitivity == 0:
            return True
        return np.ndim(etas) == 0 or bool((np.diff(etas[: self.data]) >= 0.0).all())

    @cached_property
    def steps(self) -> RoundedSteps:
        """All steps, as if every batch were used: slopes and sensitivities are rounded up to the next
        doubles, noises down."""
        if self.total > MOST_STEPS:
            positions("steps", self.total)
        etas, noises = (
            np.broadcast_to(np.asarray(x, dtype=np.float64), self.total)
            for x in (self.run.step_size, self.noises)
        )
        kinds = np.where(np.arange(self.total) % self.period == self.period - 1, 1, 0)
        kinds[self.data :] = 2
        c = np.empty(self.total)
        for k in self.kinds(0, self.total):
            own = np.flatnonzero(kinds == self.kind(k))
            c[own] = self._slopes_above(etas[own], self.fractions(k))
        s = products_above(etas, self.sensitivity / self.size)
        s[self.data :] = 0.0
        return RoundedSteps(c, s, products_below(etas, noises, fmpq(1)))

    def _slopes_above(self, etas: Any, fractions: Fractions) -> Any:
        """The slopes of steps of these sizes on these parts of a batch, rounded up."""
        rates = self.gradients.rates(fractions)
        if rates is not None:
            return slopes_above(etas, rates)
        sizes, which = np.unique(etas, return_inverse=True)
        slopes = []
        for eta in timed(sizes.tolist()):
            slope = self.gradients.slope_for(exact(eta), fractions)
            if slope is None:
                raise Refused("loss: no slope is known of its steps")
            slopes.append(double_above(fraction_of(slope)))
        return np.array(slopes)[which]

    def standing(self, first: int, last: int) -> float:
        """The sensitivity at step `last` that stands for a use at any step from `first` on: the largest of
        theirs, each times the slopes of the steps after it (rule (ii) of "The worst record"), rounded up."""
        largest, span = 0.0, slice(first, last + 1)
        columns = self.steps.c[span].tolist(), self.steps.s[span].tolist()
        for c, s in timed(zip(*columns, strict=True)):
            moved = math.nextafter(c * largest, math.inf) if c and largest else 0.0
            largest = max(s, moved)
        return largest

    def kind(self, k: int) -> int:
        """0 for a step on any batch but the last of an epoch, 1 for one on the last, 2 in the cool-down."""
        if k >= self.data:
            return 2
        return 1 if k % self.period == self.period - 1 else 0

    def alike(self, k: int) -> int:
        """A step with the slope and the noise of step k: of a constant schedule the first of its kind."""
        return (0, self.period - 1, self.data)[self.kind(k)] if self.constant else k

    # A record.

    def uses(self, position: int) -> UseSteps:
        """The steps that use a record at this position of every epoch."""
        count = max(0, -(-(self.data - position) // self.period))
        return UseSteps(position, count, period=self.period)

    @property
    def failure(self) -> Fraction:
        """The probability that any batch is not as large as the scheme says."""
        return self.scheme.failure(self.drawn)

    def none_in(self, share: Any) -> Fraction:
        """The probability that no record is where one is with the probability `share`."""
        return 1 - fraction_of(fmpq(share))


# Whether the steps that a certificate states are at least what the description implies.


def check_groups(run: OrderedRun, uses: UseSteps, skipped: int, groups: Sequence[Repeated]) -> None:
    """Refuse unless the groups, from step `skipped` on, are at least what the description implies."""
    k = skipped
    for times, stretches in timed(groups):
        length = sum(x.n for x in stretches)
        if times > 1 and (
            length % run.period
            or (uses.count and k < uses.first)
            or k + times * length > run.data
            or any(k <= x < k + times * length for x in uses.then)
        ):
            raise Refused(f"step {k + 1}: a repetition that the description does not have")
        for stretch in stretches:
            _check_stretch(run, uses, k, stretch)
            k += stretch.n
        k += (times - 1) * length
    if k != run.total:
        raise Refused(f"step {k}: the certificate ends there, the run at {run.total}")


def _check_stretch(run: OrderedRun, uses: UseSteps, k: int, stretch: EqualSteps) -> None:
    for step in run.kinds(k, k + stretch.n):
        _check_at_least(step, "slope", stretch.c, run.slope(step))
    if uses.among(k, k + stretch.n):
        _check_at_least(k, "sensitivity", stretch.s, run.s(k))
    _check_noise(k, stretch.sigma, run.sigma(k))


def check_arrays(run: OrderedRun, stated: RoundedSteps) -> None:
    """Refuse unless written-out steps are at least what the description implies."""
    if not len(stated.c) == len(stated.s) == len(stated.sigma) == run.total:
        raise Refused(f"steps: expected {run.total} of each column")
    least = run.steps
    # No double is between a number and the next double: both comparisons have the same answer.
    enough = (stated.c >= least.c) & (stated.s >= least.s) & (stated.sigma <= least.sigma)
    if not enough.all():
        k = int(enough.argmin())
        _check_at_least(k, "slope", float(stated.c[k]), run.slope(k))
        if k < run.data:
            _check_at_least(k, "sensitivity", float(stated.s[k]), run.s(k))
        _check_noise(k, float(stated.sigma[k]), run.sigma(k))
        raise Refused(f"step {k + 1}: steps: the description implies others")


def _check_at_least(k: int, what: str, stated: float, least: Any) -> None:
    if not exact(stated) >= least:
        raise _differs(k, what, stated, "at least", least)


def _check_noise(k: int, stated: float, most: Any) -> None:
    if not exact(stated) <= most:
        raise _differs(k, "noise", stated, "at most", most)


def _differs(k: int, what: str, stated: float, bound: str, value: Any) -> Refused:
    implied = float(arb(value).mid())
    return Refused(
        f"step {k + 1}: {what}: the description implies {bound} {implied!r}, got {float(stated)!r}"
    )
