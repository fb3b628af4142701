"""Private linear regressors with the interface of scikit-learn's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from pabi.describe.losses import Loss
from pabi.describe.statistics import NoisyColumnStatistics
from pabi.describe.vector_losses import executable
from pabi.execute.checkpoint import Randomness
from pabi.execute.engine import TrainOptions
from pabi.execute.linear_gradients import LinearGradients, LossGradients
from pabi.execute.records import Records
from pabi.execute.sources import Parts
from pabi.execute.state_files import StateFile
from pabi.execute.tables import tagged
from pabi.learn.columns import read_range
from pabi.learn.estimators import PrivateLinearModel
from pabi.learn.plans import (
    ENOUGH,
    PART_WHERE_FALLING,
    Size,
    TrainingPlan,
    before_training,
    documented,
)
from pabi.learn.rows import AllOrNothing, CheckedRows, Given, number_or_auto, scored
from pabi.learn.scaler import QUANTILES, PrivateRanges
from pabi.learn.schema import amounts, numbers_in, positive
from pabi.numbers import validate
from pabi.numbers.errors import must_be, require, warn_once
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact
from pabi.tradeoff.guarantee import Guarantee

RANGE = "target_range is public"

# Bounds on residuals over half the range of targets. Few residuals come near the wide one, which leaves means
# as they are; the narrow one keeps the noise low.
_NARROW, _WIDE = 0.25, 0.5
_WIDEST = 0.6  # where noise allows twice as much
_UNSTATED_PEAK = 2.0  # the bound on logarithms of rates where nothing says how large counts are

PRIVATE = "private"
SHARE_OF_RANGE = 0.03  # of the budget's μ²
_REACH = 0.85  # times what lies between the quantiles: four standard deviations of a normal law
_WIDE_IF_PRIVATE = 0.9  # of that; wider than where a range is declared, which may be too wide
_FAR = 4.0  # reaches from the centre: all residuals beyond are clipped
_LEAST = 2.0**-1000  # of the middle of positive targets
_PEAK, _MOST = 2.5, 2.5  # largest rate and count over the middle of the quantiles


@dataclass(frozen=True, kw_only=True)
class _TargetScale:
    """Targets as training sees them: clipped to [low, high], then (y − centre)/reach.

    `offset`, `unit`: what a predictor 0 predicts, and what one unit of it amounts to.
    """

    low: float = -math.inf
    high: float = math.inf
    centre: float = 0.0
    reach: float = 1.0
    offset: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, low: float, high: float) -> _TargetScale:
        """The map of [low, high] onto [−1, 1]. Raises InvalidInput naming `target_range`."""
        centre, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        must_be(reach > 0.0, "target_range", "a wider range", (low, high))
        return cls(low=low, high=high, centre=centre, reach=reach, offset=centre, unit=reach)

    @classmethod
    def within(cls, low: float, high: float) -> _TargetScale:
        """By quantiles that were found; only targets far beyond them are clipped."""
        centre, reach = low / 2.0 + high / 2.0, _REACH * (high - low)
        low, high = centre - _FAR * reach, centre + _FAR * reach
        return cls(low=low, high=high, centre=centre, reach=reach, offset=centre, unit=reach)

    @classmethod
    def times(cls, size: float) -> _TargetScale:
        """Predictors are logarithms of what targets are over `size`."""
        return cls(reach=size, offset=math.log(size))

    def seen(self, y: Array) -> Array:
        """The targets `y` on this scale."""
        return np.asarray((np.clip(y, self.low, self.high) - self.centre) / self.reach)


@tagged(
    regressor_tags__poor_score=True,  # noise may be most of a model of a few hundred records
    target_tags__multi_output=lambda self: self._SEVERAL,
)
@dataclass(eq=False, repr=False, kw_only=True)
class _LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Numeric targets and the linear prediction.

    `_BOUND`: the argument that says how large targets are where `target_range` does not, `_UNSTATED`: its
    value where nothing does. `_IN_UNITS`: the arguments that are in units of targets.
    """

    _BOUND: ClassVar[str]
    _IN_UNITS: ClassVar[tuple[str, ...]]
    _UNSTATED: ClassVar[float] = 1.0
    _EQUAL: ClassVar[bool] = False  # the size of a row matters to a number
    _ENOUGH: ClassVar[float] = ENOUGH
    _PARTS: ClassVar[tuple[float, float]] = (PART_WHERE_FALLING, PART_WHERE_FALLING)
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
            rows, cells, beside = self._both(X, y, beside, numbers_in, multi_output=self._SEVERAL)
            targets = self._amounts_of(cells)
            outputs = targets.first().shape[1:]
            self.__dict__.pop("target_range_", None)
            if self.target_range is None:
                self._warn_of_unstated_bound()
            if self._private:
                self._refuse_with_private_range(keep_state)
            else:
                targets = targets.mapped(self._scale().seen)
            self._train(rows, targets, *outputs, beside=beside, sentences=self._of_range())
        return self

    # A range that is found privately.

    @property
    def _private(self) -> bool:
        """Whether the range of targets is to be found. Raises InvalidInput for another word."""
        if not isinstance(self.target_range, str):
            return False
        validate.choice("target_range", self.target_range, (PRIVATE,))
        return True

    def _of_range(self) -> tuple[str, ...]:
        return (RANGE,) if self.target_range is not None and not self._private else ()

    def _refuse_with_private_range(self, state: StateFile | None = None) -> None:
        """Raises InvalidInput for what would have to be in units of a range that is not known yet."""
        for name in self._IN_UNITS:
            value = getattr(self, name)
            must_be(value == "auto", name, '"auto" with a private target_range', value)
        require(
            state is None,
            "keep_state",
            "expected None with a private target_range: give a public one",
        )

    def _target_counts(self, size: Size) -> NoisyColumnStatistics | None:
        if not self._private:
            return None
        self._refuse_with_private_range()
        counts = self._search()._range_counts(
            size.n, size.outputs, SHARE_OF_RANGE, quantiles=QUANTILES, bounded=False
        )
        return replace(counts, unit=size.unit)

    def _search(self) -> PrivateRanges:
        return PrivateRanges(*self._price(), adjacency=self.adjacency)

    def _ranged(
        self, terms: TrainOptions, counts: NoisyColumnStatistics, rows: CheckedRows
    ) -> tuple[Parts, Guarantee]:
        cells = rows.targets.mapped(lambda y: y.reshape(len(y), -1), width=counts.columns).counted()
        groups = rows.groups

        def execute(randomness: Randomness) -> Array:
            generator = randomness.generator()
            seen = cells if groups is None else cells.picked(groups.drawn(generator))
            low, high = self._search()._bought(
                counts, seen, generator, quantiles=QUANTILES, bounds=None
            )
            return np.array([np.min(low), np.max(high)])

        with before_training(terms, 2) as own:
            self.target_range_, spent = own.release(own.guarantee_of(counts), execute)
        return rows.targets.mapped(self._scale().seen), spent

    def _scale_of_plans(self) -> tuple[float, str]:
        if self._private:
            return _REACH, "times the width of target_range_"
        return super()._scale_of_plans()

    def _seen_targets(self, y: Any) -> tuple[Parts, Parts | None]:
        return self._amounts_of(Parts.of(np.asarray(y), "y")).mapped(self._scale().seen), None

    def _amounts_of(self, y: Parts) -> Parts:
        """(n,) or (n, K) targets."""
        shape = y.first().shape
        several = self._SEVERAL and shape[1:] not in ((), (1,))
        if self._SEVERAL and y.array is not None and shape[1:] == (1,):
            column_or_1d(y.array, warn=True)
        return y.mapped(lambda cells: amounts(cells, several))

    def _set_coefficients(self, theta: Array) -> None:
        """`coef_` (d,) or (K, d) and `intercept_`, in units of y."""
        super()._set_coefficients(theta)
        scale = self._scale()
        self.coef_ = scale.unit * self.coef_
        self.intercept_ = scale.offset + scale.unit * self.intercept_
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
        return self._scale().offset

    def _limits(self) -> tuple[float, float] | None:
        """The public range of targets, None where none is stated. Raises InvalidInput naming it."""
        unknown = self.target_range is None or self._private
        return None if unknown else read_range("target_range", self.target_range)

    def _scale(self) -> _TargetScale:
        limits = self._limits()
        if self._private:
            return _TargetScale.within(*self.target_range_.tolist())
        return _TargetScale() if limits is None else _TargetScale.of(*limits)

    def _gradients(self, records: Records, targets: Parts, loss: Loss) -> LinearGradients:
        return LossGradients(executable(loss.kind, **dict(loss.parameters)), records, targets)

    def _scale_of_predictors(self) -> float:
        return self._scale().unit

    def _residual(self, share: float) -> tuple[float, float]:
        """(bound on residuals, size of predictors) as training sees targets.

        `share`: the bound over half the range, where the argument is "auto".
        """
        stated = number_or_auto(self._BOUND, getattr(self, self._BOUND), None, above=0.0)
        if self._private:
            return share, 1.0
        if self.target_range is None:
            bound = self._UNSTATED if stated is None else stated
            return bound, bound
        return (share if stated is None else stated / self._scale().reach), 1.0

    def _affordable(self, size: Size) -> float:
        """The widest bound on residuals over half the range with which noise allows the whole path."""
        wide = _WIDE_IF_PRIVATE if self._private else _WIDE
        # Least squares have the curvature R², and gradients of R times the bound.
        gradient = self._reach(size, self._PARTS[0], size.norm**2) / self._enough(size)
        allowed = gradient / size.norm
        return max(min(max(allowed, _NARROW), wide), min(0.5 * allowed, _WIDEST))

    def _warn_of_unstated_bound(self) -> None:
        """Warns where no argument says how large targets are."""
        if str(getattr(self, self._BOUND)) == "auto":
            warn_once(
                f"targets are fitted with {self._BOUND} = {exact(self._UNSTATED)}, since nothing says how "
                f"large they are: give target_range=(low, high), public bounds of y, or {self._BOUND}, or "
                'target_range="private"',
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
        from an eighth to three tenths, and 1 without one. Without a range targets themselves are unbounded.
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
    _IN_UNITS: ClassVar[tuple[str, ...]] = ("residual_bound",)

    residual_bound: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        bound, signal = self._residual(self._affordable(size))
        loss = Loss.squared if size.outputs == 1 else Loss.vector_huber
        return loss(size.norm, bound), signal

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
    _IN_UNITS: ClassVar[tuple[str, ...]] = ("threshold",)

    threshold: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        threshold, signal = self._residual(_NARROW)
        loss = Loss.huber if size.outputs == 1 else Loss.vector_huber
        return loss(size.norm, threshold), signal


@tagged(target_tags__positive_only=True)
@dataclass(eq=False, repr=False, kw_only=True)
class _LogLinkRegressor(_LinearRegressor):
    """Means that are exponentials of the linear predictor. `_POWER`: of the mean, which the variance is."""

    _POWER: ClassVar[int]
    _SEVERAL: ClassVar[bool] = False

    def _limits(self) -> tuple[float, float] | None:
        limits = super()._limits()
        must_be(
            limits is None or limits[0] >= 0.0,
            "target_range",
            "(low, high) with low ≥ 0",
            self.target_range,
        )
        return limits

    def _amounts_of(self, y: Parts) -> Parts:
        return super()._amounts_of(y).mapped(positive)

    def _scale(self) -> _TargetScale:
        """Targets over the middle of their range, as far as that is known."""
        if not self._private:
            limits = self._limits()
            if limits is None:
                return _TargetScale()
            low, high = limits
            return replace(_TargetScale.times(low / 2.0 + high / 2.0), low=low, high=high)
        low, high = self.target_range_.tolist()
        return _TargetScale.times(max(max(low, 0.0) / 2.0 + high / 2.0, _LEAST))

    def _scale_of_plans(self) -> tuple[float, str]:
        return 1.0, self._UNIT

    def predict(self, X: ArrayLike) -> Any:
        """The expected target of each row, exp of its linear predictor.

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
        return np.exp(super().predict(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """D², the share of the deviance that is explained, as in scikit-learn's regressors of that name.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. A large table is read once.
        y : (m,) array-like
            Targets, ≥ 0; of a gamma regression > 0.
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
            return d2_tweedie_score(
                counts, self.predict(rows), sample_weight=weight, power=self._POWER
            )

        return scored(explained, X, y=y, sample_weight=sample_weight)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivatePoissonRegressor(_LogLinkRegressor):
    """Poisson regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    target_range : (0, high), in counts, "private", or None
        Public bounds of the counts. Larger counts are taken as `high`, and rates of up to `high` are fitted
        as such. Counts are not scaled. The guarantee assumes that the range is public.
        "private": nothing is known. 3 % of the budget's μ² find a low and a high quantile of the counts
        (`target_range_`). Counts are then divided by the middle of that range; rates and counts of up to 2.5
        times the middle are fitted as such, and the other bounds stay "auto".
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
    _IN_UNITS: ClassVar[tuple[str, ...]] = ("count_bound", "predictor_bound")
    _POWER: ClassVar[int] = 1
    _UNSTATED: ClassVar[float] = 10.0
    _UNIT: ClassVar[str] = "logarithms of rates"

    predictor_bound: float | str = "auto"
    count_bound: float | str = "auto"

    def _limits(self) -> tuple[float, float] | None:
        limits = super()._limits()
        must_be(
            limits is None or limits[0] == 0.0,
            "target_range",
            "(0, high), the counts there may be",
            self.target_range,
        )
        return limits

    def _scale(self) -> _TargetScale:
        self._limits()
        # Counts in a public range are not divided by anything; the loss cuts them at its bound.
        return super()._scale() if self._private else _TargetScale()

    def _bounds(self) -> dict[str, float]:
        """The bounds of the loss, those that are "auto" by the rule."""
        if self._private:
            return {"predictor_bound": math.log(_PEAK), "count_bound": _MOST}
        limits = self._limits()
        high = self._UNSTATED if limits is None else limits[1]
        peak = _UNSTATED_PEAK if limits is None else math.log(high)
        z = number_or_auto("predictor_bound", self.predictor_bound, peak)
        count = number_or_auto("count_bound", self.count_bound, high, above=0.0)
        return {
            "predictor_bound": z,
            "count_bound": count if limits is None else min(count, high),
        }

    def _loss(self, size: Size) -> tuple[Loss, float]:
        return Loss.poisson(size.norm, **self._bounds()), 1.0

    def _curvature(self, outputs: int) -> Array | None:
        """The mean rate, at most that of the bound, as far as rows are known."""
        points = self._row_law().points(self._seen_weights())
        peak = self._bounds()["predictor_bound"]
        return np.array([[np.mean(np.exp(np.minimum(points, peak)))]])


@tagged(target_tags__positive_only=True)
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateGammaRegressor(_LogLinkRegressor):
    """Gamma regression with a proven (ε, δ): means of skewed amounts, such as costs or days.

    Means are exponentials of the linear predictor. Residuals are relative to them, so that little depends on
    how wide the range of targets is.

    Parameters
    ----------
    $TARGET
    target_range : (low, high), low ≥ 0, in units of y, "private", or None
        Public bounds of every target, to which targets are clipped. Training starts from their middle. The
        guarantee assumes that the range is public. "private": nothing is known. 3 % of the budget's μ² find a
        low and a high quantile of the targets (`target_range_`), between which it starts; no target is
        clipped. None: it starts from 1.
    residual_bound : float, > 0, or "auto"
        B, public. Targets count in full up to 1 + B times their mean, and beyond it the loss is linear.
        "auto" is 3.
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
    docs, "Training"; docs, "Convex clipping".
    """

    _BOUND: ClassVar[str] = "residual_bound"
    _IN_UNITS: ClassVar[tuple[str, ...]] = ()
    _POWER: ClassVar[int] = 2
    _UNSTATED: ClassVar[float] = 3.0
    _ENOUGH: ClassVar[float] = 4.0 * ENOUGH  # the curvature is usually 1 of at most 4
    _UNIT: ClassVar[str] = "logarithms of means"

    residual_bound: float | str = "auto"

    def _loss(self, size: Size) -> tuple[Loss, float]:
        bound = number_or_auto("residual_bound", self.residual_bound, self._UNSTATED, above=0.0)
        return Loss.gamma(size.norm, bound), 1.0

    def _curvature(self, outputs: int) -> Array | None:
        """1, as at targets that are their means."""
        return np.eye(outputs)
