"""Payments in advance: uses that are known to pull to one side, in batches that come in an order.

A use moves the run by at most s in a cone around g, a unit vector of the record, so that it is within u of
q·g. With the difference of the two runs within z of −n·g, n = z = 0 before the first step and after the last
one, a step of slopes in [low, high] and noise σ costs (p/σ)²,

    p = (A + B)⁺ + 2·(−A)⁺,   A = n′ − c·n + q,   B = h·z + r·n + u − z′,

where n′, z′ come after it, c is the middle of the slopes, r half of their distance and h the largest size of
one (docs, "Payments in advance"). Uses before the step `begin` are paid for before it, each after it is made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, assert_never

import numpy as np
from flint import arb, fmpq

from pabi.describe.runs import ONE_SIDE, NoisySGD
from pabi.verification.arithmetic import (
    Refused,
    distances,
    geometric,
    integer,
    positions,
    timed,
)
from pabi.verification.cases import (
    PAYMENT_KEYS,
    CaseCheck,
    ClaimedCase,
    LinearCases,
    of_cases,
)
from pabi.verification.factors.closed_forms import Part
from pabi.verification.ordered_runs import OrderedRun, UseSteps
from pabi.verification.places import (
    every_pair,
    every_position,
    last_to_first,
    pairs_of_later_uses,
    read_range,
    weighed,
)
from pabi.verification.replay import Claim, PaidBlocks, Replay, RoundedSteps, payments_of
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload
from pabi.verification.theorems.secret_order import Latest

Pulls = dict[
    int, tuple[Any, Any]
]  # of steps that use the record: a ball around each, in units of s

_CHAIN, _BESIDE = 4096, 32  # additions in a chain of a computed sum, and more than comes besides

SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with payments in advance (docs, Theory, 4.5, Theorem 57)"
)


def _ordered(run: OrderedRun, payload: Payload) -> list[Part]:
    _check_one_side(run)
    cases, check = payload["cases"], _InAdvance(run)
    match run.scheme:
        case KnownPositions() if run.position is not None:
            if len(cases) != 1:
                raise Refused(f"cases: expected 1, got {len(cases)}")
            return [(Fraction(1), max(check([(cases[0], run.uses(run.position))])))]
        case KnownPositions():
            return [(Fraction(1), max(check(last_to_first(run, cases))))]
        case SecretOnce():
            return every_position(run, cases, check)
        case SecretEveryEpoch():
            if run.constant or run.moves_later():
                return pairs_of_later_uses(run, cases, check)
            check = _InAdvance(run, Latest(run))
            return weighed(every_pair(run, cases), check)
        case _:
            assert_never(run.scheme)


def _check_one_side(run: OrderedRun) -> None:
    """Refuse unless every use moves the run within a cone around one direction."""
    gradients, described = run.gradients, run.run
    if gradients.facts.cone is None:
        raise Refused("loss: its gradients may have any direction")
    for field in ("prox", "diameter"):
        if getattr(described, field) is not None:
            raise Refused(f"{field}: what keeps iterates together moves what was paid in advance")
    if run.unit != "record":
        raise Refused("unit: several records together pull in several directions")
    if described.gradient_sensitivity is not None:
        raise Refused("gradient_sensitivity: it does not say where a record pulls to")
    if gradients.curvature is None or gradients.curvature[0] < 0:
        raise Refused("loss: its gradients as clipped are not known to be those of a convex loss")


class _InAdvance(CaseCheck):
    """Uses before step `paid` are paid for before it, those from there on from step `begin` on, of which the
    last `ahead` in advance."""

    PAYMENTS = (*PAYMENT_KEYS, "paid", "begin", "ahead", "n", "z")

    def __init__(self, run: OrderedRun, latest: Latest | None = None) -> None:
        """`latest`: of a place that changes every epoch, where a later use need not be worse."""
        super().__init__(run)
        self.latest = latest
        self.step = cache(self._step)
        self.ball = _ball(run)

    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case."""
        costs: list[Any] = []
        written: dict[int, list[tuple[int, Claim]]] = {}
        for i, claim in enumerate(claims):
            before, cost = self._paid(claim.case, claim.uses, claim.distance)
            if isinstance(before, PaidBlocks):
                # All steps at once, but where a later slope of 0 would clear what was not paid for.
                end = self.end if self.lasting else claim.case["paid"]
                written.setdefault(end, []).append((i, Claim(before, claim.mu, cost)))
                before = arb(0)
            costs.append(before + cost)
        for end, some in written.items():
            steps = RoundedSteps(*(column[:end] for column in self.run.steps))
            replayed = Replay(steps, self.run.period).costs(claim for _, claim in some)
            for (i, _), cost in zip(some, replayed, strict=True):
                costs[i] = cost
        return costs

    @cached_property
    def lasting(self) -> bool:
        """Whether no step makes all distances 0 by itself."""
        return bool((self.run.steps.c > 0.0).all())

    def _paid(
        self, case: dict[str, Any], uses: UseSteps, distance: float
    ) -> tuple[PaidBlocks | Any, Any]:
        """(what is paid before the step `paid`, written out or as a cost, Σ (p/σ)² of the other payments)."""
        paid, begin, ahead = (integer(name, case[name]) for name in ("paid", "begin", "ahead"))
        n, z = (distances(name, case[name]) for name in ("n", "z"))
        if not paid <= begin <= self.end:
            raise Refused(f"begin: expected from {paid} to {self.end}, got {begin}")
        if not len(n) == len(z) == max(0, self.end - begin - 1):
            raise Refused(f"n, z: expected one for every step from {begin + 1} on but the last")
        before = self._before(case, _part(uses, 0, paid), paid, distance)
        if begin == self.end:
            if paid < begin:
                raise Refused("paid: what is left is never paid for")
            return before, arb(0)
        self._check_places(case, uses, begin)
        apart = self._apart(case, _part(uses, paid, begin), begin)
        steps = range(begin, self.end)
        pulls = dict.fromkeys(uses.all(), (arb(0), arb(1)))
        pulls |= dict.fromkeys(list(pulls)[max(0, len(pulls) - ahead) :], self.ball)
        positions("steps", len(steps))
        ends = zip([*n, 0.0], [*z, 0.0], strict=True)
        return before, self._in_advance(steps, pulls, ends, apart)

    def _check_places(self, case: dict[str, Any], uses: UseSteps, begin: int) -> None:
        """Refuse unless it is known which steps from `begin` on use the record. Where its place changes every
        epoch, earlier uses stand at the ends of ranges."""
        covered = [read_range(where) for where in case.get("ranges", [])]
        places = [where for where in covered if where is not None]
        if isinstance(self.run.scheme, SecretEveryEpoch):
            late = _part(uses, begin, self.end).total
            if late > len(places):
                raise Refused("begin: expected a step after all uses but those of stated batches")
            places = places[len(places) - late :]
        if any(first < last for first, last in places):
            raise Refused("ranges: what is paid in advance depends on the position")

    def _before(
        self, case: dict[str, Any], uses: UseSteps, end: int, distance: float
    ) -> PaidBlocks | Any:
        """What is paid before step `end` for these uses: written out, or what it costs, a ball."""
        if not uses.total:
            if distance:
                raise Refused("distance: there is nothing to be paid before the first step")
            if stated := sorted({*PAYMENT_KEYS} & {*case} - {"tau", "distance"}):
                raise Refused(f"{stated[0]}: there is nothing to be paid before the first use")
            return arb(0)
        if self.latest is not None:
            return self.latest.before(case, end, distance)
        if not self.run.constant:
            if self.run.data < end < self.run.total:
                raise Refused(f"begin: expected a step with data, or {self.run.total}")
            at = uses.steps()
            return payments_of(case, distance, at, self.run.steps.s[at], end)
        whole = end == self.run.total
        part = self.run if whole else OrderedRun(_until(self.run.run, end), self.run.scheme)
        claim = ClaimedCase(case, uses, distance, math.inf)
        return LinearCases(part, {}).cost(claim)

    def _apart(self, case: dict[str, Any], uses: UseSteps, end: int) -> Any:
        """How far apart these uses bring the runs before step `end`, where nothing is paid."""
        run, distance = self.run, arb(0)
        if not uses.total:
            return distance
        first = uses.first if uses.count else uses.then[0]
        if run.constant:
            last = first
            if uses.count:
                # From one use to the next all distances grow alike.
                last += (uses.count - 1) * uses.period
                epoch = self._grown(range(first + 1, first + 1 + uses.period))
                distance = arb(run.s(first)) * geometric(epoch, uses.count)
            for use in uses.then:
                grown = distance * self._grown(range(last + 1, use + 1))
                distance, last = grown + arb(run.s(use)), use
            return distance * self._grown(range(last + 1, end))
        positions("steps", end)
        used = set(uses.all())
        own = {} if self.latest is None else self.latest.owed(case)
        for k in timed(range(first, end)):
            distance *= arb(run.slope(k))
            if k in used:
                distance += own[k] if k in own else arb(run.s(k))
        return distance

    def _grown(self, steps: range) -> Any:
        """The product of the slopes of these steps of a constant schedule."""
        positions("steps", len(steps))
        total = arb(1)
        for k, count in Counter(map(self.run.alike, timed(steps))).items():
            total *= arb(self.run.slope(k)) ** count
        return total

    def _in_advance(self, steps: range, pulls: Pulls, ends: Iterable[Any], apart: Any) -> Any:
        """What is paid in these steps, from the distance `apart` on: `ends` are the n and z after each."""
        at, within, total, nothing = arb(0), apart, arb(0), arb(0)
        for k, (n, z) in timed(list(zip(steps, ends, strict=True))):
            after, beyond = arb(n), arb(z)
            middle, spread, steepest, sigma = self.step(self.run.alike(k))
            moved = after - middle * at
            left = steepest * within + spread * at - beyond
            if k in pulls:
                sensitivity = arb(self.run.s(k))
                centre, radius = pulls[k]
                moved, left = moved + centre * sensitivity, left + radius * sensitivity
            paid = (moved + left).max(nothing)
            if not moved >= 0:
                paid += 2 * (-moved).max(nothing)
            paid /= sigma
            total += paid * paid
            at, within = after, beyond
        return total

    def _step(self, k: int) -> tuple[Any, ...]:
        """(the middle of the slopes, how far they are from it, the steepest, the noise) of a step, whatever
        is in its batch."""
        run, eta, curvature = self.run, self.run.step_size(k), self.run.gradients.curvature
        assert curvature is not None  # as was checked
        l2, steepest = run.gradients.l2, max(run.fractions(k)) * curvature[1]
        low, high = 1 - eta * (l2 + steepest), 1 - eta * l2
        middle, spread = (low + high) / 2, (high - low) / 2
        return tuple(map(arb, (middle, spread, max(abs(low), abs(high)), run.sigma(k))))


