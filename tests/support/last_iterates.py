"""The last iterate of a run with random batches in which one record alone has a gradient, as a mixture."""

import itertools
import math

import numpy as np
from scipy.special import ndtr

from pabi import NoisySGD

_EDGES = np.linspace(-12.0, 12.0, 6_001)  # of cells, in standard deviations


def histogram(run: NoisySGD, gradient: float) -> np.ndarray:
    """Probabilities of cells of the last iterate of x ← (1 − ηλ)x − η(B·gradient/b + ξ), B ~ Bernoulli(p) in
    each step with data: a linear loss and the regulariser alone. A cell tells less than x does."""
    steps, data, p = run.steps, run.data_steps, run.batch_size / run.n
    eta, c = float(run.step_size), 1.0 - float(run.step_size) * run.loss.l2
    powers = c ** np.arange(steps - 1.0, -1.0, -1.0)
    std = eta * float(run.noise_std) * math.sqrt(float(np.sum(powers**2)))
    cells = np.zeros(_EDGES.size - 1)
    for drawn in itertools.product((0, 1), repeat=data):
        mean = -eta * gradient / run.batch_size * float(np.dot(drawn, powers[:data]))
        weight = math.prod(p if b else 1.0 - p for b in drawn)
        cells += weight * np.diff(ndtr(_EDGES - mean / std))
    return cells


def delta(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """The larger of δ(P‖Q)(ε) and δ(Q‖P)(ε)."""
    return max(
        float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
        for p, q in ((one, other), (other, one))
    )


def truth(run: NoisySGD, epsilon: float) -> float:
    """δ at `epsilon` of the record whose gradient is C against −C, or against 0."""
    size = float(run.clip_norm)
    opposite = -size if run.adjacency == "replace_one" else 0.0
    return delta(histogram(run, size), histogram(run, opposite), epsilon)
