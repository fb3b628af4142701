"""Group privacy: data sets that differ in k units are joined by a chain of k adjacent pairs.

Of a Gaussian link with μ the chain proves G(kμ), of ε-DP it proves kε-DP, and of any other the k-fold
function of the link's (docs, "Theory", 19).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pabi.describe.accounted import group_sentences
from pabi.verification.arithmetic import closed, double_above
from pabi.verification.bounds import JointBound, uncovered
from pabi.verification.claims import read_bounds
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.factors.groups import GroupFactors
from pabi.verification.factors.pure import PureFactors
from pabi.verification.limits import Refused
from pabi.verification.subjects import Members
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

_METHOD = "group privacy"
_SOURCE = "Dong, Roth, Su 2022, Thm 2.14; docs, Theory, 19"


def _check(subject: Members, payload: Payload) -> Proven:
    if subject.neighbours == "zero_out" and not subject.base.nulls:
        raise Refused(
            "member: it says more of a record than is true of one whose contribution is 0"
        )
    closed("the claim", payload["claim"], ("tradeoff",))
    curve = payload["claim"]["tradeoff"]
    bounds = (_numerical(subject, curve),) if curve["kind"] == "grouped" else _closed(subject)
    sentences = group_sentences(subject.size, subject.base.unit, subject.neighbours)
    return Proven((*subject.base.assumptions, *sentences), bounds)


def _numerical(subject: Members, curve: Any) -> JointBound:
    """The k-fold function of what a member's certificate claims."""
    gap = uncovered(subject.base.claimed, read_bounds(curve["base"]))
    if gap is not None:
        raise Refused(f"base: {gap}")
    if curve["size"] != subject.size:
        raise Refused(f"size: expected {subject.size} in the claim, got {curve['size']!r}")
    return JointBound.of(GroupFactors.read(curve, 1))


def _closed(subject: Members) -> tuple[JointBound, ...]:
    """What follows in closed form from the bounds on one member."""
    bounds = []
    for one in (*subject.base.proven, *subject.base.claimed):
        gaussians, pure = one.only(Gaussians), one.only(PureFactors)
        if gaussians is not None and len(gaussians.parts) == 1:
            bounds.append(JointBound.gaussian(_times(gaussians.mu, subject.size)))
        elif pure is not None and pure.size == 1:
            epsilon = _times(pure.entries[0][0], subject.size)
            bounds.append(JointBound.of(PureFactors(((epsilon, 1),))))
    if not bounds:
        raise Refused("claim: a chain of such links has no closed form")
    return tuple(bounds)


def _times(x: float | None, size: int) -> float:
    """size·x, rounded up."""
    if x is None or x == float("inf"):
        return float("inf")
    return double_above(size * Fraction(x))


THEOREMS = {
    _METHOD: {Members: ProofCheck(("member", "size", "claim"), _check, named(_METHOD, _SOURCE))}
}
