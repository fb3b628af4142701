"""Blocks of dense rows in doubles: taken without a copy of the whole, clipped, multiplied."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.errors import require
from pabi.numbers.rounding import HALF_ULP, LEAST_SCALED, Array

# Scaling vectors down to a norm that they then never exceed, rounding included.


_TOGETHER = 4096  # columns: within numpy's buffer, beyond which it would cut rows anywhere
# A sum of squares below it, and above its inverse, is as exact as its roundings.
_SQUARED = 2.0**500


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
    peak, unit, length = _scaled(flat)
    target = bound / np.maximum(length, 1.0) * (1.0 - (flat.shape[1] + 16) * HALF_ULP)
    return np.where((peak > target)[:, None], unit * target[:, None], flat).reshape(vectors.shape)


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
    require(
        bound >= LEAST_SCALED,
        "clip_norm",
        f"expected at least {LEAST_SCALED!r}, got {bound!r}: scaling would exceed it",
    )


def dense_lengths(rows: Array) -> tuple[Array, Array]:
    """(largest entry, norm relative to it) of each of (m, d) rows; the true norm is their product.

    1 stands for the largest entry where no square can leave the normal doubles.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = by_row("ij,ij->i", rows, rows)
    peak, length = np.ones(len(rows)), np.sqrt(squares)
    # Row by row: which way a row goes depends on that row alone.
    strange = np.flatnonzero(~((squares > 1.0 / _SQUARED) & (squares < _SQUARED)))
    if len(strange):
        peak[strange], _, length[strange] = _scaled(rows[strange])
    return peak, length


def _scaled(rows: Array) -> tuple[Array, Array, Array]:
    """(largest entry, the row over it, its norm, 1..√d or 0) of each of (m, d) rows.

    Relative to the largest entry nothing over- or underflows, whatever the size of the row.
    """
    peak = np.maximum(np.max(rows, axis=1), -np.min(rows, axis=1))
    unit = rows / np.where((peak > 0.0) & np.isfinite(peak), peak, 1.0)[:, None]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return peak, unit, np.sqrt(by_row("ij,ij->i", unit, unit))


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


# Rows of a dense array as float64 blocks, from data that is never copied as a whole.


Rows = NDArray[np.intp] | slice

_BLOCK = 5 << 16  # entries of a block, 2.5 MB: both products read it from a cache
_MULTIPLE = 32  # of the rows of a block, so that its strips are long (`pabi.execute.blocks`)
_LONG = 1 << 8  # rows of a column that is copied by itself
_GATHERED = 1 << 16  # entries that are gathered as they are, then converted while in the cache


def dense_blocks(
    X: NDArray[Any], rows: Rows, most: int, own: bool
) -> Iterator[tuple[slice, Array]]:
    """(part, (m, d) float64) of the requested rows of (n, d) `X`, m ≤ `most`.

    `rows`: numbers of 0..n − 1, or a slice with both ends. The next block overwrites the one before it, but
    parts of a float64 `X` are not copied unless they must be.
    """
    count, d = rows_in(rows), X.shape[1]
    length = block_length(d, most)
    memory = np.empty((min(length, count), d))
    for first in range(0, count, length):
        part = slice(first, min(first + length, count))
        chosen = part_of(rows, part)
        if isinstance(chosen, slice) and X.dtype == np.float64 and not own:
            yield part, X[chosen]
            continue
        block = memory[: part.stop - part.start]
        _read(X, chosen, block)
        yield part, block


def block_length(d: int, most: int) -> int:
    """The rows of a block of d columns, at most so many."""
    return min(most, max(64, _BLOCK // d) // _MULTIPLE * _MULTIPLE)


def _read(X: NDArray[Any], rows: Rows, block: Array) -> None:
    """Writes the rows into `block`."""
    if isinstance(rows, slice) or not X.flags.c_contiguous:  # `take` would copy all of X first
        copy_rows(X[rows], block)
    elif X.dtype == np.float64:
        # Rows are 0..n − 1 here, and "clip" is the mode that writes to `out` directly.
        np.take(X, rows, axis=0, out=block, mode="clip")
    else:
        together = max(1, _GATHERED // X.shape[1])
        gathered = np.empty((min(together, len(rows)), X.shape[1]), X.dtype)
        for first in range(0, len(rows), together):
            some = rows[first : first + together]
            np.take(X, some, axis=0, out=gathered[: len(some)], mode="clip")
            block[first : first + len(some)] = gathered[: len(some)]


def copy_rows(rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Writes (m, d) `rows`, however they lie in memory, to `out`, where they lie one after another.

    Columns in one piece are copied one by one: numpy would go from column to column for every row, which
    takes three times as long.
    """
    if rows.strides[0] < rows.strides[1] and len(rows) >= _LONG:
        for j in range(rows.shape[1]):
            out[:, j] = rows[:, j]
    else:
        out[...] = rows


def rows_in(rows: Rows) -> int:
    """How many rows are requested."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def part_of(rows: Rows, part: slice) -> Rows:
    """The requested rows at these places of the request."""
    if isinstance(rows, slice):
        return slice(rows.start + part.start, rows.start + part.stop)
    return rows[part]


# The two matrix products of a linear model over a block of dense rows, strip by strip.
#
# With few columns BLAS spends much of a product on copying the rows into an order of its own. OpenBLAS
# has kernels without that copy for products of up to 10⁶ multiplications, so that a block is multiplied
# in strips of as many rows. Other libraries lose nothing: strips are long enough for them.


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


_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"  # doubles put together of shorter numbers


def refuse_emulation() -> None:
    """Raises InvalidInput where a device is told to put doubles together of shorter numbers.

    Those are cut relative to the largest: a long record would take digits of all others.
    """
    require(
        os.environ.get(_EMULATION, "0") == "0",
        _EMULATION,
        "expected it unset: emulated doubles round otherwise",
    )
