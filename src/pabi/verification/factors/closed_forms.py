"""Kinds of factors that have closed forms: Gaussians, groups, failures, rounding, Laplaces, ranges, pure
ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from flint import arb, fmpq

from pabi.verification.arithmetic import (
    Refused,
    above,
    dominated,
    double_above,
    fraction_of,
    integer,
    nonnegative,
    root_up,
    timed,
)
from pabi.verification.factors import Beside, Epsilons, Factor, Repeated, several

# Mixtures of Gaussians: (probability, μ) for every case.
#
# δ_{G(μ)}(ε) grows with μ at every ε, so that moving probability to larger μ, or adding some, can only
# weaken a guarantee.


Part = tuple[Fraction, float]

_MOST_PARTS = 200_000


@dataclass(frozen=True)
class Gaussians(Factor):
    """One mixture of Gaussians; of independent releases the mixture of all their products."""

    parts: tuple[Part, ...] = ((Fraction(1), 0.0),)

    CURVES = MappingProxyType({"gaussian": ("mu",), "mixture": ("mus", "weights")})

    @classmethod
    def single(cls, mu: float) -> Self:
        """One Gaussian of parameter μ ≥ 0, which may be infinite."""
        return cls(((Fraction(1), mu),))

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """What `count` equal Gaussians amount to, or one mixture. Refused for several mixtures."""
        if curve["kind"] == "gaussian":
            several(curve, count)
            mu = read_mu(curve["mu"])
            return cls.single(mu if math.isinf(mu) else root_up(count * arb(mu) * arb(mu)))
        several(curve, count, most=1)
        return cls.stated(zip(curve["weights"], curve["mus"], strict=True))

    @classmethod
    def stated(cls, pairs: Iterable[Any]) -> Self:
        """The mixture of these cases (weight, μ). Refused where probability is missing: of all that stands
        beside the mixture, only so much would count."""
        parts = read_parts(pairs)
        if sum(weight for weight, _ in parts) < 1:
            raise Refused("weights: expected a sum of at least 1")
        return cls(parts)

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        """The mixture of the products of all releases. Refused where it has too many cases."""
        first, *others = factors
        parts: Sequence[Part] = first.parts
        for other in others:
            parts = _product(parts, other.parts)
        return cls(tuple(parts))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claim puts too little probability on the μ above some value; else None."""
        if not self.parts:
            return "nothing is proven"
        if dominated(self.parts, claimed.parts):
            return None
        worst = max(mu for _, mu in self.parts)
        return f"mu: the Gaussian cases prove up to {worst!r}, which does not imply the claim"

    def write(self, product: dict[str, Any]) -> None:
        """Adds a Gaussian to a product in JSON where all cases have one μ, else a mixture."""
        if self.mu is not None:
            curve: dict[str, Any] = {"kind": "gaussian", "mu": written_mu(self.mu)}
        else:
            falling = largest_first(self.parts)
            weights = [double_above(weight) for weight, _ in falling]
            curve = {"kind": "mixture", "mus": [written_mu(mu) for _, mu in falling]}
            curve["weights"] = weights
        product["factors"].append(curve | {"count": 1})

    def delta(self, epsilon: float) -> Any:
        """A ball of δ at `epsilon` ≥ 0."""
        total, e, half = arb(0), arb(epsilon), arb(0.5)
        for weight, mu in timed(self.parts):
            share = arb(fmpq(weight.numerator, weight.denominator))
            if math.isinf(mu):
                total += share
            elif mu > 0.0:
                a, b = e / mu - arb(mu) / 2, e / mu + arb(mu) / 2
                # e^ε·erfc(b/√2) without either factor, of which arb cannot enclose huge ones.
                scaled = (-a * a / 2).exp() * (b * b / 2).hypgeom_u(half, half) / arb.pi().sqrt()
                total += share * ((a / arb(2).sqrt()).erfc() - scaled) / 2
        return total

    @property
    def size(self) -> int:
        """1 if any case reveals something, else 0."""
        return int(any(mu > 0.0 for _, mu in self.parts))

    @property
    def revealed(self) -> float:
        """The zero-concentrated privacy of the worst case."""
        return 0.5 * max((mu for _, mu in self.parts), default=0.0) ** 2

    @property
    def text(self) -> str:
        """The μ, or how many positions are mixed, in words."""
        mu = self.mu
        return f"μ = {mu!r}" if mu is not None else f"a mixture of {len(self.parts)} positions"

    @property
    def mu(self) -> float | None:
        """The parameter of all cases, None where they differ."""
        values = {mu for _, mu in self.parts}
        return values.pop() if len(values) == 1 else None


