"""Small problems that linear models are fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pabi.describe.batches import FullBatch
from support.estimators import CLASSIFIERS, LOG_LINKS

# A schedule that needs no search: what tests of models are about does not depend on it.
QUICK: dict[str, Any] = {"batches": FullBatch(), "epochs": 3, "step_size": 0.5, "l2": 0.01}

# Rows may be long, targets as they are, and δ large for a few records.
QUIET = [
    pytest.mark.filterwarnings(f"ignore:{words}")
    for words in ("some rows exceed feature_norm", "targets are fitted with", "delta = ")
]


def problem(kind: type, n: int = 60, classes: int = 2) -> tuple[Any, Any]:
    """(X, y) with rows on both sides of the norm 1, and targets of the kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * 0.6
    signal = X @ np.array([1.5, -1.0, 0.5]) + 0.3 * rng.normal(size=n)
    if kind in CLASSIFIERS:
        cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
        return X, np.searchsorted(cuts, signal)
    if kind in LOG_LINKS:
        return X, rng.poisson(np.exp(np.clip(signal, -2, 2))).astype(float)
    return X, signal


def within(X: Any, norm: float = 1.0) -> Any:
    """The rows of X, scaled down to the norm."""
    lengths = np.linalg.norm(X, axis=1)
    return X * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None]
