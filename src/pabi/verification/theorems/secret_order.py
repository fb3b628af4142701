"""Secret orders: a record in one of several places, once or anew in every epoch.

`verification.places` goes through the places, `verification.cases` replays what is paid for each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any, assert_never

import numpy as np
from flint import arb

from pabi.verification.arithmetic import Refused, distances, timed
from pabi.verification.bounds import JointBound
from pabi.verification.cases import (
    ClaimedCase,
    LinearCases,
    WrittenOut,
    of_cases,
)
from pabi.verification.factors.closed_forms import Failure, Part
from pabi.verification.factors.mixtures import SecretMixtures
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.places import (
    every_last_place,
    every_pair,
    every_position,
    pairs_of_later_uses,
    read_range,
    weighed,
)
from pabi.verification.replay import PaidBlocks, RoundedSteps, payments_of
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.shifted_interpolation import OPTIMAL


def averaged(run: OrderedRun, payload: Payload) -> list[Part]:
    """What is proven of a place that is secret, for all that it may be."""
    check, cases = LinearCases(run, payload), payload["cases"]
    match run.scheme:
        case SecretOnce():
            return every_position(run, cases, check)
        case SecretEveryEpoch():
            return pairs_of_later_uses(run, cases, check)
        case KnownPositions():
            raise Refused("theorem: the order of the batches is not secret")
        case _:
            assert_never(run.scheme)


_AVERAGED = f"{OPTIMAL}, averaged over the record's position (docs, Theory, 6, Theorem 5a)"

_BY_LABEL = f"{OPTIMAL}, by a label that stays secret (docs, Theory, 6.1, Theorem 45)"

# Secret place: payments under linear slopes for every place of a record that no other record depends on.


def of_one_record(run: OrderedRun) -> tuple[OrderedRun, bool]:
    """(the run of either record by itself against none, whether there is one on the other data set). Refused
    where others take part in what happens to a record."""
    match run.scheme:
        case SecretOnce():
            if not run.scheme.independent:
                raise Refused("theorem: a record's place changes those of others")
        case SecretEveryEpoch() | KnownPositions():
            raise Refused("theorem: it needs a place that is drawn once, in secret")
        case _:
            assert_never(run.scheme)
    return against_none(run)


def against_none(run: OrderedRun) -> tuple[OrderedRun, bool]:
    """(the run with a record against none, whether another record moves that of the other data set)."""
    match run.neighbours:
        case "zero_out":
            opposite = False
        case "replace_one":
            opposite = True
            if run.run.gradient_sensitivity is not None:
                raise Refused("gradient_sensitivity: it does not say what one record moves")
        case _:
            assert_never(run.neighbours)
    return OrderedRun(replace(run.run, adjacency="zero_out"), run.scheme), opposite


def _secret_place(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=True)
    alone, opposite = of_one_record(run)
    parts = every_position(alone, payload["cases"], LinearCases(alone, payload))
    mixture = SecretMixtures.single(parts, opposite)
    return Proven(assumptions, (JointBound.of(mixture, Failure(run.failure)),))


# Latest uses: a place that changes every epoch, whatever the steps do, each use at the end of its range.
#
# A use at step i is no worse than one at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of
# step k (docs, "The worst record", rule (ii)). So one at the end of a range stands for a use anywhere in
# it, if it has the largest of these numbers.


def _latest_uses(run: OrderedRun, payload: Payload) -> list[Part]:
    match run.scheme:
        case SecretEveryEpoch():
            return weighed(every_pair(run, payload["cases"]), Latest(run))
        case KnownPositions() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)


class Latest(WrittenOut):
    """Payments written out, for uses as large as they have to be."""

    def __init__(self, run: OrderedRun) -> None:
        super().__init__(run)
        self.epochs, last = -(-run.data // run.period), run.period - 1
        self.standing = cache(run.standing)
        begins = range(0, (self.epochs - 2) * run.period, run.period)
        self.older = {first + last: run.standing(first, first + last) for first in begins}

    @property
    def steps(self) -> RoundedSteps:
        """Those of the run."""
        return self.run.steps

    def payments(self, claim: ClaimedCase) -> PaidBlocks:
        """The payments of a case, for uses at the ends of the ranges that it states."""
        return self.before(claim.case, self.run.total, claim.distance)

    def before(self, case: dict[str, Any], end: int, distance: float) -> PaidBlocks:
        """The payments for the uses before step `end`, all of which are made before it."""
        own = {k: s for k, s in self.owed(case).items() if k < end}
        at, owed = np.array([*own], dtype=np.int64), np.array([*own.values()], dtype=np.float64)
        return payments_of(case, distance, at, owed, end)

    def owed(self, case: dict[str, Any]) -> dict[int, float]:
        """How large the use at each of these ends has to be."""
        run, own = self.run, dict(self.older)
        for epoch, covered in enumerate(map(read_range, case["ranges"]), self.epochs - 2):
            if covered is not None:
                first, last = (epoch * run.period + where for where in covered)
                own[last] = self.standing(first, last)
        return own


_LAST_TWO = (
    f"{OPTIMAL}, averaged over the record's last two positions (docs, Theory, 6, Theorem 5a)"
)

# Epoch by epoch: a place that changes every epoch, whatever the steps do, at stated distances in between.
#
# Payments may depend on the record's place in every epoch but the last. With W_k the product of the
# slopes after step k of an epoch, V₁ and V₂ the sums of (σ_k·W_k)² before and from its use i on, D = r·Πc
# of the distance r before the epoch and Y = D + s_i·W_i − r′ for the distance r′ after it, payments in
# proportion to σ_k²·W_k that take y ≤ D off before the use and Y − y from it on cost y²/V₁ + (Y − y)²/V₂
# (docs, "Secret order").


def _epoch_by_epoch(run: OrderedRun, payload: Payload) -> list[Part]:
    match run.scheme:
        case SecretEveryEpoch():
            check = _LastEpoch(run, distances("resting", payload["resting"]))
            return weighed(every_last_place(run, payload["cases"]), check)
        case KnownPositions() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)


class _LastEpoch(WrittenOut):
    """Payments of the last epoch written out, on top of what the others cost at the stated distances."""

    def __init__(self, run: OrderedRun, resting: list[float]) -> None:
        older = -(-run.data // run.period) - 1
        if len(resting) != older:
            raise Refused(f"resting: expected {older} distances, got {len(resting)}")
        super().__init__(run, resting[-1] if resting else 0.0)
        begins = [0.0, *resting[:-1]]
        self.first = older * run.period
        self.besides = arb(0)
        for e, (begin, end) in enumerate(zip(begins, resting, strict=True)):
            if run.diameter is None or end < run.diameter:  # no iterates are further apart
                part = self._part(e * run.period, (e + 1) * run.period)
                self.besides += _dearest(part, arb(begin), arb(end))

    def _part(self, begin: int, end: int) -> RoundedSteps:
        return RoundedSteps(*(x[begin:end] for x in self.run.steps))

    @property
    def steps(self) -> RoundedSteps:
        """Those of the last epoch, and of the cool-down."""
        return self._part(self.first, self.run.total)

    def payments(self, claim: ClaimedCase) -> PaidBlocks:
        """The payments of a case, for a use at the end of the range that it states."""
        at, owed = np.zeros(0, dtype=np.int64), np.zeros(0)
        (covered,) = map(read_range, claim.case["ranges"])
        if covered is not None:
            a, b = covered
            at, owed = np.array([b]), np.array([self.run.standing(self.first + a, self.first + b)])
        return payments_of(claim.case, claim.distance, at, owed, self.run.total - self.first)


def _dearest(steps: RoundedSteps, begin: Any, end: Any) -> Any:
    """The cost of the dearest place in one epoch, from the distance before it to that after it."""
    later, whole = [], arb(1)
    for c in timed(reversed(steps.c.tolist())):
        later.append(whole)
        whole *= arb(c)
    later.reverse()
    squares = [(arb(sigma) * w) ** 2 for sigma, w in zip(steps.sigma.tolist(), later, strict=True)]
    # Sums of their own from both ends: a difference of two may have no digits left.
    rooms = list(accumulate(reversed(squares), initial=arb(0)))[:0:-1]
    before, owed, worst = arb(0), begin * whole, arb(0)
    for s, w, square, after in timed(zip(steps.s.tolist(), later, squares, rooms, strict=True)):
        paid = (owed + arb(s) * w - end).max(arb(0))
        if not paid.is_zero():
            worst = worst.max(_cost(paid, owed, before=before, after=after))
        before += square
    return worst


def _cost(paid: Any, owed: Any, *, before: Any, after: Any) -> Any:
    """What taking `paid` off costs, of which no more than `owed` before the use."""
    total = before + after
    if not total > 0:
        raise Refused("resting: there is no noise to pay with")
    even = paid * before / total
    if even <= owed:
        return paid * paid / total
    early = even.min(owed)
    if not after > 0:
        raise Refused("resting: there is no noise to pay with")
    cost = (paid - early) ** 2 / after
    if early.is_zero():
        return cost
    if not before > 0:
        raise Refused("resting: there is no noise to pay with")
    return cost + early * early / before


_WITHIN_EPOCHS = (
    "Bok, Su, Altschuler 2024, Thm C.3, with shifts within each epoch, averaged over the record's last "
    "position (docs, Theory, 6, Lemma 5b)"
)

THEOREMS = {
    "secret order": of_cases("secret order", _AVERAGED, averaged, "steps"),
    "secret place": of_runs(
        ordered=ProofCheck(
            ("run", "claim", "position", "cases", "steps"),
            _secret_place,
            named("secret place", _BY_LABEL),
        )
    ),
    "latest uses": of_cases("latest uses", _LAST_TWO, _latest_uses),
    "epoch by epoch": of_cases("epoch by epoch", _WITHIN_EPOCHS, _epoch_by_epoch, "resting"),
}
