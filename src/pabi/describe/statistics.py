"""Descriptions of statistics that are released once: second moments, those of columns, an accuracy."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Literal

from pabi.describe.accounted import (
    ADJACENCY,
    ADJACENT,
    IF_ANY,
    UNIT,
    Accounted,
    Adjacency,
    Unit,
    adjacent,
    changed,
)
from pabi.describe.runs import COUNT
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import fraction_down, fraction_up, root_of_fraction_up
from pabi.numbers.validate import POSITIVE, by, flag, one_of, optional

# The description of a noisy release of second moments: Σ x·xᵀ over the records, or its diagonal alone.
#
# It is released once. What is computed from it alone, such as a map that whitens features, costs nothing
# more.


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

    n: int = field(metadata=by(COUNT))
    dimension: int = field(metadata=by(COUNT))
    feature_norm: float = field(metadata=by(POSITIVE))
    noise_std: float | None = field(default=None, metadata=IF_ANY)
    noise_multiplier: float | None = field(default=None, metadata=IF_ANY)
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    diagonal: bool = field(default=False, metadata=by(flag))
    unit: Unit = field(default="record", metadata=UNIT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_std is not None and self.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier", "expected at most one of noise_std and noise_multiplier"
            )
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


# The description of noisy statistics of columns: what preparing a table privately releases of it.
#
# Of every column a few numbers are released with Gaussian noise: counts of values up to a threshold, sums
# and sums of squares, or how many records have each level. What is computed from them alone costs nothing
# more.


Statistic = Literal["counts", "moments", "levels"]
STATISTICS = ("counts", "moments", "levels")
# The square of what one record moves the numbers of one column by: of one count, of the moments, of levels.
_MOVED: dict[str, dict[Adjacency, int]] = {
    "counts": {"replace_one": 1, "zero_out": 1},
    "moments": {"replace_one": 4, "zero_out": 1},
    "levels": {"replace_one": 2, "zero_out": 1},
}
_THRESHOLD = partial(validate.number, at_least=0.0, at_most=37.0)  # beyond, Q(z) is hardly a double


@dataclass(frozen=True, eq=False)
class NoisyColumnStatistics(Accounted):
    """Statistics of columns, released with independent noise N(0, σ²) on every number.

    "counts": how many values of a column are at most a threshold, asked `questions` times of each column; a
    threshold may depend on the answers before. "moments": of values x in [−1, 1] the sums of x and of 1 − x²,
    and how many values are missing. "levels": how many records have each level of a column.

    Parameters
    ----------
    n : int
        Records, or enrolled users.
    columns : int
        Of the table, as far as it is looked at.
    statistic : str
        "counts", "moments" or "levels".
    questions : int
        Of each column, for "counts"; 1 for the others.
    noise_std : float, optional
        σ > 0. Without it only `calibrate` works.
    threshold : float, optional
        z in [0, 37], for "levels" that are not declared: the levels that some record has are counted, and one
        is shown only if its noisy count is above 1 + z·σ. None: the levels are public, and all are counted.
    adjacency : str
        "replace_one" (default) or "zero_out", or the dp_accounting.NeighboringRelation of that meaning.
    unit : str
        "record" or "user": whom the guarantee protects. Of a user one record is looked at, drawn at random.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    docs, "Theory", 18.
    """

    n: int = field(metadata=by(COUNT))
    columns: int = field(metadata=by(COUNT))
    statistic: Statistic = field(metadata=by(one_of(*STATISTICS)))
    questions: int = field(default=1, metadata=by(COUNT))
    noise_std: float | None = field(default=None, metadata=IF_ANY)
    threshold: float | None = field(default=None, metadata=by(optional(_THRESHOLD)))
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    unit: Unit = field(default="record", metadata=UNIT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.statistic != "counts" and self.questions != 1:
            raise InvalidInput("questions", f"expected 1 for {self.statistic!r}")
        if self.statistic != "levels" and self.threshold is not None:
            raise InvalidInput("threshold", f"expected none for {self.statistic!r}")

    @property
    def sensitivity(self) -> float:
        """How far one record moves all numbers together in Euclidean norm, rounded up."""
        moved = _MOVED[self.statistic][self.adjacency]
        return root_of_fraction_up(Fraction(moved * self.columns * self.questions))

    @property
    def column_noise_std(self) -> float:
        """σ as stated.

        Raises InvalidInput if there is no noise yet.
        """
        if self.noise_std is None:
            raise InvalidInput("noise_std", "missing: give noise_std, or calibrate")
        require(self.noise_std < _LARGEST, "noise_std", "it leaves the range of numbers")
        return self.noise_std

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this release to hold."""
        return column_statistics_sentences(self)


