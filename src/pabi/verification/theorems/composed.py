"""Several releases from the same data, with independent randomness: their trade-off functions multiply."""

from __future__ import annotations

from itertools import product

from pabi.guarantees.guarantee import INDEPENDENT
from pabi.verification.bounds import Bounds, several_releases
from pabi.verification.limits import Refused
from pabi.verification.subjects import Releases
from pabi.verification.theorem import Finding, Names, Payload, ProofCheck, Proven

_SOURCE = "Dong, Roth, Su 2022, Thm 3.2"
_MOST = 64  # ways to name one composition


def _check(releases: Releases, payload: Payload) -> Proven:
    assumptions = [sentence for one in releases.findings for sentence in one.assumptions]
    bounds = several_releases([_carried(finding) for finding in releases.findings])
    return Proven((*assumptions, INDEPENDENT), bounds)


def _carried(finding: Finding) -> Bounds:
    """What a composition goes on with: what is proven, or what is claimed where that is in finer pieces."""
    fine = any(factor.FINE for bound in finding.claimed for factor in bound.factors)
    return finding.claimed if fine else finding.proven


def _names(releases: Releases) -> tuple[Names, ...]:
    names = [finding.names for finding in releases.findings]
    ways = 1
    for one in names:
        ways *= len(one)
        if ways > _MOST:
            raise Refused(f"parts: {len(names)} that may be named in too many ways")
    joined = []
    for choice in product(*names):
        sources = dict.fromkeys(n.source for n in choice)
        joined.append(Names(" + ".join(n.method for n in choice), "; ".join((*sources, _SOURCE))))
    if releases.alike:
        joined += [Names(f"{n.method}, {len(names)} times", n.source) for n in names[0]]
    return tuple(joined)


THEOREMS = {"composed": {Releases: ProofCheck(("parts",), _check, _names)}}
