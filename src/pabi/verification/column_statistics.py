"""Noisy statistics of columns: what their description says, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from pabi.describe.column_statistics import NoisyColumnStatistics
from pabi.verification.adjacency import gradients_changed, read_adjacency
from pabi.verification.arithmetic import above, exact, fraction_of
from pabi.verification.refusal import Refused
from pabi.verification.theorem import About


class ColumnStatistics(About):
    """A release of noisy counts, moments or levels of columns."""

    CALLED = "of statistics of columns"
    nulls = True  # numbers add up: what one record moves does not depend on what the others add

    def __init__(self, description: NoisyColumnStatistics) -> None:
        self.description = description
        self.adjacency = read_adjacency(description.adjacency)

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one record moves all numbers by; every column adds as much as any other."""
        return fmpq(self.description.columns) * self._of_a_column

    @property
    def _of_a_column(self) -> int:
        """The square of what one record moves the numbers of one column by.

        A count moves by 1, however the record changes. Moments x, 1 − x², and whether x is missing: a record
        adds x² + (1 − x²)² ≤ 1, or 1 where x is missing; another in its place (x − y)²(1 + (x + y)²) ≤ 4, or
        x² + (1 − x²)² + 1 ≤ 2 where one of the two is missing. One count of a level falls, another one rises.
        """
        changed = gradients_changed(read_adjacency(self.description.adjacency))
        match self.description.statistic:
            case "counts":
                return self.description.questions
            case "moments":
                return changed * changed
            case "levels":
                return changed
            case other:
                raise Refused(f"statistic: the checker knows no {other!r}")

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        if self.description.noise_std is None:
            raise Refused("noise_std: the description has no noise")
        return exact(self.description.noise_std)

    @property
    def failure(self) -> Fraction:
        """δ₀: a bound on the probability that in some column a level is shown that one record alone has.

        A level of count 1 is shown if its noise is above z standard deviations, independently in d columns:
        1 − (1 − Q(z))^d.
        """
        threshold = self.description.threshold
        if threshold is None:
            return Fraction(0)
        tail = (arb(threshold) / arb(2).sqrt()).erfc() / 2
        none = (
            self.description.columns * (-tail).log1p()
        )  # the logarithm of the probability of none
        return min(Fraction(1), fraction_of(above(-none.expm1())))
