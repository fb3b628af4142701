"""The Gaussian mechanism: what one record moves by s, released with Gaussian noise of σ, is G(s/σ).

The noise on second moments is the same in every direction of the space that they lie in, symmetric matrices
with the Frobenius norm or vectors of sums of squares. One record moves them by R² at most, or by √2·R² if
another comes in its place (docs, "Second moments").
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from pabi.analyses.writing import claim
from pabi.describe.files import to_dict
from pabi.describe.second_moments import NoisySecondMoments, second_moments_sentences
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import Gaussian

NAME = "Gaussian mechanism"
SOURCE = "Dong, Roth, Su 2022, Thm 2.7; docs, Second moments"


def apply(moments: NoisySecondMoments, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of one release of noisy second moments, Gaussian and exact but for roundings."""
    mu = fraction_up(Fraction(moments.sensitivity) / Fraction(moments.moment_noise_std))
    curve = Gaussian(mu)
    return Guarantee(
        curve,
        moments.adjacency,
        NAME,
        SOURCE,
        second_moments_sentences(moments),
        unit=moments.unit,
        proof=MomentsProof(moments, curve),
    )


@dataclass(frozen=True, eq=False)
class MomentsProof:
    """The proof of a release of second moments: all of it follows from the description."""

    moments: NoisySecondMoments
    curve: Gaussian
    theorem: ClassVar[str] = NAME

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the description and the claim."""
        return {"run": to_dict(self.moments), "claim": claim(self.curve)}
