"""Private linear classifiers with the interface of scikit-learn's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from pabi.describe.linear_losses import LinearLoss, Logistic, Softmax, executable
from pabi.describe.losses import Loss
from pabi.execute.linear_gradients import (
    LinearGradients,
    LogisticGradients,
    OneVsRestGradients,
    SmoothedHingeGradients,
    SoftmaxGradients,
)
from pabi.execute.records import Records
from pabi.learn.documentation import documented
from pabi.learn.estimators import LABELS, PrivateLinearModel, _number_or_auto
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, fraction_up, up

_SIGNAL = 3.0  # logits of linear models on real data, over rows at their bound
_TIE = 1e-9  # weight of the unclipped probability
_LEAST = 1e-300  # a divisor that is not 0
_MARGIN = 1.0  # a hinge loss is done at a margin of one


@dataclass(eq=False, repr=False, kw_only=True)
class _LinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Labels, classes and the choice of the largest predictor."""

    classes: Any = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """This estimator, trained on a table and its labels.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.
        y : (n,) array-like
            Labels.

        Returns
        -------
        self
            The estimator, with the attributes that end in an underscore.

        Raises
        ------
        InvalidInput
            An argument of the constructor, X or y is wrong; the error names it. It is a ValueError, as
            scikit-learn's own checks of X and y raise.
        TargetUnreachable
            No noise meets ε at δ.
        NotApplicable
            No analysis covers the run.

        Warns
        -----
        UserWarning
            Some row was scaled down or clipped to its range. Whether it was depends on the data.
        PrivacyWarning
            `random_state` is not None.
        """
        X, y = self._checked(X, y=y)
        check_classification_targets(y)
        codes, sentences = self._codes_of(column_or_1d(y))
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._train(X, codes, outputs, sentences)
        return self

    def _codes_of(self, y: NDArray[Any]) -> tuple[NDArray[np.intp], tuple[str, ...]]:
        """(class numbers, what the guarantee assumes of the labels); sets `classes_`."""
        declared = self.classes is not None
        self.classes_ = _class_set(self.classes) if declared else np.unique(y)
        if len(self.classes_) < 2:
            raise InvalidInput("y", "expected at least two classes, got one class only")
        codes = np.searchsorted(self.classes_, y)
        codes = np.minimum(codes, len(self.classes_) - 1)
        if not np.all(self.classes_[codes] == y):
            raise InvalidInput("y", "it holds a label that is not among the declared classes")
        return codes, () if declared else (LABELS,)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On a few hundred records and at a small ε noise is most of the model: that is the point.
        tags.classifier_tags.poor_score = True
        return tags

    def decision_function(self, X: ArrayLike) -> Array:
        """The linear predictors of rows brought within the declared bounds.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

        Returns
        -------
        array
            (m,) for two classes, else (m, K). For rows within the bounds it is
            `X @ coef_.T + intercept_`.

        Raises
        ------
        InvalidInput
            X is not what the model was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        scores, _ = self._predictor(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest predictor of each row.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

        Returns
        -------
        array
            (m,) labels, of `classes_`.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        scores = self.decision_function(X)
        numbers = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[numbers]
        return predicted


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    multi_class : str
        "auto" and "multinomial": one softmax model. "ovr": one logistic model a class, trained and
        accounted together.
    clip_norm : float, > 0, None or "auto"
        Clips each record's gradient; None: only to the loss's own bound. With two classes clipping is
        harmless and `predict_proba` takes it into account; with more it leaves composition alone,
        which costs nothing on full batches. "auto" leaves the choice to the rule.
    $CLASSES
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS_OF_CLASSES
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    multi_class: str = "auto"
    clip_norm: float | str | None = "auto"

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        validate.choice("multi_class", self.multi_class, ("auto", "multinomial", "ovr"))
        classes = len(self.classes_)
        if classes == 2:
            return LogisticGradients(records, targets), Loss.logistic(norm), _SIGNAL
        if self.multi_class == "ovr":
            gradients = OneVsRestGradients(records, targets, classes)
            return gradients, _joint(Logistic(), norm, classes), _SIGNAL
        return SoftmaxGradients(records, targets, classes), Loss.softmax(norm), _SIGNAL

    def _clip(self, loss: Loss) -> float | None:
        if self.clip_norm is None:
            return 1.0
        clip = _number_or_auto("clip_norm", self.clip_norm, above=0.0)
        assert loss.gradient_bound is not None
        return None if clip is None else min(1.0, clip / loss.gradient_bound)

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class for each row.

        Where gradients were clipped to C, a record's residual stops at c = C/‖x‖, and what minimises
        p·min(σ(−z), c) + … is the z with p : 1 − p = min(σ(z), c) : min(σ(−z), c); that p is returned.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

        Returns
        -------
        array
            (m, K), in the order of `classes_`; rows sum to 1.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        scores, norm = self._predictor(X)
        if len(self.classes_) > 2:
            if self.multi_class == "ovr":
                each = Logistic().mean(scores)
                shares: Array = each / np.maximum(each.sum(axis=1, keepdims=True), _LEAST)
                return shares
            return Softmax().mean(scores)
        both = Logistic().mean(np.column_stack([-scores[:, 0], scores[:, 0]]))
        if self.run_.clip_norm is not None:
            most = self.run_.clip_norm / np.maximum(norm, _LEAST)
            clipped = np.minimum(both, most[:, None])
            clipped /= clipped.sum(axis=1, keepdims=True)
            # Where both are clipped every z is a minimiser at p = 1/2; the score breaks the tie.
            both = (1.0 - _TIE) * clipped + _TIE * both
        return both

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """The logarithms of `predict_proba`.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

        Returns
        -------
        array
            (m, K), in the order of `classes_`; −∞ where a probability is 0.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearSVC(_LinearClassifier):
    """A linear support vector classifier with a proven (ε, δ), on a smoothed hinge loss.

    Only the last iterate of noisy SGD is released. More than two classes: one against the rest, trained
    and accounted together.

    Parameters
    ----------
    $TARGET
    smoothing : float, > 0
        γ: the hinge loss max(0, 1 − m) is replaced by a parabola for margins m in [1 − γ, 1].
    $CLASSES
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS_OF_CLASSES
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    smoothing: float = 1.0

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        width = validate.number("smoothing", self.smoothing, above=0.0)
        classes = len(self.classes_)
        if classes == 2:
            gradients = SmoothedHingeGradients(records, targets, width)
            return gradients, Loss.smoothed_hinge(norm, width), _MARGIN
        gradients = SmoothedHingeGradients(records, targets, width, classes)
        loss = executable("smoothed_hinge", smoothing=width)
        return gradients, _joint(loss, norm, classes), _MARGIN


def _joint(loss: LinearLoss, norm: float, classes: int) -> Loss:
    """K losses of linear models side by side, for rows of norm at most `norm`.

    Each acts on parameters of its own, so that the curvature is that of one of them, while a record's
    gradient has up to √K times its norm.
    """
    r, root = Fraction(norm), Fraction(up(float(np.sqrt(classes))))
    return Loss.convex(
        smoothness=fraction_up(r * r * loss.steepness),
        gradient_bound=fraction_up(r * root * loss.slope),
    )


def _class_set(classes: Any) -> NDArray[Any]:
    try:
        labels = np.unique(np.asarray(classes))
        kind = type_of_target(np.asarray(classes))
    except (TypeError, ValueError):
        raise InvalidInput("classes", "expected labels of one kind") from None
    if kind not in ("binary", "multiclass") or len(labels) < 2:
        raise InvalidInput("classes", "expected a one-dimensional array of two labels or more")
    return labels
