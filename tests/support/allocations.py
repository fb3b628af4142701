"""Secret steps from their definition (docs, "Theory", 6.3), for few labels and for many.

δ(ε) = E(Σ w·ξ + w_0·(1 − κ))⁺. The normal variable of a label is cut into cells on either side of 0, whose
values are replaced by their means: by Jensen's inequality that is below the truth, and near it if cells are
small.
"""

import itertools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

import pabi

REACH = 12.0  # standard deviations
KINDS = list(itertools.product((False, True), repeat=2))  # (opposite, displaces)

# (opposite, displaces, order) ↦ the means that U and V compare: E^(m) is exp(mz − m²/2).
_MEANS = {
    (False, False, 0): ((1, 0), (1, 0)),
    (False, False, 1): ((0, 1), (0, 1)),
    (True, False, 0): ((1, -1), (1, -1)),
    (False, True, 0): ((2, 1), (0, 1)),
    (False, True, 1): ((1, 0), (1, 2)),
    (True, True, 0): ((2, 0), (0, 2)),
}


def orders(opposite):
    """Those that may differ."""
    return (0,) if opposite else (0, 1)


def _mass(left, right, mean):
    """P(left < N(mean, 1) < right) without cancellation."""
    left, right = left - mean, right - mean
    return np.where(left > 0.0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def _part(means, size, kappa, sign, cells):
    """(values, probabilities) of one side of 0."""
    x, y = (m * size for m in means)

    def value(z):
        return sign * (1.0 - kappa * math.exp((y - x) * z - 0.5 * (y * y - x * x)))

    end = REACH + 3.0 * size
    if value(-end) * value(end) > 0.0:
        # Of one sign as far as we look.
        low, high = (-end, end) if value(0.0) > 0.0 else (end, end)
    else:
        root = brentq(value, -end, end, xtol=1e-14)
        low, high = (root, end) if value(end) > 0.0 else (-end, root)
    edges = np.linspace(low, high, cells + 1)
    left, right = edges[:-1], edges[1:]
    p = _mass(left, right, 0.0)
    change = _mass(left, right, x) - kappa * _mass(left, right, y)
    kept = p > 1e-290
    return (change[kept] / p[kept]), p[kept]


def label(size, epsilon, opposite, displaces, order, cells):
    """(values, probabilities) of ξ, a little below it in the convex order."""
    above, below = _MEANS[opposite, displaces, order]
    kappa = math.exp(epsilon)
    up, p = _part(above, size, kappa, 1.0, cells)
    down, q = _part(below, size, kappa, -1.0, cells)
    up, down = np.maximum(up, 0.0), np.minimum(down, 0.0)
    rest = max(0.0, 1.0 - p.sum() - q.sum())
    return np.concatenate([down, [0.0], up]), np.concatenate([q, [rest], p])


def _excess(values, p):
    """c ↦ E(ξ + c)⁺ of a finite law."""
    index = np.argsort(-values, kind="stable")
    values, p = values[index], p[index]
    mass = np.concatenate([[0.0], np.cumsum(p)])
    mean = np.concatenate([[0.0], np.cumsum(p * values)])

    def excess(c):
        i = np.searchsorted(-values, c, side="left")
        return mean[i] + c * mass[i]

    return excess


def delta_of_few(weights, sizes, epsilon, opposite, displaces, order, cells=(20000, 6000, 700)):
    """δ at ε ≥ 0 of one to three labels, hardly below the truth."""
    n = cells[len(weights) - 1]
    laws = [label(a, epsilon, opposite, displaces, order, n) for a in sizes]
    laws = [(w * y, p) for w, (y, p) in zip(weights, laws, strict=True)]
    at = (1.0 - math.fsum(weights)) * -math.expm1(epsilon)
    last = _excess(*laws[-1])
    if len(laws) == 1:
        return float(last(at))
    (y, p), more = laws[0], laws[1:-1]
    if not more:
        return float(p @ last(at + y))
    ((v, q),) = more
    return float(sum(q[i] * (p @ last(at + y + v[i])) for i in range(v.size)))


def delta_with_hub(weight, size, hub, epsilon, opposite, order, cells=3000):
    """δ at ε ≥ 0 of one label and the last batch, hardly below the truth: what the last batch shows is
    summed over, too."""
    y, p = label(size, epsilon, opposite, True, order, cells)
    edges = np.linspace(-REACH, REACH, 1201)
    z, q = 0.5 * (edges[1:] + edges[:-1]), _mass(edges[:-1], edges[1:], 0.0)
    total, kappa = 0.0, math.exp(epsilon)
    for at, mass in zip(z, q, strict=True):
        up, down = (math.exp(s * hub * at - 0.5 * hub * hub) for s in (1.0, -1.0))
        first, second = ((up, 1.0), (1.0, down))[order] if not opposite else (up, down)
        last = (1.0 - weight) * (first - kappa * second)
        total += mass * float(p @ np.maximum(weight * y * np.where(y > 0.0, up, down) + last, 0.0))
    return total


def delta_of_many(groups, epsilon, opposite, displaces, order, step, points=1 << 20):
    """About δ at ε ≥ 0 of groups (weight of a label, size, count), by convolution on a grid.

    Values go to the two grid points around them, so that means are kept. Those above the end of the grid
    are moved there; what their mean loses is added in the end. So far below its end nothing matters.
    Absolute errors are about 1e-14."""
    transform, lost = np.ones(points // 2 + 1, dtype=complex), 0.0
    end = points // 2
    for weight, size, count in groups:
        y, p = label(size, epsilon, opposite, displaces, order, 20000)
        y = weight * y / step
        over = y > end / 2
        lost += count * step * float(p[over] @ (y[over] - end / 2))
        y = np.where(over, end / 2, np.maximum(y, -end / 2))
        floor = np.floor(y)
        up = y - floor
        i = floor.astype(int) % points
        law = np.bincount(i, p * (1.0 - up), points) + np.bincount((i + 1) % points, p * up, points)
        transform *= np.fft.rfft(law) ** count
    law = np.fft.irfft(transform, points)
    value = step * np.where(np.arange(points) < end, np.arange(points), np.arange(points) - points)
    at = (1.0 - math.fsum(w * n for w, _, n in groups)) * -math.expm1(epsilon)
    return float(law @ np.maximum(value + at, 0.0)) + lost


def run_in_bins(**changes):
    """A convex run of records in secret bins, with the fields changed as said."""
    fields = {"loss": pabi.Loss.convex(1.0, gradient_bound=1.0), "batches": pabi.BallsInBins(20)}
    fields |= {"n": 60, "epochs": 3, "step_size": 0.5, "noise_multiplier": 1.5}
    return pabi.NoisySGD(**{**fields, "adjacency": "zero_out", **changes})
