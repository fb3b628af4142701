"""Forgetting: payments that hide what withdrawn records left in the model, by the end of the steps after the
last request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, assert_never

from flint import arb, fmpq

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import StepBalls, check_cost, closed, integer
from pabi.verification.bounds import JointBound
from pabi.verification.cases import KEYS as PAYMENTS
from pabi.verification.cases import (
    CaseCheck,
    LinearCases,
    Range,
    check_start,
    check_weight,
    proven_by,
    read_range,
    replay_case,
    worst_position,
)
from pabi.verification.drawn_runs import Capped
from pabi.verification.factors.failure import Failure
from pabi.verification.factors.gaussians import Gaussians, Part, read_mu
from pabi.verification.forgetting import ForgettingDraws, ForgettingOrder, weights_of
from pabi.verification.limits import Refused, in_time, positions, timed
from pabi.verification.moduli import Omega, pay
from pabi.verification.ordered_runs import UseSteps, check_uses
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.random_batches import proven_shift

SHIFTS = "docs, Forgetting; Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"
RANDOM = "docs, Forgetting; Bok, Su, Altschuler 2024, Thm 4.10, extended"
COMPOSED = "docs, Forgetting; Dong, Roth, Su 2022, Cor. 3.3"
KEYS = ("run", "claim", "position", "cases", "steps", "demands")
_BENT_KEYS = _COMPOSED_KEYS = ("run", "claim", "position", "cases", "demands")
_DRAWN_KEYS = (*_BENT_KEYS, "cap")

Run = ForgettingOrder | ForgettingDraws


def _linear(run: ForgettingOrder, payload: Payload) -> Proven:
    """Payments under slopes."""
    assumptions, cases = run.assumptions(hidden=True), payload["cases"]
    _check_published(run, payload["demands"])
    if payload["demands"] != "uses":
        mu = _together(run, payload, _steps_of(run))
        return Proven(assumptions, proven_by(run, [(Fraction(1), mu)]))
    if len(run.requests) > 1:
        raise Refused("demands: records of several requests have no uses in common")
    if run.records > 1 and not run.moves_later():
        run.diameter = None  # which of several batches are worst together is not known then
    later = run.later_is_worse or run.moves_later()
    check = LinearCases(run, payload)
    parts: list[Part]
    match run.scheme:
        case KnownPositions():
            parts = worst_position(run, cases, check, later_is_worse=later)
        case SecretOnce():
            parts = _once(run, cases, check, later_is_worse=later)
        case SecretEveryEpoch():
            parts = _every_epoch(run, cases, check)
        case _:
            assert_never(run.scheme)
    return Proven(assumptions, proven_by(run, parts))


def _check_published(run: Run, demands: Any) -> None:
    """Refuse demands that leave out what is not known."""
    if run.published != (demands == "none"):
        raise Refused("demands: given a model that was handed out there are none, otherwise some")
    ordered = isinstance(run, ForgettingOrder)
    if run.published and ordered and not isinstance(run.scheme, KnownPositions):
        raise Refused("published: a model that was handed out may tell something of the order")


def _steps_of(run: ForgettingOrder) -> StepBalls:
    positions("steps", run.total)
    c = [arb(c) for c in run.slopes]
    sigma = [arb(run.sigma(k)) for k in timed(range(run.total))]
    return StepBalls(c, [arb(0)] * run.total, sigma)


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
    return [arb(s) for s in owed]


def _together(run: ForgettingOrder, payload: Payload, steps: StepBalls) -> float:
    """The μ of one case about all withdrawn records."""
    case, mu = _only_case(payload, PAYMENTS)
    LinearCases(run, payload)  # steps that are stated besides are those of the description
    if math.isfinite(mu):
        steps = steps._replace(s=_owed(run, payload["demands"]))
        check_cost(replay_case(case, steps, _start(run, case)), mu, f"step {run.total}")
    return mu


def _only_case(payload: Payload, keys: Sequence[str]) -> tuple[dict[str, Any], float]:
    cases = payload["cases"]
    if len(cases) != 1:
        raise Refused("cases: expected one about all withdrawn records")
    closed("a case", cases[0], ("uses", "mu", "tau", "distance", *keys))
    check_uses(cases[0], UseSteps(0, 0, period=1))  # of nobody by itself
    return cases[0], read_mu(cases[0]["mu"])


def _start(run: Run, case: dict[str, Any]) -> Any:
    """The distance at which the payments begin: given a model, not before the last request."""
    if run.published and integer("tau", case["tau"]) < run.last:
        raise Refused(f"tau: a model was handed out before step {run.last + 1}")
    return arb(check_start(case, run.diameter, 0.0))


# Secret orders.


def _once(
    run: ForgettingOrder, cases: Sequence[Any], check: Any, *, later_is_worse: bool
) -> list[Part]:
    """Every position with the probability that it is the worst of those where withdrawn records are. In
    ranges only where later positions are worse; otherwise one by one, in the order of what is proven of
    them."""
    period, rest = run.period, run.data % run.period
    ranges: list[tuple[int, int]] = []
    mus = []
    for case in timed(cases):
        (covered,) = map(read_range, case["ranges"])
        if covered is None or not 0 <= covered[0] <= covered[1] < period:
            raise Refused(f"ranges: expected positions of an epoch, got {case['ranges']}")
        if covered[0] < covered[1] and not later_is_worse:
            raise Refused(f"ranges: positions {list(covered)} may not be rounded to a later one")
        ranges.append(covered)
        mus.append(check(case, run.uses((rest + covered[1]) % period)))
    _check_cut(sorted(ranges), period)
    if later_is_worse:
        if ranges != sorted(ranges):
            raise Refused("ranges: expected them in order")
    elif mus != sorted(mus):
        raise Refused("cases: expected them in the order of what is proven")
    shares = [run.share((rest + a) % period, (rest + b) % period) for a, b in ranges]
    return _weighed(cases, weights_of(run, shares), mus)


def _check_cut(ranges: Sequence[tuple[int, int]], length: int) -> None:
    """Refuse unless the ranges cut 0..length−1."""
    following = 0
    for a, b in ranges:
        if a != following or b < a:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        following = b + 1
    if following != length:
        raise Refused(f"ranges: positions from {following} on are missing")


def _weighed(cases: Sequence[Any], weights: Sequence[Fraction], mus: Sequence[float]) -> list[Part]:
    for case, weight in zip(cases, weights, strict=True):
        check_weight(case, weight)
    return list(zip(weights, mus, strict=True))


def _every_epoch(run: ForgettingOrder, cases: Sequence[Any], check: Any) -> list[Part]:
    """Every pair of ranges, for the last batch of each of the last two epochs that holds a withdrawn record;
    older uses at the ends of their epochs."""
    if not run.moves_later():
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    period, data = run.period, run.data
    epochs, length = -(-data // period), data % period or period
    pairs = [tuple(map(read_range, case["ranges"])) for case in cases]
    if len(set(pairs)) != len(pairs):
        raise Refused("ranges: a pair comes twice")
    before = _chances(run, {pair[0] for pair in pairs}, period if epochs > 1 else 0)
    last = _chances(run, {pair[1] for pair in pairs}, length)
    if len(pairs) != len(before) * len(last):
        raise Refused("ranges: some pairs are missing")
    weights, mus = [], []
    for case, (first, second) in timed(list(zip(cases, pairs, strict=True))):
        then = [
            epoch * period + where[1]
            for epoch, where in ((epochs - 2, first), (epochs - 1, second))
            if where is not None
        ]
        uses = UseSteps(period - 1, max(0, epochs - 2), period=period, then=then)
        weights.append(before[first] * last[second])
        mus.append(check(case, uses))
    return _weighed(cases, weights, mus)


def _chances(run: ForgettingOrder, ranges: set[Range], length: int) -> dict[Range, Fraction]:
    """The probability that the last withdrawn record among the first `length` positions is in each range, and
    of none there; without an epoch, none for sure."""
    if length == 0:
        if ranges != {None}:
            raise Refused("ranges: there is no epoch before the last")
        return {None: Fraction(1)}
    cut = sorted(r for r in ranges if r is not None)
    _check_cut(cut, length)
    chances: dict[Range, Fraction] = {}
    chances.update(zip(cut, weights_of(run, [run.share(a, b) for a, b in cut]), strict=True))
    if (None in ranges) != (length < run.period):
        raise Refused(f"ranges: expected 0..{length - 1} to be covered")
    if None in ranges:
        chances[None] = 1 - sum(chances.values(), Fraction(0))
    return chances


# Moduli that are not linear.


class _BentCases(CaseCheck):
    """Payments under moduli, for a record whose place is known."""

    PAYMENTS = ("payments",)

    def cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        """Σ (a_k/σ_k)² of payments at every step from τ on."""
        assert isinstance(self.run, ForgettingOrder)
        positions("steps", self.run.total)
        used = set(uses.all())
        owed = [arb(self.run.one(k)) if k in used else arb(0) for k in range(self.run.total)]
        return _paid(self.run, case, owed, distance)


def _paid(run: ForgettingOrder, case: dict[str, Any], owed: Sequence[Any], distance: Any) -> Any:
    paid = read_floats("payments", case["payments"]).tolist()
    tau = integer("tau", case["tau"])
    if tau + len(paid) != run.total:
        raise Refused(f"payments: step {tau + len(paid)}: expected the last at step {run.total}")
    positions("steps", run.total)
    steps = range(tau, run.total)
    sigma = [arb(run.sigma(k)) for k in timed(steps)]
    moduli = [_modulus(run, k) for k in steps]
    return pay(moduli, owed[tau:], sigma, distance=distance, payments=paid, first=tau)


def _modulus(run: ForgettingOrder, k: int) -> Omega:
    """The modulus of step k. Where several requests came, every step with data may lack records."""
    return run.gradients.modulus(run.step_size(k), tuple(run.fractions(k)))


def _bent(run: ForgettingOrder, payload: Payload) -> Proven:
    """Payments under moduli of any shape."""
    assumptions, demands = run.assumptions(hidden=True), payload["demands"]
    _check_published(run, demands)
    if demands == "uses":
        if run.records > 1 or not isinstance(run.scheme, KnownPositions):
            raise Refused("demands: only one record of known place has uses")
        parts = worst_position(run, payload["cases"], _BentCases(run), later_is_worse=False)
        return Proven(assumptions, proven_by(run, parts))
    case, mu = _only_case(payload, ("payments",))
    if demands not in ("every", "none"):
        raise Refused("demands: under moduli that are not linear, every batch may hold the records")
    if math.isfinite(mu):
        check_cost(_paid(run, case, _owed(run, demands), _start(run, case)), mu, "the last step")
    return Proven(assumptions, proven_by(run, [(Fraction(1), mu)]))


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
    case, mu = _only_case(payload, (*PAYMENTS, "payments"))
    steps = Capped(run, integer("cap", payload.get("cap", run.size)))
    if math.isfinite(mu):
        cost = _given_cost(run, steps, case, bent="payments" in case)
        check_cost(cost, mu, f"step {run.total}")
    bound = JointBound.of(Gaussians(((Fraction(1), mu),)), Failure(steps.failure))
    return Proven(assumptions, (bound,))


def _given_cost(run: ForgettingDraws, steps: Capped, case: dict[str, Any], *, bent: bool) -> Any:
    distance, tau = _start(run, case), integer("tau", case["tau"])
    positions("steps", run.total - tau)
    later = range(tau, run.total)
    sigma = [arb(run.sigma(k)) for k in timed(later)]
    if bent:
        paid = read_floats("payments", case["payments"]).tolist()
        moduli = [steps.modulus(k) for k in later]
        return pay(
            moduli, [arb(0)] * len(later), sigma, distance=distance, payments=paid, first=tau
        )
    slopes = [steps.at(k).c for k in timed(later)]
    nothing = [arb(0)] * tau
    balls = StepBalls([*nothing, *slopes], [arb(0)] * run.total, [*nothing, *sigma])
    return replay_case(case, balls, distance)


# Every iterate.


def _composed(run: ForgettingOrder, payload: Payload) -> Proven:
    """What all withdrawn records paid until their requests, at most the sum of what each did."""
    if "cap" in payload:
        raise Refused("cap: composition is about batches of any size")
    if payload["cases"] != [] or payload["demands"] != "all" or run.published:
        raise Refused("demands: composition is about all steps, and about no model handed out")
    mu, total = read_mu(payload["claim"]["mu"]), arb(0)
    for end, (_, m) in zip(run.ends, run.requests, strict=True):
        total += m * arb(_most_paid(run, end)).sqrt()
    if math.isfinite(mu) and not total <= arb(mu):
        raise Refused(f"mu: the uses cost {total.str(17, radius=False)}, more than {mu!r}")
    bound = JointBound.of(Gaussians(((Fraction(1), mu),)))
    return Proven(run.assumptions(hidden=False), (bound,))


def _most_paid(run: ForgettingOrder, end: int) -> Any:
    """Σ (s/σ)² over the uses before step `end` of one record, whatever its place in every epoch may be."""
    loss = _loss_at(run)
    if not isinstance(loss, list):
        return loss * -(-end // run.period)
    by_epoch = [loss[a : min(end, a + run.period)] for a in range(0, end, run.period)]
    if isinstance(run.scheme, SecretEveryEpoch):
        return sum((max(epoch) for epoch in by_epoch), fmpq(0))
    places = [sum(loss[j : end : run.period], fmpq(0)) for j in range(min(run.period, end))]
    return max(places)


def _loss_at(run: ForgettingOrder) -> Any:
    """(s/σ)² of one use: a number, or a list of one for every step where the noise varies."""
    stated = run.run.noise_std if run.run.noise_std is not None else run.run.noise_multiplier
    if getattr(stated, "shape", ()) == ():
        return run.privacy_loss(0)
    positions("steps", run.data)
    return [run.privacy_loss(k) for k in timed(range(run.data))]


def _composed_drawn(run: ForgettingDraws, payload: Payload) -> Proven:
    """One factor for every step with data, in which all withdrawn records pull together."""
    if run.published:
        raise Refused("published: composition is about no model handed out")
    closed("the plan", payload["plan"], ())
    counts: dict[Any, int] = {}
    positions("steps", 1 if run.constant else run.data)
    if run.constant:
        counts[run.noise(0)] = run.data
    else:
        for k in timed(range(run.data)):
            counts[run.noise(k)] = counts.get(run.noise(k), 0) + 1
    in_time()
    needed = [run.moved().over(run.size * x, n) for x, n in counts.items()]
    return Proven(run.assumptions(hidden=False), (run.bound(needed),))


_PLAN = ("run", "claim", "position", "plan", "reading")

THEOREMS = {
    "unlearning": {
        ForgettingOrder: ProofCheck(KEYS, _linear, named("unlearning", SHIFTS)),
        ForgettingDraws: ProofCheck(_DRAWN_KEYS, _given_drawn, named("unlearning", SHIFTS)),
    },
    "unlearning, any modulus": {
        ForgettingOrder: ProofCheck(_BENT_KEYS, _bent, named("unlearning, any modulus", SHIFTS)),
        ForgettingDraws: ProofCheck(
            _DRAWN_KEYS, _given_drawn, named("unlearning, any modulus", SHIFTS)
        ),
    },
    "unlearning, random batches": {
        ForgettingDraws: ProofCheck(_PLAN, _drawn, named("unlearning, random batches", RANDOM)),
    },
    "unlearning, composition": {
        ForgettingOrder: ProofCheck(
            _COMPOSED_KEYS, _composed, named("unlearning, composition", COMPOSED)
        ),
        ForgettingDraws: ProofCheck(
            _PLAN, _composed_drawn, named("unlearning, composition", COMPOSED)
        ),
    },
}
