"""The losses of linear models with K predictors, of one class out of K or of K numbers.

None of them has gradients that are a number times a fixed vector, so that scaling a gradient down is not
harmless (docs, "Clipping"). Convex clipping is: the maximiser p of ⟨p, z⟩ − ℓ*(p), ℓ* the conjugate, is the
gradient of a convex loss of z over any convex set of p's, and here it has closed forms or takes a root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.gradient_steps import Kind, curvature_known
from pabi.describe.joint_clipping import (
    FARTHEST,
    hinge_off,
    hinge_within,
    logistic_off,
    logistic_within,
    softmax_off,
    softmax_within,
)
from pabi.describe.scalar_losses import (
    GammaLoss,
    Huber,
    LinearLoss,
    Logistic,
    PoissonLoss,
    SmoothedHinge,
    Squared,
)
from pabi.numbers import validate
from pabi.numbers.errors import must_be
from pabi.numbers.exponential import OFF, exponential
from pabi.numbers.rounding import EIGHT_ROUNDINGS, HALF_ULP, Array, added, root_above, row_norms, up
from pabi.numbers.showing import exact
from pabi.numbers.validate import POSITIVE, Check, by

RESIDUAL: Check = partial(validate.number, above=0.0, at_most=1.0)
CLASSES: Check = partial(validate.integer, at_least=2)
_ROOT_TWO = root_above(Fraction(2))
_LONGEST = 1.5  # no derivative of a softmax loss is as long
_ROUNDED = 1.001  # past the rounding of predictors
_SURELY_SHORT = 1.0 - 1e-9  # what is shorter than so much of a norm is so after rounding, too


@dataclass(frozen=True)
class Softmax(LinearLoss):
    """log Σ_k e^(z_k) − z_y, as far as the class y has at least the probability 1 − a, a = `residual_cap`.

    Beyond, the gradient q − e_y, q the probabilities, is scaled by a/(1 − q_y), and the loss is what has this
    gradient: the largest convex function below whose residual at y stays above −a. It is
    a·log Σ_{k≠y} e^(z_k) − a·z_y − a·log a − (1 − a)·log(1 − a) there (docs, "Convex clipping").
    """

    residual_cap: float = field(default=1.0, metadata=by(RESIDUAL))
    response = "class"

    @property
    def cone(self) -> Fraction:
        """1/2, around −e_y: what y lacks the others have, so that its square is half of the norm's."""
        return Fraction(1, 2)

    @property
    def steepness(self) -> Fraction:
        """1/2; 2a(1 − a) for a ≤ 1/2, since the variance under q is at most twice that of y being hit."""
        cap = min(Fraction(self.residual_cap), Fraction(1, 2))
        return 2 * cap * (1 - cap)

    @property
    def slope(self) -> Fraction:
        """a·√2, the norm where all that y lacks is at one other class."""
        return Fraction(self.residual_cap) * _ROOT_TWO

    def steepness_within(self, most: Fraction) -> Fraction:
        """2a(1 − a) = √2·B − B² for a = B/√2 ≤ 1/2."""
        if 2 * most * most >= 1:
            return self.steepness
        return min(self.steepness, most * (_ROOT_TWO - most))

    def in_ball(self) -> LinearLoss:
        """`BallSoftmax`; with a cap of its own it is clipped by that alone."""
        return BallSoftmax() if self.residual_cap == 1.0 else self

    def covers(self, other: LinearLoss) -> bool:
        """True for one whose residuals are capped at no more."""
        return isinstance(other, Softmax) and other.residual_cap <= self.residual_cap

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of K exponentials, their sum, quotients, and a factor that depends on one of them."""
        return 8.0 * OFF + 16.0 * (outputs + 2.0) * HALF_ULP

    def gap(self, outputs: int) -> float:
        """The logarithm of K, rounded up; with a cap it is no more."""
        return 1.001 * math.log(max(outputs, 2))

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

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by the classes' probabilities, less 1 for the class y, scaled down where
        that is below −a. Clipped to B, a is B/√2 if that is less."""
        columns, at = z.T, (y, np.arange(len(y)))
        columns -= columns.max(axis=0)
        exponential(columns, out=columns)
        own = columns[at]
        columns[at] = 0.0
        others = added(columns)
        total = others + own
        lacking = others / total  # 1 − q_y, without the cancellation that a small cap would magnify
        columns /= total
        columns[at] = -lacking
        if self.residual_cap < 1.0 or most is not None:
            cap = self._cap(most)
            columns *= cap / np.maximum(lacking, cap)

    def _cap(self, most: Array | None) -> Any:
        """a of every record: a number, or (m,)."""
        if most is None:
            return self.residual_cap
        return np.minimum(most * math.sqrt(0.5), self.residual_cap)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """The probabilities of the classes, (m, K): those at which the expected gradient vanishes.

        With q the probabilities of the plain loss they are in proportion to q_k·max(1, (1 − q_k)/a).
        """
        from scipy.special import softmax

        plain = softmax(z, axis=1)
        if self.residual_cap == 1.0 and most is None:
            return np.asarray(plain)
        return _normalised(plain * np.maximum(1.0, (1.0 - plain) / self._cap(most)))


