"""Bounded ranges: mechanisms whose log-likelihood ratios lie in an interval of length ε."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Self

from pabi.verification.arithmetic import nonnegative
from pabi.verification.factors import Epsilons, several


class BoundedRanges(Epsilons):
    """Bounded ranges of several lengths ε."""

    CURVES = MappingProxyType({"bounded_range": ("epsilon",)})
    CALLED = "bounded ranges"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` bounded ranges of the ε that a trade-off function in JSON states."""
        several(curve, count)
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    @staticmethod
    def curve(epsilon: float) -> dict[str, Any]:
        """The trade-off function of a bounded range of length ε, in JSON."""
        return {"kind": "bounded_range", "epsilon": epsilon}

    @property
    def revealed(self) -> float:
        """About the zero-concentrated privacy: the lesser of ε and ε²/8 for each."""
        return sum(n * min(e, e * e / 8.0) for e, n in self.entries)

    @property
    def text(self) -> str:
        """The first bounded range, in words."""
        return f"a bounded range of {self.entries[0][0]!r}"


FACTOR = BoundedRanges