def _part(uses: UseSteps, first: int, end: int) -> UseSteps:
    """The uses in the steps `first`, …, `end` − 1."""
    begin, stop = (max(0, -(-(k - uses.first) // uses.period)) for k in (first, end))
    count = max(0, min(uses.count, stop) - begin)
    then = [k for k in uses.then if first <= k < end]
    return UseSteps(uses.first + begin * uses.period, count, period=uses.period, then=then)


def _ball(run: OrderedRun) -> tuple[Any, Any]:
    """(where on its axis, how large) a ball around the cone's part of the unit ball is. The square of the
    distance from q of a point of norm t is at most t² − 2qt·cos + q², which is largest at 0 or 1. Sums that
    are computed may differ by a little more to any side: by r of what a gradient is at most, and a shrunken
    gradient and its centre leave 2r beside that (docs, "Rounding"); no radius is below ½."""
    cone = run.gradients.facts.cone
    most = run.size * max(*run.fractions(0), *run.fractions(run.period - 1), fmpq(0))
    cosine = arb(cone).sqrt()
    centre = 1 / (2 * cosine) if cone >= fmpq(1, 2) else cosine
    radius = centre.max((1 - 2 * centre * cosine + centre * centre).max(arb(0)).sqrt())
    room = 2 * most * (min(most, fmpq(_CHAIN)) + _BESIDE) / 2**53
    return centre, radius * (1 + 4 * arb(room))


def _until(run: NoisySGD, end: int) -> NoisySGD:
    """The run that takes the steps before `end` only, all of them with data."""
    cut: dict[str, Any] = {
        name: schedule[:end]
        for name in ("step_size", "noise_std", "noise_multiplier")
        if isinstance(schedule := getattr(run, name), np.ndarray)
    }
    if end > run.steps - run.cooldown_steps:
        raise Refused(f"begin: expected a step with data, or {run.steps}")
    return replace(run, epochs=None, total_steps=end, cooldown_steps=0, **cut)


THEOREMS = {
    "payments in advance": of_cases("payments in advance", SOURCE, _ordered, besides=(ONE_SIDE,))
}
