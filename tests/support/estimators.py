"""The private estimators, which tests of what they share go through."""

from __future__ import annotations

import pytest

from pabi.learn import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
)

CLASSIFIERS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateRidgeClassifier]
REGRESSORS = [PrivateLinearRegression, PrivateHuberRegressor, PrivatePoissonRegressor]
ALL = CLASSIFIERS + REGRESSORS
each_estimator = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
each_regressor = pytest.mark.parametrize("kind", REGRESSORS, ids=lambda kind: kind.__name__)
