"""The losses of linear models with one predictor: of a margin or of a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from pabi.describe.gradient_steps import Constraints, Facts, Parameters
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.exponential import OFF, exponential
from pabi.numbers.rounding import HALF_ULP, Array, fraction_up, up
from pabi.numbers.validate import NUMBER, POSITIVE, by

# What every loss of a linear model answers: value, derivative, curvature, gradient bound and mean
# response.
#
# A linear model's loss at a record is ℓ(z, y), a convex function of the predictor z = x·θ and the target
# y. So its gradient is the derivative ∂ℓ/∂z times x, and for ‖x‖ ≤ R its curvature lies in [0,
# R²·steepness] and its gradient within R·slope. The losses themselves are in `scalar_losses` and
# `vector_losses`, and their table in `linear_losses`.


_LARGEST_EXPONENT = 700.0  # e^700 is a double, and so is its inverse


# What a record's target is: a label ±1, a number, K numbers, or a class 0..K − 1. The last two have K
# predictors.
Response = Literal["sign", "number", "vector", "class"]


class LinearLoss(ABC):
    """One loss of the predictor.

    `z` are predictors, float64: of any shape that `y` broadcasts to, but (m, K) for classes y of shape (m,)
    and for vectors y of shape (m, K). Where targets are labels ±1, `z` are the margins ±x·θ and `y` is not
    looked at; values and derivatives are those of the margin.

    The fields of a subclass are its parameters, each declared with its constraint. `largest`: those up to
    which sums of values and derivatives stay within the doubles.
    """

    largest: ClassVar[Mapping[str, float]] = {}
    response: ClassVar[Response]

    @property
    def cone(self) -> Fraction | None:
        """cos² of the angle of a cone in which a record's derivatives stay, clipped or not, around what its
        target says: losses of a margin fall. None where any direction is possible."""
        return Fraction(1) if self.response == "sign" else None

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
    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """What computed derivatives are off by at most at a double z, of K = `outputs` together in Euclidean
        norm; ∞ where nobody has proven it. `clipped`: whether they are clipped convexly. `reach`: no z of K
        predictors is longer."""

    def gap(self, outputs: int) -> float:
        """How far above its least value the loss at most is at z = 0, whatever the target; ∞ where that is
        not bounded. Clipped convexly it is no more. `outputs`: K."""
        return math.inf

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
        return cls(**{f.name: values[f.name] for f in fields(cast("Any", cls)) if f.name in values})

    @classmethod
    def parameters(cls, *, required: bool) -> Constraints:
        """The constraints of those that must be given, or of those that need not."""
        return {
            f.name: f.metadata["check"]
            for f in fields(cast("Any", cls))
            if (f.default is MISSING) is required
        }

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
        pairs = ((0.0, 2.0 * bound), (1.0, hi))
        return Facts((0.0, hi), bound, scalar, convex_holder=pairs, cone=self.cone)


@dataclass(frozen=True)
class Logistic(LinearLoss):
    """log(1 + e^−z) of the margin z."""

    response = "sign"
    steepness = Fraction(1, 4)
    slope = Fraction(1)

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of a quotient of at most 1."""
        return OFF + 3.0 * HALF_ULP

    def gap(self, outputs: int) -> float:
        """The logarithm of 2, rounded up."""
        return 0.7

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses log(1 + e^−z)."""
        # Several times as fast as `np.logaddexp`.
        return np.asarray(np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0.0))

    def steepness_within(self, most: Fraction) -> Fraction:
        """B(1 − B) for B ≤ 1/2: where the derivative is −s the curvature is s(1 − s)."""
        most = min(most, Fraction(1, 2))
        return most * (1 - most)

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the margins by −1/(1 + e^z), no less than −`most`."""
        # −1/(1 + e^z): no cancellation.
        exponential(z, out=z)
        z += 1.0
        np.divide(-1.0, z, out=z)
        if most is not None:
            np.maximum(z, -most, out=z)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """The probability p of the label 1, 1/(1 + e^−z).

        Clipped to c, p : 1 − p = min(σ(z), c) : min(σ(−z), c) with σ(z) = 1/(1 + e^−z).
        """
        from scipy.special import expit

        plain = np.asarray(expit(z))
        if most is None:
            return plain
        up, down = np.minimum(plain, most), np.minimum(expit(-z), most)
        return np.asarray(up / (up + down))


