"""The description of a noisy accuracy: the share of records that a model gets right, released with noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pabi.describe.accounted import Accounted
from pabi.describe.assumptions import adjacent
from pabi.describe.neighbours import Adjacency, Unit, checked_adjacency, checked_unit
from pabi.describe.stated_run import COUNT
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE, convert, keep, optional
from pabi.numbers.rounding import fraction_up


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

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.7.
    """

    n: int
    noise_std: float | None = None
    adjacency: Adjacency = "replace_one"
    unit: Unit = "record"

    def __post_init__(self) -> None:
        convert(self, n=COUNT, noise_std=optional(POSITIVE))
        keep(self, adjacency=checked_adjacency(self.adjacency), unit=checked_unit(self.unit))

    @property
    def sensitivity(self) -> float:
        """How far one record moves the share, rounded up: 1/n, of either adjacency."""
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
        f"each of the {accuracy.n} {accuracy.unit}s that are scored adds a number in [0, 1] to the sum of "
        "which the accuracy is the mean",
        "noise on the accuracy is Gaussian, of the stated standard deviation, fresh, independent of the data "
        "and never revealed",
        "nothing but the noisy accuracy is released of the records that are scored",
        f"the number of {accuracy.unit}s and all settings do not depend on the data",
    )
