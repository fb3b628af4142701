"""The private estimators, which tests of what they share go through."""

from __future__ import annotations

import pytest

from pabi.learn import (
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
)

CLASSIFIERS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateRidgeClassifier]
REGRESSORS = [
    PrivateLinearRegression,
    PrivateHuberRegressor,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
]
LOG_LINKS = (PrivatePoissonRegressor, PrivateGammaRegressor)  # of positive targets
ALL = CLASSIFIERS + REGRESSORS
each_estimator = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
each_regressor = pytest.mark.parametrize("kind", REGRESSORS, ids=lambda kind: kind.__name__)


def same(one, other):
    """Whether two guarantees are one, but for what is noted, and assumed of types before a step."""
    beside = set(one.assumptions) - set(other.assumptions)
    typed = all(" before the step " in sentence for sentence in beside)
    return one.proof is other.proof and typed and set(other.assumptions) <= set(one.assumptions)
