"""Binary logistic regression, record by record, and features of bounded norm."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi import validate
from pabi.errors import InvalidInput
from pabi.learn.clipping import clip_norms
from pabi.rounding import Array


class LogisticGradients:
    """Gradients of log(1 + exp(−y·xᵀθ)), one for each record, for `pabi.learn.train`.

    Parameters
    ----------
    X : (n, d) array
        Features, finite. Where ‖x‖ ≤ R the gradients have norm at most R and the loss is
        `Loss.logistic(feature_norm=R)`; see `bound_rows`.
    y : (n,) array
        Labels, all in {0, 1} or all in {−1, 1}; 1 is the positive class.

    Calling it with θ of shape (d,) and an (m,) integer array of rows returns (m, d) float64
    gradients −y·x/(1 + exp(y·xᵀθ)), in units of the features, stable however large the margin.

    Raises InvalidInput naming `X`, `y` or `theta`; the message shows no data. Source: the
    logistic loss of Bok, Su, Altschuler 2024, §5; curvature and bound: see `Loss.logistic`.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike) -> None:
        self._features = _matrix(X)
        self._signs = _signs(y, len(self._features))

    def __call__(self, theta: ArrayLike, rows: NDArray[np.intp]) -> Array:
        from scipy.special import expit

        point = np.asarray(theta, dtype=np.float64)
        expected = (self._features.shape[1],)
        if point.shape != expected:
            raise InvalidInput("theta", f"expected shape {expected}, got {point.shape}")
        x, sign = self._features[rows], self._signs[rows]
        # |weight| ≤ 1 in floating point too, so no gradient is longer than its row.
        weight = -sign * expit(-sign * (x @ point))
        gradients: Array = weight[:, None] * x
        return gradients


def bound_rows(X: ArrayLike, feature_norm: float) -> Array:
    """(n, d) `X` with every row longer than `feature_norm` scaled down to it, never above it.

    `feature_norm`: positive, in units of the features; a public constant, not read off the data.
    Each row is treated by itself, so this costs no privacy. Shorter rows are returned as they are.
    Raises InvalidInput naming `X` or `feature_norm`. Source: docs, "Clipping", where bounding
    features keeps gradient steps nonexpansive and clipping gradients may not.
    """
    bound = validate.number("feature_norm", feature_norm, above=0.0)
    return clip_norms(_matrix(X), bound)


def with_intercept(X: ArrayLike, scaling: float = 1.0) -> Array:
    """(n, d + 1): `X` with a last column of the constant `scaling`, the intercept's feature.

    `scaling`: positive, public, in units of the features. Rows of norm at most R become rows of
    norm at most √(R² + scaling²), the `feature_norm` of the loss. Raises InvalidInput naming `X`
    or `scaling`. Source: `intercept_scaling` of scikit-learn's liblinear models.
    """
    constant = validate.number("scaling", scaling, above=0.0)
    features = _matrix(X)
    return np.column_stack([features, np.full(len(features), constant)])


def _matrix(X: ArrayLike) -> Array:
    try:
        features = np.array(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("X", "expected an (n, d) array of numbers") from None
    if features.ndim != 2 or features.size == 0:
        raise InvalidInput("X", f"expected shape (n, d), not empty, got {features.shape}")
    if not np.all(np.isfinite(features)):
        raise InvalidInput("X", "expected finite numbers")
    return features


def _signs(y: ArrayLike, n: int) -> Array:
    """Labels as ±1."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidInput("y", f"expected shape ({n},), one label a row of X, got {labels.shape}")
    if labels.dtype.kind in "biuf":
        for negative in (0, -1):
            if np.all((labels == negative) | (labels == 1)):
                return np.where(labels == 1, 1.0, -1.0)
    raise InvalidInput("y", "expected labels all in {0, 1} or all in {-1, 1}")
