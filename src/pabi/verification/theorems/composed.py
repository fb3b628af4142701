"""Several releases from the same data, with independent randomness: their trade-off functions multiply."""

from __future__ import annotations

from itertools import product

from pabi.guarantees.guarantee import INDEPENDENT
from pabi.verification.bounds import Bounds, several_releases
from pabi.verification.refusal import Refused
from pabi.verification.subjects import Releases
from pabi.verification.theorem import Finding, Names, Payload, Proof, Proven

_SOURCE = "Dong, Roth, Su 2022, Thm 3.2"
_MOST = 64  # ways to name one composition


def _check(releases: Releases, payload: Payload) -> Proven:
    said = [sentence for found in releases.found for sentence in found.assumptions]
    bounds = several_releases([_carried(found) for found in releases.found])
    return Proven((*said, INDEPENDENT), bounds)


def _carried(found: Finding) -> Bounds:
    """What a composition goes on with: what is proven, or what is claimed where that is in finer pieces."""
    fine = any(factor.FINE for bound in found.claimed for factor in bound.factors)
    return found.claimed if fine else found.proven


def _names(releases: Releases) -> tuple[Names, ...]:
    found = [one.names for one in releases.found]
    ways = 1
    for names in found:
        ways *= len(names)
        if ways > _MOST:
            raise Refused(f"parts: {len(found)} that may be named in too many ways")
    joined = []
    for choice in product(*found):
        sources = dict.fromkeys(n.source for n in choice)
        joined.append(Names(" + ".join(n.method for n in choice), "; ".join((*sources, _SOURCE))))
    if releases.alike:
        joined += [Names(f"{n.method}, {len(found)} times", n.source) for n in found[0]]
    return tuple(joined)


THEOREMS = {"composed": {Releases: Proof(("parts",), _check, _names)}}
