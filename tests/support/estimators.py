"""The private estimators, which tests of what they share go through."""

from __future__ import annotations

import pytest

from pabi.learn import (
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateKernelClassifier,
    PrivateKernelRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
)

CLASSIFIERS = [
    PrivateLogisticRegression,
    PrivateLinearSVC,
    PrivateRidgeClassifier,
    PrivateKernelClassifier,
]
REGRESSORS = [
    PrivateLinearRegression,
    PrivateHuberRegressor,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
    PrivateKernelRegressor,
]
LOG_LINKS = (PrivatePoissonRegressor, PrivateGammaRegressor)  # of positive targets
ALL = CLASSIFIERS + REGRESSORS
KERNELS = [PrivateKernelClassifier, PrivateKernelRegressor]  # linear in features, not in columns
LINEAR = [kind for kind in ALL if kind not in KERNELS]
each_linear = pytest.mark.parametrize("kind", LINEAR, ids=lambda kind: kind.__name__)
each_estimator = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
each_regressor = pytest.mark.parametrize("kind", REGRESSORS, ids=lambda kind: kind.__name__)


def same(one, other):
    """Whether two guarantees are one, but for what is noted, and assumed of types before a step."""
    beside = set(one.assumptions) - set(other.assumptions)
    typed = all(" before the step " in sentence for sentence in beside)
    return one.proof is other.proof and typed and set(other.assumptions) <= set(one.assumptions)
