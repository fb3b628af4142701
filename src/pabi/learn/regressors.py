"""Private linear regressors with the interface of scikit-learn's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from pabi.describe.accounted import changed, checked_adjacency
from pabi.describe.losses import Loss
from pabi.describe.scalar_losses import PoissonLoss
from pabi.describe.vector_losses import executable
from pabi.execute.cells import cells_of, doubles_of
from pabi.execute.linear_gradients import LinearGradients, LossGradients
from pabi.execute.records import Records
from pabi.execute.sources import Parts
from pabi.execute.state_files import StateFile
from pabi.execute.tables import tagged
from pabi.learn import plans
from pabi.learn.estimators import PrivateLinearModel
from pabi.learn.plans import Size, TrainingPlan, documented
from pabi.learn.rows import AllOrNothing, Given, number_or_auto, scored
from pabi.learn.schema import numbers_in, read_range
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, warn_once
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact

RANGE = "target_range is public"

# Bounds on residuals over half the range of targets. Few residuals come near the wide one, which leaves means
# as they are; the narrow one keeps the noise low.
_NARROW, _WIDE = 0.25, 0.5
_UNSTATED_PEAK = 2.0  # the bound on logarithms of rates where nothing says how large counts are


@dataclass(frozen=True)
class _TargetScale:
    """Targets as training sees them: clipped to [low, high], then (y − centre)/reach."""

    low: float = -math.inf
    high: float = math.inf
    centre: float = 0.0
    reach: float = 1.0

    @classmethod
    def of(cls, low: float, high: float) -> _TargetScale:
        """The map of [low, high] onto [−1, 1]. Raises InvalidInput naming `target_range`."""
        scale = cls(low, high, centre=low / 2.0 + high / 2.0, reach=high / 2.0 - low / 2.0)
        if not scale.reach > 0.0:
            raise InvalidInput("target_range", f"expected a wider range, got {(low, high)!r}")
        return scale

    def seen(self, y: Array) -> Array:
        """The targets `y` on this scale."""
        targets: Array = (np.clip(y, self.low, self.high) - self.centre) / self.reach
        return targets


@tagged(
    regressor_tags__poor_score=True,  # noise may be most of a model of a few hundred records
    target_tags__multi_output=lambda self: self._SEVERAL,
)
@dataclass(eq=False, repr=False, kw_only=True)
class _LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Numeric targets and the linear prediction.

    `_BOUND`: the argument that says how large targets are where `target_range` does not, `_UNSTATED`: its
    value where nothing does.
    """

    _BOUND: ClassVar[str]
    _UNSTATED: ClassVar[float] = 1.0
    _EQUAL: ClassVar[bool] = False  # the size of a row matters to a number
    _ENOUGH: ClassVar[float] = plans.ENOUGH
    _PARTS: ClassVar[tuple[float, float]] = (
        plans.PART_WHERE_FALLING,
        plans.PART_WHERE_FALLING,
    )
    _FALLING: ClassVar[bool] = True
    _SEVERAL: ClassVar[bool] = True  # whether a record may have several targets

    target_range: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        keep_state: StateFile | None = None,
    ) -> Self:
        """This estimator, trained on a table and its targets.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix, or LargeTable
            Features, real and finite. What `LargeTable` takes is read in passes; paths need it.
        y : (n,) or (n, K) array-like, or str
            Targets, real and finite, clipped to `target_range`; K of them a record, if there are several. For
            `PrivatePoissonRegressor` counts ≥ 0, (n,). Or the name of a column of a large table.
        groups : (n,) array-like, optional
            The user of every row, by any id. The guarantee is then of whole users, each of whom contributes
            the mean over their rows; n and the sizes of batches count users.
        sample_weight : (n,) array-like, optional
            Weights of the rows, from 0 to `max_sample_weight`, which must be declared. Larger ones are taken
            as that.
        keep_state : StateFile, optional
            Where to keep, encrypted, what `forget` takes later; a file that is not there yet. With
            `cooldown_epochs=0` training can go on more often than once.

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
            depends on the data. Also where no argument says how large targets are, whatever the data. Each
            once in a process.
        PrivacyWarning
            `random_state` is not None. This estimator, or a clone of it, was fitted before and has no
            `ledger`. Each once in a process.
        """
        with AllOrNothing(self):
            beside = Given(groups, sample_weight, keep_state)
            several = {"multi_output": self._SEVERAL}
            rows, cells, beside = self._both(X, y, beside, numbers_in, **several)
            targets = self._amounts_of(cells)
            outputs = targets.first().shape[1:]
            scale, ranged = self._scale(), self.target_range is not None
            if not ranged:
                self._warn_of_unstated_bound()
            self._train(
                rows,
                targets.mapped(scale.seen),
                *outputs,
                beside=beside,
                sentences=(RANGE,) * ranged,
            )
        return self

    def _seen_targets(self, y: Any) -> tuple[Parts, Parts | None]:
        return self._amounts_of(Parts.of(np.asarray(y), "y")).mapped(self._scale().seen), None

    def _amounts_of(self, y: Parts) -> Parts:
        """(n,) or (n, K) targets."""
        shape = y.first().shape
        several = self._SEVERAL and shape[1:] not in ((), (1,))
        if self._SEVERAL and y.array is not None and shape[1:] == (1,):
            column_or_1d(y.array, warn=True)
        return y.mapped(lambda cells: _amounts(cells, several))

    def _set_coefficients(self, theta: Array) -> None:
        """`coef_` (d,) or (K, d) and `intercept_`, in units of y."""
        super()._set_coefficients(theta)
        scale = self._scale()
        self.coef_ = scale.reach * self.coef_
        self.intercept_ = scale.centre + scale.reach * self.intercept_
        if theta.shape[1] == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def plan(self, n: int, d: int, targets: int = 1, *, unit: str | None = None) -> TrainingPlan:
        """What `fit` would do with a table of this size, and what to expect of it, without any data.

        Parameters
        ----------
        n, d : int, ≥ 1
            Rows and columns of X.
        targets : int, ≥ 1
            K, the targets of a record.
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
            As for `fit`.

        References
        ----------
        docs, "How the defaults are chosen".
        """
        most = None if self._SEVERAL else 1
        outputs = validate.integer("targets", targets, at_least=1, at_most=most)
        return self._planned(n, d, outputs, unit)

    @property
    def _offset(self) -> float:
        return self._scale().centre

    def _limits(self) -> tuple[float, float] | None:
        """The range of targets, None where none is stated. Raises InvalidInput naming it."""
        return None if self.target_range is None else read_range("target_range", self.target_range)

    def _scale(self) -> _TargetScale:
        limits = self._limits()
        return _TargetScale() if limits is None else _TargetScale.of(*limits)

    def _gradients(self, records: Records, targets: Parts, loss: Loss) -> LinearGradients:
        return LossGradients(executable(loss.kind, **dict(loss.parameters)), records, targets)

    def _scale_of_predictors(self) -> float:
        return self._scale().reach

    def _residual(self, share: float) -> tuple[float, float]:
        """(bound on residuals, size of predictors) as training sees targets.

        `share`: the bound over half the range, where the argument is "auto".
        """
        stated = number_or_auto(self._BOUND, getattr(self, self._BOUND), above=0.0)
        if self.target_range is None:
            bound = self._UNSTATED if stated is None else stated
            return bound, bound
        return (share if stated is None else stated / self._scale().reach), 1.0

    def _affordable(self, size: Size) -> float:
        """The widest bound on residuals over half the range with which noise allows the whole path."""
        whole = changed(checked_adjacency(self.adjacency)) * self._ENOUGH * size.width
        mu = plans.budget(*self._price())
        return min(max(self._PARTS[0] * size.n * mu / whole, _NARROW), _WIDE)

    def _warn_of_unstated_bound(self) -> None:
        """Warns where no argument says how large targets are."""
        if str(getattr(self, self._BOUND)) == "auto":
            warn_once(
                f"targets are fitted with {self._BOUND} = {exact(self._UNSTATED)}, since nothing says how "
                f"large they are: give target_range=(low, high), public bounds of y, or {self._BOUND}",
                UserWarning,
            )

    def predict(self, X: ArrayLike) -> Any:
        """The linear predictor of rows brought within the declared bounds.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m,), or (m, K) for K targets, in units of y. For rows within the bounds it is
            `X @ coef_.T + intercept_`; with `linear_predictor=False` for those that `preconditioner_` does
            not scale down either.

        Raises
        ------
        InvalidInput
            X is not what the model was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return self._predicted(X, self._fitted_values)

    def _fitted_values(self, rows: Any) -> Array:
        predictor, _ = self._predictor(rows)
        return predictor[:, 0] if np.ndim(self.coef_) == 1 else predictor

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """R², the share of the variance of the targets that is explained.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.
        y : (m,) or (m, K) array-like, or str
            Targets, or the name of a column of a large table.
        sample_weight : (m,) array-like, optional
            Weights of the records.

        Returns
        -------
        float
            At most 1; 0 for the mean of y as prediction.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `predict`. scikit-learn raises other ValueErrors where y or the weights are wrong.
        """
        return scored(super().score, X, y=y, sample_weight=sample_weight)


def _amounts(cells: Any, several: bool) -> Array:
    """(m,) or (m, K) float64 targets. Raises InvalidInput naming `y`."""
    targets = doubles_of("y", cells_of(cells))
    if not several and targets.shape[1:] == (1,):
        targets = targets[:, 0]
    if targets.ndim != 1 + several:
        raise InvalidInput("y", "expected one number a row of X")
    if not np.all(np.isfinite(targets)):
        raise InvalidInput("y", "expected finite numbers, got NaN or infinity")
    return targets


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearRegression(_LinearRegressor):
    """Least squares with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    $TARGET_RANGE
    residual_bound : float, > 0, in units of y, or "auto"
        B, public. Residuals are clipped to it, so that beyond B the loss grows linearly; for several targets
        that is the norm of their residuals. "auto" is as much of the width of `target_range` as noise allows,
        from an eighth to a quarter, and 1 without one. Without a range targets themselves are unbounded.
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    _BOUND: ClassVar[str] = "residual_bound"

    residual_bound: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        bound, signal = self._residual(self._affordable(size))
        if size.outputs > 1:
            return Loss.vector_huber(size.norm, bound), signal
        return Loss.squared(size.norm, bound), signal

    def _curvature(self, outputs: int) -> Array | None:
        """That of squares, unless residuals may often be clipped."""
        seldom = self.residual_bound == "auto" and self.target_range is not None
        return np.eye(outputs) if seldom else None


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateHuberRegressor(_LinearRegressor):
    """Huber regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    $TARGET_RANGE
    threshold : float, > 0, in units of y, or "auto"
        A public number. Residuals up to it count squared, beyond it linearly. "auto" is an eighth of the
        width of `target_range`, and 1 without one.
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    _BOUND: ClassVar[str] = "threshold"

    threshold: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        threshold, signal = self._residual(_NARROW)
        if size.outputs > 1:
            return Loss.vector_huber(size.norm, threshold), signal
        return Loss.huber(size.norm, threshold), signal


@tagged(target_tags__positive_only=True)
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivatePoissonRegressor(_LinearRegressor):
    """Poisson regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    target_range : (0, high), in counts, optional
        Public bounds of the counts. Larger counts are taken as `high`, and rates of up to `high` are fitted
        as such. Counts are not scaled. The guarantee assumes that the range is public.
    predictor_bound : float, at most 700, or "auto"
        z, public. Beyond it the loss is continued linearly, so that rates of up to e^z are fitted as such.
        "auto" is log(high), and 2 without `target_range`.
    count_bound : float, > 0, or "auto"
        A public number. Larger counts are taken as this one. The noise grows with max(count_bound, e^z).
        "auto" is `high`, and 10 without `target_range`.
    $SETTINGS

    Attributes
    ----------
    $COEFFICIENTS
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Training".
    """

    _BOUND: ClassVar[str] = "count_bound"
    _SEVERAL: ClassVar[bool] = False
    _UNSTATED: ClassVar[float] = 10.0
    _UNIT: ClassVar[str] = "logarithms of rates"

    predictor_bound: float | str = "auto"
    count_bound: float | str = "auto"

    def _limits(self) -> tuple[float, float] | None:
        limits = super()._limits()
        if limits is not None and limits[0] != 0.0:
            raise InvalidInput(
                "target_range",
                f"expected (0, high), the counts there may be, got {self.target_range!r}",
            )
        return limits

    def _scale(self) -> _TargetScale:
        self._limits()
        # Divided by anything, counts are none; the loss cuts them at its bound.
        return _TargetScale()

    def _bounds(self) -> dict[str, float]:
        """The bounds of the loss, those that are "auto" by the rule."""
        limits = self._limits()
        high = self._UNSTATED if limits is None else limits[1]
        peak = _UNSTATED_PEAK if limits is None else math.log(high)
        z = number_or_auto("predictor_bound", self.predictor_bound)
        count = number_or_auto("count_bound", self.count_bound, above=0.0)
        return {
            "predictor_bound": peak if z is None else z,
            "count_bound": high if count is None else count if limits is None else min(count, high),
        }

    def _loss(self, size: Size) -> tuple[Loss, float]:
        return Loss.poisson(size.norm, **self._bounds()), 1.0

    def _curvature(self, outputs: int) -> Array | None:
        """The mean rate, at most that of the bound, as far as rows are known."""
        points = self._row_law().points(self._seen_weights())
        peak = self._bounds()["predictor_bound"]
        return np.array([[np.mean(np.exp(np.minimum(points, peak)))]])

    def predict(self, X: ArrayLike) -> Any:
        """The expected count of each row, exp of its linear predictor.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.

        Returns
        -------
        array
            (m,), ≥ 0.

        Raises
        ------
        InvalidInput
            X is not what the model was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return PoissonLoss(**self._bounds()).mean(super().predict(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance that is explained, as in scikit-learn's PoissonRegressor.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.
        y : (m,) array-like
            Counts, ≥ 0.
        sample_weight : (m,) array-like, optional
            Weights of the records in the mean deviance.

        Returns
        -------
        float
            At most 1; 0 for the mean of y as prediction.

        Raises
        ------
        InvalidInput, NotFittedError
            As for `predict`. scikit-learn raises other ValueErrors where y or the weights are wrong.
        """
        from sklearn.metrics import d2_tweedie_score

        def explained(rows: Any, counts: Any, weight: Any) -> Any:
            return d2_tweedie_score(counts, self.predict(rows), sample_weight=weight, power=1)

        return scored(explained, X, y=y, sample_weight=sample_weight)