def _log_sum_exp(z: Array) -> Array:
    """log Σ_k e^(z_k) of every row."""
    peak = np.max(z, axis=1)
    return np.asarray(np.log(np.sum(np.exp(z - peak[:, None]), axis=1)) + peak)


@dataclass(frozen=True)
class BallSoftmax(Softmax):
    """The softmax loss, clipped to B by the norm of q − e_y, where `Softmax` is by its entry at y.

    Clipped gradients are longer in the mean, and the bounds are the same. It takes a root, for B ≤ 1 alone:
    to a larger ball it is clipped as `Softmax` is, since next to √2 the root says little of where it is.
    """

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of the root as well, at predictors that are no farther than √2·`reach` from one another."""
        plain, farthest = super().off(outputs, clipped, reach), _LONGEST * reach
        if not clipped or outputs == 2:
            return plain
        if not farthest < FARTHEST:
            return math.inf
        return max(plain, up(float(softmax_off(outputs, farthest))))

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by q − e_y or, where that is too long, the maximiser over the ball."""
        if most is None or z.shape[1] == 2:  # of two classes ball and cap are one
            super().differentiate(z, y, most)
            return
        plain = z.copy()
        super().differentiate(plain, y, np.where(most > 1.0, most, _LONGEST))
        beyond = row_norms(plain) > most
        beyond &= most <= 1.0
        if beyond.any():
            plain[beyond] = softmax_within(z[beyond], y[beyond], most[beyond])
        z[...] = plain

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """The probabilities of the classes, (m, K): those at which the expected gradient vanishes.

        With q⁽ʸ⁾ = e_y plus the derivative for the class y they are the π with π = Σ π_y q⁽ʸ⁾, which a walk
        among the classes with these probabilities leaves as they are.
        """
        if most is None:
            return super().mean(z)
        m, classes = z.shape
        walk = np.empty((m, classes, classes))
        bound = np.broadcast_to(np.ravel(most), (m,))
        for k in range(classes):
            walk[:, k] = z
            self.differentiate(walk[:, k], np.full(m, k), bound)
            walk[:, k, k] += 1.0
        return _standing(walk)


