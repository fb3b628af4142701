"""The description of a noisy release of second moments: Σ x·xᵀ over the records, or its diagonal alone.

It is released once. What is computed from it alone, such as a map that whitens features, costs nothing more.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

from pabi.describe.accounted import Accounted
from pabi.describe.assumptions import adjacent
from pabi.describe.neighbours import Adjacency, Unit, changed, checked_adjacency, checked_unit
from pabi.describe.stated_run import COUNT
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE, convert, flag, keep, optional
from pabi.numbers.rounding import fraction_down, root_of_fraction_up

_LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class NoisySecondMoments(Accounted):
    """The sum of x·xᵀ over the records x, released once with Gaussian noise.

    The noise is symmetric: independent N(0, σ²) on the diagonal and N(0, σ²/2) above it, which is the same in
    every direction of the symmetric matrices with the Frobenius norm.

    Parameters
    ----------
    n : int
        Records, or enrolled users.
    dimension : int
        d, the length of a record's vector, an appended constant included.
    feature_norm : float
        R: every record's vector has norm at most R, an appended constant included.
    noise_std : float, optional
        σ > 0, of the noise on the diagonal of the sum, in units of squared features.
    noise_multiplier : float, optional
        σ/R² in place of `noise_std`. With neither, only `calibrate` works.
    adjacency : str
        "replace_one" (default) or "zero_out", or the dp_accounting.NeighboringRelation of that meaning.
    diagonal : bool
        Whether only the d sums Σ x_j² are released, with independent noise N(0, σ²). For wide data, for which
        d² numbers are too many.
    unit : str
        "record" or "user": whom the guarantee protects. A user contributes the mean of x·xᵀ over their
        records, and 0 without any.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.7; docs, "Second moments".
    """

    n: int
    dimension: int
    feature_norm: float
    noise_std: float | None = None
    noise_multiplier: float | None = None
    adjacency: Adjacency = "replace_one"
    diagonal: bool = False
    unit: Unit = "record"

    def __post_init__(self) -> None:
        if self.noise_std is not None and self.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier", "expected at most one of noise_std and noise_multiplier"
            )
        noise = optional(POSITIVE)
        convert(self, n=COUNT, dimension=COUNT, feature_norm=POSITIVE)
        convert(self, noise_std=noise, noise_multiplier=noise, diagonal=flag)
        keep(self, adjacency=checked_adjacency(self.adjacency), unit=checked_unit(self.unit))
        if not self.sensitivity < math.inf:
            raise InvalidInput("feature_norm", "its square leaves the range of numbers")
        if self.noise_multiplier is not None:
            _ = self.moment_noise_std

    @property
    def sensitivity(self) -> float:
        """How far one record moves the sum in Frobenius norm, rounded up: R², or √2·R² ("replace_one").

        Of the diagonal alone the same numbers hold in Euclidean norm.
        """
        return root_of_fraction_up(changed(self.adjacency) * Fraction(self.feature_norm) ** 4)

    @property
    def moment_noise_std(self) -> float:
        """σ, as stated or from the multiplier, rounded down.

        Raises InvalidInput if there is no noise yet.
        """
        if self.noise_std is not None:
            return self.noise_std
        if self.noise_multiplier is None:
            raise InvalidInput(
                "noise_std", "missing: give noise_std or noise_multiplier, or calibrate"
            )
        noise = fraction_down(Fraction(self.noise_multiplier) * Fraction(self.feature_norm) ** 2)
        if not 0.0 < noise < _LARGEST:
            raise InvalidInput(
                "noise_multiplier", "the noise that it stands for leaves the range of numbers"
            )
        return noise

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this release to hold."""
        return second_moments_sentences(self)


def second_moments_sentences(moments: NoisySecondMoments) -> tuple[str, ...]:
    """What a guarantee of `moments` rests on."""
    if moments.diagonal:
        of, released = "of every sum", "the noisy sums of squared features are"
    else:
        of = "on the diagonal and of √½ of it above the diagonal, where it is mirrored"
        released = f"the noisy sum of the {moments.unit}s' x·xᵀ is"
    return (
        *adjacent(moments.adjacency, moments.unit),
        f"each record's vector has norm at most {moments.feature_norm!r}, an appended constant included",
        f"noise is Gaussian, of the stated standard deviation {of}; it is fresh for every number, "
        "independent of the data and never revealed",
        f"nothing but {released} released",
        f"the number of {moments.unit}s and all settings do not depend on the data",
    )
