"""The logistic posterior that samplers are compared on; numpy is all it needs."""

from __future__ import annotations

import numpy as np

RECORDS, DIMENSION, PRECISION = 1_000, 10, 1.0


def posterior(n: int, d: int) -> tuple[np.ndarray, np.ndarray, float]:
    """((n, d) features of norm at most 1, labels, precision of the prior N(0, I/precision))."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) * (1.0 + 1e-12)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))).astype(int)
    return X, y, PRECISION