@dataclass(frozen=True)
class OneVsRest(LinearLoss):
    """K losses of a margin side by side, of each class against the others.

    They are logistic losses or, with `smoothing`, smoothed hinge losses. Clipped to B, the K derivatives
    together have the norm B: each is that of its loss at a margin which is larger by a multiple of the
    derivative, the same multiple for all of them.
    """

    classes: int = field(metadata=by(CLASSES))
    smoothing: float | None = field(default=None, metadata=by(POSITIVE))
    response = "class"

    @property
    def cone(self) -> Fraction:
        """1/K, around the signs of the margins: no derivative has another sign."""
        return Fraction(1, self.classes)

    @property
    def base(self) -> Logistic | SmoothedHinge:
        """The loss of one class's margin."""
        return Logistic() if self.smoothing is None else SmoothedHinge(self.smoothing)

    @property
    def steepness(self) -> Fraction:
        """That of one loss: each has a predictor of its own."""
        return self.base.steepness

    def steepness_within(self, most: Fraction) -> Fraction:
        """That of one loss clipped to as much."""
        return self.base.steepness_within(most)

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """√K times that of one loss; clipped that of the root as well, at margins up to `reach`."""
        alone = up(math.sqrt(outputs) * self.base.off(1, False, reach) * (1.0 + EIGHT_ROUNDINGS))
        if not clipped:
            return alone
        farthest = _ROUNDED * reach
        if not farthest < FARTHEST:
            return math.inf
        root = logistic_off(outputs, farthest) if self.smoothing is None else hinge_off(outputs)
        return max(alone, up(root))

    def gap(self, outputs: int) -> float:
        """K times that of one loss."""
        return outputs * self.base.gap(1)

    @property
    def slope(self) -> Fraction:
        """√K times that of one loss."""
        return root_above(Fraction(self.classes)) * self.base.slope

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, (m,)."""
        margins = z.copy()
        _turn_others(margins, y)
        return np.asarray(self.base.value(margins, y).sum(axis=1))

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by the derivatives of the K losses."""
        _turn_others(z, y)
        margins = None if most is None else z.copy()
        self.base.differentiate(z, y)
        if most is not None and margins is not None:
            # Whether they are too long at all is a matter of the last digits, too.
            beyond = row_norms(z) > most * _SURELY_SHORT
            if beyond.any():
                z[beyond] = self._within(margins[beyond], most[beyond])
        _turn_others(z, y)

    def _within(self, margins: Array, most: Array) -> Array:
        """Derivatives of norm `most` at most, of records whose own may be longer."""
        if self.smoothing is None:
            return logistic_within(margins, most)
        return hinge_within(margins, most, self.smoothing)

    def mean(self, z: Array, most: Array | None = None) -> Array | None:
        """`probabilities`; None for hinge losses."""
        return self.probabilities(z, most) if self.smoothing is None else None

    def probabilities(self, z: Array, most: Array | None = None) -> Array:
        """Those of K logistic models, each by itself, scaled to the sum 1."""
        shares = Logistic().mean(z, most)
        # Where all are too small for doubles they are in proportion to e^z, clipped or not.
        lost = np.max(shares, axis=1) < 1e-280
        shares[lost] = np.exp(z[lost] - np.max(z[lost], axis=1, keepdims=True))
        return _normalised(shares)


