"""Private linear regressors with the interface of scikit-learn's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from pabi.describe.linear_losses import PoissonLoss
from pabi.describe.losses import Loss
from pabi.execute.linear_gradients import LinearGradients, PoissonGradients, SquaredGradients
from pabi.execute.records import Records
from pabi.learn.documentation import documented
from pabi.learn.estimators import PrivateLinearModel
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


@dataclass(eq=False, repr=False, kw_only=True)
class _LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Numeric targets and the linear prediction."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """This estimator, trained on a table and its targets.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.
        y : (n,) array-like
            Targets, real and finite; counts ≥ 0 for `PrivatePoissonRegressor`.

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
        try:
            targets = column_or_1d(y, warn=True).astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("y", "expected one number a row of X") from None
        if not np.all(np.isfinite(targets)):
            raise InvalidInput("y", "expected finite numbers, got NaN or infinity")
        self._train(X, targets)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On a few hundred records and at a small ε noise is most of the model: that is the point.
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: ArrayLike) -> Array:
        """The linear predictor of rows brought within the declared bounds.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

        Returns
        -------
        array
            (m,), in units of y. For rows within the bounds it is `X @ coef_ + intercept_`.

        Raises
        ------
        InvalidInput
            X is not what the model was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return self._predictor(X)[0][:, 0]


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearRegression(_LinearRegressor):
    """Least squares with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    residual_bound : float, > 0, in units of y
        B, public. Residuals are clipped to it, so that beyond B the loss grows linearly. Choose it, or
        scale y, so that B is about the size of y. Targets themselves are unbounded.
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

    residual_bound: float = 1.0

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        bound = validate.number("residual_bound", self.residual_bound, above=0.0)
        return SquaredGradients(records, targets, bound), Loss.squared(norm, bound), bound


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateHuberRegressor(_LinearRegressor):
    """Huber regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    threshold : float, > 0, in units of y
        A public number. Residuals up to it count squared, beyond it linearly.
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

    threshold: float = 1.0

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        threshold = validate.number("threshold", self.threshold, above=0.0)
        return SquaredGradients(records, targets, threshold), Loss.huber(norm, threshold), threshold


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivatePoissonRegressor(_LinearRegressor):
    """Poisson regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    Parameters
    ----------
    $TARGET
    predictor_bound : float, at most 700
        z, public. Beyond it the loss is continued linearly, so that rates of up to e^z are fitted as such.
    count_bound : float, > 0
        A public number. Larger counts are taken as this one. The noise grows with max(count_bound, e^z).
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

    predictor_bound: float = 2.0
    count_bound: float = 10.0

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        bounds = {"predictor_bound": self.predictor_bound, "count_bound": self.count_bound}
        return PoissonGradients(records, targets, **bounds), Loss.poisson(norm, **bounds), 1.0

    def predict(self, X: ArrayLike) -> Array:
        """The expected count of each row, exp of its linear predictor.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.

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
        return PoissonLoss(self.predictor_bound, self.count_bound).mean(super().predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance that is explained, as in scikit-learn's PoissonRegressor.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or scipy sparse matrix
            Features, real and finite.
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

        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))
