"""The least cost of payments that hide what a record adds to a distance, as a quadratic program."""

import math

import numpy as np
import quadprog


def least_payments(c, s, sigma, start=0.0):
    """(lower, upper) bounds on the least Σ (a_k/σ_k)², where z ↦ cz + s − a ends at 0, and a, z ≥ 0.

    In u = a/σ the program is a projection onto a polyhedron. The upper bound is the solver's point,
    the lower one the dual value of its multipliers, which is valid for any multipliers ≥ 0.
    """
    t, row, base = len(c), np.zeros(len(c)), start
    rows, bounds = [], []
    for k in range(t):
        row = c[k] * row
        row[k] = sigma[k]
        base = c[k] * base + s[k]
        # At the end at least everything is paid, and before never more than there is.
        scale = (np.abs(row).max() or 1.0) * (1.0 if k == t - 1 else -1.0)
        rows.append(row / scale)
        bounds.append(base / scale)
    if base == 0.0:
        return 0.0, 0.0
    if not np.any(row > 0.0):
        return math.inf, math.inf
    matrix = np.vstack([*rows, np.eye(t)])
    bound = np.append(bounds, np.zeros(t))
    try:
        u, _, _, _, multipliers, _ = quadprog.solve_qp(np.eye(t), np.zeros(t), matrix.T, bound)
    except ValueError:  # inconsistent: a demand after the last noise
        return math.inf, math.inf
    assert np.all(multipliers >= 0.0)
    assert np.all(matrix @ u >= bound - 1e-10 * (1.0 + np.abs(bound)))
    lower = 2.0 * bound @ multipliers - np.sum((matrix.T @ multipliers) ** 2)
    return float(lower), float(u @ u)
