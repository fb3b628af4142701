"""The private estimators, which tests of what they share go through, and small problems for them."""

from typing import Any

import numpy as np
import pytest

from pabi.describe.batches import FullBatch
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


# A schedule that needs no search: what tests of models are about does not depend on it.
QUICK: dict[str, Any] = {"batches": FullBatch(), "epochs": 3, "step_size": 0.5, "l2": 0.01}


def problem(kind: type, n: int = 60, classes: int = 2) -> tuple[Any, Any]:
    """(X, y) with rows on both sides of the norm 1, and targets of the kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * 0.6
    signal = X @ np.array([1.5, -1.0, 0.5]) + 0.3 * rng.normal(size=n)
    return X, targets_of(kind, signal, classes, rng)


def targets_of(kind: type, signal: Any, classes: int, rng: np.random.Generator) -> Any:
    """Targets of the kind: classes, counts, or the signal itself."""
    if kind in CLASSIFIERS:
        cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
        return np.searchsorted(cuts, signal)
    if kind in LOG_LINKS:
        return rng.poisson(np.exp(np.clip(signal, -2, 2))).astype(float)
    return signal


def within(X: Any, norm: float = 1.0) -> Any:
    """The rows of X, scaled down to the norm."""
    lengths = np.linalg.norm(X, axis=1)
    return X * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None]
