"""Do proven cases imply the claimed guarantee?

A case is (probability, μ). δ_{G(μ)}(ε) grows with μ at every ε, so that moving probability to larger μ,
or adding some, can only weaken a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb

from pabi.verification.arithmetic import root_up
from pabi.verification.refusal import Refused

Part = tuple[Fraction, float]

_MOST_PARTS = 200_000


def read_mu(value: Any) -> float:
    """A claimed μ, "inf" allowed."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0.0:
        raise Refused(f"mu: expected a number ≥ 0, got {value!r}")
    return float(value)


def read_parts(claim: Any) -> list[Part]:
    """The claimed cases of {"mu": μ} or {"mixture": [[weight, μ], …]}."""
    if "mu" in claim:
        return [(Fraction(1), read_mu(claim["mu"]))]
    parts = []
    for weight, mu in claim["mixture"]:
        if not (isinstance(weight, (int, float)) and 0.0 <= weight <= 2.0):
            raise Refused(f"weight: expected a probability, got {weight!r}")
        parts.append((Fraction(weight), read_mu(mu)))
    return parts


def check_claim(claim: Any, proven: Sequence[Part]) -> list[Part]:
    """The claimed cases, if the proven ones imply them."""
    claimed = read_parts(claim)
    if not dominated(proven, claimed):
        worst = max(mu for _, mu in proven)
        raise Refused(f"mu: the cases prove up to {worst!r}, which does not imply the claim")
    return claimed


def dominated(proven: Sequence[Part], claimed: Sequence[Part]) -> bool:
    """Whether the claim puts at least the proven probability on every range μ ≥ m."""
    claimed = sorted(claimed, key=lambda part: -part[1])
    left = sorted(proven, key=lambda part: -part[1])
    granted = needed = Fraction(0)
    i = 0
    for weight, mu in left:
        needed += weight
        while i < len(claimed) and claimed[i][1] >= mu:
            granted += claimed[i][0]
            i += 1
        if granted < needed:
            return False
    return True


def product(first: Sequence[Part], second: Sequence[Part]) -> list[Part]:
    """The cases of two independent releases: G(μ) ⊗ G(ν) = G(√(μ² + ν²))."""
    if len(first) * len(second) > _MOST_PARTS:
        raise Refused(f"{len(first)} × {len(second)} cases are too many to compose")
    merged: dict[float, Fraction] = {}
    for p, mu in first:
        for q, nu in second:
            both = _hypotenuse(mu, nu)
            merged[both] = merged.get(both, Fraction(0)) + p * q
    return [(weight, mu) for mu, weight in merged.items()]


def _hypotenuse(a: float, b: float) -> float:
    if a == 0.0 or b == 0.0 or math.isinf(a) or math.isinf(b):
        return max(a, b)
    return root_up(arb(a) * arb(a) + arb(b) * arb(b))


def implied(
    parts: Sequence[Part],
    adjacency: str | None,
    assumptions: Sequence[str],
    guarantee: dict[str, Any],
) -> str | None:
    """None if the proven cases imply a guarantee (as a dictionary), or the reason why not."""
    curve = guarantee["tradeoff"]
    if curve.get("kind") == "gaussian":
        claim: Any = {"mu": curve["mu"]}
    elif curve.get("kind") == "mixture":
        claim = {"mixture": list(zip(curve["weights"], curve["mus"], strict=True))}
    else:
        return f"tradeoff: a certificate proves no {curve.get('kind')!r}"
    if not dominated(parts, read_parts(claim)):
        return "tradeoff: the certificate proves less than the guarantee claims"
    if guarantee["adjacency"] != adjacency:
        return f"adjacency: the certificate is for {adjacency!r}, not {guarantee['adjacency']!r}"
    for sentence in assumptions:
        if sentence not in guarantee["assumptions"]:
            return f"assumptions: the guarantee keeps silent about: {sentence}"
    return None
