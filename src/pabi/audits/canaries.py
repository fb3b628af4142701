"""Data sets with a canary, for trainers of linear models that are audited from outside.

All rows but the canary are zero. So the canary alone moves its coordinate, and whoever reads the coefficients
reads it there. Half of the other labels are of either kind, so that an intercept has nothing to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.neighbours import changed
from pabi.describe.orders import KnownUses
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

_LABELLED = ("logistic", "smoothed_hinge")  # two classes, 0 and 1
_REAL = ("squared", "huber")


@dataclass(frozen=True, eq=False)
class CanaryData:
    """A data set with a canary.

    Attributes
    ----------
    X : float64 array, (n, d)
        The rows.
    y : array, (n,)
        Labels 0 and 1, or real targets.
    """

    X: Array
    y: NDArray[Any]


def canary_pair(run: NoisySGD, target: float = 1.0) -> tuple[CanaryData, CanaryData]:
    """Two neighbouring data sets for the loss of a linear model.

    The canary is one row of the largest norm. In the other data set its label, or its target, is the other
    one ("replace_one"), or its row is zero ("zero_out").

    Parameters
    ----------
    run : NoisySGD
        What is audited: n, its loss and its adjacency. A canary in a known order is in the last batch.
    target : float > 0
        The size of real targets.

    Returns
    -------
    (CanaryData, CanaryData)
        One column each.

    Raises
    ------
    InvalidInput
        For a loss that is not a linear model's with two classes or one real target.
    """
    labels, norm = two_targets(run, target), _feature_norm(run)
    row = _canary_row(run)
    y = labels[np.arange(run.n) % 2]
    X = np.zeros((run.n, 1))
    X[row], y[row] = norm, labels[1]
    other = CanaryData(X.copy(), y.copy())
    if changed(run.adjacency) == 2:
        other.y[row] = labels[0]
    else:
        other.X[row] = 0.0
    return CanaryData(X, y), other


def many_canaries(run: NoisySGD, included: NDArray[np.bool_], target: float = 1.0) -> CanaryData:
    """A data set with many canaries, each with a coordinate of its own; those left out are zero rows.

    `included`: (m,), m ≤ n. The canaries are spread over all batches.
    """
    labels, m = two_targets(run, target), len(included)
    rows = np.arange(m) * run.n // m
    y = labels[np.arange(run.n) % 2]
    X = np.zeros((run.n, m))
    X[rows, np.arange(m)] = _feature_norm(run) * included
    y[rows] = labels[1]
    return CanaryData(X, y)


def coefficients(model: Any) -> Array:
    """(d,) what a trainer returned: an array, or a fitted estimator with `coef_`.

    Raises InvalidInput for what is neither, or not finite.
    """
    values = getattr(model, "coef_", model)
    try:
        flat = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInput(
            "train", f"expected coefficients or a fitted estimator, got a {type(model).__name__}"
        ) from None
    if not flat.size or not np.isfinite(flat).all():
        raise InvalidInput("train", "expected finite coefficients")
    return flat


def two_targets(run: NoisySGD, target: float = 1.0) -> NDArray[Any]:
    """Both labels, or two opposite targets. Raises InvalidInput for a loss that has neither."""
    if run.loss.kind in _LABELLED:
        return np.array([0, 1])
    if run.loss.kind in _REAL:
        return np.array([-target, target])
    raise InvalidInput(
        "run",
        f"expected a loss of {', '.join((*_LABELLED, *_REAL))} to make canaries for, got {run.loss.kind}",
    )


def _feature_norm(run: NoisySGD) -> float:
    return float(dict(run.loss.parameters).get("feature_norm", 1.0))


def _canary_row(run: NoisySGD) -> int:
    """A row of the batch that is used last, where that is known."""
    match run.order:
        case KnownUses(period=period):
            place = (run.steps - run.cooldown_steps - 1) % period
            return min(run.n - 1, place * run.batch_size)
        case _:
            return run.n - 1
