"""The losses of linear models: value, derivative, curvature, gradient bound and mean response, once.

A linear model's loss at a record is ℓ(z, y), a convex function of the predictor z = x·θ and the target y. So
its gradient is the derivative ∂ℓ/∂z times x, and for ‖x‖ ≤ R its curvature lies in [0, R²·steepness] and its
gradient within R·slope. Trainers (`pabi.execute.linear_gradients`) and samplers
(`pabi.sampling.linear_models`) compute with the very objects from which the accountant's constants follow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pabi.describe.loss_facts import (
    NUMBER,
    POSITIVE,
    Constraints,
    Facts,
    Kind,
    Parameters,
    curvature_known,
)
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, fraction_up, up
from pabi.numbers.showing import exact

# What a record's target is: a label ±1, a number, or a class 0..K − 1 with a predictor for each.
Response = Literal["sign", "number", "class"]


class LinearLoss(ABC):
    """One loss of the predictor.

    `z` are predictors, float64: of any shape that `y` broadcasts to, but (m, K) for classes y of shape (m,).
    Where targets are labels ±1, `z` are the margins ±x·θ and `y` is not looked at; values and derivatives are
    those of the margin.

    `parameters`: by name, each with its constraint; a subclass has a field of each name. `largest`: those up
    to which sums of values and derivatives stay within the doubles.
    """

    parameters: ClassVar[Constraints] = {}
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
        """The losses."""

    @abstractmethod
    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites `z` by the derivatives.

        A derivative that is a number is at most `slope` in size, rounding included. Where a finite z makes an
        exponential overflow it is what it tends to, never NaN; callers silence numpy's warning of that, once
        for many arrays. Each depends on its own z and y alone, to the last bit, wherever in a contiguous
        array it stands.
        """

    @abstractmethod
    def mean(self, z: Array) -> Array | None:
        """The mean response at predictors x·θ = z, the inverse of the link; None where the loss models none.

        For labels and classes it is the probability of the label 1, and of each class. The predictor z
        minimises the expected loss of responses with that mean, if numbers are counts or symmetric about it.
        """

    def admitted(self, y: Array) -> Array:
        """Numbers as targets of this loss. Raises InvalidInput naming `y`."""
        return y

    @classmethod
    def of(cls, given: Parameters) -> Self:
        """The loss of these parameters; `given` may hold others, such as `feature_norm`."""
        build: Callable[..., Self] = cls
        return build(**{name: given[name] for name in cls.parameters})

    def facts(self, feature_norm: float) -> Facts:
        """What holds of one record with ‖x‖ ≤ `feature_norm`, rounded up."""
        r = Fraction(feature_norm)
        hi, bound = fraction_up(r * r * self.steepness), fraction_up(r * self.slope)
        # A record's gradient is one number times x, but for classes, where it is K of them.
        scalar = self.response in ("sign", "number")
        return Facts((0.0, hi), bound, scalar, convex_holder=((0.0, 2.0 * bound), (1.0, hi)))


@dataclass(frozen=True)
class Logistic(LinearLoss):
    """log(1 + e^−z) of the margin z."""

    response = "sign"
    steepness = Fraction(1, 4)
    slope = Fraction(1)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        # Several times as fast as `np.logaddexp`.
        return np.asarray(np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0.0))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        # −1/(1 + e^z): no cancellation, and −0 where the exponential overflows.
        np.exp(z, out=z)
        z += 1.0
        np.divide(-1.0, z, out=z)

    def mean(self, z: Array) -> Array:
        from scipy.special import expit

        return np.asarray(expit(z))


