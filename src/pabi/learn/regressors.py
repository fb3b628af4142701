"""Private linear regressors with the interface of scikit-learn's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from pabi.describe.batches import Batches
from pabi.describe.linear_losses import PoissonLoss
from pabi.describe.losses import Loss
from pabi.execute.linear_gradients import LinearGradients, PoissonGradients, SquaredGradients
from pabi.execute.records import Records, seen_norm
from pabi.learn.estimators import PrivateLinearModel
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


class _LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Numeric targets and the linear prediction."""

    def _model(
        self, records: Records, targets: Array, norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        """(gradients, what is known of the loss, size of predictors) for rows of norm ≤ `norm`."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d), dense or sparse, and targets y (n,). Raises InvalidInput (a ValueError)
        naming the argument, or ValueError from scikit-learn's checks of X and y."""
        X, y = self._validated(X, y)
        try:
            targets = column_or_1d(y, warn=True).astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("y", "expected one number a row of X") from None
        if not np.all(np.isfinite(targets)):
            raise InvalidInput("y", "expected finite numbers, got NaN or infinity")
        records = self._records(X)  # checks the bounds that the norm follows from
        norm = seen_norm(self.feature_norm, self._intercept_feature)
        gradients, loss, signal = self._model(records, targets, norm)
        theta = self._train(gradients, loss, signal=signal)
        self._set_coefficients(theta.reshape(records.width, 1))
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On a few hundred records and at a small ε noise is most of the model: that is the point.
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: ArrayLike) -> Array:
        """(n,): the linear predictor of rows brought within the declared bounds.

        For rows within them it is X @ coef_ + intercept_. Raises ValueError for bad X.
        """
        return self._predictor(X)[:, 0]


class PrivateLinearRegression(_LinearRegressor):
    """Least squares with a proven (ε, δ): only the last iterate of noisy SGD is released.

    `residual_bound` = B > 0, public, in units of y: residuals are clipped to it, so that beyond B the
    loss grows linearly. Choose it, or scale y, so that B is about the size of y; targets themselves
    are unbounded. All other parameters and attributes are those of `PrivateLogisticRegression`, with
    `coef_` of shape (d,) and `intercept_` a float.
    Raises InvalidInput (a ValueError) naming the argument. Source: docs, "Training".
    """

    residual_bound: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        feature_norm: float = 1.0,
        *,
        residual_bound: float = 1.0,
        l2: float | str = "auto",
        epochs: float | str = "auto",
        batches: Batches | str = "auto",
        adjacency: str = "replace_one",
        noise_std: float | None = None,
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
        self, records: Records, targets: Array, norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        bound = validate.number("residual_bound", self.residual_bound, above=0.0)
        return SquaredGradients(records, targets, bound), Loss.squared(norm, bound), bound


class PrivateHuberRegressor(_LinearRegressor):
    """Huber regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    `threshold` > 0, public, in units of y: residuals up to it count squared, beyond it linearly. All
    other parameters and attributes are those of `PrivateLinearRegression`.
    Raises InvalidInput (a ValueError) naming the argument. Source: docs, "Training".
    """

    threshold: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        feature_norm: float = 1.0,
        *,
        threshold: float = 1.0,
        l2: float | str = "auto",
        epochs: float | str = "auto",
        batches: Batches | str = "auto",
        adjacency: str = "replace_one",
        noise_std: float | None = None,
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
        self, records: Records, targets: Array, norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        threshold = validate.number("threshold", self.threshold, above=0.0)
        return SquaredGradients(records, targets, threshold), Loss.huber(norm, threshold), threshold


class PrivatePoissonRegressor(_LinearRegressor):
    """Poisson regression with a proven (ε, δ): only the last iterate of noisy SGD is released.

    `predictor_bound` = z, public: beyond it the loss is continued linearly, so that rates of up to
    e^z are fitted as such. `count_bound` > 0, public: larger counts are taken as this one. Both set the
    noise, which grows with max(count_bound, e^z). All other parameters and attributes are those of
    `PrivateLinearRegression`.
    Raises InvalidInput (a ValueError) naming the argument. Source: docs, "Training".
    """

    predictor_bound: float
    count_bound: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        feature_norm: float = 1.0,
        *,
        predictor_bound: float = 2.0,
        count_bound: float = 10.0,
        l2: float | str = "auto",
        epochs: float | str = "auto",
        batches: Batches | str = "auto",
        adjacency: str = "replace_one",
        noise_std: float | None = None,
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
        self, records: Records, targets: Array, norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        bounds = {"predictor_bound": self.predictor_bound, "count_bound": self.count_bound}
        return PoissonGradients(records, targets, **bounds), Loss.poisson(norm, **bounds), 1.0

    def predict(self, X: ArrayLike) -> Array:
        """(n,): the expected counts, exp of the linear predictor."""
        return PoissonLoss(self.predictor_bound, self.count_bound).mean(super().predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance explained, as in scikit-learn's PoissonRegressor."""
        from sklearn.metrics import d2_tweedie_score

        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))
