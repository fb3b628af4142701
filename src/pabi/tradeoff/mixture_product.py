"""The product of two mixtures of Gaussian pairs, kept to a bounded number of parts.

Labels and pairs are independent, so that the parts are G(√(μ_i² + μ_j²)) with weights w_i·w_j.
Every rounding moves mass to a larger μ, which only raises δ at every ε.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pabi.numbers.rounding import Array, fraction_up

MOST_PARTS = 4096
_MOST_PAIRS = 1 << 20  # formed one by one; beyond, both factors go to a grid first
_SLACK = 1e-6  # cells that are forgiven, so that what lies on a grid stays there despite rounding
_NARROWEST = 1e-9  # relative: the width of a cell, so that rounding is a small part of the slack
_SQUARE_ROOT = 1e-14  # relative: more than the rounding of a few operations and a square root
_PER_TERM = 1.2e-16  # relative: one rounding for every term of a sum

Parts = tuple[Array, Array]  # μ increasing, weights


def product_mixture(a: Parts, b: Parts) -> Parts:
    """Distinct μ and weights of the product, at most `MOST_PARTS`, weights summing to 1."""
    if a[0].size * b[0].size <= _MOST_PAIRS:
        mus, index = np.unique(_hypot_up(a[0], b[0]), return_inverse=True)
        if mus.size <= MOST_PARTS:
            weights = np.multiply.outer(a[1], b[1]).ravel()
            sums = np.bincount(index.ravel(), weights=weights, minlength=mus.size)
            counts = np.bincount(index.ravel(), minlength=mus.size)
            return _finish(mus, sums.astype(np.float64), counts.astype(np.float64))
    return _on_grid(a, b)


def summing_to_one(weights: Array) -> Array:
    """`weights`, sorted by μ, the excess over 1 taken from (or the lack given to) the first."""
    surplus = sum(map(Fraction, weights.tolist()), Fraction(0)) - 1
    result = weights.copy()
    for j, w in enumerate(map(Fraction, weights.tolist())):
        left = max(Fraction(0), w - surplus)
        result[j] = fraction_up(left)
        surplus -= w - left
        if surplus <= 0:
            break
    return result


def _on_grid(a: Parts, b: Parts) -> Parts:
    """Both factors rounded up onto one grid in μ², where the product is a convolution."""
    (finite_a, infinite_a), (finite_b, infinite_b) = _split(a), _split(b)
    if finite_a[0].size == 0 or finite_b[0].size == 0:
        return np.array([np.inf]), np.array([1.0])
    scale = max(float(finite_a[0][-1]), float(finite_b[0][-1]))
    low = [float(np.square(m[0] / scale)) for m, _ in (finite_a, finite_b)]
    top = [float(np.square(m[-1] / scale)) for m, _ in (finite_a, finite_b)]
    cells = MOST_PARTS - 8
    width = max((sum(top) - sum(low)) / cells, _NARROWEST * sum(top))
    cells_a = _to_cells(finite_a, scale, low[0], width)
    cells_b = _to_cells(finite_b, scale, low[1], width)
    sums = np.convolve(cells_a, cells_b)
    steps = np.arange(sums.size)
    # Twice the slack for each factor, half of it against rounding: squares err by 5e-16, at most
    # 5e-7 cells.
    mus = np.sqrt(sum(low) + (steps + 4.0 * _SLACK) * width) * (1.0 + _SQUARE_ROOT) * scale
    infinite = infinite_a + infinite_b * (1.0 - infinite_a)
    if infinite > 0.0:
        mus, sums = np.append(mus, np.inf), np.append(sums, infinite)
    return _finish(mus, sums, np.full(sums.size, float(min(cells_a.size, cells_b.size))))


def _split(parts: Parts) -> tuple[Parts, float]:
    """(the parts of finite μ, the weight of μ = ∞)."""
    finite = np.isfinite(parts[0])
    return (parts[0][finite], parts[1][finite]), float(parts[1][~finite].sum())


def _to_cells(parts: Parts, scale: float, low: float, width: float) -> Array:
    """The weight at low, low + width, low + 2·width, …, each part in the first cell not below it."""
    position = (np.square(parts[0] / scale) - low) / width
    index = np.maximum(np.ceil(position - _SLACK), 0.0).astype(np.int64)
    sums: Array = np.bincount(index, weights=parts[1]).astype(np.float64)
    return sums * (1.0 + _PER_TERM * (len(parts[0]) + 4.0))


def _hypot_up(a: Array, b: Array) -> Array:
    """√(a_i² + b_j²) rounded up, exact where one is 0."""
    x, y = a[:, None], b[None, :]
    with np.errstate(over="ignore", under="ignore"):
        root = np.nextafter(np.nextafter(np.hypot(x, y), np.inf), np.inf)
    return np.asarray(np.where(x == 0.0, y, np.where(y == 0.0, x, root)))


def _finish(mus: Array, sums: Array, counts: Array) -> Parts:
    """The nonempty cells, raised by more than the rounding of their sums, then made to add to 1."""
    filled = sums > 0.0
    raised = np.nextafter(sums[filled] * (1.0 + _PER_TERM * (counts[filled] + 4.0)), np.inf)
    weights = summing_to_one(raised)
    positive = weights > 0.0
    return mus[filled][positive], weights[positive]
