"""Laplace mechanisms: noise whose scale is 1/ε of what a record moves."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Self

from pabi.verification.arithmetic import nonnegative
from pabi.verification.factors import Epsilons, several
from pabi.verification.limits import Refused


class Laplaces(Epsilons):
    """Laplace mechanisms of several ε, on all records."""

    CURVES = MappingProxyType({"laplace": ("epsilon", "probability")})
    CALLED = "Laplace mechanisms"

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` mechanisms of the ε that a trade-off function in JSON states. Refused on random batches."""
        several(curve, count)
        if nonnegative("probability", curve["probability"]) != 1.0:
            raise Refused(f"probability: expected 1, got {curve['probability']!r}")
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    @staticmethod
    def curve(epsilon: float) -> dict[str, Any]:
        """The trade-off function of the Laplace mechanism of ε, in JSON."""
        return {"kind": "laplace", "epsilon": epsilon, "probability": 1.0}

    @property
    def revealed(self) -> float:
        """About the zero-concentrated privacy: the lesser of ε and ε²/2 for each."""
        return sum(n * min(e, 0.5 * e * e) for e, n in self.entries)

    @property
    def text(self) -> str:
        """The first mechanism, in words."""
        return f"a Laplace mechanism of ε = {self.entries[0][0]!r}"


FACTOR = Laplaces
