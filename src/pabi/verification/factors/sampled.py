"""Sampled Gaussians: C_p(G(μ)) ("subsampled"), O_p(μ) ("poisson_subsampled"), R_p(μ) ("poisson_replaced").

Larger parameters and probabilities, and more factors, reveal more. R_p(μ) reveals no more than C_p(G(2μ)).
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Self

from pabi.verification.arithmetic import double_above
from pabi.verification.dominance import Weighted, dominated
from pabi.verification.factors import Listed
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import timed
from pabi.verification.products import DISPLACING, REPLACED, Sampled
from pabi.verification.reading import nonnegative
from pabi.verification.refusal import Refused


class SampledGaussians(Listed[Sampled]):
    """Any number of sampled Gaussians."""

    CURVES = MappingProxyType(
        {
            "subsampled": ("mu", "probability"),
            "poisson_subsampled": ("mu", "probability", "direction"),
            "poisson_replaced": ("mu", "probability"),
        }
    )
    ALONE = False
    FINE = True

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` factors of one μ and probability, for both directions."""
        if curve.get("direction", "both") != "both":
            raise Refused("direction: expected a factor for both")
        probability = nonnegative("probability", curve["probability"])
        if probability > 1.0:
            raise Refused(f"probability: expected at most 1, got {probability!r}")
        return cls((Sampled(curve["kind"], probability, read_mu(curve["mu"]), count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claim has too few factors as large as some that are needed; else None."""
        entries = self._as_claimed(claimed)
        for kind in sorted({f.kind for f in entries}, reverse=True):
            needed = [f for f in entries if f.kind == kind and f.mu > 0.0 and f.times]
            offered = [f for f in claimed.entries if f.kind == kind]
            ceiling: Fraction | float = math.inf
            for p in timed(sorted({f.probability for f in needed}, reverse=True)):
                # Claimed factors of probability p or more serve those of p, but serve only once.
                here = [_weighted(f) for f in needed if f.probability == p]
                serving = [_weighted(f) for f in offered if p <= f.probability < ceiling]
                ceiling = p
                if not dominated(here, serving):
                    worst = max(mu for _, mu in here)
                    total, offered_count = sum(n for n, _ in here), sum(n for n, _ in serving)
                    return (
                        f"factors: {total} of {kind!r} with p = {float(p)!r} and μ up to {worst!r} are "
                        f"needed, which the {offered_count} claimed ones do not cover"
                    )
        return None

    def _as_claimed(self, claimed: Self) -> list[Sampled]:
        """The factors, with C_p(G(2μ)) in place of R_p(μ) where the claim knows no R_p: so do older files."""
        if any(f.kind == REPLACED for f in claimed.entries):
            return list(self.entries)
        return [
            f._replace(kind=DISPLACING, mu=2.0 * f.mu) if f.kind == REPLACED else f
            for f in self.entries
        ]

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for each to a product in JSON, its probability rounded up."""
        for kind, probability, mu, times in self.entries:
            if times:
                p = min(1.0, double_above(Fraction(probability)))
                written = "inf" if math.isinf(mu) else mu
                curve = {"kind": kind, "mu": written, "probability": p, "count": times}
                product["factors"].append(curve)

    @property
    def size(self) -> int:
        """The number of factors."""
        return sum(f.times for f in self.entries)

    @property
    def revealed(self) -> float:
        """0, as sampled factors do not tell bounds on one release apart."""
        return 0.0  # bounds on one release have the same ones

    @property
    def text(self) -> str:
        """The number of factors, in words."""
        return f"product of {self.size} factors"


def _weighted(factor: Sampled) -> Weighted:
    return Fraction(factor.times), factor.mu


FACTOR = SampledGaussians
