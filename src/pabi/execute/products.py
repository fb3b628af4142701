"""The two matrix products of a linear model over a block of dense rows, strip by strip.

With few columns BLAS spends much of a product on copying the rows into an order of its own. OpenBLAS has
kernels without that copy for products of up to 10⁶ multiplications, so that a block is multiplied in strips
of as many rows. Other libraries lose nothing: strips are long enough for them.
"""

from __future__ import annotations

import numpy as np

from pabi.numbers.rounding import Array

_UNCOPIED = 10**6  # multiplications of a product without a copy of its rows
_LEAST = 32  # rows of a strip; shorter ones cost more than the copy
_ALL = 1 << 62  # more rows than there are


def predictors(features: Array, theta: Array) -> Array:
    """(m,) or (m, K) `features` @ `theta`, for (m, d) features and θ of shape (d,) or (d, K).

    K predictors come column by column in memory: derivatives of a loss are fastest in that order.
    """
    if theta.ndim == 1:
        return np.asarray(features @ theta)
    m, strip = len(features), _strip(*theta.shape)
    product = np.empty((*theta.shape[1:], m)).T
    for first in range(0, m, strip):
        product[first : first + strip] = features[first : first + strip] @ theta
    return product


def add_weighted_sum(features: Array, weight: Array, total: Array) -> None:
    """Adds Σ weight_i·x_i over the rows x_i of (m, d) `features` to `total`, (d,) or (d, K).

    `weight`: (m,) or (m, K). No coordinate goes through more than m additions.
    """
    across, total = weight.T, total.T  # products that read the features along their rows: faster
    if weight.ndim == 1:
        total += across @ features
        return
    strip = _strip(features.shape[1], weight.shape[1])
    for first in range(0, len(features), strip):
        total += across[:, first : first + strip] @ features[first : first + strip]


def _strip(d: int, outputs: int) -> int:
    """How many rows of d features are multiplied by so many columns at once."""
    rows = _UNCOPIED // (d * outputs) // _LEAST * _LEAST
    return rows if rows > 0 else _ALL
