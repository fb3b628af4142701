"""Bounded ranges: mechanisms whose log-likelihood ratios lie in an interval of length ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Self

from pabi.verification.dominance import dominated
from pabi.verification.factors import Factor, several
from pabi.verification.reading import nonnegative


@dataclass(frozen=True)
class BoundedRanges(Factor):
    """(ε, how many) of each."""

    entries: tuple[tuple[float, int], ...]

    CURVES = MappingProxyType({"bounded_range": ("epsilon",)})

    @classmethod
    def none(cls) -> Self:
        return cls(())

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        several(curve, count)
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        return cls(tuple(entry for factor in factors for entry in factor.entries))

    def missing(self, claimed: Self) -> str | None:
        wanted, offer = (
            [(Fraction(n), epsilon) for epsilon, n in given.entries if epsilon > 0.0 and n]
            for given in (self, claimed)
        )
        if dominated(wanted, offer):
            return None
        worst = max(epsilon for _, epsilon in wanted)
        return f"factors: {len(wanted)} bounded ranges of up to {worst!r} are not covered by the claimed ones"

    def write(self, product: dict[str, Any]) -> None:
        for epsilon, n in self.entries:
            if n:
                curve = {"kind": "bounded_range", "epsilon": epsilon, "count": n}
                product["factors"].append(curve)

    @property
    def size(self) -> int:
        return sum(n for _, n in self.entries)

    @property
    def revealed(self) -> float:
        return sum(n * min(e, e * e / 8.0) for e, n in self.entries)

    @property
    def told(self) -> str:
        return f"a bounded range of {self.entries[0][0]!r}"


FACTOR = BoundedRanges
