"""Samplers and noisy statistics: what their descriptions say, derived again."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any, Generic, TypeVar

from flint import arb, fmpq

from pabi.describe.langevin import LangevinDiffusion
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.verification.arithmetic import Refused, above, exact, fraction_of
from pabi.verification.losses import facts_of
from pabi.verification.theorem import About, gradients_changed, read_adjacency

D = TypeVar("D", LangevinDiffusion, ExponentialMechanism, IteratedExponentialMechanism)


class _Sampler(About, Generic[D]):
    """A description of draws from a Gibbs density, or of a way to it."""

    def __init__(self, description: D) -> None:
        self.description: D = description
        self.loss, self.facts = description.loss, facts_of(description.loss)
        self.adjacency = read_adjacency(description.adjacency)
        self.nulls = self.facts.holds_of_zero

    def gap(self, n: int | None = None) -> Any:
        """Δ: what adjacent gradients of the mean loss differ by at most; `n`: of so many records, whatever
        is stated."""
        stated = self.description.gradient_gap
        if stated is not None and n is None:
            return exact(stated)
        if self.facts.bound is None:
            raise Refused("gradient_gap: nothing bounds one record's gradient")
        records = self.description.n if n is None else n
        return (
            self.facts.bound
            * gradients_changed(read_adjacency(self.description.adjacency))
            / records
        )

    @property
    def curvature(self) -> Any:
        """The least curvature m of the mean loss with its regulariser, a rational."""
        if self.facts.curvature is not None:
            lo = self.facts.curvature[0]
        elif self.facts.convex or self.facts.monotone:
            lo = fmpq(0)
        else:
            raise Refused("loss: nothing is known of its curvature")
        return lo + exact(self.loss.l2)

    @property
    def curvature_of_density(self) -> Any:
        """The least curvature m of the mean loss. Refused where only the field is monotone."""
        if self.facts.monotone:
            raise Refused("loss: nothing is known of the curvature of a convex–concave function")
        return self.curvature


class Diffusion(_Sampler[LangevinDiffusion]):
    """A Langevin diffusion."""

    CALLED = "of a diffusion"


class Mechanism(_Sampler[ExponentialMechanism]):
    """One exponential mechanism."""

    CALLED = "of an exponential mechanism"


class IteratedMechanism(_Sampler[IteratedExponentialMechanism]):
    """Exponential mechanisms in turn."""

    CALLED = "of an exponential mechanism"


class PartingRate:
    """The rate β(Δ + g(z)), g(z) = min{Mz, λ/z − κz}, at which paths on a dissipative loss part at most."""

    def __init__(self, loss: Loss, gap: Any, m: Any) -> None:
        facts = facts_of(loss)
        if facts.dissipative is None or not m < 0:
            raise Refused("loss: expected one that is dissipative and not convex")
        offset, rate = facts.dissipative
        self.gap, self.big = arb(gap), arb(-m)
        self.offset, self.rate = arb(offset), arb(rate + exact(loss.l2))
        if not self.offset > 0:
            raise Refused("loss: expected an offset above 0")
        # κz² = Δz + λ at z*, and −y is the other root.
        root = (self.gap * self.gap + 4 * self.rate * self.offset).sqrt()
        self.limit = (root + self.gap) / (2 * self.rate)
        self.y = (root - self.gap) / (2 * self.rate)
        self.turn = (self.offset / (self.big + self.rate)).sqrt()

    def spread(self, d: Any) -> Any:
        """A bound on ∫_0^d (Δ + g), a ball: either bound on g will do on either side of where they cross."""
        near = d if d <= self.turn else self.turn
        return (
            self.gap * d
            + self.big * near * near / 2
            + self.offset * (d / near).log()
            - self.rate * (d * d - near * near) / 2
        )

    def time(self, d: Any) -> Any:
        """The integral ∫_0^d dz/(Δ + g) for d < z*, a ball."""
        near = d if d <= self.turn else self.turn
        first = (1 + self.big * near / self.gap).log() / self.big
        ends = (
            ((self.limit - near) / (self.limit - d)).log(),
            ((d + self.y) / (near + self.y)).log(),
        )
        return first + (self.limit * ends[0] - self.y * ends[1]) / (
            self.rate * (self.limit + self.y)
        )


# Noisy statistics: what their descriptions say, in exact arithmetic.

S = TypeVar("S", NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments)


class Statistics(About, Generic[S]):
    """A noisy release of numbers that add up: what one record moves does not depend on what others add."""

    nulls = True

    def __init__(self, description: S) -> None:
        self.description: S = description
        self.adjacency, self.unit = read_adjacency(description.adjacency), description.unit

    @property
    @abstractmethod
    def sensitivity_square(self) -> Any:
        """The square of what one record moves the numbers by."""

    @property
    def failure(self) -> Fraction:
        """A bound on the probability with which nothing is promised."""
        return Fraction(0)

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        if self.description.noise_std is None:
            raise Refused("noise_std: the description has no noise")
        return exact(self.description.noise_std)


class Accuracy(Statistics[NoisyAccuracy]):
    """A release of a noisy accuracy."""

    CALLED = "of an accuracy"

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one of n moves the mean of numbers in [0, 1] by: 1/n²."""
        return fmpq(1, self.description.n * self.description.n)


class ColumnStatistics(Statistics[NoisyColumnStatistics]):
    """A release of noisy counts, moments or levels of columns. Of a user one record is drawn."""

    CALLED = "of statistics of columns"

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


class SecondMoments(Statistics[NoisySecondMoments]):
    """A release of noisy second moments, of matrices or of their diagonal alone."""

    CALLED = "of second moments"

    def __init__(self, description: NoisySecondMoments) -> None:
        super().__init__(description)
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
        """σ as stated, or what is added in its place, a rational."""
        stated = self.description
        if stated.noise_std is not None or stated.noise_multiplier is None:
            return super().noise_std
        return min(exact(stated.noise_multiplier) * self.square, exact(stated.moment_noise_std))
