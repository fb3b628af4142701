"""Where a record may be in a secret order, and how distances grow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.account.facts.demand import View
from pabi.describe.batches import Fractions, KnownUses
from pabi.describe.iteration import Group, Groups, Schedule, Steps, Stretch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import TINY, Array, bisected, fraction_up, times_up, up

_MOST_STATED = 20_000  # steps that proofs state although the description implies them
_MOST_WRITTEN = 4_000_000  # steps up to which those of forgetting are written out


class Uses(NamedTuple):
    """The steps that use one record, counted from 0.

    They are `first` and the same step of the next epochs, `epochs` of them in all, and after these the steps
    in `then`, in increasing order.
    """

    first: int
    epochs: int
    then: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """How many steps use the record."""
        return self.epochs + len(self.then)

    def steps(self, period: int) -> NDArray[np.int64]:
        """All steps that use the record; `period`: the steps of an epoch."""
        periodic = self.first + period * np.arange(self.epochs, dtype=np.int64)
        return np.append(periodic, np.array(self.then, dtype=np.int64))

    def step(self, i: int, period: int) -> int:
        """The step of use i, counted from 0."""
        return self.first + i * period if i < self.epochs else self.then[i - self.epochs]

    def before(self, k: int, period: int) -> int:
        """How many uses come before step k."""
        periodic = max(0, min(self.epochs, -(-(k - self.first) // period)))
        return periodic + sum(step < k for step in self.then)


class Constants(NamedTuple):
    """The numbers of a constant schedule: slopes of a step on a full batch, on the epoch's last batch and in
    the cool-down; the sensitivity of a step with the record; the noise."""

    full: float
    last: float
    cool: float
    s: float
    sigma: float


def standing(c: Array, s: Array) -> float:
    """The sensitivity at the last of these steps that stands for a use at any of them, by rule (ii) with
    s_i·Λ_{i+1}⋯Λ_j in place of s_i; rounded up.

    `c`, `s`: slopes and sensitivities, (steps,).
    """
    largest = 0.0
    for slope, own in zip(c.tolist(), s.tolist(), strict=True):
        # What a slope of 0 forgets is gone, ∞ included; what is small is never nothing.
        moved = max(up(slope * largest), TINY) if slope and largest else 0.0
        largest = max(own, moved)
    return largest


@dataclass(frozen=True)
class OrderedView(View):
    """A run of noisy SGD step by step: slopes, step sensitivities and noises of every kind of step.

    `failing`: how likely it may be that a batch of random size is larger than what the slopes cover.
    Sensitivities are those of a step whose batch holds all records that are followed and still used. Raises
    NotApplicable, with the reason, where the loss gives no linear modulus.
    """

    failing: float = 0.0

    @cached_property
    def period(self) -> int:
        """The steps of an epoch."""
        return self.run.steps_per_epoch

    @property
    def stated(self) -> bool:
        """Whether proofs state the steps, so that whoever checks them need not derive the same doubles; many
        are left to the description."""
        return not self.run.constant and self.run.steps <= _MOST_STATED

    @cached_property
    def constants(self) -> Constants:
        """The numbers of a constant schedule."""
        step, noise = np.array([self.run.step_size]), np.array([self.run.gradient_noise_std])
        columns = *self._slopes(step), *self._pulls(step, noise)
        return Constants._make(float(x[0]) for x in columns)

    @cached_property
    def fractions(self) -> Fractions:
        """The records of a batch over its divisor, for every batch that the slopes cover.

        All that is possible is covered where that costs nothing, and otherwise all but what is too rare to
        matter.
        """
        likely, possible = self.demand.fractions(self.failing), self.demand.fractions()
        if likely.failure == 0.0 or not self._as_steep(possible, likely):
            return likely
        return possible

    def _as_steep(self, one: Fractions, other: Fractions) -> bool:
        """Whether all steps have the same slopes with either."""
        step, _ = self.run.schedule(0, 1 if self.run.constant else self.run.steps)
        return all(
            np.array_equal(self.slopes_over(step, a), self.slopes_over(step, b))
            for a, b in ((one.full, other.full), (one.last, other.last))
        )

    def _pulls(self, step: Array, noise: Array) -> tuple[Array, Array]:
        """(s of a step that uses all the records, σ)."""
        run = self.run
        together = fraction_up(Fraction(run.sensitivity) * self.demand.records / run.batch_size)
        return times_up(step, together), run.step_constants(step, noise)[1]

    def _slopes(self, step: Array) -> tuple[Array, Array, Array]:
        kinds = self.fractions.full, self.fractions.last, self.demand.idle(self.fractions)
        slopes = {parts: self.slopes_over(step, parts) for parts in set(kinds)}
        full, last, cool = (slopes[parts] for parts in kinds)
        return full, last, cool

    @cached_property
    def arrays(self) -> Steps:
        """Slopes, the sensitivities of steps that use all records that are left, and noises; s = 0 once the
        records are not used any more."""
        t, data, demand = self.run.steps, self.run.data_steps, self.demand
        if demand.forgets and t > _MOST_WRITTEN:
            raise NotApplicable(f"more than {_MOST_WRITTEN} steps that vary, or several requests")
        step, noise = self.run.schedule(0, t)
        full, last, cool = self._slopes(step)
        c, closing = full.copy(), np.arange(t) % self.period == self.period - 1
        c[closing] = last[closing]
        c[data:] = cool[data:]
        s, sigma = self._pulls(step, noise)
        s[data:] = 0.0
        for stage in demand.stages[1:]:
            here = slice(stage.first, stage.end)
            parts = (self.fractions.full, self.fractions.last)
            full, last = (
                self.slopes_over(step[here], demand.left(x, stage.withdrawn)) for x in parts
            )
            c[here] = np.where(closing[here], last, full)
            share = fraction_up(Fraction(stage.carried, demand.records))
            s[here] = np.nextafter(s[here] * share, np.inf)
        return Steps(c, s, sigma)

    @cached_property
    def nonexpansive(self) -> bool:
        """Whether no step that is taken has a slope above one."""
        if self.run.constant:
            return self.nonexpansive_data and (
                not self.run.cooldown_steps or self.constants.cool <= 1.0
            )
        return bool(np.all(self.arrays.c <= 1.0))

    @cached_property
    def nonexpansive_data(self) -> bool:
        """Whether no step that uses records has a slope above one."""
        if self.run.constant:
            slopes = [self.constants.full] if self.period > 1 else []
            slopes += [self.constants.last] if self.run.data_steps >= self.period else []
            return all(c <= 1.0 for c in slopes)
        return bool(np.all(self.arrays.c[: self.run.data_steps] <= 1.0))

    @cached_property
    def moves_later(self) -> bool:
        """Whether moving a record's uses to later steps never makes it safer, each use by itself, by rule
        (ii) of "The worst record"."""
        step, _ = self.run.schedule(0, 0 if self.run.constant else self.run.data_steps)
        return self.nonexpansive_data and bool(np.all(np.diff(step) >= 0.0))

    @cached_property
    def homogeneous(self) -> bool:
        """Whether all steps have one slope and one noise, so that only the record's uses tell them apart."""
        if not self.run.constant or self.run.cooldown_steps:
            return False
        full, last = self.constants.full, self.constants.last
        # Above 1 slopes of other parts of a batch differ, if only by less than a double tells.
        alike = full == last and (full <= 1.0 or self.fractions.full == self.fractions.last)
        return alike or self.run.data_steps < self.period

    @cached_property
    def later_is_worse(self) -> bool:
        """Whether a record used later is never safer, by rule (i) or (ii) of "The worst record"."""
        if self.homogeneous or (self.demand.forgets and self.moves_later):
            return True
        if not self.nonexpansive:
            return False
        s = None if self.run.constant else self.arrays.s[: self.run.data_steps]
        return s is None or bool(np.all(np.diff(s) >= 0.0))

    @property
    def diameter(self) -> float:
        """D, where several records are no worse in several batches than in one; otherwise none is used."""
        together = self.demand.records == 1 or self.moves_later
        return self.run.range_diameter if together else math.inf

    def uses(self, position: int) -> Uses:
        """The uses of a record in batch `position` under cyclic batches."""
        left = self.run.data_steps - position
        return Uses(position, max(0, math.ceil(left / self.period)))

    @property
    def last_position(self) -> int:
        """The place in the epoch, counted from 0, of the batch processed last."""
        return (self.run.data_steps - 1) % self.period

    def standing(self, first: int, last: int) -> float:
        """The sensitivity at step `last` that stands for a use at any step from `first` on."""
        c, s, _ = self.arrays
        return standing(c[first : last + 1], s[first : last + 1])

    def every(self, cap: int) -> Array:
        """What the records may add to the distance, (steps,): in every step as many as fit into a batch of
        `cap` records, whatever the order."""
        count = np.zeros(self.run.steps)
        for stage in self.demand.stages:
            count[stage.first : stage.end] = min(stage.carried, cap)
        return self._times(count)

    def last(self) -> Array:
        """The same, (steps,), where each record is in the batch that uses it last before its request."""
        count = np.zeros(self.run.steps)
        for end, records in self._ends:
            count[(end - 1) % self.period : end : self.period] += records
        return self._times(count)

    def latest(self) -> Array:
        """The same, (steps,), where the use in every epoch stands at its end, or at the last step before the
        request, as large as it has to be there. It covers every order."""
        own, period = np.zeros(self.run.steps), self.period
        c, one = self.arrays.c, self._times(np.ones(self.run.steps))
        for end, records in self._ends:
            for a in range(0, end, period):
                b = min(a + period, end)
                own[b - 1] = up(own[b - 1] + up(records * standing(c[a:b], one[a:b])))
        return own

    @property
    def _ends(self) -> list[tuple[int, int]]:
        """(the step before which it comes, records) of every request."""
        pairs = zip(self.demand.stages, self.demand.requests, strict=True)
        return [(stage.end, records) for stage, (_, records) in pairs]

    def _times(self, count: Array) -> Array:
        """The sensitivities of steps to so many records, rounded up."""
        one, _ = self.run.step_constants(*self.run.schedule(0, self.run.steps))
        return np.where(count > 0.0, np.nextafter(one * count, np.inf), 0.0)

    def schedule(self, uses: Uses) -> Schedule:
        """The normal form of a record with these uses."""
        return self._groups(uses) if self.run.constant else self.steps(uses)

    def steps(self, uses: Uses) -> Steps:
        """The normal form of a record with these uses, as arrays of one entry a step."""
        if self.run.constant:
            return Steps(*(np.asarray(x) for x in self._groups(uses).columns()))
        c, s, sigma = self.arrays
        used = uses.steps(self.period)
        own = np.zeros_like(s)
        own[used] = s[used]
        return Steps(c, own, sigma)

    def _groups(self, uses: Uses) -> Groups:
        t, groups = self.run.steps, []
        if not uses.total:
            return Groups((Group(1, tuple(self._idle(0, t))),))
        periodic_end = uses.first + (uses.epochs - 1) * self.period
        marks = [*([periodic_end] if uses.epochs else []), *uses.then, t]
        begin = uses.first if uses.epochs else uses.then[0]
        if begin:
            groups.append(Group(1, tuple(self._idle(0, begin))))
        if uses.epochs > 1:
            groups.append(Group(uses.epochs - 1, self._used(begin, begin + self.period)))
        for a, b in pairwise(marks):
            groups.append(Group(1, self._used(a, b)))
        return Groups(groups)

    def _used(self, a: int, b: int) -> tuple[Stretch, ...]:
        """Steps a..b−1, of which the first uses the record."""
        first = Stretch(1, self._slope(a), self.constants.s, self.constants.sigma)
        return (first, *self._idle(a + 1, b))

    def _slope(self, k: int) -> float:
        if k >= self.run.data_steps:
            return self.constants.cool
        at_end = k % self.period == self.period - 1
        return self.constants.last if at_end else self.constants.full

    def _idle(self, a: int, b: int) -> Iterator[Stretch]:
        """Steps a..b−1, none of which uses the record, as stretches of equal slopes."""
        for c, pieces in groupby(self._alike(a, b), key=lambda piece: self._slope(piece[0])):
            yield Stretch(sum(end - k for k, end in pieces), c, 0.0, self.constants.sigma)

    def _alike(self, a: int, b: int) -> Iterator[tuple[int, int]]:
        """Steps a..b−1 cut into pieces (first, end): full batches, an epoch's last one, the cool-down."""
        data = self.run.data_steps
        while a < b:
            last = a - a % self.period + self.period - 1
            end = b if a >= data else min(b, data, max(last, a + 1))
            yield a, end
            a = end


