"""A probability with which nothing is promised: it is added to δ at every ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from pabi.verification.arithmetic import double_above
from pabi.verification.factors import Factor
from pabi.verification.reading import nonnegative


@dataclass(frozen=True)
class Failure(Factor):
    """The probability; those of several releases add up."""

    probability: Fraction

    KEY = "failure"

    @classmethod
    def none(cls) -> Self:
        return cls(Fraction(0))

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        return cls(Fraction(nonnegative("failure", curve)))

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        return cls(sum((factor.probability for factor in factors), Fraction(0)))

    def missing(self, claimed: Self) -> str | None:
        if self.probability <= claimed.probability:
            return None
        needed, got = float(self.probability), float(claimed.probability)
        return f"failure: expected at least {needed!r}, got {got!r}"

    def write(self, product: dict[str, Any]) -> None:
        product["failure"] = double_above(min(self.probability, Fraction(1)))

    @property
    def size(self) -> int:
        return 0

    @property
    def revealed(self) -> float:
        return 0.0

    @property
    def told(self) -> str:
        return f"nothing with probability {float(self.probability)!r}"


FACTOR = Failure
