"""Diffusions at a constant temperature: closed forms for the path, and for its last point.

Rational arithmetic where the formulas are rational, ball arithmetic elsewhere; every comparison that says
yes is a proof. (Docs, "Diffusions".)
"""

from __future__ import annotations

from typing import Any

from flint import arb, fmpq

from pabi.describe.langevin import diffusion_sentences
from pabi.verification.arithmetic import check_cost, exact, nonnegative
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import hides_its_path
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import Refused
from pabi.verification.samplers import Diffusion, PartingRate
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven

# At a varying temperature a diffusion is proven as the iteration of its cells, under these names.
PATH = Names("path", "Ganesh, Thakurta, Upadhyay, Lemma C.1, as Gaussian DP")
LAST_POINT = Names(
    "last point",
    "docs, Diffusions; Bok, Su, Altschuler 2024, Thm C.3 in the limit of small steps",
)


def _path(subject: Diffusion, payload: Payload) -> Proven:
    gap, beta, time = _constants(subject)
    cost = arb(gap * gap * beta * beta * time / 2)
    return _proven(subject, payload, cost, hidden=False)


def _last_point(subject: Diffusion, payload: Payload) -> Proven:
    if "distance" in payload and "window" in payload:
        raise Refused("window: unknown key in a certificate with a distance")
    if not hides_its_path(subject.description.release):
        raise Refused("run: the theorem needs a hidden path")
    if "distance" in payload:
        cost = _dissipative(subject, payload["distance"])
    else:
        cost = _from_window(subject, payload["window"])
    return _proven(subject, payload, cost, hidden=True)


def _constants(subject: Diffusion) -> tuple[Any, Any, Any]:
    """Δ, β and the time."""
    beta = subject.description.inverse_temperature
    if not isinstance(beta, float):
        raise Refused("inverse_temperature: the closed forms are for a constant")
    return subject.gap(), exact(beta), exact(subject.description.time)


def _proven(subject: Diffusion, payload: Payload, cost: Any, *, hidden: bool) -> Proven:
    mu = read_mu(payload["claim"]["mu"])
    check_cost(cost, mu, "the end")
    return Proven(diffusion_sentences(subject.description, hidden), (JointBound.gaussian(mu),))


def _from_window(subject: Diffusion, window: float | None) -> Any:
    """What the shifts at the rate 2q·e^(−βm(T − t)) cost, from w = 0 over [0, T] or from w = D over the
    last `window`; for m ≤ 0 from w = 0, what paying at once costs.

    With S = w·e + ∫W·βΔ dt and V = 2∫W² dt, W(t) = e^(−βm(T − t)) and e = W(T − R), it is q = S/V and
    S²/V. What is owed must never be paid before it arises: ∫W·βΔ dt − q·2∫W² dt, from the beginning up to
    any time, may not fall below −w·e. Its rate W(βΔ − 2qW) turns at most once, and if W grows (m ≥ 0), from
    positive to negative, so that its end, 0, is its least. If W falls (m < 0), it is never positive where
    2q ≥ βΔ, for W ≥ 1.
    """
    gap, beta, time = _constants(subject)
    m, stated = subject.curvature, subject.description.diameter
    if window is None:
        if m <= 0:
            return arb(gap * gap * beta * beta * time / 2)
        start, length = fmpq(0), time
    else:
        if stated is None:
            raise Refused("window: a later start needs a diameter")
        start, length = exact(stated), exact(nonnegative("window", window))
        if not 0 < length <= time:
            most = subject.description.time
            raise Refused(f"window: expected more than 0 and at most {most!r}")
    if m == 0:
        owed, room = arb(start + beta * gap * length), arb(2 * length)
    else:
        x = -arb(beta * m * length)
        owed = arb(start) * x.exp() - arb(gap / m) * x.expm1()
        room = -(2 * x).expm1() / arb(beta * m)
    if not room > 0:
        raise Refused("window: no noise is left to pay with")
    if m < 0 and not 2 * owed >= arb(beta * gap) * room:
        raise Refused("window: the shifts are paid before they are owed")
    return owed * owed / room


def _dissipative(subject: Diffusion, distance: float) -> Any:
    """What the shifts a = 2β(Δ + g(z)) cost from `distance`, which they bring to 0 in the time in which two
    paths from one point part as far. Where the shifts begin the paths are no further apart, if that is at
    half the time or before, or if the set is no larger. From z* on, which takes for ever to reach: the
    supremum of what they cost from below, one of which begins at half the time."""
    gap, beta, time = _constants(subject)
    d = exact(nonnegative("distance", distance))
    growth = PartingRate(subject.loss, gap, subject.curvature)
    if arb(d) >= growth.limit:
        return 2 * arb(beta) * growth.spread(growth.limit)
    if not (d > 0 and arb(d) < growth.limit):
        raise Refused("distance: expected more than 0, and not as good as what paths tend to")
    needed = growth.time(arb(d)) / arb(beta)
    if not needed <= arb(time):
        raise Refused("distance: the shifts take longer than there is time")
    stated = subject.description.diameter
    within = stated is not None and exact(stated) <= d
    if not (within or 2 * needed >= arb(time)):
        raise Refused("distance: the paths can be further apart where the shifts begin")
    return 2 * arb(beta) * growth.spread(arb(d))


THEOREMS = {
    PATH.method: {Diffusion: ProofCheck(("run", "claim"), _path, lambda subject: (PATH,))},
    LAST_POINT.method: {
        Diffusion: ProofCheck(
            ("run", "claim", "window", "distance"), _last_point, lambda subject: (LAST_POINT,)
        )
    },
}
