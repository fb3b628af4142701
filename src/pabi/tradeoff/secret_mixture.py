"""Mixtures of Gaussians whose label stays secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum
from typing import Any, ClassVar, Self

from pabi.numbers.errors import InvalidInput
from pabi.numbers.mixtures import TOTAL
from pabi.numbers.rounding import fraction_up
from pabi.numbers.validate import NONNEGATIVE, keep, number
from pabi.tradeoff.base import Orientation
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw
from pabi.tradeoff.two_halves import TwoHalves

LARGEST_MEAN = 20.0


@dataclass(frozen=True, init=False)
class SecretMixture(TwoHalves):
    """T(Σ w_j·N(m_j, 1), N(0, 1)), the worse of it and its inverse; or T(Σ w_j·N(m_j, 1), Σ w_j·N(-m_j, 1)).

    One number with Gaussian noise, moved by m_j standard deviations with probability w_j, and nobody sees
    by which; on the other data set it is not moved, or moved the other way. With the label j in sight it
    would be a `Mixture`, which reveals more. Rényi divergences are computed by quadrature, with a margin of
    1e-8 (relative).

    Parameters
    ----------
    means : sequence of float
        m_j in [0, 20]. As a field they are sorted, equal ones merged (their weight rounded up) and those of
        weight 0 dropped.
    weights : sequence of float
        w_j ≥ 0, one for each mean, summing to 1 within 1e-9.
    opposite : bool
        Whether the other data set's number is moved the other way, by a label of its own.

    References
    ----------
    docs, "Theory", 6.1.
    """

    means: tuple[float, ...]
    weights: tuple[float, ...]
    opposite: bool

    kind: ClassVar[str] = "secret_mixture"

    def __init__(
        self, means: Sequence[float], weights: Sequence[float], opposite: bool = False
    ) -> None:
        places = [number("means", m, at_least=0.0, at_most=LARGEST_MEAN) for m in means]
        values = [NONNEGATIVE("weights", w) for w in weights]
        if type(opposite) is not bool:
            raise InvalidInput("opposite", f"expected True or False, got {opposite!r}")
        if not places or len(places) != len(values):
            raise InvalidInput("weights", f"expected one weight per mean, got {len(values)}")
        if not abs(fsum(values) - 1.0) <= TOTAL:
            raise InvalidInput("weights", f"expected weights that sum to 1, got {fsum(values)!r}")
        groups: dict[float, Fraction] = {}
        for m, w in zip(places, values, strict=True):
            if w > 0.0:
                groups[m] = groups.get(m, Fraction(0)) + Fraction(w)
        ordered = sorted(groups)
        keep(
            self,
            means=tuple(ordered),
            weights=tuple(fraction_up(groups[m]) for m in ordered),
            opposite=opposite,
        )

    @cached_property
    def _shares(self) -> tuple[tuple[float, Fraction], ...]:
        """(m_j, w_j) with weights that add to 1 exactly: what is missing goes to the lowest mean, and what is
        too much is taken from there, as moving weight to larger means reveals no less."""
        left, shares = Fraction(1), []
        for m, w in zip(reversed(self.means), reversed(self.weights), strict=True):
            share = min(Fraction(w), left)
            left -= share
            shares.append((m, share))
        m, share = shares.pop()
        return tuple(pair for pair in [(m, share + left), *reversed(shares)] if pair[1])

    @property
    def orientation(self) -> Orientation:
        """Whether both orders are one, as where the means are opposite or nothing is secret."""
        return "symmetric" if self.opposite or self._plain is not None else "both"

    @property
    def _apart(self) -> float:
        """How often m_j the two data sets' numbers are apart."""
        return 2.0 if self.opposite else 1.0

    @property
    def _largest(self) -> float:
        """That of the largest mean."""
        return self._apart * self.means[-1]

    @cached_property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where there is only one mean."""
        return Gaussian(self._apart * self._shares[0][0]) if len(self._shares) == 1 else None

    @cached_property
    def _law(self) -> MixtureLaw:
        return MixtureLaw.of(Half(tuple((m, self._apart * m, w) for m, w in self._shares if m)))

    def _fields(self) -> dict[str, Any]:
        return {
            "means": list(self.means),
            "weights": list(self.weights),
            "opposite": self.opposite,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields.pop("means"), fields.pop("weights"), fields.pop("opposite"))
