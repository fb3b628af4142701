"""Scaling vectors down to a norm that they then never exceed, rounding included."""

from __future__ import annotations

import math

import numpy as np

from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP
from pabi.numbers.rounding import LEAST_SCALED, Array

_TOGETHER = 4096  # columns: within numpy's buffer, beyond which it would cut rows anywhere


def clip_norms(vectors: Array, bound: float) -> Array:
    """`vectors` with each longer than `bound` scaled down to it; short ones as they are.

    `vectors`: (m, *shape), finite; the norm is Euclidean over everything but the first axis.
    `bound`: at least 1e-290, same unit. The true norms of the result, not only the computed ones, are at
    most `bound`. The input is left alone. Raises InvalidInput for a smaller bound: entries of the result
    would lose digits, and be rounded up.

    This is the exact clip to a bound smaller by a relative (d + 16)·2⁻⁵³, up to the rounding of the
    product: a computed norm of d numbers is off by at most about (d/2 + 2)·2⁻⁵³ in any order of
    summation, and quotient and product lose a few units more.
    """
    refuse_small(bound)
    if vectors.size == 0:
        return vectors
    flat = vectors.reshape(len(vectors), -1)
    # Relative to the largest entry nothing over- or underflows, whatever the size of the vector.
    peak = np.max(np.abs(flat), axis=1)
    unit = flat / np.where(peak > 0.0, peak, 1.0)[:, None]
    length = np.maximum(np.sqrt(by_row("ij,ij->i", unit, unit)), 1.0)  # 1..√d where peak > 0
    target = bound / length * (1.0 - (flat.shape[1] + 16) * HALF_ULP)
    clipped = np.where((peak > target)[:, None], unit * target[:, None], flat)
    return clipped.reshape(vectors.shape)


def clip_coordinates(vectors: Array, bound: float) -> Array:
    """`vectors` (m, *shape) with each of their d coordinates clipped to ±bound/√d, rounded down.

    No true norm exceeds `bound`, at least 1e-290. The input is left alone.
    """
    refuse_small(bound)
    d = max(1, vectors[:1].size)
    most = bound / math.sqrt(d) * (1.0 - 4.0 * HALF_ULP)  # below the roundings of root and quotient
    return np.clip(vectors, -most, most)


def refuse_small(bound: float) -> None:
    """Raises InvalidInput for a bound below 1e-290."""
    if not bound >= LEAST_SCALED:
        raise InvalidInput(
            "clip_norm",
            f"expected at least {LEAST_SCALED!r}, got {bound!r}: scaling would exceed it",
        )


def by_row(subscripts: str, rows: Array, other: Array) -> Array:
    """np.einsum of (m, d) `rows` and `other`, summed over the last axis of both.

    To the last bit, what a row yields depends on that row and on `other` alone, not on its place or
    on how many rows there are. Matrix products from BLAS add in another order at the edges of a block.
    """
    total: Array = np.einsum(subscripts, rows[:, :_TOGETHER], other[..., :_TOGETHER])
    for first in range(_TOGETHER, rows.shape[1], _TOGETHER):
        part = slice(first, first + _TOGETHER)
        total += np.einsum(subscripts, rows[:, part], other[..., part])
    return total
