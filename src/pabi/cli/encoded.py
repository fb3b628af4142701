"""A table as its schema encodes it, read some rows at a time: what was read is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.cli.table_files import STANDARD_INPUT
from pabi.cli.tables import frames
from pabi.execute.array_files import column_at, stamps
from pabi.execute.array_names import is_array_file
from pabi.execute.large_columns import LargeColumn
from pabi.execute.large_tables import LargeTable, MadeRows
from pabi.execute.sources import Steady
from pabi.features.cells import PLAIN, cells_of, joined, texts_of
from pabi.learn.schema import SchemaEncoder
from pabi.numbers.errors import InvalidInput


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
    together. A column that is an array in a file is read from there. Raises InvalidInput naming the file, the
    column or the key of the schema.
    """
    parts: list[Any] = []
    arrays = {name: column_at(name).whole() for name in others if is_array_file(name)}
    cells: dict[str, list[NDArray[Any]]] = {name: [] for name in others if name not in arrays}
    for frame in frames(files, [*encoder.columns, *cells]):
        parts.append(encoder.fit(frame).transform(frame))
        for name, column in cells.items():
            column.append(_shared(cells_of(frame[name])))
    table = EncodedTable(
        _stacked(parts), arrays | {name: joined(some) for name, some in cells.items()}
    )
    for name, array in arrays.items():
        if len(array) != table.records:
            raise InvalidInput(name, "expected as many rows as the table has")
    return table


@dataclass(eq=False)
class EncodedRows:
    """The same rows for a model that takes them in passes: each pass reads the files anew.

    `encoder`: of arrays. It says once what is outside of its schema.
    """

    files: Sequence[str]
    encoder: SchemaEncoder
    _checked: bool = False

    def chunks(self) -> Iterator[NDArray[Any]]:
        """(m, d) float64, some thousand rows at a time."""
        for frame in frames(self.files, list(self.encoder.columns)):
            if not self._checked:
                self.encoder.fit(frame)
            yield self.encoder.transform(frame)
        self._checked = True

    def state(self) -> object:
        """Sizes and times of the files."""
        return [stamps(file) for file in self.files]


@dataclass(frozen=True)
class Cells:
    """A column of the files as it was read."""

    files: Sequence[str]
    name: str

    def chunks(self) -> Iterator[NDArray[Any]]:
        """(m,) cells, some thousand at a time."""
        for frame in frames(self.files, [self.name]):
            yield cells_of(frame[self.name])

    def state(self) -> object:
        """Sizes and times of the files."""
        return [stamps(file) for file in self.files]


def large_encoded(
    files: Sequence[str], encoder: SchemaEncoder, scratch: str
) -> tuple[LargeTable, Callable[[str], LargeColumn]]:
    """(the encoded table, to be read in passes; a function that returns a column of the files by name, or one
    that is an array in a file)."""
    if STANDARD_INPUT in files:
        raise InvalidInput("standard input", "is read once, and --scratch takes passes: give files")
    encoder.set_params(sparse_output=False).fit(next(frames(files, list(encoder.columns))))
    rows = EncodedRows(files, encoder)
    table = LargeTable(MadeRows(rows, len(encoder.get_feature_names_out())), scratch=scratch)
    return (
        table,
        lambda name: (
            column_at(name)
            if is_array_file(name)
            else LargeColumn(Steady(Cells(files, name), name))
        ),
    )


def _stacked(parts: list[Any]) -> Any:
    from scipy.sparse import issparse, vstack

    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


def ids_of(cells: NDArray[Any]) -> NDArray[Any]:
    """The ids of users: their texts, None where one is missing; numbers alone are what they are.

    Which rows are of one user is the same either way: that of an id follows from it alone, by the rule of
    `features.cells`. So 7 is one user in files of text and of numbers, and "07" is that user too.
    """
    if cells.dtype.kind in PLAIN:
        return cells
    return cells_of([text or None for text in texts_of("groups", cells)])


def _shared(cells: NDArray[Any]) -> NDArray[Any]:
    """The cells with equal texts as one object: there are few labels in many rows."""
    if cells.dtype != object:
        return cells
    texts: dict[str, str] = {}
    shared = np.empty(len(cells), dtype=object)
    shared[:] = [texts.setdefault(c, c) if type(c) is str else c for c in cells.tolist()]
    return shared