@dataclass(frozen=True)
class VectorHuber(LinearLoss):
    """½‖z − y‖², linear beyond residuals z − y of norm `threshold`."""

    threshold: float = field(metadata=by(POSITIVE))
    response = "vector"
    steepness = Fraction(1)

    def off(self, outputs: int, clipped: bool, reach: float) -> float:
        """That of a difference, of a norm of K numbers and of a quotient, relative to the longest."""
        return self.threshold * (outputs + 8.0) * HALF_ULP

    @property
    def slope(self) -> Fraction:
        """The norm of the longest clipped residual."""
        return Fraction(self.threshold)

    def covers(self, other: LinearLoss) -> bool:
        """True for one of no larger threshold."""
        return isinstance(other, VectorHuber) and other.threshold <= self.threshold

    def value(self, z: Array, y: NDArray[Any]) -> Array:
        """The losses, (m,)."""
        length = row_norms(z - y)
        inner = np.minimum(length, self.threshold)
        return np.asarray(inner * (length - 0.5 * inner))

    def differentiate(self, z: Array, y: NDArray[Any], most: Array | None = None) -> None:
        """Overwrites the predictors by the residuals, those that are too long scaled down."""
        z -= y
        longest = self._longest(most)
        z *= (longest / np.maximum(row_norms(z), longest))[:, None]

    def _longest(self, most: Array | None) -> Any:
        """The norm to which residuals are scaled: a number, or one a record."""
        return self.threshold if most is None else np.minimum(most, self.threshold)

    def mean(self, z: Array, most: Array | None = None) -> Array:
        """The predictors themselves."""
        return z

    def shares(self, z: Array, most: Array | None = None) -> Array:
        """The probabilities of the classes, (m, K), where the targets are the K unit vectors e_k.

        At probabilities z the expected gradient vanishes for classes in proportion to
        z_k·max(1, ‖z − e_k‖/C), C the threshold. Of other predictors those below 0 are taken as 0, and they
        are scaled to the sum 1.
        """
        near = _normalised(np.maximum(z, _LEAST))
        # ‖z − e_k‖² = ‖z‖² − 2z_k + 1.
        square = np.square(near).sum(axis=1, keepdims=True) - 2.0 * near + 1.0
        longest = self._longest(most)
        distance = np.sqrt(np.maximum(square, 0.0))
        return _normalised(near * np.maximum(1.0, distance / longest))


_LEAST = 1e-300  # a probability that is not 0, so that some class has one


def _normalised(shares: Array) -> Array:
    """Rows scaled to the sum 1."""
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), _LEAST))


def _standing(walk: Array) -> Array:
    """The distribution that (m, K, K) transition probabilities leave as it is, (m, K)."""
    classes = walk.shape[1]
    system = np.eye(classes) - walk.transpose(0, 2, 1)
    system[:, -1] = 1.0  # in place of an equation that follows from the others: the sum
    right = np.zeros((len(walk), classes, 1))
    right[:, -1] = 1.0
    return _normalised(np.maximum(np.linalg.solve(system, right)[..., 0], 0.0))


def _turn_others(array: Array, y: NDArray[np.intp]) -> None:
    """Changes all signs but those of the records' own classes."""
    np.negative(array, out=array)
    array[np.arange(len(y)), y] *= -1.0


# The losses of linear models, by name.
#
# Trainers (`pabi.execute.linear_gradients`) and samplers (`pabi.sampling.linear_models`) compute with the
# very objects from which the accountant's constants follow.


LINEAR_LOSSES: dict[str, type[LinearLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "one_vs_rest": OneVsRest,
    "squared": Squared,
    "huber": Huber,
    "vector_huber": VectorHuber,
    "smoothed_hinge": SmoothedHinge,
    "poisson": PoissonLoss,
    "gamma": GammaLoss,
}


def executable(kind: str, **parameters: Any) -> LinearLoss:
    """The loss of this kind and these parameters, checked, for trainers and samplers to compute with.

    There may be other parameters, such as `feature_norm`.
    """
    cls = LINEAR_LOSSES[kind]
    checks = {**cls.parameters(required=True), **cls.parameters(required=False)}
    values = {n: check(n, parameters[n]) for n, check in checks.items() if n in parameters}
    for name, most in cls.largest.items():
        must_be(values[name] <= most, name, f"at most {exact(most)}", values[name])
    return cls.of(values)


def kind_of(cls: type[LinearLoss]) -> Kind:
    """Such a loss as the accountant knows it, for rows of norm at most `feature_norm`."""
    return Kind(
        required={"feature_norm": POSITIVE, **cls.parameters(required=True)},
        optional=cls.parameters(required=False),
        facts=lambda p: cls.of(p).facts(p["feature_norm"]),
        clipped=lambda p, clip_norm: cls.of(p).facts(p["feature_norm"], clip_norm),
        sentences=curvature_known,
    )