def check_position(run: NoisySGD, position: int) -> int:
    """`position`, if the run has batches of known position and one there."""
    if not isinstance(run.order, KnownUses):
        raise InvalidInput(
            "position", f"a {run.batches.kind} run has no known positions, got {position!r}"
        )
    return validate.integer(
        "position",
        position,
        at_least=0,
        at_most=run.steps_per_epoch - 1,
        of="steps_per_epoch − 1 = ",
    )


# How two paths of a diffusion can part on a dissipative loss, and what that costs.
#
# At distance z they part at a rate of at most β(Δ + g(z)), g(z) = min{−mz, λ/z − κz}: m < 0 is the least
# curvature, and ⟨∇L(x) − ∇L(y), x − y⟩ ≥ κ‖x − y‖² − λ. The rate is positive up to the distance z* with
# κz*² = Δz* + λ, which no two paths from one point ever reach. From distance d the shifts a = 2β(Δ +
# g(z)) bring them together in the time R(d) = ∫_0^d dz/(β(Δ + g)), as long as they took to part, at a
# cost of μ² = 2β∫_0^d (Δ + g) (docs, "Diffusions").


_NEAR = 1e-6  # relative distance to z* within which R(d) has lost its digits
_WIDTH = 1e-13  # of the bracket of a distance, relative


