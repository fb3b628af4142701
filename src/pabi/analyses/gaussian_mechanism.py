"""The Gaussian mechanism: what one record moves by s, released with Gaussian noise of σ, is G(s/σ).

The noise on second moments is the same in every direction of the space that they lie in, symmetric matrices
with the Frobenius norm or vectors of sums of squares. One record moves them by R² at most, or by √2·R² if
another comes in its place (docs, "Second moments"). One of n records moves an accuracy by 1/n.
"""

from __future__ import annotations

from fractions import Fraction

from pabi.analyses.writing import DescribedProof
from pabi.describe.statistics import NoisyAccuracy, NoisySecondMoments
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import Gaussian

NAME = "Gaussian mechanism"
SOURCE = "Dong, Roth, Su 2022, Thm 2.7"
OF_MOMENTS = f"{SOURCE}; docs, Second moments"


def of_moments(moments: NoisySecondMoments, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of one release of noisy second moments, Gaussian and exact but for roundings."""
    return _guarantee(moments, moments.moment_noise_std, OF_MOMENTS)


def of_accuracy(accuracy: NoisyAccuracy, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of one release of a noisy accuracy, Gaussian and exact but for roundings."""
    return _guarantee(accuracy, accuracy.accuracy_noise_std, SOURCE)


def _guarantee(
    release: NoisySecondMoments | NoisyAccuracy, noise_std: float, source: str
) -> Guarantee:
    curve = Gaussian(fraction_up(Fraction(release.sensitivity) / Fraction(noise_std)))
    return Guarantee(
        curve,
        release.adjacency,
        NAME,
        source,
        release.assumptions,
        unit=release.unit,
        proof=DescribedProof(NAME, release, curve),
    )
