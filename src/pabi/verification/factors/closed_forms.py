"""Mixtures of Gaussians: (probability, μ) for every case.

δ_{G(μ)}(ε) grows with μ at every ε, so that moving probability to larger μ, or adding some, can only weaken a
guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Self

from flint import arb, fmpq

from pabi.verification.arithmetic import dominated, double_above, root_up
from pabi.verification.factors import Factor, several
from pabi.verification.limits import Refused, timed

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
        return cls(read_parts(zip(curve["weights"], curve["mus"], strict=True)))

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
            curve: dict[str, Any] = {"kind": "gaussian", "mu": _encoded(self.mu)}
        else:
            # Claimed weights may add up to more than 1. What is left over is taken from the smallest μ.
            left, mus, weights = Fraction(1), [], []
            for weight, mu in sorted(self.parts, key=lambda part: -part[1]):
                share = min(weight, left)
                left -= share
                mus.append(_encoded(mu))
                weights.append(double_above(share))
            curve = {"kind": "mixture", "mus": mus, "weights": weights}
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


def _encoded(mu: float) -> float | str:
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


FACTOR = Gaussians
