"""Mechanisms without steps of their own, and diffusions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flint import arb, fmpq

from pabi.describe.langevin import diffusion_sentences
from pabi.describe.mechanisms import (
    IteratedExponentialMechanism,
    mechanism_sentences,
    rounds_sentences,
)
from pabi.describe.statistics import (
    accuracy_sentences,
    column_statistics_sentences,
    second_moments_sentences,
)
from pabi.verification.arithmetic import (
    Refused,
    above,
    double_above,
    exact,
    fraction_of,
    mu_of,
    nonnegative,
    root_up,
    timed,
)
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import hides_its_path
from pabi.verification.factors.closed_forms import (
    BoundedRanges,
    Failure,
    Gaussians,
    PureFactors,
)
from pabi.verification.samplers import (
    Accuracy,
    ColumnStatistics,
    Diffusion,
    IteratedMechanism,
    Mechanism,
    PartingRate,
    SecondMoments,
    Statistics,
)
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven, Theorem, named

# Noisy statistics: μ is what one record moves the numbers by over the noise; undeclared levels may fail.
#
# (Docs, "Second moments" and "Theory", 18.)


_DONG = "Dong, Roth, Su 2022, Thm 2.7"


def _statistics(name: str, source: str, sentences: Callable[[Any], tuple[str, ...]]) -> ProofCheck:
    """How a release of numbers with Gaussian noise is checked, which rests on these `sentences`."""

    def check(subject: Statistics[Any], payload: Payload) -> Proven:
        noise = subject.noise_std
        mu = root_up(subject.sensitivity_square / (noise * noise))
        bound = JointBound.of(Gaussians.single(mu), Failure(subject.failure))
        return Proven(sentences(subject.description), (bound,))

    return ProofCheck(("run", "claim"), check, named(name, source))


# Exponential mechanisms, one draw or several in turn.
#
# What is proven follows from the range of their likelihood ratios, and from the curvature of the density.
#
# (Docs, "Diffusions" and "The iterated exponential mechanism".)


_RANGE = "McSherry, Talwar 2007; Dong, Durfee, Rogers 2020, Lemma 3"
_GIBBS = "docs, Theory, 12.2 (Theorem 16); Bok, Su, Altschuler 2024, Cor. 5.2 and 5.4"


def _one(subject: Mechanism, payload: Payload, *, by_range: bool, by_curvature: bool) -> Proven:
    mechanism, gap = subject.description, subject.gap()
    d = exact(mechanism.diameter)
    beta = exact(mechanism.kappa)  # at which it samples, a part of the description
    bounds = [JointBound.of(_ranges([beta * gap * d]))] if by_range else []
    if by_curvature:
        m = subject.curvature_of_density
        mus = [root_up(_gibbs(beta, gap, diameter=d, m=m))]
        if subject.facts.dissipative is not None and m < 0:
            growth = PartingRate(subject.loss, gap, m)
            furthest = arb(d) if arb(d) <= growth.limit else growth.limit
            mus.append(root_up(above(2 * arb(beta) * growth.spread(furthest))))
        bounds.append(JointBound.gaussian(min(mus)))
    return Proven(mechanism_sentences(mechanism, by_curvature), tuple(bounds))


def _in_turn(
    subject: IteratedMechanism, payload: Payload, *, by_range: bool, by_curvature: bool
) -> Proven:
    """The rounds as stated: each set lies in the one before and within its radius of a draw, so that the
    stated diameters are true if they are at least what the radii say."""
    mechanism = subject.description
    ranges, squares = _rounds(subject, payload["rounds"])
    of_ranges: list[JointBound] = []
    if mechanism.split is not None and len(ranges) > 1:
        # A record is used by the rounds but the last, or by the last alone.
        before = sorted(ranges[:-1])
        pure = max(sum(before, fmpq(0)), ranges[-1])
        of_ranges.append(JointBound.of(PureFactors(((double_above(fraction_of(pure)), 1),))))
        ranges = [*before[:-1], max(before[-1], ranges[-1])]
        squares = [max(sum(squares[:-1], fmpq(0)), squares[-1])]
    of_ranges.append(JointBound.of(_ranges(ranges)))
    bounds = of_ranges if by_range else []
    if by_curvature:
        bounds.append(JointBound.gaussian(root_up(sum(squares, fmpq(0)))))
    return Proven(rounds_sentences(mechanism), tuple(bounds))


def _rounds(subject: IteratedMechanism, rounds: Any) -> tuple[list[Any], list[Any]]:
    """(the range of every round, its μ²)."""
    mechanism = subject.description
    if len(rounds) != len(mechanism.epsilons):
        raise Refused(f"rounds: expected {len(mechanism.epsilons)}, got {len(rounds)}")
    m, bound = subject.curvature_of_density, subject.facts.bound
    if bound is None or not m > 0:
        raise Refused("loss: expected one that is strongly convex and has a gradient bound")
    largest = exact(mechanism.diameter)
    if mechanism.loss.l2 == 0.0:
        largest = min(largest, 2 * bound / m)
    ranges, squares = [], []
    for i, (stated, own) in timed(enumerate(zip(rounds, mechanism.rounds, strict=True))):
        diameter, kappa = exact(nonnegative("rounds", stated[0])), exact(stated[1])
        if [own.diameter, own.inverse_temperature] != list(stated):
            raise Refused(f"rounds: round {i + 1} is not the described one")
        if diameter < largest:
            raise Refused(f"rounds: the diameter of round {i + 1} is less than the set can have")
        if i + 1 < len(rounds):
            largest = min(diameter, 2 * exact(own.radius))
        gap = subject.gap(_records(mechanism, i))
        ranges.append(kappa * gap * diameter)
        squares.append(_gibbs(kappa, gap, diameter=diameter, m=m))
    return ranges, squares


def _records(mechanism: IteratedExponentialMechanism, i: int) -> int:
    """How many records round `i` (0-based) uses."""
    if mechanism.split is None:
        return mechanism.n
    return mechanism.split if i + 1 < len(mechanism.epsilons) else mechanism.n - mechanism.split


def _gibbs(beta: Any, gap: Any, *, diameter: Any, m: Any) -> Any:
    """μ² = βD'(2Δ − mD'), D' = min(D, Δ/m)."""
    within = diameter if m <= 0 else min(diameter, gap / m)
    return beta * within * (2 * gap - m * within)


