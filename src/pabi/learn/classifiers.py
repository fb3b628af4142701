"""Private linear classifiers with the interface of scikit-learn's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from pabi.describe.losses import Loss
from pabi.describe.scalar_losses import Logistic
from pabi.describe.vector_losses import BallSoftmax, OneVsRest, Softmax, VectorHuber, executable
from pabi.execute.linear_gradients import LinearGradients, LossGradients
from pabi.execute.records import Records
from pabi.execute.sources import Parts
from pabi.execute.state_files import StateFile
from pabi.execute.tables import tagged
from pabi.learn.coefficients import NOT_THESE, SWITCH, mean_curvature, nearest_logits
from pabi.learn.estimators import PrivateLinearModel
from pabi.learn.plans import FARTHEST, LABELS, WEIGHTS, Size, TrainingPlan, documented
from pabi.learn.rows import AllOrNothing, Given, number_or_auto, scored
from pabi.learn.schema import checked_labels, class_set, class_weights, codes_among, labels_in
from pabi.numbers import validate
from pabi.numbers.errors import require
from pabi.numbers.rounding import Array

_SIGNAL = 3.0  # logits of linear models on real data, over rows at their bound
_TIE = 1e-9  # weight of the unclipped probabilities
_MARGIN = 1.0  # a hinge loss is done at a margin of one
_THRESHOLD = 0.5  # of residuals, where all lie between −1 and 1
_LABEL = 0.5  # ± this are the targets of two classes, so that predictors plus 1/2 are probabilities


@tagged(classifier_tags__poor_score=True)  # noise may be most of a model of a few hundred records
@dataclass(eq=False, repr=False, kw_only=True)
class _LinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Labels, classes and the choice of the largest predictor."""

    _ENOUGH: ClassVar[float] = FARTHEST

    classes: Any = None
    class_weight: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        keep_state: StateFile | None = None,
    ) -> Self:
        """This estimator, trained on a table and its labels.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix, or LargeTable
            Features, real and finite. What `LargeTable` takes is read in passes; paths need it.
        y : (n,) array-like, or str
            Labels, or the name of a column of a large table.
        groups : (n,) array-like, optional
            The user of every row, by any id. The guarantee is then of whole users, each of whom contributes
            the mean over their rows; n and the sizes of batches count users.
        sample_weight : (n,) array-like, optional
            Weights of the rows, from 0 to `max_sample_weight`, which must be declared. Larger ones are taken
            as that.
        keep_state : StateFile, optional
            Where to keep, encrypted, what `forget` takes later; a file that is not there yet. It needs
            declared `classes`; with `cooldown_epochs=0` training can go on more often than once.

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
        BudgetExceeded
            Less is left in `ledger`; nothing has then been computed from the data.

        Warns
        -----
        UserWarning
            Some row was scaled down or clipped to its range, or some weight was too large. Whether it was
            depends on the data.
        PrivacyWarning
            `random_state` is not None. This estimator, or a clone of it, was fitted before and has no
            `ledger`. Each once in a process.
        """
        require(
            keep_state is None or self.classes is not None,
            "classes",
            "expected them declared with keep_state: the label set would be learnt from rows that may "
            "have to be forgotten",
        )
        with AllOrNothing(self):
            beside = Given(groups, sample_weight, keep_state)
            rows, cells, beside = self._both(X, y, beside, self._held_labels)
            codes, sentences = self._codes_of(self._labels_of(cells))
            weights, of_weights = self._weights(codes)
            self._train(
                rows,
                codes,
                _outputs(len(self.classes_)),
                beside=beside,
                weights=weights,
                sentences=sentences + of_weights,
            )
        return self

    def plan(
        self, n: int, d: int, classes: int | None = None, *, unit: str | None = None
    ) -> TrainingPlan:
        """What `fit` would do with a table of this size, and what to expect of it, without any data.

        Parameters
        ----------
        n, d : int, ≥ 1
            Rows and columns of X.
        classes : int, ≥ 2, optional
            K. None: the number of `classes` of the constructor.
        unit : str, optional
            "record", or "user" for a fit with `groups`: n is then the number of users. None: "user" where
            `users` are declared.

        Returns
        -------
        TrainingPlan
            The release for preconditioning, the training, what they cost together and how much noise moves
            predictors. `print` shows it.

        Raises
        ------
        InvalidInput, TargetUnreachable, NotApplicable
            As for `fit`. InvalidInput also if nothing says how many classes there are.

        References
        ----------
        docs, "How the defaults are chosen".
        """
        require(
            classes is not None or self.classes is not None, "classes", "missing: give their number"
        )
        count = len(class_set(self.classes)) if classes is None else classes
        outputs = _outputs(validate.integer("classes", count, at_least=2))
        return self._planned(n, d, outputs, unit)

    def _labels_of(self, y: Parts) -> Parts:
        """The labels, all that are in memory checked."""
        declared = self.classes is not None
        labels = y.mapped(lambda cells: checked_labels(cells, declared=declared))
        if not declared:
            check_classification_targets(labels.first())
        return labels

    def _gradients(self, records: Records, targets: Parts, loss: Loss) -> LinearGradients:
        linear = executable(loss.kind, **dict(loss.parameters))
        classes = len(self.classes_) if linear.response == "class" else None
        return LossGradients(linear, records, targets, classes)

    def _held_labels(self, y: Any) -> Any:
        return labels_in(y, declared=self.classes is not None)

    def _seen_targets(self, y: Any) -> tuple[Parts, Parts | None]:
        codes, _ = self._codes_of(Parts.of(self._held_labels(y), "y"))
        return codes, self._weights(codes)[0]

    def _weights(self, codes: Parts) -> tuple[Parts | None, tuple[str, ...]]:
        """(weights of the records in (0, 1], what the guarantee assumes of them), if any are stated."""
        if self.class_weight is None:
            return None, ()
        each = class_weights(self.class_weight, self.classes_)
        return codes.mapped(lambda cells: each[cells]), (WEIGHTS,)

    def _codes_of(self, labels: Parts) -> tuple[Parts, tuple[str, ...]]:
        """(class numbers, what the guarantee assumes of the labels); sets `classes_`."""
        declared = self.classes is not None
        self.classes_ = class_set(self.classes) if declared else labels.labels()
        require(len(self.classes_) >= 2, "y", "expected at least two classes, got one class only")
        return labels.mapped(partial(codes_among, self.classes_)), () if declared else (LABELS,)

    def decision_function(self, X: ArrayLike) -> Any:
        """The linear predictors of rows brought within the declared bounds.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m,) for two classes, else (m, K). For rows within the bounds it is
            `X @ coef_.T + intercept_`; with `linear_predictor=False`, where rows are preconditioned, times
            `preconditioner_.scales`. Those scales are positive, one a row.

        Raises
        ------
        InvalidInput
            X is not what the model was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return self._predicted(X, self._scores)

    def _scores(self, rows: Any) -> Array:
        scores, _ = self._predictor(rows)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> Any:
        """The class of the largest predictor of each row.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m,) labels, of `classes_`.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        return self._predicted(X, self._chosen)

    def _chosen(self, rows: Any) -> NDArray[Any]:
        scores = self._scores(rows)
        numbers = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    def _names_of_outputs(self, outputs: int) -> list[Any]:
        return [None] if outputs == 1 else self.classes_.tolist()

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.
        y : (m,) array-like, or str
            Labels, or the name of a column of a large table.
        sample_weight : (m,) array-like, optional
            Weights of the records.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInput, NotFittedError
            As for `predict`. scikit-learn raises other ValueErrors where y or the weights are wrong.
        """
        return scored(super().score, X, y=y, sample_weight=sample_weight)


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
    $CLASSES
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS_OF_CLASSES
    link_ : (array, array)
        With `linear_predictor=True`: (a, b) of shapes (1,) or (K,), which are folded into the coefficients.
        A logit is a·z + b, z the predictor that was trained. They follow from what is released. Where losses
        were clipped it is the linear logit nearest to that at which the expected gradient of the clipped loss
        vanishes; else they are 1 and 0.
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    _CLIP: ClassVar[float | None] = 0.5
    _UNIT: ClassVar[str] = "logits"

    multi_class: str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        validate.choice("multi_class", self.multi_class, ("auto", "multinomial", "ovr"))
        if size.outputs == 1:
            return Loss.logistic(size.norm), _SIGNAL
        if self.multi_class == "ovr":
            return Loss.one_vs_rest(size.norm, size.outputs), _SIGNAL
        return Loss.softmax(size.norm), _SIGNAL

    def predict_proba(self, X: ArrayLike) -> Any:
        """The probability of each class for each row.

        With `linear_predictor=True` it is expit of `decision_function` or its softmax. Otherwise, where
        losses were clipped, it is the one at which the expected gradient of the clipped loss vanishes (docs,
        "Convex clipping"). With multi_class="ovr" each class has its own logistic model, and the
        probabilities are scaled to the sum 1.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m, K), in the order of `classes_`; rows sum to 1.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        return self._predicted(X, self._probabilities)

    def _probabilities(self, rows: Any) -> Array:
        scores, norm = self._predictor(rows)
        if self._folded is not None:
            return self._mean(scores)
        in_ball = self.run_.clipping == "ball"
        clipped = self._mean(scores, self._most(norm), in_ball=in_ball)
        return _in_order(clipped, self._mean(scores, in_ball=in_ball))

    @property
    def _folded(self) -> tuple[Array, Array] | None:
        """`link_`, where it is part of the coefficients."""
        return self.__dict__.get("link_")

    def _mean(self, scores: Array, most: Array | None = None, *, in_ball: bool = False) -> Array:
        """The probabilities of the classes, (m, K), at predictors whose losses were clipped to `most`."""
        if scores.shape[1] == 1:
            return np.asarray(Logistic().mean(scores * [-1.0, 1.0], most))
        if self.multi_class == "ovr":
            return OneVsRest(scores.shape[1]).probabilities(scores, most)
        return (BallSoftmax() if in_ball else Softmax()).mean(scores, most)

    def _set_coefficients(self, theta: Array) -> None:
        """Of a linear predictor those of the logit nearest to that of the clipped loss, as far as rows are
        known."""
        if not self.linear_predictor_:
            self.__dict__.pop("link_", None)
            return super()._set_coefficients(theta)
        mapped = self.preconditioner_
        self.link_ = self._link(theta if mapped is None else mapped.applied(theta))
        super()._set_coefficients(theta * self.link_[0])
        self.intercept_ = self.intercept_ + self.link_[1]

    def _link(self, theta: Array) -> tuple[Array, Array]:
        """`link_` of a model with these weights of rows as it sees them."""
        outputs, most = theta.shape[1], self._usual_most()
        scale, shift = np.ones(outputs), np.zeros(outputs)
        if most is None:
            return scale, shift
        points = self._row_law().points(theta)
        if outputs > 1 and self.multi_class != "ovr":
            shares = self._mean(points, most, in_ball=self.run_.clipping == "ball")
            a, b = nearest_logits(points, shares, shifted=self.fit_intercept)
            return scale * a, b
        for k in range(outputs):
            sides = np.column_stack([-points[:, k], points[:, k]]) / 2.0
            shares = Logistic().mean(2.0 * sides, most)
            scale[k], b = nearest_logits(sides, shares, shifted=self.fit_intercept)
            shift[k] = b[1] - b[0]
        return scale, shift

    def _usual_most(self) -> Array | None:
        """(1, 1): the size to which residuals of the usual row were clipped, None if they were not."""
        return self._most(np.array([self._usual_norm()]))

    def _beside_coefficients(self) -> str:
        beside = super()._beside_coefficients()
        if beside or self._folded is not None or self._usual_most() is None:
            return beside
        return f"{NOT_THESE}: clipped losses have another link. {SWITCH}"

    def _curvature(self, outputs: int) -> Array | None:
        if self._folded is None:
            return None
        scale, shift = self._folded
        seen = self._seen_weights()
        if self.fit_intercept:
            seen[-1] -= shift / self.intercept_scaling
        points, most = self._row_law().points(seen / scale), self._usual_most()
        loss = executable(self.run_.loss.kind, **dict(self.run_.loss.parameters))
        loss = loss.in_ball() if self.run_.clipping == "ball" else loss
        shares = self._mean(scale * points + shift)
        return mean_curvature(loss, points, shares, None if most is None else float(most[0, 0]))

    def _scale_of_coefficients(self) -> Any:
        return 1.0 if self._folded is None else self._folded[0]

    def predict_log_proba(self, X: ArrayLike) -> Any:
        """The logarithms of `predict_proba`.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

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

    _UNIT: ClassVar[str] = "margins"

    smoothing: float = 1.0

    def _loss(self, size: Size) -> tuple[Loss, float]:
        width = validate.number("smoothing", self.smoothing, above=0.0)
        if size.outputs == 1:
            return Loss.smoothed_hinge(size.norm, width), _MARGIN
        return Loss.one_vs_rest(size.norm, size.outputs, width), _MARGIN


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateRidgeClassifier(_LinearClassifier):
    """Least squares on indicators of the classes with a proven (ε, δ), residual vectors clipped.

    Predictors are the classes' probabilities, as far as they are linear. Only the last iterate of noisy SGD
    is released.

    Parameters
    ----------
    $TARGET
    threshold : float, > 0, or "auto"
        The norm of a record's longest residual vector, target less prediction, that counts as it is; longer
        ones are scaled down to it (the vector Huber loss). With two classes it is one residual, of a target
        ±1/2. "auto" is 1/2.
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
    docs, "Convex clipping".
    """

    _UNIT: ClassVar[str] = "probabilities"

    threshold: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        loss = Loss.huber if size.outputs == 1 else Loss.vector_huber
        return loss(size.norm, self._longest), _LABEL

    def _gradients(self, records: Records, targets: Parts, loss: Loss) -> LinearGradients:
        classes = len(self.classes_)

        def indicators(codes: NDArray[Any]) -> Array:
            return np.where(codes == 1, _LABEL, -_LABEL) if classes == 2 else np.eye(classes)[codes]

        return super()._gradients(records, targets.mapped(indicators), loss)

    @property
    def _longest(self) -> float:
        return number_or_auto("threshold", self.threshold, _THRESHOLD, above=0.0)

    def predict_proba(self, X: ArrayLike) -> Any:
        """The probability of each class for each row.

        It is the one at which the expected gradient of the clipped loss vanishes (docs, "Convex clipping").
        Predictors below 0 count as 0, and they are scaled to the sum 1. With `linear_predictor=True` it
        follows from `decision_function` alone.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m, K), in the order of `classes_`; rows sum to 1.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `decision_function`.
        """
        return self._predicted(X, self._probabilities)

    def _probabilities(self, rows: Any) -> Array:
        scores, norm = self._predictor(rows)
        most, threshold = self._most(norm), self._longest
        if len(self.classes_) == 2:
            # One residual r of two classes is the vector (−r, r), √2 as long.
            scores = np.column_stack([_LABEL - scores[:, 0], _LABEL + scores[:, 0]])
            most, threshold = (
                None if most is None else np.sqrt(2.0) * most,
                np.sqrt(2.0) * threshold,
            )
        plain = VectorHuber(np.inf).shares(scores)
        return _in_order(VectorHuber(threshold).shares(scores, most), plain)


def _in_order(clipped: Array, plain: Array) -> Array:
    """The probabilities `clipped`, in the order of the predictors where clipping makes them equal."""
    return np.asarray((1.0 - _TIE) * clipped + _TIE * plain)


def _outputs(classes: int) -> int:
    """How many predictors tell them apart."""
    return 1 if classes == 2 else classes
