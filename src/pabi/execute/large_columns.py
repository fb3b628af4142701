"""Targets and weights of rows that do not fit into memory: one column, read some rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.sources import Chunks, Parts, Slices, Steady, rechunked
from pabi.features.cells import cells_of, joined
from pabi.numbers.errors import InvalidInput

_TOGETHER = 1 << 16  # cells


@dataclass(frozen=True, eq=False)
class LargeColumn:
    """Cells, one a row or (K,) a row, and what becomes of them row by row.

    `source`: the cells as they are. `change`: (m, …) cells ↦ (m, …), each from itself alone.
    """

    source: Steady
    change: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    def chunks(self) -> Chunks:
        """All cells in turn, changed."""
        return map(self.change, self.source.chunks())

    def mapped(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> LargeColumn:
        """The cells, changed once more."""
        before = self.change
        return replace(self, change=lambda cells: change(before(cells)))

    def first(self) -> NDArray[Any]:
        """The first cells, at least one. Raises InvalidInput where there is none."""
        cells = next(filter(len, self.chunks()), None)  # a part may have no rows
        if cells is None:
            raise InvalidInput(self.source.name, "expected at least one row, got none")
        return cells

    def checked(self, rows: int | None = None) -> int:
        """The number of cells, all of which were changed once.

        Raises InvalidInput where a change does, or where there are not so many.
        """
        count = sum(map(len, self.chunks()))
        if rows is not None and count != rows:
            raise InvalidInput(self.source.name, "expected as many rows as X has")
        return count

    def whole(self) -> NDArray[Any]:
        """All cells, in memory."""
        return joined(list(self.chunks()))


def column_of(cells: Any, name: str) -> LargeColumn:
    """The column of an array in memory or memory-mapped."""
    return LargeColumn(Steady(Slices(cells_of(cells)), name))


def applied(cells: Any, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    """What becomes of cells in memory, now, or of those of a `LargeColumn`, when they are read."""
    return cells.mapped(change) if isinstance(cells, LargeColumn) else change(cells)


def first_of(cells: Any) -> NDArray[Any]:
    """Some cells, at least one."""
    return cells.first() if isinstance(cells, LargeColumn) else np.asarray(cells)


def labels_of(cells: Any) -> NDArray[Any]:
    """The distinct cells, in order; of a `LargeColumn` in one pass."""
    if not isinstance(cells, LargeColumn):
        return np.unique(cells)
    labels: NDArray[Any] | None = None
    for chunk in cells.chunks():
        own = np.unique(chunk)
        try:
            labels = own if labels is None else np.unique(joined([labels, own]))
        except TypeError:
            raise InvalidInput("y", "expected labels that are all text, or all numbers") from None
    return cells.first() if labels is None else labels


def product(one: Any, other: Any) -> Any:
    """The products of weights, one of which at least is a `LargeColumn`."""
    columns = [
        c if isinstance(c, LargeColumn) else column_of(c, "sample_weight") for c in (one, other)
    ]

    def chunks() -> Chunks:
        sides = (rechunked(column.chunks(), repeat(_TOGETHER)) for column in columns)
        return (left * right for left, right in zip(*sides, strict=True))

    return LargeColumn(Steady(Parts(chunks), "sample_weight"))
