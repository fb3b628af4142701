"""Exact private selections: the law of the best of K runs, computed without the library."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def generating(x: Array, gamma: float, shape: float) -> Array:
    """E x^K of the truncated negative binomial law, in closed form."""
    inner = 1.0 - (1.0 - gamma) * x
    if shape == 0.0:
        return np.log(inner) / np.log(gamma)
    return (inner**-shape - 1.0) / (gamma**-shape - 1.0)


def mean(gamma: float, shape: float) -> float:
    """E[K], the derivative of the generating function at 1."""
    if shape == 0.0:
        return (1.0 - gamma) / (gamma * np.log(1.0 / gamma))
    return shape * (1.0 - gamma) / (gamma * (1.0 - gamma**shape))


def masses(gamma: float, shape: float, most: int) -> Array:
    """P(K = 1), …, P(K = most), by their recursion."""
    first = (1.0 - gamma) / np.log(1.0 / gamma)
    if shape != 0.0:
        first = shape * (1.0 - gamma) / (gamma**-shape - 1.0)
    k = np.arange(1.0, most)
    return first * np.concatenate([[1.0], np.cumprod((1.0 - gamma) * (k + shape) / (k + 1.0))])


def best_of(q: Array, cells: NDArray[np.intp], gamma: float, shape: float) -> Array:
    """The law of the best run. `q`: of one run's outputs; `cells`: how good each is, equal ones are ties.

    Of a tie the first run counts: given its cell, the output has the law of one run in that cell.
    """
    result = np.zeros_like(q)
    for cell in np.unique(cells):
        here = cells == cell
        below, at = q[cells < cell].sum(), q[here].sum()
        if at > 0.0:
            ends = generating(np.array([below, min(1.0, below + at)]), gamma, shape)
            result[here] = q[here] / at * (ends[1] - ends[0])
    return result


def delta(p: Array, q: Array, epsilon: Array) -> Array:
    """δ(P‖Q) at many ε, by its sum."""
    return np.maximum(p - np.exp(epsilon)[:, None] * q, 0.0).sum(axis=1)


def log_ratio(p: Array, q: Array, gamma: float) -> float:
    """log R of T(P, Q) by its definition: the largest ratio over all tests, at the corners of T."""
    order = np.argsort(-q / p, kind="stable")
    level, power = np.cumsum(p[order]), np.cumsum(q[order])
    return float(
        np.log(max(1.0, ((gamma + (1 - gamma) * power) / (gamma + (1 - gamma) * level)).max()))
    )
