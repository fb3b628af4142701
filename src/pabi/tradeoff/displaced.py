"""The Gaussian mechanism on a random batch into which a record comes in the place of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from pabi.numbers.errors import InvalidInput
from pabi.numbers.gaussian import nonnegative
from pabi.numbers.rounding import up
from pabi.numbers.validate import SHARE, convert, one_of
from pabi.tradeoff.base import DIRECTIONS, Direction, Orientation, decode, encode, opposite
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from pabi.tradeoff.two_halves import TwoHalves


def _positive(field: str, value: Any) -> float:
    """The check that passes ∞ and numbers above 0."""
    size = nonnegative(field, value)
    if size == 0.0:
        raise InvalidInput(field, f"expected a number > 0, got {value!r}")
    return size


@dataclass(frozen=True)
class FixedSizeSubsampled(TwoHalves):
    """The Gaussian mechanism on a batch of fixed size, which a record joins in the place of another.

    Batch and noise aside, the sum is moved with probability p, by W on the first data set and by W' on the
    second, |W| ≤ a, |W'| ≤ a' and |W - W'| ≤ m in standard deviations of the noise. With
    D(a, m) = T(p·N(a, 1) + (1 - p)·N(0, 1), p·N(a - m, 1) + (1 - p)·N(0, 1)) the δ at ε ≥ 0 is that of
    D(a, m) in the one order and that of D(a', m) in the other. It is never below C_p(G(max{a, a', m})).

    Parameters
    ----------
    norm : float
        a in (0, ∞].
    other : float
        a' in (0, ∞].
    apart : float
        m in [0, ∞]; more than a + a' says no more than that.
    probability : float
        p in [0, 1], with which the batch holds the record.
    direction : str
        "remove" is the function itself, the first data set having a; "add" its inverse; "both" the worse of
        the two, each composed by itself.

    References
    ----------
    docs, "Theory", 10.2, Lemma 8b and Theorem 40.
    """

    norm: float
    other: float
    apart: float
    probability: float
    direction: Direction = "both"

    kind: ClassVar[str] = "fixed_size_subsampled"

    def __post_init__(self) -> None:
        convert(
            self,
            norm=_positive,
            other=_positive,
            apart=nonnegative,
            probability=SHARE,
            direction=one_of(*DIRECTIONS),
        )

    @property
    def _within(self) -> float:
        """m, at most a + a'."""
        return min(self.apart, up(self.norm + self.other))

    @property
    def _largest(self) -> float:
        """The M for which C_p(G(M)) is never above the function, or 0."""
        return max(self.norm, self.other, self._within) if self.probability else 0.0

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self._within == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(self._within) if self.probability == 1.0 else None

    @property
    def orientation(self) -> Orientation:
        """The direction; "symmetric" where both orders are one."""
        symmetric = self.norm == self.other or self._plain is not None
        return "symmetric" if symmetric else self.direction

    def inverse(self) -> FixedSizeSubsampled:
        """f^-1: the other direction.

        Returns
        -------
        FixedSizeSubsampled
            The same, for "both".
        """
        return replace(self, direction=opposite(self.direction))

    def symmetrised(self) -> FixedSizeSubsampled:
        """The worse of both directions.

        Returns
        -------
        FixedSizeSubsampled
            Of direction "both".
        """
        return replace(self, direction="both")

    @cached_property
    def _law(self) -> MixtureLaw:
        sizes = self.norm, self.other
        return MixtureLaw(*(Half.single(a, self._within, self.probability) for a in sizes))

    def _halves(self, *, positive: bool) -> Sequence[Half]:
        """D(a, m) is worse for a larger a."""
        return [max(super()._halves(positive=positive), key=lambda half: half.highest)]

    def _fields(self) -> dict[str, Any]:
        sizes = {name: encode(getattr(self, name)) for name in ("norm", "other", "apart")}
        fields: dict[str, Any] = {**sizes, "probability": self.probability}
        return fields if self.direction == "both" else fields | {"direction": self.direction}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        sizes = {name: decode(name, fields.pop(name)) for name in ("norm", "other", "apart")}
        p = fields.pop("probability")
        return cls(**sizes, probability=p, direction=fields.pop("direction", "both"))