class Clipped(LinearLoss):
    """½(z − y)² with the residual z − y clipped at `bound`: linear beyond it."""

    response = "number"
    steepness = Fraction(1)

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest residual that is not clipped, in units of y."""

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """The rounding of z − y, where it is not clipped."""
        return 2.0 * HALF_ULP * self.bound

    @property
    def slope(self) -> Fraction:
        """The largest clipped residual."""
        return Fraction(self.bound)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, linear beyond residuals of size `bound`."""
        residual = z - y
        inner = np.clip(residual, -self.bound, self.bound)
        return np.asarray(inner * (residual - 0.5 * inner))

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by the clipped residuals."""
        bound = self.bound if most is None else np.minimum(most, self.bound)
        z -= y
        np.clip(z, -bound, bound, out=z)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """The predictors themselves."""
        return z

    def covers(self, other: LinearLoss) -> bool:
        """True for one by either name whose residuals are clipped at no more."""
        return isinstance(other, Clipped) and other.bound <= self.bound


@dataclass(frozen=True)
class Squared(Clipped):
    """½(z − y)², the residual clipped at `residual_bound`; ∞ where nobody needs a bound."""

    residual_bound: float = field(metadata=by(POSITIVE))

    @property
    def bound(self) -> float:
        """The field `residual_bound`."""
        return self.residual_bound


@dataclass(frozen=True)
class Huber(Clipped):
    """½(z − y)², linear beyond residuals of size `threshold`: the function of `Squared` by another name."""

    threshold: float = field(metadata=by(POSITIVE))

    @property
    def bound(self) -> float:
        """The field `threshold`."""
        return self.threshold


@dataclass(frozen=True)
class SmoothedHinge(LinearLoss):
    """max(0, 1 − z) of the margin z, a parabola for z in [1 − γ, 1], γ = `smoothing`."""

    smoothing: float = field(metadata=by(POSITIVE))
    response = "sign"
    slope = Fraction(1)

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of a difference and a quotient, of at most 1 where they are not clipped."""
        return 3.0 * HALF_ULP

    def gap(self, outputs: int) -> float:
        """1, or less."""
        return 1.0

    @property
    def steepness(self) -> Fraction:
        """The curvature 1/γ of the parabola."""
        return 1 / Fraction(self.smoothing)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses of margins z."""
        short = np.maximum(1.0 - z, 0.0)
        inner = np.minimum(short, self.smoothing)
        return np.asarray(inner * (short - 0.5 * inner) / self.smoothing)

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the margins by derivatives in [−1, 0], no less than −`most`."""
        z -= 1.0
        z /= self.smoothing
        np.clip(z, -1.0 if most is None else np.maximum(-most, -1.0), 0.0, out=z)

    def mean(self, z: Array, most: Array | None = None) -> None:
        """None: the expected loss is least within γ of a margin of 1, whatever the probability."""
        return None


