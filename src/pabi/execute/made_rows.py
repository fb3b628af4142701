"""Rows that transformers make of those of a large table, anew in every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.reading_ahead import ahead
from pabi.execute.records import MOST_ROWS
from pabi.execute.sources import Chunks, Steady, rechunked
from pabi.features.table_parts import TablePart
from pabi.numbers.errors import InvalidInput

Change = Callable[[TablePart], NDArray[Any]]

_HELD = 1 << 22  # numbers of a part, unless one block of rows has more


@dataclass(frozen=True, eq=False)
class RowsOfChange:
    """What becomes of the rows of a source with d columns, some thousand at a time."""

    rows: Steady
    change: Change
    d: int

    def chunks(self) -> Chunks:
        """All rows in turn."""
        return (np.asarray(self.change(TablePart(part))) for part in row_parts(self.rows, self.d))

    def state(self) -> object:
        """Of what they are made from."""
        return self.rows.source.state()


def row_parts(source: Steady, d: int) -> Iterator[NDArray[Any]]:
    """All rows in turn, in parts of a multiple of the rows of a block. Raises InvalidInput for other columns
    than d."""
    block = max(1, min(MOST_ROWS, _HELD // (d + 1)))
    length = block * max(1, _HELD // (block * d))
    for part in rechunked(ahead(source.chunks()), repeat(length)):
        if part.ndim != 2 or part.shape[1] != d:
            raise InvalidInput("X", f"expected {d} columns in every part, got {part.shape[1:]}")
        yield part


def refuse_containers(transformer: Any) -> None:
    """Raises InvalidInput where scikit-learn would make a frame of what a transformer returns."""
    from sklearn import get_config

    own = getattr(transformer, "_sklearn_output_config", {})
    container = own.get("transform", get_config()["transform_output"])
    if container != "default":
        raise InvalidInput(
            "set_output", f'expected "default" for a large table, got {container!r}: it is no frame'
        )
