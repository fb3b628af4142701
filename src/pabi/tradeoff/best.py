"""Several bounds on one mechanism: the best of them at every ε."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.validate import keep
from pabi.tradeoff.base import Orientation, TradeOff, common, one_order
from pabi.tradeoff.pairs import Pair

_MOST = 64  # parts that are kept; to drop one is sound


@dataclass(frozen=True, init=False)
class Best(TradeOff):
    """The pointwise maximum of trade-off functions that all hold for one mechanism: the least δ at every ε.

    Composition pairs the parts of both sides, which is sound, though not without loss.

    Parameters
    ----------
    parts : iterable of TradeOff
        At least one; each holds for both orders of the data sets ("symmetric" or "both"). Equal ones are
        merged; of more than 64, those with the least ρ of zero-concentrated DP stay.

    References
    ----------
    Dong, Roth, Su 2022, §2.
    """

    parts: tuple[TradeOff, ...]

    kind: ClassVar[str] = "best"

    def __init__(self, parts: Iterable[TradeOff]) -> None:
        flat: dict[TradeOff, None] = {}
        for part in parts:
            part = TradeOff._table.check(part, "parts")
            must_be(not one_order(part.orientation), "parts", "functions for both orders", part)
            flat |= dict.fromkeys(part.parts if isinstance(part, Best) else (part,))
        require(flat, "parts", "expected at least one")
        least = sorted(flat, key=lambda part: part.zcdp)[:_MOST] if len(flat) > _MOST else flat
        keep(self, parts=tuple(least))

    @property
    def orientation(self) -> Orientation:
        """The orientation that the parts have in common."""
        return common(part.orientation for part in self.parts)

    def _epsilon(self, delta: float) -> float:
        return min(part.epsilon(delta) for part in self.parts)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        bounds = [part.epsilon_bounds(delta, rtol) for part in self.parts]
        return min(low for low, _ in bounds), min(high for _, high in bounds)

    def _rdp(self, order: float) -> float:
        return min(part.rdp(order) for part in self.parts)

    @property
    def zcdp(self) -> float:
        """The least ρ of the parts."""
        return min(part.zcdp for part in self.parts)

    def losses(self) -> tuple[Pair, ...]:
        """Refused with InvalidInput: the parts have losses, their best has none."""
        raise InvalidInput("parts", "the best of several bounds has no single privacy loss")

    def _compose(self, other: TradeOff) -> TradeOff | None:
        others = other.parts if isinstance(other, Best) else (other,)
        return Best(mine.compose(theirs) for mine in self.parts for theirs in others)

    def _power(self, k: int) -> TradeOff:
        return Best(part.self_compose(k) for part in self.parts)

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(np.max([part._tradeoff(alpha) for part in self.parts], axis=0))

    def _delta(self, epsilon: float) -> float:
        return min(part._delta(epsilon) for part in self.parts)

    def _delta_array(self, epsilon: Array) -> Array:
        return np.asarray(np.min([part._delta_array(epsilon) for part in self.parts], axis=0))

    def _fields(self) -> dict[str, Any]:
        return {"parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        parts = fields.pop("parts")
        must_be(isinstance(parts, list), "parts", "a list", parts)
        return cls(TradeOff.from_dict(part) for part in parts)

    def __str__(self) -> str:
        return "best of " + ", ".join(str(part) for part in self.parts)
