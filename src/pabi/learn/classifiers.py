"""Private linear classifiers with the interface of scikit-learn's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pabi.describe.batches import Batches
from pabi.describe.linear_losses import LinearLoss, Logistic, Softmax, executable
from pabi.describe.losses import Loss
from pabi.execute.linear_gradients import (
    LinearGradients,
    LogisticGradients,
    OneVsRestGradients,
    SmoothedHingeGradients,
    SoftmaxGradients,
)
from pabi.execute.records import Records, seen_norm
from pabi.learn.estimators import LABELS, PrivateLinearModel, _decided
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, fraction_up, up

_SIGNAL = 3.0  # logits of linear models on real data, over rows at their bound
_TIE = 1e-9  # weight of the unclipped probability
_MARGIN = 1.0  # a hinge loss is done at a margin of one


class _LinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Labels, classes and the choice of the largest predictor."""

    classes: Any

    def _model(
        self, records: Records, codes: NDArray[np.intp], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        """(gradients, what is known of the loss, size of predictors) for rows of norm ≤ `norm`."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d), dense or sparse, and labels y (n,). Raises InvalidInput (a ValueError)
        naming the argument, or ValueError from scikit-learn's checks of X and y."""
        X, codes, said = self._labelled(X, y)
        records = self._records(X)  # checks the bounds that the norm follows from
        norm = seen_norm(self.feature_norm, self._intercept_feature)
        gradients, loss, signal = self._model(records, codes, norm)
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        theta = self._train(gradients, loss, signal=signal, outputs=outputs, said=said)
        self._set_coefficients(theta.reshape(records.width, outputs))
        return self

    def _labelled(self, X: Any, y: Any) -> tuple[Any, NDArray[np.intp], tuple[str, ...]]:
        """(X, class numbers, sentences); sets `classes_`."""
        X, y = self._validated(X, y)
        check_classification_targets(y)
        y = column_or_1d(y)
        if self.classes is None:
            self.classes_ = np.unique(y)
            said: tuple[str, ...] = (LABELS,)
        else:
            self.classes_, said = _declared(self.classes), ()
        if len(self.classes_) < 2 and self.classes is None:
            raise InvalidInput("y", "expected at least two classes, got one class only")
        codes = np.searchsorted(self.classes_, y)
        codes = np.minimum(codes, len(self.classes_) - 1)
        if not np.all(self.classes_[codes] == y):
            raise InvalidInput("y", "it holds a label that is not among the declared classes")
        return X, codes, said

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On a few hundred records and at a small ε noise is most of the model: that is the point.
        tags.classifier_tags.poor_score = True
        return tags

    def decision_function(self, X: ArrayLike) -> Array:
        """(n,) or (n, K): the linear predictor of rows brought within the declared bounds.

        For rows within them it is X @ coef_.T + intercept_. Raises ValueError for bad X.
        """
        scores = self._predictor(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,): the class of the largest predictor."""
        scores = self.decision_function(X)
        numbers = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[numbers]
        return predicted


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    epsilon, delta : float
        The target; noise is calibrated to meet it exactly. With `noise_std` given, ε is read from
        `guarantee_` instead and `epsilon` only guides the choice of settings.
    feature_norm : float
        R > 0, public. Rows of X longer than R are scaled down to it, in fitting and in predicting.
    feature_ranges : (low, high), (2, d) array or {column: (low, high)}, optional
        Public ranges. Features are clipped to them and mapped onto [−1, 1] before the norm is bounded.
    l2 : float or "auto"
        λ of the regulariser λ‖θ‖²/2 on the mean loss, intercept included; 1/(C·n) in scikit-learn's
        terms. "auto": 1/n.
    epochs, batches, step_size, cooldown_epochs : number, `Batches` or "auto"
        The schedule. "auto" takes what `pabi.learn.defaults` predicts to be best from n, the number of
        features, ε and δ: it never looks at the data.
    clip_norm : float, None or "auto"
        Clips each record's gradient; None: only to the loss's own bound. With two classes clipping is
        harmless and `predict_proba` takes it into account; with more it leaves composition alone,
        which costs nothing on full batches. "auto" leaves the choice to the rule.
    adjacency : str
        "replace_one" or "zero_out".
    noise_std : float, optional
        ς of the noise on the mean gradient, in place of `epsilon`.
    classes : array-like, optional
        The public label set. None: the labels seen, and the guarantee assumes that they are public.
    fit_intercept : bool
        Whether to add a feature of constant `intercept_scaling`, a public number > 0. The loss then
        sees vectors of norm √(feature_norm² + intercept_scaling²).
    multi_class : str
        "auto" and "multinomial": one softmax model. "ovr": one logistic model a class, trained and
        accounted together.
    random_state : None or int
        None: noise from the operating system's entropy. An int makes the fit reproducible, for tests
        only: the noise can then be subtracted, and the guarantee says so.
    verbose : bool
        Show a progress bar (steps and time).

    Attributes
    ----------
    coef_ : (1, d) or (K, d); intercept_ : (1,) or (K,), in the units of X.
    classes_ : (K,); n_features_in_, feature_names_in_; n_iter_ : steps.
    guarantee_ : `Guarantee` of the release of this model; run_ : the `NoisySGD` that was executed.

    There is no `sample_weight`: a weight multiplies what a record contributes, so that the sensitivity
    would be that of the largest weight any record could have, and weights computed from the data would
    leak. Raises InvalidInput (a ValueError) naming the argument. Source: docs, "Training".
    """

    clip_norm: float | str | None
    multi_class: str

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        feature_norm: float = 1.0,
        *,
        l2: float | str = "auto",
        epochs: float | str = "auto",
        batches: Batches | str = "auto",
        adjacency: str = "replace_one",
        noise_std: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        multi_class: str = "auto",
        random_state: Any = None,
        feature_ranges: Any = None,
        step_size: float | str = "auto",
        cooldown_epochs: float | str = "auto",
        clip_norm: float | str | None = "auto",
        verbose: bool = False,
    ) -> None:
        self._store(locals())

    def _model(
        self, records: Records, codes: NDArray[np.intp], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        validate.choice("multi_class", self.multi_class, ("auto", "multinomial", "ovr"))
        classes = len(self.classes_)
        if classes == 2:
            return LogisticGradients(records, codes), Loss.logistic(norm), _SIGNAL
        if self.multi_class == "ovr":
            gradients = OneVsRestGradients(records, codes, classes)
            return gradients, _joint(Logistic(), norm, classes), _SIGNAL
        return SoftmaxGradients(records, codes, classes), Loss.softmax(norm), _SIGNAL

    def _clip(self, loss: Loss) -> float | None:
        if isinstance(self.clip_norm, str) and self.clip_norm == "auto":
            return None
        if self.clip_norm is None:
            return 1.0
        clip = _decided("clip_norm", self.clip_norm, above=0.0)
        assert clip is not None
        assert loss.gradient_bound is not None
        return min(1.0, clip / loss.gradient_bound)

    def predict_proba(self, X: ArrayLike) -> Array:
        """(n, K): class probabilities.

        Where gradients were clipped to C, a record's residual stops at c = C/‖x‖, and what minimises
        p·min(σ(−z), c) + … is the z with p : 1 − p = min(σ(z), c) : min(σ(−z), c); that p is returned.
        """
        check_is_fitted(self)
        scores, norm = self._bounded_predictor(X)
        if len(self.classes_) > 2:
            if self.multi_class == "ovr":
                each = Logistic().mean(scores)
                shares: Array = each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300)
                return shares
            return Softmax().mean(scores)
        both = Logistic().mean(np.column_stack([-scores[:, 0], scores[:, 0]]))
        if self.run_.clip_norm is not None:
            most = self.run_.clip_norm / np.maximum(norm, 1e-300)
            clipped = np.minimum(both, most[:, None])
            clipped /= clipped.sum(axis=1, keepdims=True)
            # Where both are clipped every z is a minimiser at p = 1/2; the score breaks the tie.
            both = (1.0 - _TIE) * clipped + _TIE * both
        return both

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """(n, K): logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class PrivateLinearSVC(_LinearClassifier):
    """A linear support vector classifier with a proven (ε, δ), on the hinge loss smoothed over
    `smoothing` = γ > 0: max(0, 1 − m) is replaced by a parabola for margins m in [1 − γ, 1].

    More than two classes: one against the rest, trained and accounted together. All other
    parameters and attributes are those of `PrivateLogisticRegression`.
    Raises InvalidInput (a ValueError) naming the argument. Source: docs, "Training".
    """

    smoothing: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        feature_norm: float = 1.0,
        *,
        smoothing: float = 1.0,
        l2: float | str = "auto",
        epochs: float | str = "auto",
        batches: Batches | str = "auto",
        adjacency: str = "replace_one",
        noise_std: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        feature_ranges: Any = None,
        step_size: float | str = "auto",
        cooldown_epochs: float | str = "auto",
        verbose: bool = False,
    ) -> None:
        self._store(locals())

    def _model(
        self, records: Records, codes: NDArray[np.intp], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        width = validate.number("smoothing", self.smoothing, above=0.0)
        classes = len(self.classes_)
        if classes == 2:
            gradients = SmoothedHingeGradients(records, codes, width)
            return gradients, Loss.smoothed_hinge(norm, width), _MARGIN
        gradients = SmoothedHingeGradients(records, codes, width, classes)
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


def _declared(classes: Any) -> NDArray[Any]:
    try:
        labels = np.unique(np.asarray(classes))
        kind = type_of_target(np.asarray(classes))
    except (TypeError, ValueError):
        raise InvalidInput("classes", "expected labels of one kind") from None
    if kind not in ("binary", "multiclass") or len(labels) < 2:
        raise InvalidInput("classes", "expected a one-dimensional array of two labels or more")
    return labels
