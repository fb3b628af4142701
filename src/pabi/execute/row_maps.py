"""Rows mapped by a matrix that is public, such as one that was released, and brought within a norm again.

What becomes of a row depends on that row, the matrix and public numbers alone. So a guarantee for training on
the mapped rows is one for the rows themselves, once the matrix is released.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.execute.clipping import by_row
from pabi.execute.large_records import LargeRecords
from pabi.execute.records import MOST_ROWS, Records
from pabi.execute.sources import Chunks, Parts
from pabi.numbers.rounding import Array

# Relative: more than single precision rounds a norm by, so that no row of a mapped table is scaled again.
_SHORT = 2.0**-18
_HELD = 1 << 22  # numbers of mapped rows in memory at once, beside the table
_SINGLE = 2.0**100  # norms up to it, and inverses, whose rows single precision holds without loss


@dataclass(frozen=True, eq=False)
class RowMap:
    """x ↦ s·R·P·x/U, x as a linear model sees it, the constant of an intercept included.

    Parameters
    ----------
    matrix : (w, w) symmetric or (w,) array
        P, or its diagonal.
    unit : float, > 0
        U, the largest norm of a row before it is mapped.
    norm : float, > 0
        R, the largest norm of a mapped row.
    equal : bool
        Whether s brings every row to the norm R, less what single precision rounds by; 0 stays 0. If not, s
        is 1, or less for rows that would be longer than that.

    References
    ----------
    docs, "Private preconditioning".
    """

    matrix: Array
    unit: float
    norm: float
    equal: bool

    @property
    def diagonal(self) -> bool:
        """Whether P is a diagonal matrix, which keeps zeros."""
        return self.matrix.ndim == 1

    def applied(self, theta: Array) -> Array:
        """R·P·θ/U, for θ of shape (w,) or (w, K): the weights of rows before they are mapped, s aside."""
        product = (self.matrix * theta.T).T if self.diagonal else self.matrix @ theta
        return np.asarray(self.norm / self.unit * product)

    def factors(self, lengths: Array) -> Array:
        """s of rows for which P·x/U has these norms."""
        most = 1.0 - _SHORT
        if not self.equal:
            return np.asarray(most / np.maximum(lengths, most))
        return np.where(lengths > 0.0, most / np.where(lengths > 0.0, lengths, 1.0), 0.0)

    def mapped(self, records: Records, anywhere: bool = False) -> Records:
        """The mapped rows, of a large table in passes of their own; `anywhere`: as of `table`."""
        if isinstance(records, LargeRecords):
            parts = Parts(lambda: self._tables(records, anywhere))
            return LargeRecords.derived(parts, records, records.width, self.norm)
        return Records._of_own(self.table(records, anywhere), self.norm)

    def _tables(self, records: Records, anywhere: bool) -> Chunks:
        """The rows of `table`, some thousand at a time."""
        kind = self._kind
        return (self._scaled(image).astype(kind) for _, image in self._images(records, anywhere))

    @property
    def _kind(self) -> type[np.floating[Any]]:
        """What mapped rows are held in."""
        return np.float32 if 1.0 / _SINGLE <= self.norm <= _SINGLE else np.float64

    def table(self, records: Records, anywhere: bool = False) -> Any:
        """(n, w) mapped rows, or CSR where the map is diagonal and `records` are sparse.

        They are float32, unless their norm is out of its range. `anywhere`: whether a row's image must be the
        same to the last bit wherever in the table it stands, which takes longer.
        """
        if records.sparse and self.diagonal:
            from scipy.sparse import vstack

            return vstack(
                [self._scaled(image) for _, image in self._images(records, anywhere)], format="csr"
            )
        table = np.empty((records.n, records.width), dtype=self._kind)
        for part, image in self._images(records, anywhere):
            table[part] = self._scaled(image)
        return table

    def scales(self, records: Records) -> tuple[Array, Array]:
        """(s, norms of the mapped rows) of all rows."""
        lengths = np.empty(records.n)
        for part, image in self._images(records, False):
            lengths[part] = _lengths(image)
        factors = self.factors(lengths)
        return factors, self.norm * factors * lengths

    def _images(self, records: Records, anywhere: bool) -> Iterator[tuple[slice, Any]]:
        """(part, P·x/U of its rows) in single precision, dense or CSR."""
        if records.sparse and self.diagonal:
            for block in records.blocks(slice(0, records.n)):
                rows = records.as_seen(block)
                yield block.part, rows.multiply((self.matrix / self.unit)[None, :]).tocsr()
            return
        matrix = self.matrix.astype(np.float32)
        count = max(1, min(MOST_ROWS, _HELD // records.width))
        for first in range(0, records.n, count):
            part = slice(first, min(first + count, records.n))
            rows = (records.dense(part) / self.unit).astype(np.float32)
            if self.diagonal:
                yield part, rows * matrix
            elif anywhere:  # products from BLAS add in another order at the edges of a block
                yield part, _products_by_row(rows, matrix)
            else:
                yield part, rows @ matrix

    def _scaled(self, image: Any) -> Any:
        factors = self.norm * self.factors(_lengths(image))[:, None]
        if isinstance(image, np.ndarray):
            return np.asarray(image * factors)
        return image.multiply(factors).tocsr()


def _products_by_row(rows: Any, matrix: Any) -> Any:
    """rows @ matrix, for a symmetric matrix."""
    return by_row("ij,kj->ik", rows, matrix)


def _lengths(image: Any) -> Array:
    """Norms of rows, dense or CSR, in double precision."""
    if isinstance(image, np.ndarray):
        exact = image.astype(np.float64)
        return np.asarray(np.sqrt(by_row("ij,ij->i", exact, exact)))
    row = np.repeat(np.arange(image.shape[0]), np.diff(image.indptr))
    squares = np.bincount(row, np.square(image.data), minlength=image.shape[0])
    return np.asarray(np.sqrt(squares))
