"""Epoch by epoch: a place that changes every epoch, whatever the steps do, at stated distances in between.

Payments may depend on the record's place in every epoch but the last. With W_k the product of the slopes
after step k of an epoch, V₁ and V₂ the sums of (σ_k·W_k)² before and from its use i on, D = r·Πc of the
distance r before the epoch and Y = D + s_i·W_i − r′ for the distance r′ after it, payments in proportion
to σ_k²·W_k that take y ≤ D off before the use and Y − y from it on cost y²/V₁ + (Y − y)²/V₂ (docs, "Secret
order").
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, assert_never

from flint import arb

from pabi.verification.arithmetic import StepBalls, distances
from pabi.verification.cases import CaseCheck, every_last_place, of_cases, read_range, replay_case
from pabi.verification.factors.gaussians import Part
from pabi.verification.limits import Refused, positions, timed
from pabi.verification.ordered_runs import OrderedRun, UseSteps
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload


def _ordered(run: OrderedRun, payload: Payload) -> list[Part]:
    match run.scheme:
        case SecretEveryEpoch():
            check = _LastEpoch(run, distances("resting", payload["resting"]))
            cases = every_last_place(run, payload["cases"])
            return [(weight, check(case, uses)) for case, weight, uses in cases]
        case KnownPositions() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)


class _LastEpoch(CaseCheck):
    """Payments of the last epoch written out, on top of what the others cost at the stated distances."""

    def __init__(self, run: OrderedRun, resting: list[float]) -> None:
        older = -(-run.data // run.period) - 1
        if len(resting) != older:
            raise Refused(f"resting: expected {older} distances, got {len(resting)}")
        super().__init__(run, resting[-1] if resting else 0.0)
        positions("steps", run.total)
        begins = [0.0, *resting[:-1]]
        self.first = older * run.period
        self.older = arb(0)
        for e, (begin, end) in enumerate(zip(begins, resting, strict=True)):
            if run.diameter is None or end < run.diameter:  # no iterates are further apart
                part = self._steps(e * run.period, (e + 1) * run.period)
                self.older += _dearest(part, arb(begin), arb(end))
        self.last = self._steps(self.first, run.total)

    def _steps(self, begin: int, end: int) -> StepBalls:
        return StepBalls(*(x[begin:end] for x in self.run.steps))

    def cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        """Σ (a_k/σ_k)² of all payments, for a use at the end of the range that the case states."""
        own = [arb(0)] * len(self.last.c)
        (covered,) = map(read_range, case["ranges"])
        if covered is not None:
            a, b = covered
            own[b] = self.run.standing(self.first + a, self.first + b)
        return self.older + replay_case(case, self.last._replace(s=own), distance)


def _dearest(steps: StepBalls, begin: Any, end: Any) -> Any:
    """The cost of the dearest place in one epoch, from the distance before it to that after it."""
    later, whole = [], arb(1)
    for c in reversed(steps.c):
        later.append(whole)
        whole *= c
    later.reverse()
    squares = [(sigma * w) ** 2 for sigma, w in zip(steps.sigma, later, strict=True)]
    # Sums of their own from both ends: a difference of two may have no digits left.
    rooms = list(accumulate(reversed(squares), initial=arb(0)))[:0:-1]
    before, owed, worst = arb(0), begin * whole, arb(0)
    for s, w, square, after in timed(zip(steps.s, later, squares, rooms, strict=True)):
        paid = (owed + s * w - end).max(arb(0))
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


_SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with shifts within each epoch, averaged over the record's last "
    "position (docs, Secret order)"
)
THEOREMS = {"epoch by epoch": of_cases("epoch by epoch", _SOURCE, _ordered, "resting")}
