"""Pure differential privacy: ε at δ = 0."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Self

from pabi.verification.arithmetic import nonnegative
from pabi.verification.factors import Epsilons, several
from pabi.verification.limits import Refused


class PureFactors(Epsilons):
    """Releases that are ε-DP."""

    CURVES = MappingProxyType({"approx_dp": ("epsilon", "delta")})
    CALLED = "pure factors"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` factors of the ε that a trade-off function in JSON states. Refused unless δ is 0."""
        several(curve, count)
        if nonnegative("delta", curve["delta"]) > 0.0:
            raise Refused(f"delta: expected 0, got {curve['delta']!r}")
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    @staticmethod
    def curve(epsilon: float) -> dict[str, Any]:
        """The trade-off function of ε-DP, in JSON."""
        return {"kind": "approx_dp", "epsilon": epsilon, "delta": 0.0}

    @property
    def revealed(self) -> float:
        """About the zero-concentrated privacy: the lesser of ε and ε²/2 for each."""
        return sum(n * min(e, 0.5 * e * e) for e, n in self.entries)

    @property
    def text(self) -> str:
        """The first factor, in words."""
        return f"ε = {self.entries[0][0]!r} at δ = 0"


FACTOR = PureFactors
