"""Forgetting: payments that hide what withdrawn records left in the model, by the end of the steps after the
last request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from pabi.verification.arithmetic import (
    Refused,
    above,
    closed,
    double_above,
    double_below,
    fraction_of,
    integer,
    positions,
    timed,
)
from pabi.verification.bounds import JointBound
from pabi.verification.cases import (
    PAYMENT_KEYS,
    LinearCases,
    check_start,
    proven_by,
    proven_mu,
    stated_mu,
)
from pabi.verification.drawn_runs import Capped
from pabi.verification.factors.closed_forms import Failure, Gaussians, read_mu
from pabi.verification.forgetting import ForgettingDraws, ForgettingOrder
from pabi.verification.ordered_runs import UseSteps, check_uses
from pabi.verification.places import worst_position
from pabi.verification.replay import Claim, Replay, RoundedSteps, payments_of
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.composition import drawn, totals_of
from pabi.verification.theorems.nonlinear_shifts import NonlinearCases, paid_off
from pabi.verification.theorems.random_batches import proven_shift
from pabi.verification.theorems.secret_order import averaged

SHIFTS = (
    "docs, Theory, 21.1 (Theorem 33); Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts (docs, "
    "Theory, 3, Theorem 1)"
)
RANDOM = "docs, Theory, 21.1 (Theorem 33); Bok, Su, Altschuler 2024, Thm 4.10, extended"
COMPOSED = "docs, Theory, 21.1 (Theorem 33); Dong, Roth, Su 2022, Cor. 3.3"
KEYS = ("run", "claim", "position", "cases", "steps", "demands")
_CASE_KEYS = ("run", "claim", "position", "cases", "demands")
_DRAWN_KEYS = (*_CASE_KEYS, "cap")

Run = ForgettingOrder | ForgettingDraws


def _linear(run: ForgettingOrder, payload: Payload) -> Proven:
    """Payments under slopes."""
    assumptions = run.assumptions(hidden=True)
    _check_published(run, payload["demands"])
    if payload["demands"] != "uses":
        mu = _together(run, payload)
        return Proven(assumptions, proven_by(run, [(Fraction(1), mu)]))
    if len(run.requests) > 1:
        raise Refused("demands: records of several requests have no uses in common")
    if run.records > 1 and not run.moves_later():
        run.diameter = None  # which of several batches are worst together is not known then
    if isinstance(run.scheme, KnownPositions):
        cases, check = payload["cases"], LinearCases(run, payload)
        parts = worst_position(run, cases, check, later_is_worse=run.later_is_worse)
    else:
        parts = averaged(run, payload)
    return Proven(assumptions, proven_by(run, parts))


def _check_published(run: Run, demands: Any) -> None:
    """Refuse demands that leave out what is not known."""
    if run.published != (demands == "none"):
        raise Refused("demands: given a model that was handed out there are none, otherwise some")
    ordered = isinstance(run, ForgettingOrder)
    if run.published and ordered and not isinstance(run.scheme, KnownPositions):
        raise Refused("published: a model that was handed out may tell something of the order")


def _owed(run: ForgettingOrder, demands: str) -> list[Any]:
    """What all records may add in every step; refused where that is not the worst that may be."""
    positions("steps", run.total)
    match demands:
        case "none":
            owed = [fmpq(0)] * run.total
        case "every":
            owed = run.every()
        case "last":
            if isinstance(run.scheme, SecretEveryEpoch) or not run.moves_later():
                raise Refused("demands: an earlier use may be worse than the last one")
            owed = run.last_uses()
        case "latest":
            owed = run.latest_uses()
        case _:
            raise Refused(f"demands: the checker knows no {demands!r}")
    return owed


def _together(run: ForgettingOrder, payload: Payload) -> float:
    """The μ of one case about all withdrawn records."""
    case, mu = _only_case(payload, PAYMENT_KEYS)
    LinearCases(run, payload)  # steps that are stated besides are those of the description
    if mu != math.inf:
        owed = np.array(
            [double_above(fraction_of(s)) for s in timed(_owed(run, payload["demands"]))]
        )
        paid = payments_of(case, _start(run, case), np.arange(run.total), owed, run.total)
        proven_mu(case, Replay(run.steps).costs([Claim(paid, mu)])[0], f"step {run.total}")
    return read_mu(case["mu"])


def _only_case(payload: Payload, keys: Sequence[str]) -> tuple[dict[str, Any], float | None]:
    cases = payload["cases"]
    if len(cases) != 1:
        raise Refused("cases: expected one about all withdrawn records")
    closed("a case", cases[0], ("uses", "mu", "tau", "distance", *keys))
    check_uses(cases[0], UseSteps(0, 0, period=1))  # of nobody by itself
    return cases[0], stated_mu(cases[0])


def _start(run: Run, case: dict[str, Any]) -> float:
    """The distance at which the payments begin: given a model, not before the last request."""
    if run.published and integer("tau", case["tau"]) < run.last:
        raise Refused(f"tau: a model was handed out before step {run.last + 1}")
    return check_start(case, run.diameter, 0.0)


# Moduli that are not linear.


def _bent(run: ForgettingOrder, payload: Payload) -> Proven:
    """Payments under moduli of any shape."""
    assumptions, demands = run.assumptions(hidden=True), payload["demands"]
    _check_published(run, demands)
    if demands == "uses":
        if run.records > 1 or not isinstance(run.scheme, KnownPositions):
            raise Refused("demands: only one record of known place has uses")
        parts = worst_position(run, payload["cases"], NonlinearCases(run), later_is_worse=False)
        return Proven(assumptions, proven_by(run, parts))
    case, mu = _only_case(payload, ("payments",))
    if demands not in ("every", "none"):
        raise Refused("demands: under moduli that are not linear, every batch may hold the records")
    if mu != math.inf:
        owed, distance = [arb(s) for s in _owed(run, demands)], arb(_start(run, case))
        cost = paid_off(run, case, run.total, run.modulus, owed.__getitem__, distance)
        proven_mu(case, cost, "the last step")
    return Proven(assumptions, proven_by(run, [(Fraction(1), read_mu(case["mu"]))]))


# Random batches.


def _drawn(run: ForgettingDraws, payload: Payload) -> Proven:
    """One-sided shifts, with all withdrawn records as one that pulls as far as they do together."""
    if run.published:
        raise Refused("published: no withdrawn record is left in the batches")
    return proven_shift(run, payload)


def _given_drawn(run: ForgettingDraws, payload: Payload) -> Proven:
    """Payments from the diameter, given a model, whatever batches are drawn."""
    assumptions = run.assumptions(hidden=True)
    _check_published(run, payload["demands"])
    if not run.published:
        raise Refused("published: no model was handed out, so that random batches owe something")
    case, mu = _only_case(payload, (*PAYMENT_KEYS, "payments"))
    steps = Capped(run, integer("cap", payload.get("cap", run.size)))
    if mu != math.inf:
        proven_mu(case, _given_cost(run, steps, case, mu), f"step {run.total}")
    bound = JointBound.of(Gaussians.single(read_mu(case["mu"])), Failure(steps.failure))
    return Proven(assumptions, (bound,))


def _given_cost(run: ForgettingDraws, steps: Capped, case: dict[str, Any], mu: float | None) -> Any:
    """What the payments of a case cost. Refused unless they bring its distance to zero."""
    distance, tau = _start(run, case), integer("tau", case["tau"])
    positions("steps", run.total - tau)
    if "payments" in case:
        return paid_off(run, case, run.total, steps.modulus, lambda k: arb(0), arb(distance))
    later = range(tau, run.total)
    c, s, sigma = np.zeros((3, run.total))
    c[tau:] = [double_above(fraction_of(above(steps.at(k).c))) for k in timed(later)]
    sigma[tau:] = [double_below(fraction_of(run.sigma(k))) for k in timed(later)]
    none_owed = np.zeros(0, dtype=np.int64), np.zeros(0)
    paid = payments_of(case, distance, *none_owed, run.total)
    return Replay(RoundedSteps(c, s, sigma)).costs([Claim(paid, mu)])[0]


# Every iterate.


def _composed(run: ForgettingOrder, payload: Payload) -> Proven:
    """What all withdrawn records paid until their requests, at most the sum of what each did."""
    if "cap" in payload:
        raise Refused("cap: composition is about batches of any size")
    if payload["cases"] != [] or payload["demands"] != "all" or run.published:
        raise Refused("demands: composition is about all steps, and about no model handed out")
    total = arb(0)
    for end, (_, m) in timed(zip(run.ends, run.requests, strict=True)):
        most = max(paid for paid, _ in totals_of(run, end))
        total += m * arb(most).sqrt()
    bound = JointBound.gaussian(double_above(fraction_of(above(total))))
    return Proven(run.assumptions(hidden=False), (bound,))


def _composed_drawn(run: ForgettingDraws, payload: Payload) -> Proven:
    """One factor for every step with data, in which all withdrawn records pull together."""
    if run.published:
        raise Refused("published: composition is about no model handed out")
    return drawn(run, payload)


_PLAN = ("run", "claim", "position", "plan", "reading")

THEOREMS = {
    "unlearning": {
        ForgettingOrder: ProofCheck(KEYS, _linear, named("unlearning", SHIFTS)),
        ForgettingDraws: ProofCheck(_DRAWN_KEYS, _given_drawn, named("unlearning", SHIFTS)),
    },
    "unlearning, any modulus": {
        ForgettingOrder: ProofCheck(_CASE_KEYS, _bent, named("unlearning, any modulus", SHIFTS)),
        ForgettingDraws: ProofCheck(
            _DRAWN_KEYS, _given_drawn, named("unlearning, any modulus", SHIFTS)
        ),
    },
    "unlearning, random batches": {
        ForgettingDraws: ProofCheck(_PLAN, _drawn, named("unlearning, random batches", RANDOM)),
    },
    "unlearning, composition": {
        ForgettingOrder: ProofCheck(
            _CASE_KEYS, _composed, named("unlearning, composition", COMPOSED)
        ),
        ForgettingDraws: ProofCheck(
            _PLAN, _composed_drawn, named("unlearning, composition", COMPOSED)
        ),
    },
}
