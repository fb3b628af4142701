"""The description of noisy statistics of columns: what preparing a table privately releases of it.

Of every column a few numbers are released with Gaussian noise: counts of values up to a threshold, sums and
sums of squares, or how many records have each level. What is computed from them alone costs nothing more.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

from pabi.describe.accounted import Accounted
from pabi.describe.assumptions import ADJACENT
from pabi.describe.neighbours import Adjacency, Unit, checked_adjacency, record_only
from pabi.describe.stated_run import COUNT
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE, convert, keep, one_of, optional
from pabi.numbers.rounding import root_of_fraction_up

Statistic = Literal["counts", "moments", "levels"]
STATISTICS = ("counts", "moments", "levels")
# The square of what one record moves the numbers of one column by: of one count, of the moments, of levels.
_MOVED: dict[str, dict[Adjacency, int]] = {
    "counts": {"replace_one": 1, "zero_out": 1},
    "moments": {"replace_one": 4, "zero_out": 1},
    "levels": {"replace_one": 2, "zero_out": 1},
}
_LARGEST = sys.float_info.max
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
        Records.
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
        "record": whom the guarantee protects.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    docs, "Theory", 18.
    """

    n: int
    columns: int
    statistic: Statistic
    questions: int = 1
    noise_std: float | None = None
    threshold: float | None = None
    adjacency: Adjacency = "replace_one"
    unit: Unit = "record"

    def __post_init__(self) -> None:
        convert(self, n=COUNT, columns=COUNT, statistic=one_of(*STATISTICS), questions=COUNT)
        convert(self, noise_std=optional(POSITIVE), threshold=optional(_THRESHOLD))
        keep(self, adjacency=checked_adjacency(self.adjacency), unit=record_only(self.unit))
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
        if not self.noise_std < _LARGEST:
            raise InvalidInput("noise_std", "it leaves the range of numbers")
        return self.noise_std

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this release to hold."""
        return column_statistics_sentences(self)


def column_statistics_sentences(statistics: NoisyColumnStatistics) -> tuple[str, ...]:
    """What a guarantee of `statistics` rests on."""
    return (
        ADJACENT[statistics.adjacency, "record"],
        *_about(statistics),
        "noise is Gaussian, of the stated standard deviation; it is fresh for every number, independent of "
        "the data and never revealed",
        "nothing but these noisy numbers of the columns is released",
        "the number of records and of columns and all settings do not depend on the data",
    )


def _about(statistics: NoisyColumnStatistics) -> tuple[str, ...]:
    """What is counted or added up, in sentences."""
    match statistics.statistic:
        case "counts":
            return (
                f"at most {statistics.questions} times a column the values up to a threshold are counted, "
                "each record once at most; thresholds depend on earlier answers alone",
            )
        case "moments":
            return (
                "each record adds x and 1 − x² to the sums of a column, x in [−1, 1], or 1 to the number of "
                "its missing values",
            )
        case "levels" if statistics.threshold is None:
            return ("each record has one level in each column; the levels are public",)
        case "levels":
            return (
                "each record has one level in each column; a level is shown only if a record has it and its "
                f"noisy count is above 1 + {statistics.threshold!r} standard deviations of the noise",
                "the order in which levels are shown does not depend on the data",
            )
