"""Every loss that models are trained on: its gradients, targets, description; and rows as models see them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pabi import learn
from pabi.describe.losses import Loss
from pabi.describe.vector_losses import executable
from pabi.execute.linear_gradients import LossGradients

K = 3  # classes
B = 0.7  # residual bound, Huber threshold
GAMMA = 0.4
Z_MAX, COUNT_MAX = 1.5, 6.0

LABELS, CLASSES = np.array([0, 1]), np.arange(K)
REALS = np.array([-2.0, -0.3, 0.0, 0.1, 1.7])
VECTORS = np.array([[-2.0, 0.3, 1.0], [0.0, 0.0, 0.0], [0.1, 0.0, -0.2], [40.0, 0.0, 1.0]])
COUNTS = np.array([0.0, 1.0, 3.0, 6.0, 40.0])


class Family(NamedTuple):
    """`largest`: residual; `slope`: of the residual in the predictor."""

    build: Callable[[Any, Any], LossGradients]  # of (X, y)
    targets: np.ndarray
    largest: float
    slope: float
    describe: Callable[[float], Loss]  # for rows of norm R

    def some(self, n):
        """All targets, one after the other, n of them."""
        return self.targets[np.arange(n) % len(self.targets)]


def exact_row(row, feature_norm=None, ranges=None):
    """One row as the model sees it, as real numbers."""
    values = [float(x) for x in row]
    if ranges is not None:
        sides = zip(values, *ranges, strict=True)
        values = [min(1.0, max(-1.0, (2.0 * x - a - b) / (b - a))) for x, a, b in sides]
    length = math.sqrt(math.fsum(x * x for x in values))
    if feature_norm is not None and length > feature_norm:
        values = [x / length * feature_norm for x in values]
    return values


FAMILY = {
    "logistic": Family(learn.LogisticGradients, LABELS, 1.0, 0.25, Loss.logistic),
    "one_vs_rest": Family(
        *(lambda X, y: learn.OneVsRestGradients(X, y, K), CLASSES, math.sqrt(K), 0.25),
        lambda R: Loss.one_vs_rest(R, K),
    ),
    "softmax": Family(
        *(lambda X, y: learn.SoftmaxGradients(X, y, K), CLASSES),
        *(math.sqrt(2.0), 0.5, Loss.softmax),
    ),
    "squared": Family(
        *(lambda X, y: learn.SquaredGradients(X, y, B), REALS, B, 1.0), lambda R: Loss.squared(R, B)
    ),
    "vector_huber": Family(
        *(lambda X, y: learn.VectorHuberGradients(X, y, B), VECTORS, B, 1.0),
        lambda R: Loss.vector_huber(R, B),
    ),
    "hinge": Family(
        *(lambda X, y: learn.SmoothedHingeGradients(X, y, GAMMA), LABELS, 1.0, 1.0 / GAMMA),
        lambda R: Loss.smoothed_hinge(R, GAMMA),
    ),
    "joint_hinge": Family(
        *(lambda X, y: learn.SmoothedHingeGradients(X, y, GAMMA, K), CLASSES),
        *(math.sqrt(K), 1.0 / GAMMA, lambda R: Loss.one_vs_rest(R, K, GAMMA)),
    ),
    "poisson": Family(
        *(lambda X, y: learn.PoissonGradients(X, y, Z_MAX, COUNT_MAX), COUNTS),
        *(COUNT_MAX, math.exp(Z_MAX), lambda R: Loss.poisson(R, Z_MAX, COUNT_MAX)),
    ),
    "gamma": Family(
        lambda X, y: LossGradients(executable("gamma", residual_bound=2.0), X, y),
        *(COUNTS, 2.0, 3.0, lambda R: Loss.gamma(R, 2.0)),
    ),
}