def read_mu(value: Any) -> float:
    """The μ ≥ 0 that a certificate claims, which may be "inf". Refused for anything else."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0.0:
        raise Refused(f"mu: expected a number ≥ 0, got {value!r}")
    return float(value)


def read_parts(pairs: Iterable[Any]) -> tuple[Part, ...]:
    """The cases (weight, μ) that a certificate claims. Refused for weights outside [0, 2]."""
    parts = []
    for weight, mu in pairs:
        if type(weight) not in (int, float) or not 0.0 <= weight <= 2.0:
            raise Refused(f"weight: expected a probability, got {weight!r}")
        parts.append((Fraction(weight), read_mu(mu)))
    return tuple(parts)


def largest_first(parts: Sequence[Part]) -> list[Part]:
    """The parts from the largest μ on. Claimed weights may add up to more than 1: what is left over is taken
    from the smallest μ."""
    left, falling = Fraction(1), []
    for weight, mu in sorted(parts, key=lambda part: -part[1]):
        share = min(weight, left)
        left -= share
        falling.append((share, mu))
    return falling


def written_mu(mu: float) -> float | str:
    """μ as JSON can hold it."""
    return "inf" if math.isinf(mu) else mu


def _product(first: Sequence[Part], second: Sequence[Part]) -> list[Part]:
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


# Groups of units: the trade-off function of a chain of adjacent data sets, from that of one link.


class AdjacentChain(NamedTuple):
    """`times` chains of `size` links, and one link's trade-off function as JSON text."""

    base: str
    size: int
    times: int


