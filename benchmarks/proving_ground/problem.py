"""What every problem of the proving ground is: rows, answers, and public facts about them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from datasets import split

TRAINING = 0.8  # the share of rows to train on, where a data set comes without a split


@dataclass(frozen=True)
class Problem:
    """A data set in two parts: (n, d) rows of norm at most 1 and n answers.

    `classes`: how many labels there are, counted from 0; 0 for regression. `target_range`: between which
    numbers most targets are, from public knowledge; None for classification. Targets are not clipped to it.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    task: Literal["classification", "regression"]
    classes: int = 0
    target_range: tuple[float, float] | None = None


def classification(X: np.ndarray, y: np.ndarray, classes: int) -> Problem:
    """Split at random; the same permutation for all data sets of one length."""
    arrays = split(shortened(X), y.astype(np.int64), round(TRAINING * len(X)))
    return Problem(*arrays, task="classification", classes=classes)


def regression(X: np.ndarray, y: np.ndarray, target_range: tuple[float, float]) -> Problem:
    """Split at random; the same permutation for all data sets of one length."""
    arrays = split(shortened(X), y.astype(np.float64), round(TRAINING * len(X)))
    return Problem(*arrays, task="regression", target_range=target_range)


def shortened(X: np.ndarray) -> np.ndarray:
    """Rows above norm 1 scaled to it, each by itself; of tables only rounding is above."""
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-15))
