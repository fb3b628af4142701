"""Reading what is claimed, and whether what is proven implies it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pabi.verification.arithmetic import closed, nonnegative
from pabi.verification.bounds import Bounds, JointBound, uncovered
from pabi.verification.factors import read_alone, read_counted, read_keys
from pabi.verification.factors.gaussians import Gaussians, read_mu, read_parts
from pabi.verification.limits import Refused, timed


def read_bounds(curve: Any) -> Bounds:
    """The bounds that a trade-off function in JSON is the best of."""
    if curve["kind"] != "best":
        return (read_bound(curve),)
    closed("a best", curve, ("kind", "parts"))
    if not curve["parts"]:
        raise Refused("parts: expected at least one")
    return tuple(read_bound(part) for part in curve["parts"])


def read_bound(curve: Any) -> JointBound:
    """The bound that a trade-off function in JSON states."""
    if curve["kind"] != "product":
        return JointBound.of(read_alone(curve))
    beside = read_keys(curve)
    return JointBound.of(*map(read_counted, timed(curve["factors"])), *beside)


def _read_claim(claim: Any) -> Bounds:
    stated: Any
    name, stated = next(iter(claim.items())) if len(claim) == 1 else ("", None)
    match name:
        case "mu":
            return (JointBound.gaussian(read_mu(stated)),)
        case "mixture":
            return (JointBound.of(Gaussians(read_parts(stated))),)
        case "product":
            return (read_bound(stated),)
        case "tradeoff":
            return read_bounds(stated)
        case _:
            raise Refused("claim: expected one of mu, mixture, product and tradeoff, alone")


def check_claim(claim: Any, proven: Bounds) -> Bounds:
    """The bounds that are claimed. Refused unless those that are proven imply them."""
    claimed = _read_claim(claim)
    gap = uncovered(proven, claimed)
    if gap is not None:
        raise Refused(gap)
    return claimed


def check_reading(reading: Any, claimed: JointBound) -> tuple[float, float]:
    """The claimed (ε, δ). Refused unless the claimed factors imply it."""
    closed("the reading", reading, ("delta", "epsilon"))
    delta, epsilon = nonnegative("delta", reading["delta"]), reading["epsilon"]
    if not 0.0 < delta < 1.0:
        raise Refused(f"delta: expected a number above 0 and below 1, got {delta!r}")
    if epsilon == "inf":
        return math.inf, delta
    epsilon = nonnegative("epsilon", epsilon)
    proven_epsilon = claimed.epsilon(delta, epsilon)
    if not proven_epsilon <= epsilon:
        what = f"only ε = {proven_epsilon!r}" if math.isfinite(proven_epsilon) else "no finite ε"
        raise Refused(f"reading: {what} could be proven at δ = {delta!r}, not {epsilon!r}")
    return epsilon, delta


def implied(
    proven: Bounds,
    adjacency: str | None,
    assumptions: Sequence[str],
    guarantee: dict[str, Any],
) -> str | None:
    """None if what is proven implies a guarantee (as a dictionary), or the reason why not."""
    try:
        claimed = read_bounds(guarantee["tradeoff"])
    except Refused as refusal:
        return str(refusal)
    gap = uncovered(proven, claimed)
    if gap is not None:
        return f"tradeoff: the certificate proves less than the guarantee claims ({gap})"
    if guarantee["adjacency"] != adjacency:
        return f"adjacency: the certificate is for {adjacency!r}, not {guarantee['adjacency']!r}"
    listed = set(guarantee["assumptions"])
    for sentence in assumptions:
        if sentence not in listed:
            return f"assumptions: the guarantee keeps silent about: {sentence}"
    return None
