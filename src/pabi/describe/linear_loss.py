"""What every loss of a linear model answers: value, derivative, curvature, gradient bound and mean response.

A linear model's loss at a record is ℓ(z, y), a convex function of the predictor z = x·θ and the target y. So
its gradient is the derivative ∂ℓ/∂z times x, and for ‖x‖ ≤ R its curvature lies in [0, R²·steepness] and its
gradient within R·slope. The losses themselves are in `scalar_losses` and `vector_losses`, and their table in
`linear_losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from numpy.typing import NDArray

from pabi.describe.loss_facts import Constraints, Facts, Parameters
from pabi.numbers.rounding import Array, fraction_up

# What a record's target is: a label ±1, a number, K numbers, or a class 0..K − 1. The last two have K
# predictors.
Response = Literal["sign", "number", "vector", "class"]


class LinearLoss(ABC):
    """One loss of the predictor.

    `z` are predictors, float64: of any shape that `y` broadcasts to, but (m, K) for classes y of shape (m,)
    and for vectors y of shape (m, K). Where targets are labels ±1, `z` are the margins ±x·θ and `y` is not
    looked at; values and derivatives are those of the margin.

    `parameters` and `optional`, which need not be given: by name, each with its constraint; a subclass has a
    field of each name. `largest`: those up to which sums of values and derivatives stay within the doubles.
    """

    parameters: ClassVar[Constraints] = {}
    optional: ClassVar[Constraints] = {}
    largest: ClassVar[Mapping[str, float]] = {}
    response: ClassVar[Response]

    @property
    @abstractmethod
    def steepness(self) -> Fraction:
        """An upper bound on the curvature in z (the largest eigenvalue, for classes)."""

    @property
    @abstractmethod
    def slope(self) -> Fraction:
        """An upper bound on the size of the derivative (its Euclidean norm, for classes)."""

    @abstractmethod
    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, (m,) for classes and of the shape of `z` otherwise."""

    @abstractmethod
    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites `z` by the derivatives.

        `most`: (m,) sizes > 0, one a record, to which the loss is clipped convexly: the derivative is then
        that of a convex loss below this one whose derivatives are no longer (docs, "Convex clipping"). None:
        the loss as it is.

        A derivative that is a number is at most `slope` in size, rounding included. Where a finite z makes an
        exponential overflow it is what it tends to, never NaN; callers silence numpy's warning of that, once
        for many arrays. Each depends on its own z and y alone, to the last bit, wherever in a contiguous
        array it stands.
        """

    @abstractmethod
    def mean(self, z: Array, most: Array | None = None) -> Array | None:
        """The mean response at predictors x·θ = z, the inverse of the link; None where the loss models none.

        For labels and classes it is the probability of the label 1, and of each class. The predictor z
        minimises the expected loss, clipped to `most`, of responses with that mean, if numbers are counts or
        symmetric about it. `most` is of any shape that goes with that of `z`.
        """

    def steepness_within(self, most: Fraction) -> Fraction:
        """An upper bound on the curvature in z of the loss clipped convexly to derivatives of size `most`.

        It does not fall as `most` grows, and r² times that of C/r does not fall as r grows: clipped to C/‖x‖,
        records of norm up to R have curvature up to R² times that of C/R.
        """
        return self.steepness

    def in_ball(self) -> LinearLoss:
        """The loss that is clipped to B by the norm of all its derivatives: this one, but for `Softmax`."""
        return self

    def covers(self, other: LinearLoss) -> bool:
        """Whether all that the accountant knows of this loss, clipped or not, holds of `other` as well."""
        return self == other

    def admitted(self, y: Array) -> Array:
        """Numbers as targets of this loss. Raises InvalidInput naming `y`."""
        return y

    @classmethod
    def of(cls, values: Parameters) -> Self:
        """The loss of these parameters; `values` may hold others, such as `feature_norm`."""
        build: Callable[..., Self] = cls
        options = [name for name in cls.optional if name in values]
        return build(**{name: values[name] for name in (*cls.parameters, *options)})

    def facts(self, feature_norm: float, clip_norm: float | None = None) -> Facts:
        """What holds of one record with ‖x‖ ≤ `feature_norm`, rounded up.

        `clip_norm`: the gradient norm to which the loss is clipped convexly, None where it is not.
        """
        r = Fraction(feature_norm)
        steepness, slope = self.steepness, self.slope
        if clip_norm is not None:
            most = Fraction(clip_norm) / r
            steepness, slope = min(steepness, self.steepness_within(most)), min(slope, most)
        hi, bound = fraction_up(r * r * steepness), fraction_up(r * slope)
        # A record's gradient is one number times x, but for classes, where it is K of them.
        scalar = self.response in ("sign", "number")
        return Facts((0.0, hi), bound, scalar, convex_holder=((0.0, 2.0 * bound), (1.0, hi)))
