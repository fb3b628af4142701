"""The one-sided shift under random batches, with payments under moduli that need not be linear."""

from __future__ import annotations

from flint import arb

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import closed, integer
from pabi.verification.chains import of_runs
from pabi.verification.drawn_runs import Capped, DrawnRun, Needed, named_by_exchange, root_above
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.limits import Refused, timed
from pabi.verification.moduli import check_paid_off, pay_once
from pabi.verification.theorem import Payload, ProofCheck, Proven
from pabi.verification.theorems.random_batches import KEYS, PRESENCE_SOURCE

_SOURCE = "Bok, Su, Altschuler 2024, Thm 4.10, for any modulus (docs, Random batches)"


def _check(run: DrawnRun, payload: Payload) -> Proven:
    """Payments of the last steps. Every step with data gives the shift the same share of its noise variance,
    and so do those of the cool-down."""
    plan, assumptions = payload["plan"], run.assumptions(hidden=True)
    closed("the plan", plan, ("cap", "payments", "share"))
    steps = Capped(run, integer("cap", plan["cap"]))
    paid = read_floats("payments", plan["payments"]).tolist()
    share, first = plan["share"], run.total - len(paid)
    if not (isinstance(share, float) and 0.0 < share < 1.0) or not 0 <= first < run.total:
        raise Refused(
            f"share: expected a number in (0, 1), and payments of some steps, got {share!r}"
        )
    z = steps.bent_distance(first)
    total, needed = arb(0), list[Needed]()
    for k, a in timed(enumerate(paid, first)):
        step, omega = steps.at(k, bent=True), steps.modulus(k)
        if not step.s.is_zero():
            needed.append(steps.moved(step, z).over(step.sigma, 1, 1 - arb(share)))
        cost, z = pay_once(omega, arb(0), step.sigma, z, a, k)
        total += cost
    check_paid_off(z, run.total)
    gaussian = root_above(total / arb(share))
    return Proven(
        assumptions, (run.bound(needed, hidden=Gaussians.single(gaussian), failure=steps.failure),)
    )


_NAMED = named_by_exchange("nonlinear one-sided shift", _SOURCE, PRESENCE_SOURCE)
THEOREMS = {"nonlinear one-sided shift": of_runs(drawn=ProofCheck(KEYS, _check, _NAMED))}
