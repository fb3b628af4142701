"""Rows of bounded norm that do not fit into memory, read in passes over where they lie."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pabi.execute.dense_blocks import Rows, block_length, copy_rows
from pabi.execute.large_columns import LargeColumn
from pabi.execute.large_tables import LargeTable, large_column, large_table, names_among
from pabi.execute.reading_ahead import ahead
from pabi.execute.records import MOST_ROWS, SHORTENED, Records, RowBlock
from pabi.execute.sources import Parts, Steady, held_as, rechunked, storage
from pabi.numbers.errors import InvalidInput
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
        self._table = table = large_table(X) or LargeTable(X)
        self._source, d = table.features(without)
        self.scratch = table.scratch
        self._begin(d, feature_norm, intercept_scaling, ranges)
        self.n = self._checked_once()

    def column(self, cells: Any, argument: str = "y") -> LargeColumn:
        """A column beside the rows: one of the table's, by name, or cells of any kind."""
        return large_column(self._table, cells, argument)

    @classmethod
    def derived(cls, chunks: Parts, of: LargeRecords, width: int, norm: float) -> Self:
        """Rows that are made from others anew in every pass, of `width` columns and at most this norm."""
        own = cls.__new__(cls)
        own._source, own.n, own._table, own.scratch = (
            Steady(chunks, "X"),
            of.n,
            of._table,
            of.scratch,
        )
        own._begin(width, norm, None, None)
        return own

    def _begin(
        self, d: int, feature_norm: float | None, intercept_scaling: float | None, ranges: Any
    ) -> None:
        self.sparse = False
        self._declare(d, feature_norm, intercept_scaling, ranges)
        self._pass: _Pass | None = None

    def blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The requested rows in order, block by block."""
        if not isinstance(rows, slice):
            raise InvalidInput("rows", "expected a slice: a large table is read in order")
        length = block_length(self.d, MOST_ROWS)
        for first in range(rows.start, rows.stop, length):
            last = min(first + length, rows.stop)
            yield self.block_of(
                self.stored(first, last), slice(first - rows.start, last - rows.start)
            )

    def _held(self) -> Records:
        """These rows: they are bounded whenever they are read."""
        return self

    def block_of(self, stored: NDArray[Any], part: slice) -> RowBlock:
        """The block of rows that are held as `stored` has them."""
        features = self.as_numbers(stored)
        return RowBlock(part, features, *self._bounded(features))

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
        for chunk in ahead(self._source.chunks()):
            self._refuse_other_shapes(chunk)
            numbers = held_as(storage(chunk.dtype), chunk)
            n += len(numbers)
            for first in range(0, len(chunk), length):
                self._look_at(numbers[first : first + length])
        if n == 0:
            raise InvalidInput("X", "expected at least one row, got none")
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

    def _refuse_other_shapes(self, chunk: NDArray[Any]) -> None:
        if chunk.ndim != 2 or chunk.shape[1] != self.d:
            raise InvalidInput(
                "X", f"expected {self.d} columns in every part, got {chunk.shape[1:]}"
            )


def records_of(X: Any, *beside: Any) -> Records:
    """The rows of a table as they are, in memory or not; what names a column `beside` is no feature."""
    if (table := large_table(X)) is None:
        return Records(X)
    return LargeRecords(table, without=names_among(*beside))


class _Pass:
    """A pass over a source, from row `at` on."""

    def __init__(self, source: Steady, at: int) -> None:
        self.at = 0
        self._sizes: list[int] = []
        self._rows = rechunked(ahead(source.chunks()), iter(self._sizes.pop, None))
        while self.at < at:
            self.rows(min(MOST_ROWS, at - self.at))

    def rows(self, count: int) -> NDArray[Any]:
        """The next so many rows."""
        self._sizes.append(count)
        rows = next(self._rows, np.empty((0, 0)))
        self.at += len(rows)
        if len(rows) < count:
            raise InvalidInput("X", "expected as many rows in every pass, got fewer")
        return held_as(storage(rows.dtype), rows)

    def finish(self) -> None:
        """Raises InvalidInput where rows are left, or where they were not those of the pass before."""
        self._sizes.append(1)
        if next(self._rows, None) is not None:
            raise InvalidInput("X", "expected as many rows in every pass, got more")
