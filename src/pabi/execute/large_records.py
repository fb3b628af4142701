"""Rows of bounded norm that do not fit into memory, read in passes over where they lie."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pabi.execute.blocks import Rows, block_length, by_row, copy_rows
from pabi.execute.cells import PLAIN, doubles_beside
from pabi.execute.large_tables import LargeTable, large_table
from pabi.execute.records import MOST_ROWS, SHORTENED, Records, RowBlock
from pabi.execute.sources import Chunks, Parts, Read, held_as, rechunked, storage
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array

_SINGLE = (
    2.0**80
)  # sums of squares up to it, and inverses, are far from the ends of single precision
_FEW_SQUARES = 1 << 12
_WELL_WITHIN = 1.0 - 2.0**-10  # more than sums of so few squares in single precision are off by


class LargeRecords(Records):
    """`Records` of a table that is read in passes: the same rows, to the last bit, in bounded memory.

    Parameters
    ----------
    X : LargeTable, or what it takes
        The table. It is read once here, to count rows and to check them.
    feature_norm, intercept_scaling, ranges : optional
        As for `Records`.
    without : sequence of str
        Columns of the table that are no features.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    shortened : bool
        Whether some row was scaled down or clipped, a fact about the data.
    scratch : path or None
        The folder for scratch files.

    Raises
    ------
    InvalidInput
        The table or a parameter is wrong; the error names it, and no message shows data.

    Notes
    -----
    Rows are asked for one after the other, by slices: whatever goes back begins another pass.

    References
    ----------
    docs, "My data do not fit".
    """

    scratch: str | os.PathLike[str] | None = None

    def __init__(
        self,
        X: Any,
        feature_norm: float | None = None,
        intercept_scaling: float | None = None,
        ranges: Any = None,
        *,
        without: Sequence[str] = (),
    ) -> None:
        table = X if isinstance(X, LargeTable) else LargeTable(X)
        features = table.without(*without)
        self._begin(table, features.features(), feature_norm, intercept_scaling, ranges)
        self._names = features.feature_names()
        self.n = self._checked_once()

    def column(self, cells: Any, argument: str = "y") -> Parts:
        """A column beside the rows: one of the table's, by name, or cells of any kind."""
        return self._table.beside(cells, argument)

    @classmethod
    def derived(cls, read: Read, of: LargeRecords, width: int, norm: float) -> Self:
        """Rows that are made from others anew in every pass, of `width` columns and at most this norm."""
        own = cls.__new__(cls)
        own._begin(of._table, Parts(read, width=width), norm, None, None)
        own.n = of.n
        return own

    def _begin(
        self,
        table: LargeTable,
        source: Parts,
        feature_norm: float | None,
        intercept_scaling: float | None,
        ranges: Any,
    ) -> None:
        assert source.width is not None
        self._table, self._source, self.scratch, self.sparse = table, source, table.scratch, False
        self._declare(source.width, feature_norm, intercept_scaling, ranges)
        self._pass: _Pass | None = None

    def blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The requested rows in order, block by block."""
        if not isinstance(rows, slice):
            raise InvalidInput("rows", "expected a slice: a large table is read in order")
        length = block_length(self.d, MOST_ROWS)
        for first in range(rows.start, rows.stop, length):
            last = min(first + length, rows.stop)
            features = self.as_numbers(self.stored(first, last))
            part = slice(first - rows.start, last - rows.start)
            yield RowBlock(part, features, *self._bounded(features))

    def _held(self) -> Records:
        """These rows: they are bounded whenever they are read."""
        return self

    def as_numbers(self, stored: NDArray[Any]) -> Array:
        """(m, d) float64 rows within the declared ranges, in memory of their own."""
        numbers = np.empty(stored.shape)
        copy_rows(stored, numbers)
        return self._within_ranges(numbers)

    def stored(self, first: int, last: int) -> NDArray[Any]:
        """The rows `first` to `last` as they are held: float32 or float64."""
        if self._pass is None or self._pass.at != first:
            self._pass = _Pass(self._source, first)
        rows = self._pass.rows(last - first)
        if last == self.n:
            self._pass.finish()
            self._pass = None
        return rows

    def _checked_once(self) -> int:
        """How many rows there are, all of which were looked at."""
        n, length = 0, block_length(self.d, MOST_ROWS)
        for chunk in self._source:
            if chunk.dtype.kind not in PLAIN:
                chunk = doubles_beside(list(chunk.T), self._names)
            numbers = held_as(storage(chunk.dtype), chunk)
            n += len(numbers)
            for first in range(0, len(chunk), length):
                self._look_at(numbers[first : first + length])
        require(n, "X", "expected at least one row, got none")
        return n

    def _look_at(self, rows: NDArray[Any]) -> None:
        """Notes whether some of the rows are shortened. Raises InvalidInput for wrong numbers."""
        if self._plainly_within(rows):
            return
        scale, _ = self._bounded(self.as_numbers(rows))
        self.shortened = (
            self.shortened or bool(np.any(scale < SHORTENED)) or self._beyond_ranges(rows)
        )

    def _plainly_within(self, rows: NDArray[Any]) -> bool:
        """Whether single precision shows that all rows are finite and well within the norm.

        Where it does not, they are looked at in double precision. A sum of d squares is off by less than a
        relative (d + 4)·2⁻²⁴, and what underflows is nothing beside a limit of 2⁻⁸⁰.
        """
        if rows.dtype != np.float32 or self.reach is not None or self.d > _FEW_SQUARES:
            return False
        limit = _SINGLE if self.feature_norm is None else self.feature_norm**2
        if not 1.0 / _SINGLE <= limit <= _SINGLE:
            return False
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows)
            return bool(np.max(squares, initial=0.0) <= limit * _WELL_WITHIN)  # NaN is not


def records_of(X: Any, *bounds: Any, without: Sequence[str] = ()) -> Records:
    """The rows of a table within bounds as of `Records`; `without`: columns that are no features."""
    if (table := large_table(X)) is None:
        return Records(X, *bounds)
    return LargeRecords(table, *bounds, without=without)


class _Pass:
    """A pass over a source, from row `at` on."""

    def __init__(self, source: Parts, at: int) -> None:
        self.at = 0
        self._sizes: list[int] = []
        self._rows = rechunked(iter(source), iter(self._sizes.pop, None))
        while self.at < at:
            self.rows(min(MOST_ROWS, at - self.at))

    def rows(self, count: int) -> NDArray[Any]:
        """The next so many rows."""
        self._sizes.append(count)
        rows = next(self._rows, np.empty((0, 0)))
        self.at += len(rows)
        require(len(rows) >= count, "X", "expected as many rows in every pass, got fewer")
        return held_as(storage(rows.dtype), rows)

    def finish(self) -> None:
        """Raises InvalidInput where rows are left, or where they were not those of the pass before."""
        self._sizes.append(1)
        require(
            next(self._rows, None) is None, "X", "expected as many rows in every pass, got more"
        )


# Rows mapped by a matrix that is public, such as one that was released, and brought within a norm again.
#
# What becomes of a row depends on that row, the matrix and public numbers alone. So a guarantee for
# training on the mapped rows is one for the rows themselves, once the matrix is released.


# Relative: more than single precision rounds a norm by, so that no row of a mapped table is scaled again.
_SHORT = 2.0**-18
_HELD = 1 << 22  # numbers of mapped rows in memory at once, beside the table
_SINGLE_MAPPED = (
    2.0**100
)  # norms up to it, and inverses, whose rows single precision holds without loss


@dataclass(frozen=True, eq=False)
class RowMap:
    """x ↦ s·R·P·x/U, x as a linear model sees it, the constant of an intercept included.

    `matrix`: P, (w, w) and symmetric, or its diagonal. `unit`: U, the unit of rows before. `norm`: R, that of
    the longest row after. `equal`: whether s brings every row to the norm R, less what single precision
    rounds by. If not, s is 1, or less for rows that would be longer. Source: docs, "Private preconditioning".
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
            read = partial(self._tables, records, anywhere)
            return LargeRecords.derived(read, records, records.width, self.norm)
        return Records._of_own(self.table(records, anywhere), self.norm)

    def _tables(self, records: Records, anywhere: bool) -> Chunks:
        """The rows of `table`, some thousand at a time."""
        kind = self._kind
        return (self._scaled(image).astype(kind) for _, image in self._images(records, anywhere))

    @property
    def _kind(self) -> type[np.floating[Any]]:
        """What mapped rows are held in."""
        return np.float32 if 1.0 / _SINGLE_MAPPED <= self.norm <= _SINGLE_MAPPED else np.float64

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
                scales = (self.matrix / self.unit)[None, :]
                yield block.part, records.as_seen(block).multiply(scales).tocsr()
            return
        matrix: Any = self.matrix.astype(np.float32)
        count = max(1, min(MOST_ROWS, _HELD // records.width))
        for first in range(0, records.n, count):
            part = slice(first, min(first + count, records.n))
            rows: Any = (records.dense(part) / self.unit).astype(np.float32)
            if self.diagonal:
                yield part, rows * matrix
            elif anywhere:  # products from BLAS add in another order at the edges of a block
                yield part, by_row("ij,kj->ik", rows, matrix)  # a symmetric one
            else:
                yield part, rows @ matrix

    def _scaled(self, image: Any) -> Any:
        factors = self.norm * self.factors(_lengths(image))[:, None]
        if isinstance(image, np.ndarray):
            return np.asarray(image * factors)
        return image.multiply(factors).tocsr()


def _lengths(image: Any) -> Array:
    """Norms of rows, dense or CSR, in double precision."""
    if isinstance(image, np.ndarray):
        exact = image.astype(np.float64)
        return np.asarray(np.sqrt(by_row("ij,ij->i", exact, exact)))
    row = np.repeat(np.arange(image.shape[0]), np.diff(image.indptr))
    squares = np.bincount(row, np.square(image.data), minlength=image.shape[0])
    return np.asarray(np.sqrt(squares))
