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
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pabi.describe.loss_facts import (
    Constraints,
    Facts,
    Kind,
    Parameters,
    curvature_known,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import NUMBER, POSITIVE, Check
from pabi.numbers.rounding import Array, fraction_up, up
from pabi.numbers.showing import exact

RESIDUAL: Check = partial(validate.number, above=0.0, at_most=1.0)
# What a record's target is: a label ±1, a number, or a class 0..K − 1 with a predictor for each.
Response = Literal["sign", "number", "class"]


class LinearLoss(ABC):
    """One loss of the predictor.

    `z` are predictors, float64: of any shape that `y` broadcasts to, but (m, K) for classes y of shape (m,).
    Where targets are labels ±1, `z` are the margins ±x·θ and `y` is not looked at; values and derivatives are
    those of the margin.

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
    def of(cls, values: Parameters) -> Self:
        """The loss of these parameters; `values` may hold others, such as `feature_norm`."""
        build: Callable[..., Self] = cls
        options = [name for name in cls.optional if name in values]
        return build(**{name: values[name] for name in (*cls.parameters, *options)})

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
        """The losses log(1 + e^−z)."""
        # Several times as fast as `np.logaddexp`.
        return np.asarray(np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0.0))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites the margins by −1/(1 + e^z)."""
        # −1/(1 + e^z): no cancellation, and −0 where the exponential overflows.
        np.exp(z, out=z)
        z += 1.0
        np.divide(-1.0, z, out=z)

    def mean(self, z: Array) -> Array:
        """The probability of the label 1, 1/(1 + e^−z)."""
        from scipy.special import expit

        return np.asarray(expit(z))


@dataclass(frozen=True)
class Softmax(LinearLoss):
    """log Σ_k e^(z_k) − z_y, as far as the class y has at least the probability 1 − a, a = `residual_cap`.

    Beyond, the gradient q − e_y, q the probabilities, is scaled by a/(1 − q_y), and the loss is what has this
    gradient: the largest convex function below whose residual at y stays above −a. It is
    a·log Σ_{k≠y} e^(z_k) − a·z_y − a·log a − (1 − a)·log(1 − a) there (docs, "Convex clipping").
    """

    residual_cap: float = 1.0
    optional: ClassVar[Constraints] = {"residual_cap": RESIDUAL}
    response = "class"

    @property
    def steepness(self) -> Fraction:
        """1/2; 2a(1 − a) for a ≤ 1/2, since the variance under q is at most twice that of y being hit."""
        cap = min(Fraction(self.residual_cap), Fraction(1, 2))
        return 2 * cap * (1 - cap)

    @property
    def slope(self) -> Fraction:
        """a·√2, the norm where all that y lacks is at one other class."""
        return Fraction(self.residual_cap) * Fraction(up(math.sqrt(2.0)))

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, (m,)."""
        at, cap = (np.arange(len(y)), y), self.residual_cap
        plain: Array = _log_sum_exp(z) - z[at]
        if cap == 1.0:
            return plain
        others = z.copy()
        others[at] = -math.inf
        # 1 − q_y ≤ a as long as log Σ_{k≠y} e^(z_k) − z_y ≤ log(a/(1 − a)).
        beyond, turn = _log_sum_exp(others) - z[at], math.log(cap) - math.log1p(-cap)
        constant = cap * math.log(cap) + (1.0 - cap) * math.log1p(-cap)
        return np.asarray(np.where(beyond <= turn, plain, cap * beyond - constant))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites the predictors by the classes' probabilities, less 1 for the class y, scaled down where
        that is below −a."""
        columns, at = z.T, (y, np.arange(len(y)))
        columns -= columns.max(axis=0)
        np.exp(columns, out=columns)
        columns /= columns.sum(axis=0)
        columns[at] -= 1.0
        if self.residual_cap < 1.0:
            columns *= self.residual_cap / np.maximum(-columns[at], self.residual_cap)

    def mean(self, z: Array) -> Array:
        """The probabilities of the classes, (m, K): those at which the expected gradient vanishes.

        With q the probabilities of the plain loss they are in proportion to q_k·max(1, (1 − q_k)/a).
        """
        from scipy.special import softmax

        plain = softmax(z, axis=1)
        if self.residual_cap == 1.0:
            return np.asarray(plain)
        share = plain * np.maximum(1.0, (1.0 - plain) / self.residual_cap)
        return np.asarray(share / share.sum(axis=1, keepdims=True))


def _log_sum_exp(z: Array) -> Array:
    """log Σ_k e^(z_k) of every row."""
    peak = np.max(z, axis=1)
    return np.asarray(np.log(np.sum(np.exp(z - peak[:, None]), axis=1)) + peak)


class _Clipped(LinearLoss):
    """½(z − y)² with the residual z − y clipped at `bound`: linear beyond it."""

    response = "number"
    steepness = Fraction(1)

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest residual that is not clipped, in units of y."""

    @property
    def slope(self) -> Fraction:
        """The largest clipped residual."""
        return Fraction(self.bound)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, linear beyond residuals of size `bound`."""
        residual = z - y
        inner = np.clip(residual, -self.bound, self.bound)
        return np.asarray(inner * (residual - 0.5 * inner))

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites the predictors by the clipped residuals."""
        z -= y
        np.clip(z, -self.bound, self.bound, out=z)

    def mean(self, z: Array) -> Array:
        """The predictors themselves."""
        return z


@dataclass(frozen=True)
class Squared(_Clipped):
    """½(z − y)², the residual clipped at `residual_bound`; ∞ where nobody needs a bound."""

    residual_bound: float
    parameters: ClassVar[Constraints] = {"residual_bound": POSITIVE}

    @property
    def bound(self) -> float:
        """The field `residual_bound`."""
        return self.residual_bound


@dataclass(frozen=True)
class Huber(_Clipped):
    """½(z − y)², linear beyond residuals of size `threshold`: the function of `Squared` by another name."""

    threshold: float
    parameters: ClassVar[Constraints] = {"threshold": POSITIVE}

    @property
    def bound(self) -> float:
        """The field `threshold`."""
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
        """The curvature 1/γ of the parabola."""
        return 1 / Fraction(self.smoothing)

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses of margins z."""
        short = np.maximum(1.0 - z, 0.0)
        inner = np.minimum(short, self.smoothing)
        return np.asarray(inner * (short - 0.5 * inner) / self.smoothing)

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites the margins by derivatives in [−1, 0]."""
        z -= 1.0
        z /= self.smoothing
        np.clip(z, -1.0, 0.0, out=z)

    def mean(self, z: Array) -> None:
        """None: the expected loss is least within γ of a margin of 1, whatever the probability."""
        return None


@dataclass(frozen=True)
class PoissonLoss(LinearLoss):
    """e^z − yz, continued linearly beyond z = `predictor_bound`; counts are cut off at `count_bound`."""

    predictor_bound: float
    count_bound: float
    parameters: ClassVar[Constraints] = {"predictor_bound": NUMBER, "count_bound": POSITIVE}
    largest: ClassVar[Mapping[str, float]] = {"predictor_bound": 700.0}
    response = "number"

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

    def differentiate(self, z: Array, y: NDArray[Any]) -> None:
        """Overwrites the predictors by min(e^z, e^bound) − y."""
        np.minimum(z, self.predictor_bound, out=z)
        np.exp(z, out=z)
        np.minimum(z, self._rate, out=z)
        z -= y

    def mean(self, z: Array) -> Array:
        """Up to `predictor_bound` as described; beyond it no z minimises the expected loss."""
        return np.asarray(np.exp(z))

    def admitted(self, y: Array) -> Array:
        """Counts, cut off at `count_bound`. Raises InvalidInput for a negative one."""
        if np.any(y < 0.0):
            raise InvalidInput("y", "expected counts ≥ 0")
        return np.minimum(y, self.count_bound)


LINEAR_LOSSES: dict[str, type[LinearLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "squared": Squared,
    "huber": Huber,
    "smoothed_hinge": SmoothedHinge,
    "poisson": PoissonLoss,
}


def executable(kind: str, **parameters: Any) -> LinearLoss:
    """The loss of this kind and these parameters, checked, for trainers and samplers to compute with.

    There may be other parameters, such as `feature_norm`. Raises InvalidInput naming the parameter.
    """
    cls = LINEAR_LOSSES[kind]
    values = {name: check(name, parameters[name]) for name, check in cls.parameters.items()}
    values |= {n: check(n, parameters[n]) for n, check in cls.optional.items() if n in parameters}
    for name, most in cls.largest.items():
        if values[name] > most:
            raise InvalidInput(name, f"expected at most {exact(most)}, got {values[name]!r}")
    return cls.of(values)


def kind_of(cls: type[LinearLoss]) -> Kind:
    """Such a loss as the accountant knows it, for rows of norm at most `feature_norm`."""
    return Kind(
        required={"feature_norm": POSITIVE, **cls.parameters},
        optional=cls.optional,
        facts=lambda p: cls.of(p).facts(p["feature_norm"]),
        sentences=curvature_known,
    )
