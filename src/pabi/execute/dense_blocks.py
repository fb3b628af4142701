"""Rows of a dense array as float64 blocks, from data that is never copied as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.rounding import Array

Rows = NDArray[np.intp] | slice

_BLOCK = 5 << 15  # entries of a block, 1.25 MB: both products read it from the cache
_MULTIPLE = 32  # of the rows of a block, so that its strips are long (`pabi.execute.products`)
_LONG = 1 << 8  # rows of a column that is copied by itself
_GATHERED = 1 << 16  # entries that are gathered as they are, then converted while in the cache


def dense_blocks(
    X: NDArray[Any], rows: Rows, most: int, own: bool
) -> Iterator[tuple[slice, Array]]:
    """(part, (m, d) float64) of the requested rows of (n, d) `X`, m ≤ `most`.

    `rows`: numbers of 0..n − 1, or a slice with both ends. `own`: whether blocks may be changed. The next
    block overwrites the one before it, but parts of a float64 `X` are not copied unless they must be.
    """
    count, d = rows_in(rows), X.shape[1]
    length = block_length(d, most)
    memory = None
    for first in range(0, count, length):
        part = slice(first, min(first + length, count))
        chosen = part_of(rows, part)
        if isinstance(chosen, slice) and X.dtype == np.float64 and not own:
            yield part, X[chosen]
            continue
        if memory is None:
            memory = np.empty((min(length, count), d))
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
