"""A probability with which nothing is promised: it is added to δ at every ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from pabi.verification.arithmetic import double_above, nonnegative
from pabi.verification.factors import Factor


@dataclass(frozen=True)
class Failure(Factor):
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
    def size(self) -> int:
        """0, as a failure is no factor."""
        return 0

    @property
    def revealed(self) -> float:
        """0, as a failure does not tell bounds on one release apart."""
        return 0.0

    @property
    def text(self) -> str:
        """The failure and its probability, in words."""
        return f"nothing with probability {float(self.probability)!r}"


FACTOR = Failure
