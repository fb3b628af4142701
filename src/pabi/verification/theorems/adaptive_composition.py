"""Releases that were chosen one after the other, under a bound on the sum of their μ² (docs, "Theory", 16).

The bound was fixed beforehand and is what is claimed: what the releases listed here amount to says nothing of
those that other outcomes would have led to.
"""

from __future__ import annotations

from typing import Any

from flint import fmpq

from pabi.guarantees.adaptive import ENTERED, refusing_above
from pabi.guarantees.guarantee import INDEPENDENT
from pabi.verification.arithmetic import exact
from pabi.verification.below import square_below
from pabi.verification.bounds import JointBound
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import timed
from pabi.verification.reading import closed
from pabi.verification.refusal import Refused
from pabi.verification.subjects import Releases
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

_METHOD = "adaptive composition"
_SOURCE = "Smith, Thakurta 2022; docs, Theory, 16"


def _check(releases: Releases, payload: Payload) -> Proven:
    claim = payload["claim"]
    closed("the claim", claim, ("mu",))
    mu = read_mu(claim["mu"])
    if not mu < float("inf"):
        raise Refused("mu: expected a finite bound")
    total: Any = fmpq(0)
    for i, finding in enumerate(timed(releases.findings)):
        square = min(
            (s for bound in finding.claimed if (s := square_below(bound)) is not None), default=None
        )
        if square is None:
            raise Refused(f"part {i + 1}: no Gaussian is known to lie below what it proves")
        total += square
    if not total <= exact(mu) * exact(mu):
        raise Refused(f"mu: the parts amount to more than the bound {mu!r}")
    assumptions = [sentence for one in releases.findings for sentence in one.assumptions]
    own = (INDEPENDENT, ENTERED, refusing_above(mu))
    return Proven((*assumptions, *own), (JointBound.gaussian(mu),))


THEOREMS = {
    _METHOD: {Releases: ProofCheck(("parts", "claim"), _check, named(_METHOD, _SOURCE))},
}