def column_statistics_sentences(statistics: NoisyColumnStatistics) -> tuple[str, ...]:
    """What a guarantee of `statistics` rests on."""
    unit = statistics.unit
    return (
        ADJACENT[statistics.adjacency, unit],
        *((ONE_OF_EACH,) if unit == "user" else ()),
        *_about(statistics),
        "noise is Gaussian, of the stated standard deviation; it is fresh for every number, independent of "
        "the data and never revealed",
        "nothing but these noisy numbers of the columns is released",
        f"the number of {unit}s and of columns and all settings do not depend on the data",
    )


ONE_OF_EACH = (
    "n counts enrolled users in place of records, and their number does not depend on the data; a user is "
    "one of their records, drawn uniformly at random and in secret, without level or value if there is none"
)


def _about(statistics: NoisyColumnStatistics) -> tuple[str, ...]:
    """What is counted or added up, in sentences."""
    unit = statistics.unit
    match statistics.statistic:
        case "counts":
            return (
                f"at most {statistics.questions} times a column the values up to a threshold are counted, "
                f"each {unit} once at most; thresholds depend on earlier answers alone",
            )
        case "moments":
            return (
                f"each {unit} adds x and 1 − x² to the sums of a column, x in [−1, 1], or 1 to the number of "
                "its missing values",
            )
        case "levels" if statistics.threshold is None:
            return (f"each {unit} has one level in each column; the levels are public",)
        case "levels":
            return (
                f"each {unit} has one level in each column; a level is shown only if a {unit} has it and its "
                f"noisy count is above 1 + {statistics.threshold!r} standard deviations of the noise",
                "the order in which levels are shown does not depend on the data",
            )


# The description of a noisy accuracy: the share of records that a model gets right, or of pairs of records
# that it puts into the right order, released with noise.


@dataclass(frozen=True, eq=False)
class NoisyAccuracy(Accounted):
    """The share of n records that a model gets right, released once with Gaussian noise.

    The model is fixed before these records are looked at: it was trained on others, or its own release is
    composed with this one.

    Parameters
    ----------
    n : int
        Records, or enrolled users.
    noise_std : float, optional
        σ > 0, of the noise on the share, which lies in [0, 1]. Without it only `calibrate` works.
    adjacency : str
        "replace_one" (default) or "zero_out", or the dp_accounting.NeighboringRelation of that meaning.
    unit : str
        "record" or "user": whom the guarantee protects. A user contributes the share of their records that
        the model gets right, and 0 without any.
    pairs : bool
        Whether pairs of records are looked at in place of records. With u = Σ w_i·w_j·(±1, or 0) over the
        positive records i and the negative ones j, +1 where the model ranks i above j and −1 where below, the
        number is u/n², or u/(2n²) ("replace_one"). Weights w are 1, or the shares of a user's records, of
        which a user has 1 in all. It grows with the area under the ROC curve.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.7; docs, "Theory", 17 (Lemma 23b).
    """

    n: int = field(metadata=by(COUNT))
    noise_std: float | None = field(default=None, metadata=IF_ANY)
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    unit: Unit = field(default="record", metadata=UNIT)
    pairs: bool = field(default=False, metadata=by(flag))

    @property
    def sensitivity(self) -> float:
        """How far one record moves the number, rounded up: 1/n, of either adjacency."""
        return fraction_up(Fraction(1, self.n))

    @property
    def accuracy_noise_std(self) -> float:
        """σ as stated.

        Raises InvalidInput if there is no noise yet.
        """
        if self.noise_std is None:
            raise InvalidInput("noise_std", "missing: give noise_std, or calibrate")
        return self.noise_std

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this release to hold."""
        return accuracy_sentences(self)


def accuracy_sentences(accuracy: NoisyAccuracy) -> tuple[str, ...]:
    """What a guarantee of `accuracy` rests on."""
    return (
        *adjacent(accuracy.adjacency, accuracy.unit),
        _about_scores(accuracy),
        "noise on the accuracy is Gaussian, of the stated standard deviation, fresh, independent of the data "
        "and never revealed",
        "nothing but the noisy accuracy is released of the records that are scored",
        f"the number of {accuracy.unit}s and all settings do not depend on the data",
    )


def _about_scores(accuracy: NoisyAccuracy) -> str:
    """What is added up, in a sentence."""
    of = f"each of the {accuracy.n} {accuracy.unit}s that are scored"
    if not accuracy.pairs:
        return f"{of} adds a number in [0, 1] to the sum of which the accuracy is the mean"
    square = "" if changed(accuracy.adjacency) == 1 else "twice "
    return (
        f"{of} has weight 1 at most; the accuracy is a sum over pairs of a positive and a negative, each of "
        f"the product of their weights, its negative or 0, over {square}the square of {accuracy.n}"
    )
