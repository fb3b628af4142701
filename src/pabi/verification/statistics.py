"""Noisy statistics: what their descriptions say, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.verification.adjacency import gradients_changed, read_adjacency
from pabi.verification.arithmetic import above, exact, fraction_of
from pabi.verification.limits import Refused
from pabi.verification.theorem import About

# A noisy accuracy: what its description says, in exact arithmetic.


class Accuracy(About):
    """A release of a noisy accuracy."""

    CALLED = "of an accuracy"
    nulls = True

    def __init__(self, description: NoisyAccuracy) -> None:
        self.description = description
        self.adjacency, self.unit = read_adjacency(description.adjacency), description.unit

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one of n moves the mean of numbers in [0, 1] by: 1/n²."""
        return fmpq(1, self.description.n * self.description.n)

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        if self.description.noise_std is None:
            raise Refused("noise_std: the description has no noise")
        return exact(self.description.noise_std)


# Noisy statistics of columns: what their description says, in exact arithmetic.


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


# Noisy second moments: what their description says, in exact arithmetic.


class SecondMoments(About):
    """A release of noisy second moments, of matrices or of their diagonal alone."""

    CALLED = "of second moments"
    nulls = True

    def __init__(self, description: NoisySecondMoments) -> None:
        self.description = description
        self.adjacency, self.unit = read_adjacency(description.adjacency), description.unit
        self.square = exact(description.feature_norm) * exact(description.feature_norm)

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one record moves the sum by: R⁴, or twice that where another takes its place.

        ‖xxᵀ − yyᵀ‖² = ‖x‖⁴ + ‖y‖⁴ − 2⟨x, y⟩², and of the diagonals alone Σx_j⁴ + Σy_j⁴ − 2Σx_j²y_j²: no term
        that is taken off is negative, so that every vector that changes adds R⁴ at most.
        """
        return (
            gradients_changed(read_adjacency(self.description.adjacency))
            * self.square
            * self.square
        )

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        stated = self.description
        if stated.noise_std is not None:
            return exact(stated.noise_std)
        if stated.noise_multiplier is None:
            raise Refused("noise_std: the description has no noise")
        return exact(stated.noise_multiplier) * self.square
