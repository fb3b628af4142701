"""Pure differential privacy: ε at δ = 0."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Self

from pabi.verification.factors import Epsilons, several
from pabi.verification.reading import nonnegative
from pabi.verification.refusal import Refused


class PureFactors(Epsilons):
    """Releases that are ε-DP."""

    CURVES = MappingProxyType({"approx_dp": ("epsilon", "delta")})
    CALLED = "pure factors"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` releases of one ε; Refused unless δ is 0."""
        several(curve, count)
        if nonnegative("delta", curve["delta"]) > 0.0:
            raise Refused(f"delta: expected 0, got {curve['delta']!r}")
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    @staticmethod
    def curve(epsilon: float) -> dict[str, Any]:
        """(ε, 0)-DP."""
        return {"kind": "approx_dp", "epsilon": epsilon, "delta": 0.0}

    @property
    def revealed(self) -> float:
        """At most ε²/2 each."""
        return sum(n * min(e, 0.5 * e * e) for e, n in self.entries)

    @property
    def text(self) -> str:
        """The ε of the first."""
        return f"ε = {self.entries[0][0]!r} at δ = 0"


FACTOR = PureFactors