def _ranges(epsilons: list[Any]) -> BoundedRanges:
    """Bounded ranges, each rounded up."""
    return BoundedRanges(tuple((double_above(fraction_of(epsilon)), 1) for epsilon in epsilons))


def _theorem(name: str, source: str, *, by_range: bool, by_curvature: bool) -> dict[str, Theorem]:
    def proof(check: Callable[..., Proven], *keys: str) -> ProofCheck:
        checked = partial(check, by_range=by_range, by_curvature=by_curvature)
        return ProofCheck(("run", "claim", *keys), checked, named(name, source))

    return {name: {Mechanism: proof(_one), IteratedMechanism: proof(_in_turn, "rounds")}}


# Diffusions at a constant temperature: closed forms for the path, and for its last point.
#
# Rational arithmetic where the formulas are rational, ball arithmetic elsewhere; every comparison that
# says yes is a proof. (Docs, "Diffusions".)


# At a varying temperature a diffusion is proven as the iteration of its cells, under these names.
PATH = Names(
    "path", "Ganesh, Thakurta, Upadhyay, Lemma C.1, as Gaussian DP (docs, Theory, 12.2, Theorem 16)"
)
LAST_POINT = Names(
    "last point",
    "docs, Theory, 12.2 (Theorem 16); Bok, Su, Altschuler 2024, Thm C.3 in the limit of small steps",
)


def _path(subject: Diffusion, payload: Payload) -> Proven:
    gap, beta, time = _constants(subject)
    cost = arb(gap * gap * beta * beta * time / 2)
    return _proven(subject, cost, hidden=False)


def _last_point(subject: Diffusion, payload: Payload) -> Proven:
    if "distance" in payload and "window" in payload:
        raise Refused("window: unknown key in a certificate with a distance")
    if not hides_its_path(subject.description.release):
        raise Refused("run: the theorem needs a hidden path")
    if "distance" in payload:
        cost = _dissipative(subject, payload["distance"])
    else:
        cost = _from_window(subject, payload["window"])
    return _proven(subject, cost, hidden=True)


def _constants(subject: Diffusion) -> tuple[Any, Any, Any]:
    """Δ, β and the time."""
    beta = subject.description.inverse_temperature
    if not isinstance(beta, float):
        raise Refused("inverse_temperature: the closed forms are for a constant")
    return subject.gap(), exact(beta), exact(subject.description.time)


def _proven(subject: Diffusion, cost: Any, *, hidden: bool) -> Proven:
    return Proven(
        diffusion_sentences(subject.description, hidden), (JointBound.gaussian(mu_of(cost)),)
    )


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


_BOTH = f"{_RANGE}; {_GIBBS}"
_MOMENTS = f"{_DONG}; docs, Theory, 13 (Proposition 18)"
_COLUMNS = f"{_DONG} and Cor. 3.3; docs, Theory, 18 (Theorems 24 and 25)"

THEOREMS = {
    "column statistics": {
        ColumnStatistics: _statistics("column statistics", _COLUMNS, column_statistics_sentences)
    },
    "Gaussian mechanism": {
        SecondMoments: _statistics("Gaussian mechanism", _MOMENTS, second_moments_sentences),
        Accuracy: _statistics("Gaussian mechanism", _DONG, accuracy_sentences),
    },
    **_theorem("bounded range", _RANGE, by_range=True, by_curvature=False),
    **_theorem("Gibbs measure", _GIBBS, by_range=False, by_curvature=True),
    **_theorem("bounded range and Gibbs measure", _BOTH, by_range=True, by_curvature=True),
    PATH.method: {Diffusion: ProofCheck(("run", "claim"), _path, lambda subject: (PATH,))},
    LAST_POINT.method: {
        Diffusion: ProofCheck(
            ("run", "claim", "window", "distance"), _last_point, lambda subject: (LAST_POINT,)
        )
    },
}
