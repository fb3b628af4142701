"""Cells that are gone through in passes, of a large table or of one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from pabi.execute.reading_ahead import ahead
from pabi.execute.sources import Steady
from pabi.numbers.errors import InvalidInput

Change = Callable[[NDArray[Any]], NDArray[Any]]

_TOGETHER = 1 << 16  # rows of a table in memory


@dataclass(frozen=True, eq=False)
class TablePasses:
    """(n, d) cells of a large table, which are read in every pass.

    `change`: (m, d) cells of some rows ↦ what is seen of them, (m, d), row by row.
    """

    source: Steady
    shape: tuple[int, int]
    change: Change

    @classmethod
    def counted(cls, source: Steady, d: int, change: Change) -> TablePasses:
        """The cells of a source with d columns, all of which were changed once.

        Raises InvalidInput where a change does, or where there are no rows.
        """
        n = 0
        for cells in ahead(source.chunks()):
            if cells.ndim != 2 or cells.shape[1] != d:
                raise InvalidInput(
                    "X", f"expected {d} columns in every part, got {cells.shape[1:]}"
                )
            n += len(change(cells))
        if n == 0:
            raise InvalidInput("X", "expected at least one row, got none")
        return cls(source, (n, d), change)

    def parts(self) -> Iterator[NDArray[Any]]:
        """All rows in turn, some at a time."""
        return map(self.change, ahead(self.source.chunks()))

    def mapped(self, change: Change) -> TablePasses:
        """The cells, changed once more."""
        before = self.change
        return replace(self, change=lambda cells: change(before(cells)))


Cells = NDArray[Any] | TablePasses


def parts_of(table: Cells) -> Iterator[NDArray[Any]]:
    """All rows in turn, some at a time."""
    if isinstance(table, TablePasses):
        return table.parts()
    return (table[first : first + _TOGETHER] for first in range(0, len(table), _TOGETHER))


def changed(table: Cells, change: Change) -> Cells:
    """What becomes of the cells row by row: now, or of those of a large table when they are read."""
    return table.mapped(change) if isinstance(table, TablePasses) else change(table)