@dataclass(frozen=True)
class Softmax(LinearLoss):
    """log Σ_k e^(z_k) − z_y."""

    response = "class"
    steepness = Fraction(1, 2)
    slope = Fraction(up(math.sqrt(2.0)))

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        peak = np.max(z, axis=1)
        total = np.log(np.sum(np.exp(z - peak[:, None]), axis=1))
        return np.asarray(total + (peak - z[np.arange(len(y)), y]))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        z -= np.max(z, axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= np.sum(z, axis=1, keepdims=True)
        z[np.arange(len(y)), y] -= 1.0

    def mean(self, z: Array) -> Array:
        from scipy.special import softmax

        return np.asarray(softmax(z, axis=1))


class _Clipped(LinearLoss):
    """½(z − y)² with the residual z − y clipped at `bound`: linear beyond it."""

    response = "number"
    steepness = Fraction(1)

    @property
    @abstractmethod
    def bound(self) -> float:
        """In units of y."""

    @property
    def slope(self) -> Fraction:
        return Fraction(self.bound)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        residual = z - y
        inner = np.clip(residual, -self.bound, self.bound)
        return np.asarray(inner * (residual - 0.5 * inner))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        z -= y
        np.clip(z, -self.bound, self.bound, out=z)

    def mean(self, z: Array) -> Array:
        return z


@dataclass(frozen=True)
class Squared(_Clipped):
    """½(z − y)², the residual clipped at `residual_bound`; ∞ where nobody needs a bound."""

    residual_bound: float
    parameters: ClassVar[Constraints] = {"residual_bound": POSITIVE}

    @property
    def bound(self) -> float:
        return self.residual_bound


@dataclass(frozen=True)
class Huber(_Clipped):
    """The same function, by another name."""

    threshold: float
    parameters: ClassVar[Constraints] = {"threshold": POSITIVE}

    @property
    def bound(self) -> float:
        return self.threshold


@dataclass(frozen=True)
class SmoothedHinge(LinearLoss):
    """max(0, 1 − z) of the margin z, a parabola for z in [1 − γ, 1], γ = `smoothing`."""

    smoothing: float
    parameters: ClassVar[Constraints] = {"smoothing": POSITIVE}
    response = "sign"
    slope = Fraction(1)

    @property
    def steepness(self) -> Fraction:
        return 1 / Fraction(self.smoothing)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        short = np.maximum(1.0 - z, 0.0)
        inner = np.minimum(short, self.smoothing)
        return np.asarray(inner * (short - 0.5 * inner) / self.smoothing)

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        z -= 1.0
        z /= self.smoothing
        np.clip(z, -1.0, 0.0, out=z)

    def mean(self, z: Array) -> None:
        return (
            None  # the expected loss is least within γ of a margin of 1, whatever the probability
        )


@dataclass(frozen=True)
class Poisson(LinearLoss):
    """e^z − yz, continued linearly beyond z = `predictor_bound`; counts are cut off at `count_bound`."""

    predictor_bound: float
    count_bound: float
    parameters: ClassVar[Constraints] = {"predictor_bound": NUMBER, "count_bound": POSITIVE}
    largest: ClassVar[Mapping[str, float]] = {"predictor_bound": 700.0}
    response = "number"

    @property
    def steepness(self) -> Fraction:
        try:
            return Fraction(up(up(math.exp(self.predictor_bound))))
        except OverflowError:
            raise InvalidInput(
                "predictor_bound", f"exp({self.predictor_bound!r}) is not a finite number"
            ) from None

    @property
    def slope(self) -> Fraction:
        return max(Fraction(self.count_bound), self.steepness)

    @cached_property
    def _rate(self) -> float:
        """e^z at the bound, one unit short, so that its rounding cannot exceed `slope`."""
        return math.exp(self.predictor_bound) * (1.0 - 2.0**-52)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        grown = np.minimum(np.exp(np.minimum(z, self.predictor_bound)), self._rate)
        beyond = np.maximum(z - self.predictor_bound, 0.0)
        return np.asarray(grown + self._rate * beyond - y * z)

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        np.minimum(z, self.predictor_bound, out=z)
        np.exp(z, out=z)
        np.minimum(z, self._rate, out=z)
        z -= y

    def mean(self, z: Array) -> Array:
        """Up to `predictor_bound` as described; beyond it no z minimises the expected loss."""
        return np.asarray(np.exp(z))

    def admitted(self, y: Array) -> Array:
        if np.any(y < 0.0):
            raise InvalidInput("y", "expected counts ≥ 0")
        return np.minimum(y, self.count_bound)


LINEAR_LOSSES: dict[str, type[LinearLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "squared": Squared,
    "huber": Huber,
    "smoothed_hinge": SmoothedHinge,
    "poisson": Poisson,
}


def executable(kind: str, **given: Any) -> LinearLoss:
    """The loss of this kind and these parameters, checked, for trainers and samplers to compute with.

    `given` may hold other parameters, such as `feature_norm`. Raises InvalidInput naming the parameter.
    """
    cls = LINEAR_LOSSES[kind]
    found = {name: read(name, given[name]) for name, read in cls.parameters.items()}
    for name, most in cls.largest.items():
        if found[name] > most:
            raise InvalidInput(name, f"expected at most {exact(most)}, got {found[name]!r}")
    return cls.of(found)


def kind_of(cls: type[LinearLoss]) -> Kind:
    """Such a loss as the accountant knows it, for rows of norm at most `feature_norm`."""
    return Kind(
        required={"feature_norm": POSITIVE, **cls.parameters},
        facts=lambda p: cls.of(p).facts(p["feature_norm"]),
        sentences=curvature_known,
    )
