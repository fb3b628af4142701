"""Scaling vectors down to a norm that they then never exceed, rounding included."""

from __future__ import annotations

import numpy as np

from pabi.rounding import Array


def clip_norms(vectors: Array, bound: float) -> Array:
    """`vectors` with each longer than `bound` scaled down to it; short ones as they are.

    `vectors`: (m, *shape), finite; the norm is Euclidean over everything but the first axis.
    `bound`: positive, same unit. The true norms of the result, not only the computed ones, are at
    most `bound`. The input is left alone.

    This is the exact clip to a bound smaller by a relative (d + 16)·2⁻⁵³, up to the rounding of the
    product: a computed norm of d numbers is off by at most about (d/2 + 2)·2⁻⁵³ in any order of
    summation, and quotient and product lose a few units more.
    """
    flat = vectors.reshape(len(vectors), -1)
    if flat.size == 0:
        return vectors
    # Relative to the largest entry nothing over- or underflows, whatever the size of the vector.
    peak = np.max(np.abs(flat), axis=1)
    unit = flat / np.where(peak > 0.0, peak, 1.0)[:, None]
    length = np.maximum(np.sqrt(np.einsum("ij,ij->i", unit, unit)), 1.0)  # 1..√d where peak > 0
    target = bound / length * (1.0 - (flat.shape[1] + 16) * 2.0**-53)
    clipped = np.where((peak > target)[:, None], unit * target[:, None], flat)
    return clipped.reshape(vectors.shape)
