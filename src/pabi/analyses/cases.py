"""The cases that a proof under a secret order distinguishes."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pabi.normal_forms.positions import Uses


class Case(NamedTuple):
    """An event of probability `weight`, under which the record's uses are no worse than `uses`.

    `ranges`: of positions, [first, last] for each epoch that is averaged over, in the order in which
    they are used last; None for an epoch that misses the record.
    """

    uses: Uses
    weight: Fraction
    ranges: tuple[tuple[int, int] | None, ...]
