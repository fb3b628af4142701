"""Does what is proven imply the claimed guarantee?

A case is (probability, μ). δ_{G(μ)}(ε) grows with μ at every ε, so that moving probability to larger μ,
or adding some, can only weaken a guarantee. So do larger parameters and probabilities of sampled factors, and
more factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb

from pabi.verification.arithmetic import root_up
from pabi.verification.limits import timed
from pabi.verification.products import Sampled, epsilon_bound
from pabi.verification.reading import closed, integer, nonnegative
from pabi.verification.refusal import Refused

Part = tuple[Fraction, float]

_MOST_PARTS = 200_000
_MOST_BOUNDS = 1024

NOTHING: tuple[Part, ...] = ((Fraction(1), 0.0),)


class Factors(NamedTuple):
    """What holds together: one mixture of Gaussians, sampled Gaussians, bounded ranges and pure differential
    privacy (ε, how many), and a probability of nothing."""

    parts: tuple[Part, ...]
    sampled: tuple[Sampled, ...] = ()
    failure: Fraction = Fraction(0)
    ranges: tuple[tuple[float, int], ...] = ()
    pure: tuple[tuple[float, int], ...] = ()

    @property
    def size(self) -> int:
        """How many factors there are."""
        others = sum(f.times for f in self.sampled) + sum(n for _, n in self.ranges + self.pure)
        return others + any(mu > 0.0 for _, mu in self.parts)

    def epsilon(self, delta: float, enough: float = 0.0) -> float:
        """An ε that is proven at `delta`, computed anew; one of at most `enough` will do."""
        left = Fraction(delta) - self.failure
        if left <= 0 or self.ranges or self.pure:  # which are not composed here
            return math.inf
        return epsilon_bound(self.parts, self.sampled, _down(left), enough)


# Several bounds on one release, all of which hold.
Bounds = tuple[Factors, ...]


def _down(x: Fraction) -> float:
    value = float(x)
    return value if Fraction(value) <= x else math.nextafter(value, 0.0)


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


def read_bounds(curve: Any) -> Bounds:
    """The bounds that a trade-off function in JSON is the best of."""
    if _check_curve(curve) != "best":
        return (read_factors(curve),)
    if not curve["parts"]:
        raise Refused("parts: expected at least one")
    return tuple(read_factors(part) for part in curve["parts"])


def read_factors(curve: Any) -> Factors:
    """The factors of a trade-off function in JSON."""
    kind = _check_curve(curve)
    if kind == "approx_dp":
        return Factors(NOTHING, pure=((_pure(curve), 1),))
    if kind == "bounded_range":
        return Factors(NOTHING, ranges=((nonnegative("epsilon", curve["epsilon"]), 1),))
    if kind == "gaussian":
        return Factors(((Fraction(1), read_mu(curve["mu"])),))
    if kind == "mixture":
        pairs = zip(curve["weights"], curve["mus"], strict=True)
        return Factors(tuple(read_parts({"mixture": list(pairs)})))
    if kind != "product":
        raise Refused(f"tradeoff: a certificate proves no {kind!r}")
    parts: list[Part] = list(NOTHING)
    sampled, ranges, pure = [], [], []
    for factor in curve["factors"]:
        count = integer("count", factor["count"])
        _check_curve(factor, ("count",))
        if factor["kind"] in ("subsampled", "poisson_subsampled"):
            if factor.get("direction", "both") != "both":
                raise Refused("direction: expected a factor for both")
            probability = nonnegative("probability", factor["probability"])
            if probability > 1.0:
                raise Refused(f"probability: expected at most 1, got {probability!r}")
            sampled.append(Sampled(factor["kind"], probability, read_mu(factor["mu"]), count))
        elif factor["kind"] == "gaussian" and count > 0:
            mu = read_mu(factor["mu"])
            many = mu if math.isinf(mu) else root_up(count * arb(mu) * arb(mu))
            parts = product(parts, [(Fraction(1), many)])
        elif factor["kind"] == "approx_dp" and count > 0:
            pure.append((_pure(factor), count))
        elif factor["kind"] == "bounded_range" and count > 0:
            ranges.append((nonnegative("epsilon", factor["epsilon"]), count))
        elif factor["kind"] == "mixture" and count == 1:
            mixture = {key: value for key, value in factor.items() if key != "count"}
            parts = product(parts, read_factors(mixture).parts)
        else:
            raise Refused(f"factors: expected no {count} of {factor['kind']!r}")
    failure = nonnegative("failure", curve.get("failure", 0.0))
    return Factors(tuple(parts), tuple(sampled), Fraction(failure), tuple(ranges), tuple(pure))


def _pure(curve: Any) -> float:
    if nonnegative("delta", curve["delta"]) > 0.0:
        raise Refused(f"delta: expected 0, got {curve['delta']!r}")
    return nonnegative("epsilon", curve["epsilon"])


_CURVES = {
    "gaussian": ("mu",),
    "mixture": ("mus", "weights"),
    "product": ("factors", "failure"),
    "best": ("parts",),
    "bounded_range": ("epsilon",),
    "approx_dp": ("epsilon", "delta"),
    "subsampled": ("mu", "probability"),
    "poisson_subsampled": ("mu", "probability", "direction"),
}


def _check_curve(curve: Any, besides: tuple[str, ...] = ()) -> str:
    """The kind of a trade-off function in JSON, if it has no key that is not read."""
    kind = curve["kind"]
    if not isinstance(kind, str) or kind not in _CURVES:
        raise Refused(f"tradeoff: a certificate proves no {kind!r}")
    closed(f"a {kind}", curve, ("kind", *besides, *_CURVES[kind]))
    return kind


def check_claim(claim: Any, proven: Bounds) -> Bounds:
    """What is claimed, if what is proven implies it."""
    if len(claim) != 1 or not set(claim) <= {"mu", "mixture", "product", "tradeoff"}:
        raise Refused("claim: expected one of mu, mixture, product and tradeoff, alone")
    if "tradeoff" in claim:
        claimed = read_bounds(claim["tradeoff"])
    elif "product" in claim:
        claimed = (read_factors(claim["product"]),)
    else:
        claimed = (Factors(tuple(read_parts(claim))),)
    gap = uncovered(proven, claimed)
    if gap is not None:
        raise Refused(gap)
    return claimed


def uncovered(proven: Bounds, claimed: Bounds) -> str | None:
    """Why some claimed bound follows from none that is proven; None if all do."""
    if not proven or not claimed:
        return "nothing is proven" if claimed else "nothing is claimed"
    for one in timed(claimed):
        first = missing(proven[0], one)
        if first and all(missing(bound, one) for bound in timed(proven[1:])):
            return first
    return None


def check_reading(reading: Any, claimed: Factors) -> tuple[float, float]:
    """The claimed (ε, δ), if the claimed factors imply it."""
    closed("the reading", reading, ("delta", "epsilon"))
    delta, epsilon = nonnegative("delta", reading["delta"]), reading["epsilon"]
    if not 0.0 < delta < 1.0:
        raise Refused(f"delta: expected a number above 0 and below 1, got {delta!r}")
    if epsilon == "inf":
        return math.inf, delta
    epsilon = nonnegative("epsilon", epsilon)
    found = claimed.epsilon(delta, epsilon)
    if not found <= epsilon:
        what = f"only ε = {found!r}" if math.isfinite(found) else "no finite ε"
        raise Refused(f"reading: {what} could be proven at δ = {delta!r}, not {epsilon!r}")
    return epsilon, delta


def missing(proven: Factors, claimed: Factors) -> str | None:
    """What of the proven factors the claimed ones do not cover; None if they cover all."""
    if not proven.parts:
        return "nothing is proven"
    if not dominated(proven.parts, claimed.parts):
        worst = max(mu for _, mu in proven.parts)
        return f"mu: the Gaussian cases prove up to {worst!r}, which does not imply the claim"
    for kind in ("subsampled", "poisson_subsampled"):
        needed = [f for f in proven.sampled if f.kind == kind and f.mu > 0.0 and f.times]
        offered = [f for f in claimed.sampled if f.kind == kind]
        ceiling: Fraction | float = math.inf
        for p in sorted({f.probability for f in needed}, reverse=True):
            # Claimed factors of probability p or more serve those of p, but serve only once.
            here = [_weight(f) for f in needed if f.probability == p]
            serving = [_weight(f) for f in offered if p <= f.probability < ceiling]
            ceiling = p
            if not dominated(here, serving):
                worst = max(mu for _, mu in here)
                total, given = sum(n for n, _ in here), sum(n for n, _ in serving)
                return (
                    f"factors: {total} of {kind!r} with p = {float(p)!r} and μ up to {worst!r} are needed, "
                    f"which the {given} claimed ones do not cover"
                )
    for what, needs, offers in (
        ("bounded ranges", proven.ranges, claimed.ranges),
        ("pure factors", proven.pure, claimed.pure),
    ):
        wanted, offer = (
            [(Fraction(n), epsilon) for epsilon, n in given if epsilon > 0.0 and n]
            for given in (needs, offers)
        )
        if not dominated(wanted, offer):
            worst = max(epsilon for _, epsilon in wanted)
            return f"factors: {len(wanted)} {what} of up to {worst!r} are not covered by the claimed ones"
    if proven.failure > claimed.failure:
        return (
            f"failure: expected at least {float(proven.failure)!r}, got {float(claimed.failure)!r}"
        )
    return None


def _weight(factor: Sampled) -> Part:
    return Fraction(factor.times), factor.mu


def all_together(first: Bounds, second: Bounds) -> Bounds:
    """What two independent releases prove: every bound on one with every bound on the other; where they are
    many, those that reveal least."""
    pairs = ((one, other) for one in first for other in second)
    found = list(dict.fromkeys(together(one, other) for one, other in timed(pairs)))
    return tuple(
        sorted(found, key=_revealed)[:_MOST_BOUNDS] if len(found) > _MOST_BOUNDS else found
    )


def _revealed(bound: Factors) -> float:
    """About what the factors that bounds on one release differ in amount to, as zero-concentrated privacy."""
    gaussian = 0.5 * max((mu for _, mu in bound.parts), default=0.0) ** 2
    ranges = sum(n * min(e, e * e / 8.0) for e, n in bound.ranges)
    return gaussian + ranges + sum(n * min(e, 0.5 * e * e) for e, n in bound.pure)


def together(first: Factors, second: Factors) -> Factors:
    """What two independent releases prove."""
    return Factors(
        tuple(product(first.parts, second.parts)),
        first.sampled + second.sampled,
        first.failure + second.failure,
        first.ranges + second.ranges,
        first.pure + second.pure,
    )


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
    for p, mu in timed(first):
        for q, nu in second:
            both = _hypotenuse(mu, nu)
            merged[both] = merged.get(both, Fraction(0)) + p * q
    return [(weight, mu) for mu, weight in merged.items()]


def _hypotenuse(a: float, b: float) -> float:
    if a == 0.0 or b == 0.0 or math.isinf(a) or math.isinf(b):
        return max(a, b)
    return root_up(arb(a) * arb(a) + arb(b) * arb(b))


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
