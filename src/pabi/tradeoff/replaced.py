"""The Gaussian mechanism on a Poisson batch, of which one record is replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from pabi.numbers.gaussian import nonnegative
from pabi.numbers.validate import SHARE, convert
from pabi.tradeoff.base import decode, encode
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from pabi.tradeoff.two_halves import TwoHalves


@dataclass(frozen=True)
class PoissonReplaced(TwoHalves):
    """T(p·N(μ, 1) + (1 - p)·N(0, 1), p·N(-μ, 1) + (1 - p)·N(0, 1)): its own inverse.

    A Poisson batch holds the record with probability p; the record moves the sum by μ standard deviations
    of the noise at most, and the one in its place, in the worst case, the other way. It is never below
    C_p(G(2μ)).

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    probability : float
        p in [0, 1].

    References
    ----------
    docs, "Theory", 20.
    """

    mu: float
    probability: float

    kind: ClassVar[str] = "poisson_replaced"

    def __post_init__(self) -> None:
        convert(self, mu=nonnegative, probability=SHARE)

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self.mu == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(2.0 * self.mu) if self.probability == 1.0 else None

    @property
    def _largest(self) -> float:
        """That of G(2μ), or 0."""
        return 2.0 * self.mu if self.probability else 0.0

    @cached_property
    def _law(self) -> MixtureLaw:
        half = Half.single(self.mu, 2.0 * self.mu, self.probability)
        return MixtureLaw(half, half)

    def _fields(self) -> dict[str, Any]:
        return {"mu": encode(self.mu), "probability": self.probability}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(decode("mu", fields.pop("mu")), fields.pop("probability"))
