"""How good predictions are: accuracy, balanced accuracy, AUC and calibration error, or R²."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

BINS = 15  # of the calibration error
METRICS = {
    "classification": ("accuracy", "balanced_accuracy", "auc", "calibration_error"),
    "regression": ("r2",),
}
LOWER_IS_BETTER = ("calibration_error",)

Scores = dict[str, float]


def sign(metric: str) -> float:
    """−1 where a lower value is better."""
    return -1.0 if metric in LOWER_IS_BETTER else 1.0


def scores(predictions: np.ndarray, y: np.ndarray, classes: int) -> Scores:
    """Of (m, K) probabilities for `classes` = K labels, or of m predicted targets for none."""
    if not classes:
        return {"r2": float(1.0 - np.mean((y - predictions) ** 2) / np.var(y))}
    labels = predictions.argmax(axis=1)
    right = labels == y
    recalls = [right[y == k].mean() for k in range(classes)]
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean(recalls)),
        "auc": auc(predictions, y, classes),
        "calibration_error": calibration_error(predictions.max(axis=1), right),
    }


def auc(probabilities: np.ndarray, y: np.ndarray, classes: int) -> float:
    """Of the second of two classes; the mean over each against the rest for more."""
    positives = (1,) if classes == 2 else range(classes)
    return float(np.mean([roc_auc_score(y == k, probabilities[:, k]) for k in positives]))


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: |confidence − accuracy| over bins of one width, weighted by size.

    Guo, Pleiss, Sun, Weinberger 2017, "On calibration of modern neural networks".
    """
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))