class Growth(NamedTuple):
    """How fast two paths part, from the constants of the mean loss with its regulariser.

    Distances d are in [0, `limit`), and times are multiplied by β. `expansion`: M = −m. `rate`: κ. `offset`:
    λ. `gap`: Δ, how far the gradients of adjacent data sets are apart.
    """

    expansion: float
    rate: float
    offset: float
    gap: float

    @property
    def limit(self) -> float:
        """z*: the distance that no two paths from one point ever reach."""
        root = math.hypot(self.gap, 2.0 * math.sqrt(self.rate) * math.sqrt(self.offset))
        return (self.gap + root) / (2.0 * self.rate)

    @property
    def turn(self) -> float:
        """The distance at which the two bounds −mz and λ/z − κz cross."""
        return math.sqrt(self.offset) / math.sqrt(self.expansion + self.rate)

    def spread(self, d: float) -> float:
        """∫_0^d (Δ + g), which the cost of a distance d is a multiple of."""
        near = min(d, self.turn)
        total = self.gap * d + 0.5 * self.expansion * near * near
        if d > near:
            # Next to the turn the two nearly cancel, and log(d/near) would have lost its digits.
            total += self.offset * math.log1p((d - near) / near)
            total -= 0.5 * self.rate * (d - near) * (d + near)
        return total

    def time(self, d: float) -> float:
        """β·R(d): how long two paths take to part to the distance d, times β."""
        near = min(d, self.turn)
        total = math.log1p(self.expansion * near / self.gap) / self.expansion
        if d > near:
            # κz² − Δz − λ = κ(z − z*)(z + y)
            top = self.limit
            y = self.offset / (self.rate * top)
            total += (
                top * math.log((top - near) / (top - d)) - y * math.log((d + y) / (near + y))
            ) / (self.rate * (top + y))
        return total

    def reached(self, time: float) -> float | None:
        """What paths from one point reach by `time`: a d with β·R(d) ≥ `time`, next to the least.

        None if it is next to z*, where R(d) has lost its digits.
        """
        low, high = 0.0, self.limit * (1.0 - _NEAR)
        if not time <= self.time(high) < math.inf:
            return None
        return bisected(
            lambda d: self.time(d) >= time, low, high, close=lambda a, b: b - a <= _WIDTH * b
        )[1]


def growth_of(loss: Loss, gap: float) -> Growth | None:
    """The growth on the mean loss with its regulariser; None where it is not dissipative, or convex anyway.

    Rounding is covered by the margin of whoever reads the result.
    """
    m = loss.least_curvature
    if loss.dissipativity is None or m is None:
        return None
    offset, rate = loss.dissipativity
    if not m + loss.l2 < 0.0 or not offset > 0.0:
        return None
    return Growth(expansion=-m - loss.l2, rate=rate + loss.l2, offset=offset, gap=gap)