class GroupFactors(Repeated[AdjacentChain]):
    """Chains, each of links whose function is claimed as it is written."""

    CURVES = MappingProxyType({"grouped": ("base", "size")})

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` chains as a trade-off function in JSON states them. What one link proves is compared by its
        text, which the theorem has checked."""
        several(curve, count)
        size = integer("size", curve["size"])
        if size < 2:
            raise Refused(f"size: expected at least 2, got {size}")
        return cls((AdjacentChain(json.dumps(curve["base"], sort_keys=True), size, count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some chain is not among the claimed ones as often; else None."""
        for one in dict.fromkeys((entry.base, entry.size) for entry in self.entries):
            if claimed._count(one) < self._count(one):
                return f"factors: a group of {one[1]} is not covered by the claimed ones"
        return None

    def _count(self, chain: tuple[str, int]) -> int:
        """How often a chain of this link and length is listed."""
        return sum(one.times for one in self.entries if (one.base, one.size) == chain)

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every chain to the `factors` of a product in JSON."""
        for one in self.entries:
            curve = {"kind": "grouped", "base": json.loads(one.base), "size": one.size}
            product["factors"].append(curve | {"count": one.times})

    @property
    def text(self) -> str:
        """The first chain, in words."""
        return f"groups of {self.entries[0].size}"


# A probability with which nothing is promised: it is added to δ at every ε.


@dataclass(frozen=True)
class Failure(Beside):
    """The probability with which nothing is promised; those of several releases add up."""

    probability: Fraction = Fraction(0)

    KEY = "failure"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """The failure that a product in JSON states."""
        return cls(Fraction(nonnegative("failure", curve)))

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        """The failure of several releases, whose probabilities add up."""
        return cls(sum((factor.probability for factor in factors), Fraction(0)))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claimed probability is less; else None."""
        if self.probability <= claimed.probability:
            return None
        needed, stated = float(self.probability), float(claimed.probability)
        return f"failure: expected at least {needed!r}, got {stated!r}"

    def write(self, product: dict[str, Any]) -> None:
        """States the probability in a product in JSON, rounded up and at most 1."""
        product["failure"] = double_above(min(self.probability, Fraction(1)))

    @property
    def text(self) -> str:
        """The failure and its probability, in words."""
        return f"nothing with probability {float(self.probability)!r}"


# Rounding: on either data set the release is G(r) away from an exact one, of which the factors speak.
#
# With P and Q computed, M and M' exact, and s = zr for z > r/2: P(S) ≤ e^s·M(S) + η, M(S) ≤ e^ε·M'(S) + δ(ε)
# and M'(S) ≤ e^s·Q(S) + η, where η, δ of G(r) at s, is at most r·φ(z − r/2), since that of G(u) grows by
# φ(s/u − u/2) per unit of u. So P(S) ≤ e^(ε+2s)·Q(S) + e^s·δ(ε) + (1 + e^(ε+s))·η (docs, "Theory", 9,
# Theorem 59). Releases that are G(r), G(r'), … away from exact ones are together G(√(r² + r'² + …)) away.


@dataclass(frozen=True)
class Rounding(Beside):
    """r², of how far a release is from an exact one; those of several releases add up."""

    square: Fraction = Fraction(0)

    KEY = "rounding"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """The r that a product in JSON states."""
        return cls(Fraction(nonnegative("rounding", curve)) ** 2)

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        """That of several releases, whose squares add up."""
        return cls(sum((factor.square for factor in factors), Fraction(0)))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claimed one is less; else None."""
        if self.square <= claimed.square:
            return None
        return f"rounding: expected at least {self.r!r}, got {claimed.r!r}"

    def write(self, product: dict[str, Any]) -> None:
        """States r in a product in JSON, rounded up."""
        product["rounding"] = self.r

    @property
    def r(self) -> float:
        """The least double not below r."""
        return root_up(fmpq(self.square.numerator, self.square.denominator))

    def failure(self, probability: Fraction) -> Fraction:
        """A probability that what is computed, of exact releases with this failure, promises nothing."""
        if not (probability and self.square):
            return probability
        r = arb(self.r)
        z = 16 + r / 2
        p = arb(fmpq(probability.numerator, probability.denominator))
        return fraction_of(above((z * r).exp() * p + _eta(z, r)))

    def shift(self, epsilon: float) -> tuple[Any, Any, Any]:
        """Balls of s, and of what δ is multiplied by and what is added to it, so that δ of the exact release
        at ε − 2s gives one of the computed release at any ε of at most `epsilon` ≥ 0."""
        r = arb(self.r)
        z = (16 + r / 2).max((196 + 2 * arb(epsilon)).sqrt())
        s = z * r
        return s, s.exp(), (1 + (arb(epsilon) - s).exp()) * _eta(z, r)

    @property
    def text(self) -> str:
        """How far from exact, in words."""
        return f"within {self.r!r} of exact"


def _eta(z: Any, r: Any) -> Any:
    """A ball of r·φ(z − r/2)."""
    return r * (-((z - r / 2) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()


# Kinds whose factors are one number ε.


class Laplaces(Epsilons):
    """Laplace mechanisms on all records, whose noise has a scale of 1/ε of what a record moves."""

    CURVES = MappingProxyType({"laplace": ("epsilon", "probability")})
    BESIDE = MappingProxyType({"probability": 1.0})
    CALLED, TEXT, SMALL = "Laplace mechanisms", "a Laplace mechanism of ε = {!r}", 1 / 2


class BoundedRanges(Epsilons):
    """Mechanisms whose log-likelihood ratios lie in an interval of length ε."""

    CURVES = MappingProxyType({"bounded_range": ("epsilon",)})
    CALLED, TEXT, SMALL = "bounded ranges", "a bounded range of {!r}", 1 / 8


class PureFactors(Epsilons):
    """Releases that are ε-DP: ε at δ = 0."""

    CURVES = MappingProxyType({"approx_dp": ("epsilon", "delta")})
    BESIDE = MappingProxyType({"delta": 0.0})
    CALLED, TEXT, SMALL = "pure factors", "ε = {!r} at δ = 0", 1 / 2


FACTORS = (Gaussians, GroupFactors, Failure, Rounding, Laplaces, BoundedRanges, PureFactors)
