"""A table as its schema encodes it, read some rows at a time: what was read is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.cli.tables import frames
from pabi.learn.schema import SchemaEncoder, cells_of


@dataclass(frozen=True)
class EncodedTable:
    """The rows of a table: `features` (n, d) as the schema encodes them, other columns as they were read.

    `others`: (n,) cells by name, that are not features.
    """

    features: Any
    others: dict[str, NDArray[Any]]

    @property
    def records(self) -> int:
        """n, the number of rows."""
        return int(self.features.shape[0])


def read_encoded(
    files: Sequence[str], encoder: SchemaEncoder, others: Sequence[str]
) -> EncodedTable:
    """The table in `files`, its rows encoded, and the columns `others` beside them.

    Fits `encoder`, which learns nothing. In memory are 16 384 rows as they were read, and all rows as they
    are encoded: 8 bytes a number, 12 a cell beside a categorical column, twice that while they are put
    together. Raises InvalidInput naming the file, the column or the key of the schema.
    """
    parts: list[Any] = []
    cells: dict[str, list[NDArray[Any]]] = {name: [] for name in others}
    for frame in frames(files, [*encoder.columns, *others]):
        parts.append(encoder.fit(frame).transform(frame))
        for name, column in cells.items():
            column.append(_shared(cells_of(name, frame[name])))
    return EncodedTable(_stacked(parts), {name: _joined(some) for name, some in cells.items()})


def _stacked(parts: list[Any]) -> Any:
    from scipy.sparse import issparse, vstack

    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


def _joined(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """One column of cells of each its own type: joining numbers and text would make text of both."""
    alike = len({column.dtype.kind for column in columns}) == 1
    return np.concatenate(columns if alike else [column.astype(object) for column in columns])


def _shared(cells: NDArray[Any]) -> NDArray[Any]:
    """The cells with equal texts as one object: there are few labels in many rows."""
    if cells.dtype != object:
        return cells
    texts: dict[str, str] = {}
    shared = np.empty(len(cells), dtype=object)
    shared[:] = [texts.setdefault(c, c) if type(c) is str else c for c in cells.tolist()]
    return shared
