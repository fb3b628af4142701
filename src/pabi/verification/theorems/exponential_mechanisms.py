"""Exponential mechanisms, one draw or several in turn.

What is proven follows from the range of their likelihood ratios, and from the curvature of the density.

(Docs, "Diffusions" and "The iterated exponential mechanism".)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flint import arb, fmpq

from pabi.describe.mechanisms import (
    IteratedExponentialMechanism,
    mechanism_sentences,
    rounds_sentences,
)
from pabi.verification.arithmetic import (
    above,
    double_above,
    exact,
    fraction_of,
    nonnegative,
    root_up,
)
from pabi.verification.bounds import JointBound
from pabi.verification.factors.bounded_ranges import BoundedRanges
from pabi.verification.factors.pure import PureFactors
from pabi.verification.limits import Refused, timed
from pabi.verification.samplers import IteratedMechanism, Mechanism, PartingRate
from pabi.verification.theorem import Payload, ProofCheck, Proven, Theorem, named

_RANGE = "McSherry, Talwar 2007; Dong, Durfee, Rogers 2020, Lemma 3"
_GIBBS = "docs, Diffusions; Bok, Su, Altschuler 2024, Cor. 5.2 and 5.4"


def _one(subject: Mechanism, payload: Payload, *, uses_curvature: bool) -> Proven:
    mechanism, gap = subject.description, subject.gap()
    d = exact(mechanism.diameter)
    beta = exact(mechanism.kappa)  # at which it samples, a part of the description
    bounds = [JointBound.of(_ranges([beta * gap * d]))]
    if uses_curvature:
        m = subject.curvature_of_density
        bounds.append(JointBound.gaussian(root_up(_gibbs(beta, gap, diameter=d, m=m))))
        if subject.facts.dissipative is not None and m < 0:
            growth = PartingRate(subject.loss, gap, m)
            furthest = arb(d) if arb(d) <= growth.limit else growth.limit
            square = above(2 * arb(beta) * growth.spread(furthest))
            bounds.append(JointBound.gaussian(root_up(square)))
    return Proven(mechanism_sentences(mechanism, uses_curvature), tuple(bounds))


def _in_turn(subject: IteratedMechanism, payload: Payload, *, uses_curvature: bool) -> Proven:
    """The rounds as stated: each set lies in the one before and within its radius of a draw, so that the
    stated diameters are true if they are at least what the radii say."""
    mechanism = subject.description
    ranges, squares = _rounds(subject, payload["rounds"])
    bounds = []
    if mechanism.split is not None and len(ranges) > 1:
        # A record is used by the rounds but the last, or by the last alone.
        before = sorted(ranges[:-1])
        pure = max(sum(before, fmpq(0)), ranges[-1])
        bounds.append(JointBound.of(PureFactors(((double_above(fraction_of(pure)), 1),))))
        ranges = [*before[:-1], max(before[-1], ranges[-1])]
        squares = [max(sum(squares[:-1], fmpq(0)), squares[-1])]
    bounds.append(JointBound.of(_ranges(ranges)))
    if uses_curvature:
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


def _theorem(name: str, source: str, *, uses_curvature: bool) -> dict[str, Theorem]:
    def proof(check: Callable[..., Proven], *keys: str) -> ProofCheck:
        checked = partial(check, uses_curvature=uses_curvature)
        return ProofCheck(("run", "claim", *keys), checked, named(name, source))

    return {name: {Mechanism: proof(_one), IteratedMechanism: proof(_in_turn, "rounds")}}


THEOREMS = {
    **_theorem("bounded range", _RANGE, uses_curvature=False),
    **_theorem("Gibbs measure", _GIBBS, uses_curvature=True),
    **_theorem("bounded range and Gibbs measure", f"{_RANGE}; {_GIBBS}", uses_curvature=True),
}
