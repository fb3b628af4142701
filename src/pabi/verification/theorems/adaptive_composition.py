"""Releases that were chosen one after the other, under a bound on what they add up to (docs, "Theory", 16).

The bound was fixed beforehand and is what is claimed: what the releases listed here amount to says nothing of
those that other outcomes would have led to. The sum is one of μ², or of Rényi divergences of one order, which
was fixed beforehand as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import fmpq

from pabi.guarantees.guarantee import INDEPENDENT
from pabi.guarantees.selection import ENTERED, refusing_above, refusing_divergences_above
from pabi.verification.arithmetic import closed, exact
from pabi.verification.below import square_below
from pabi.verification.bounds import Bounds, JointBound
from pabi.verification.factors.divergences import Divergences, read_order
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import Refused, timed
from pabi.verification.renyi import least_divergence
from pabi.verification.subjects import Releases
from pabi.verification.theorem import Payload, ProofCheck, Proven, named


def _of_squares(releases: Releases, payload: Payload) -> Proven:
    claim = payload["claim"]
    closed("the claim", claim, ("mu",))
    mu = _finite("mu", claim["mu"])
    total = _sum(releases, _square, "no Gaussian is known to lie below what it proves")
    if not total <= exact(mu) * exact(mu):
        raise Refused(f"mu: the parts amount to more than the bound {mu!r}")
    return _proven(releases, refusing_above(mu), JointBound.gaussian(mu))


def _of_divergences(releases: Releases, payload: Payload) -> Proven:
    claim = payload["claim"]
    closed("the claim", claim, ("tradeoff",))
    closed("the trade-off function", claim["tradeoff"], ("kind", "order", "rho"))
    order, rho = read_order(claim["tradeoff"]["order"]), _finite("rho", claim["tradeoff"]["rho"])
    total = _sum(
        releases,
        lambda bounds: least_divergence(bounds, order),
        f"no finite divergence of order {order!r} follows from what it proves",
    )
    if not total <= exact(rho):
        raise Refused(f"rho: the parts amount to more than the bound {rho!r}")
    bound = JointBound.of(Divergences.single(order, rho))
    return _proven(releases, refusing_divergences_above(order, rho), bound)


def _sum(releases: Releases, charge: Callable[[Bounds], Any], unknown: str) -> Any:
    """What all parts are charged with, a rational number. Refused where one has no finite charge."""
    if releases.adjacency == "retrained":
        raise Refused("adjacency: forgetting supposes that no request reacts to a release")
    total: Any = fmpq(0)
    charges: dict[Bounds, Any] = {}
    for i, finding in enumerate(timed(releases.findings)):
        bounds = finding.claimed
        if bounds not in charges:  # many releases are alike
            charges[bounds] = charge(bounds)
        if charges[bounds] is None:
            raise Refused(f"part {i + 1}: {unknown}")
        total += charges[bounds]
    return total


def _square(bounds: Bounds) -> Any:
    """The least μ² with G(μ) below one of the bounds; None where none is known."""
    squares = [s for bound in bounds if (s := square_below(bound)) is not None]
    return min(squares, default=None)


def _finite(name: str, value: Any) -> float:
    bound = read_mu(value)
    if not bound < float("inf"):
        raise Refused(f"{name}: expected a finite bound")
    return bound


def _proven(releases: Releases, sentence: str, bound: JointBound) -> Proven:
    assumptions = [own for one in releases.findings for own in one.assumptions]
    return Proven((*assumptions, INDEPENDENT, ENTERED, sentence), (bound,))


_SQUARES, _DIVERGENCES = "adaptive composition", "adaptive composition of divergences"

THEOREMS = {
    _SQUARES: {
        Releases: ProofCheck(
            ("parts", "claim"),
            _of_squares,
            named(_SQUARES, "Smith, Thakurta 2022; docs, Theory, 16"),
        )
    },
    _DIVERGENCES: {
        Releases: ProofCheck(
            ("parts", "claim"),
            _of_divergences,
            named(_DIVERGENCES, "Feldman, Zrnic 2021; docs, Theory, 16"),
        )
    },
}