@dataclass(frozen=True)
class PoissonLoss(LinearLoss):
    """e^z − yz, continued linearly beyond z = `predictor_bound`; counts are cut off at `count_bound`."""

    predictor_bound: float = field(metadata=by(NUMBER))
    count_bound: float = field(metadata=by(POSITIVE))
    largest: ClassVar[Mapping[str, float]] = {"predictor_bound": 700.0}
    response = "number"

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of the rate, and the rounding of its difference to a count."""
        return up(float(self.slope) * (OFF + 6.0 * HALF_ULP))

    @property
    def steepness(self) -> Fraction:
        """e^bound, the largest rate, rounded up. Raises InvalidInput where it is no finite number."""
        try:
            return Fraction(up(up(math.exp(self.predictor_bound))))
        except OverflowError:
            raise InvalidInput(
                "predictor_bound", f"exp({self.predictor_bound!r}) is not a finite number"
            ) from None

    @property
    def slope(self) -> Fraction:
        """The largest count or rate."""
        return max(Fraction(self.count_bound), self.steepness)

    @cached_property
    def _rate(self) -> float:
        """e^z at the bound, one unit short, so that its rounding cannot exceed `slope`."""
        return math.exp(self.predictor_bound) * (1.0 - 2.0**-52)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses e^z − yz, continued linearly."""
        grown = np.minimum(np.exp(np.minimum(z, self.predictor_bound)), self._rate)
        beyond = np.maximum(z - self.predictor_bound, 0.0)
        return np.asarray(grown + self._rate * beyond - y * z)

    def steepness_within(self, most: Fraction) -> Fraction:
        """The largest count and B together: where e^z − y ≤ B, e^z is no more."""
        return min(self.steepness, Fraction(self.count_bound) + most)

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by min(e^z, e^bound) − y, clipped to ±`most`."""
        np.minimum(z, self.predictor_bound, out=z)
        exponential(z, out=z)
        np.minimum(z, self._rate, out=z)
        z -= y
        if most is not None:
            np.clip(z, -most, most, out=z)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """Up to `predictor_bound` as described; beyond it no z minimises the expected loss.

        Where residuals are clipped it is that of counts which are symmetric about it.
        """
        return np.asarray(np.exp(z))

    def admitted(self, y: Array) -> Array:
        """Counts, cut off at `count_bound`. Raises InvalidInput for a negative one."""
        require(not np.any(y < 0.0), "y", "expected counts ≥ 0")
        return np.minimum(y, self.count_bound)


@dataclass(frozen=True)
class GammaLoss(LinearLoss):
    """z + y·e^−z, linear where y is above (1 + B)·e^z, B = `residual_bound`: that many times the mean.

    It is the negative log-likelihood of a gamma law of mean e^z, up to its shape.
    """

    residual_bound: float = field(metadata=by(POSITIVE))
    response = "number"

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of a ratio of at most 1 + B, and the rounding of 1 less it."""
        return (1.0 + self.residual_bound) * (OFF + 6.0 * HALF_ULP)

    @property
    def steepness(self) -> Fraction:
        """1 + B: the second derivative y·e^−z is 1 less the first one."""
        return 1 + Fraction(self.residual_bound)

    @property
    def slope(self) -> Fraction:
        """B, at least 1, which derivatives come near where predictions are far too large."""
        return max(Fraction(1), Fraction(self.residual_bound))

    def steepness_within(self, most: Fraction) -> Fraction:
        """1 + min(B, `most`)."""
        return 1 + min(Fraction(self.residual_bound), most)

    def _ratio(self, z: Array, y: NDArray[Any]) -> Array:
        """y·e^−z, at most 1 + B."""
        # The least exponent at which a number is still one: 0·e^−z is 0.
        ratio = np.maximum(z, -_LARGEST_EXPONENT)
        np.negative(ratio, out=ratio)
        exponential(ratio, out=ratio)
        ratio *= y
        return np.minimum(ratio, 1.0 + self.residual_bound, out=ratio)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, linear where the mean is far too small."""
        with np.errstate(divide="ignore"):
            turn = np.maximum(np.log(y) - math.log1p(self.residual_bound), -_LARGEST_EXPONENT)
        inner = np.maximum(z, turn)
        return np.asarray(inner + self._ratio(inner, y) + self.residual_bound * (inner - z))

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by 1 − y·e^−z, at least −B, clipped to ±`most`."""
        np.subtract(1.0, self._ratio(z, y), out=z)
        np.maximum(z, -self.residual_bound, out=z)
        if most is not None:
            np.clip(z, -most, most, out=z)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """e^z; where residuals are clipped, as of targets whose ratio to it is symmetric about 1."""
        return np.asarray(np.exp(z))

    def admitted(self, y: Array) -> Array:
        """The targets. Raises InvalidInput for a negative one."""
        require(not np.any(y < 0.0), "y", "expected targets ≥ 0")
        return y
