"""Where the rows of a cluster's table are: in blocks of dask's collections, or in files that workers read."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.cells import cells_of, joined, typed
from pabi.execute.large_tables import APART, LargeTable, is_dataset, number_type
from pabi.execute.source_files import (
    array_parts,
    arrow_columns,
    arrow_dataset,
    numeric_columns,
    require_whole_files,
)
from pabi.execute.sources import CHANGED, Parts, readable, slices, stamp, storage
from pabi.numbers.errors import InvalidInput, extra, must_be, require

Read = Callable[[], NDArray[Any]]

_TOGETHER = 1 << 26  # bytes of a mapped array in one partition
_EXPECTED = (
    "expected an array or a data frame of dask's, files, or a LargeTable of them; of rows in memory "
    "dask.array.from_array makes an array of dask's"
)


# Rows that a worker reads by itself: it calls what comes in their place.


def file_rows(file: str, names: str | Sequence[str], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Columns of one Parquet, Feather or Arrow file; see `arrow_columns`."""
    parts = list(arrow_columns(arrow_dataset([file]), names, dtype).chunks())
    return joined(parts) if parts else np.empty((0,) if dtype is None else (0, len(names)), dtype)


def mapped_rows(
    file: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int
) -> NDArray[Any]:
    """Some rows of an array that is a file. Raises InvalidInput where it ends before them."""
    count = math.prod(shape)
    with readable(file):
        flat = np.fromfile(file, dtype, count, offset=offset)
    require(len(flat) >= count, file, "it is shorter than it was; nothing was released")
    return flat.reshape(shape)


def read_at_once(cells: Sequence[Any]) -> list[Any]:
    """The cells, read where a function stands for them. Raises InvalidInput where a file changed meanwhile.

    A file is read once for features and once for targets: records must not have the targets of others.
    """
    files = [str(part.args[0]) for part in cells if isinstance(part, partial)]
    before = list(map(stamp, files))
    read = [part() if callable(part) else part for part in cells]
    require(list(map(stamp, files)) == before, "X", CHANGED)
    return read


@dataclass(frozen=True)
class Columns:
    """What every block has to have.

    `names`: of the features, None of an array. `target`, `weight`: the names of columns beside them, None
    where these are elsewhere, or there are no weights. `dtype`: that of the features, `target_dtype`: that of
    targets in a collection; None where they are as they are.
    """

    names: tuple[str, ...] | None = None
    target: str | None = None
    weight: str | None = None
    dtype: np.dtype[Any] | None = None
    target_dtype: np.dtype[Any] | None = None


@dataclass(frozen=True, eq=False)
class PartitionedTable:
    """(features, targets, weights) of every partition.

    Delayed values of dask's, functions that read them, or targets and weights in memory; None for no weights.
    `sources`: those that are files, as they were before anybody reads them. `assumed`: what a guarantee
    assumes of them.
    """

    parts: list[tuple[Any, ...]]
    columns: Columns
    sources: tuple[Parts, ...] = ()
    assumed: tuple[str, ...] = ()

    def refuse_changed(self) -> None:
        """Raises InvalidInput where a file has changed: partitions may be of several states of the files."""
        for source in self.sources:
            source.refuse_changed()


def blocks_of(X: Any, y: Any, weights: Any = None) -> PartitionedTable:
    """The blocks of a table and of what stands beside it. Raises InvalidInput naming one of them."""
    require(y is not None, "y", "missing: every record has a target")
    data = X
    if isinstance(X, (LargeTable, str, os.PathLike, list, tuple)) or is_dataset(X):
        table = X if isinstance(X, LargeTable) else LargeTable(X)
        if not _is_dask(table.data):
            return _of_files(table, y, weights)
        data = table.data
        beside = [name for name in (y, weights) if isinstance(name, str)]
        names = table.feature_names(without=tuple(beside))
        if names is not None:
            data = data[[*names, *beside]]
    if isinstance(data, np.memmap):
        return _of_files(LargeTable(data), y, weights)
    require(_is_dask(data), "X", f"{_EXPECTED}; got a {type(X).__name__}")
    return (_of_frame if hasattr(data, "columns") else _of_array)(data, y, weights)


def refuse_apart(groups: Any) -> None:
    """Raises InvalidInput for users of rows that this machine would compute, and workers the rows."""
    require(
        not _is_dask(groups),
        "groups",
        "expected ids in memory, one for every row of X as workers will read it, got a collection of dask's",
    )


def _of_array(X: Any, y: Any, weights: Any) -> PartitionedTable:
    if X.ndim > 1 and any(count > 1 for count in X.numblocks[1:]):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    for field, cells in (("y", y), ("weights", weights)):
        if isinstance(cells, str):
            raise InvalidInput(
                field, f"expected cells, got {cells!r}: X is an array, without names"
            )
    parts = _delayed(X, _apart(y, weights)).reshape(-1).tolist()
    together = zip(
        parts,
        _beside("y", y, X.chunks[0]),
        _beside("weights", weights, X.chunks[0]),
        strict=True,
    )
    columns = Columns(
        dtype=_type_of(X.dtype), target_dtype=_type_of(y.dtype) if _is_dask(y) else None
    )
    return PartitionedTable(list(together), columns, assumed=_apart(y, weights))


def _of_frame(X: Any, y: Any, weights: Any) -> PartitionedTable:
    names = LargeTable(X).names or ()
    for field, cells in (("y", y), ("weights", weights)):
        if isinstance(cells, str):
            must_be(names.count(cells) == 1, field, "the name of one column of X", cells)
            names = tuple(name for name in names if name != cells)
    require(names, "X", "expected at least one feature, got none")
    kinds = [number_type(X.dtypes[name], name) for name in names]
    target, weight = (cells if isinstance(cells, str) else None for cells in (y, weights))
    own = X.dtypes[target] if target else y.dtype if _is_dask(y) else None
    of_targets = None if own is None else _type_of(own)
    columns = Columns(names, target, weight, storage(np.result_type(*kinds)), of_targets)
    parts = _delayed(X, _apart(y, weights))
    unknown = (math.nan,) * len(parts)
    together = zip(
        parts,
        _beside("y", None if target else y, unknown),
        _beside("weights", None if weight else weights, unknown),
        strict=True,
    )
    return PartitionedTable(list(together), columns, assumed=_apart(y, weights))


def _type_of(dtype: Any) -> np.dtype[Any]:
    """The type of numbers that a collection says it has; of one that says nothing doubles."""
    try:
        return number_type(dtype)
    except InvalidInput:
        return np.dtype(np.float64)


def _apart(*beside: Any) -> tuple[str, ...]:
    """What is assumed of a table and of what stands beside it, if that is a collection of its own."""
    return (APART,) if any(map(_is_dask, beside)) else ()


def _delayed(collection: Any, apart: Sequence[str]) -> Any:
    """Its partitions. Of several collections they share what they are computed from.

    Optimised, each would have graphs of its own, and what both begin with would be computed twice: targets of
    other records where the second time yields other rows, or others first.
    """
    return collection.to_delayed(optimize_graph=not apart)


def _beside(field: str, cells: Any, chunks: tuple[float, ...]) -> list[Any]:
    """The cells beside every partition, whose rows are so many, NaN where that is not known.

    None of every partition where there are none, or they are in a column.
    """
    if cells is None:
        return [None] * len(chunks)
    countable = not any(math.isnan(rows) for rows in chunks)
    if not _is_dask(cells):
        return _cut(field, typed(cells_of(cells)), chunks if countable else None)
    if hasattr(cells, "chunks") and countable and cells.chunks[0] != chunks:
        require(sum(cells.chunks[0]) == sum(chunks), field, "expected as many rows as X has")
        cells = cells.rechunk({0: chunks})
    if hasattr(cells, "chunks") and cells.ndim > 1:
        cells = cells.rechunk(dict.fromkeys(range(1, cells.ndim), -1))
    delayed = _delayed(cells, (APART,))
    parts = delayed.reshape(-1).tolist() if isinstance(delayed, np.ndarray) else list(delayed)
    require(
        len(parts) == len(chunks),
        field,
        f"expected {len(chunks)} partitions, those of X, got {len(parts)}",
    )
    return parts


def _cut(field: str, cells: NDArray[Any], chunks: Sequence[float] | None) -> list[NDArray[Any]]:
    """Cells in memory, partition by partition."""
    if chunks is None:
        raise InvalidInput(
            field,
            "expected the name of a column, or a collection of dask's with the partitions of X",
        )
    require(cells.ndim != 0 and len(cells) == sum(chunks), field, "expected as many rows as X has")
    return np.split(cells, np.cumsum(chunks)[:-1].astype(int))


def _of_files(table: LargeTable, y: Any, weights: Any) -> PartitionedTable:
    data = table.data
    if isinstance(data, np.ndarray):
        return _of_mapped(data, y, weights)
    files: Any = getattr(data, "files", None)
    require(files is not None, "X", "expected files or a collection of dask's, got rows in memory")
    for field, cells in (("y", y), ("weights", weights)):
        require(
            isinstance(cells, str) or (field == "weights" and cells is None),
            field,
            "expected the name of a column of the files",
        )
    beside = [y] if weights is None else [y, weights]
    for name in beside:
        table.column(name)  # every file has it
    require_whole_files(data)
    table = table.without(*beside)
    names = table.feature_names() or ()
    rows = table.features()  # and every file has all of these, as numbers
    dtype = numeric_columns(data, names)
    columns = ((names, dtype), (y, None), (weights, None))
    parts = [
        tuple(None if own is None else partial(file_rows, file, own, kind) for own, kind in columns)
        for file in files
    ]
    return PartitionedTable(parts, Columns(dtype=dtype), (rows,))


def _of_mapped(data: NDArray[Any], y: Any, weights: Any) -> PartitionedTable:
    rows = max(1, _TOGETHER // (data.itemsize * math.prod(data.shape[1:])))
    sizes = [min(rows, len(data) - first) for first in range(0, len(data), rows)]
    y, weights = (
        np.load(cells, mmap_mode="r", allow_pickle=False) if _is_npy(cells) else cells
        for cells in (y, weights)
    )
    others = [cells for cells in (y, weights) if isinstance(cells, np.memmap)]
    sources = tuple(map(_file_of, [data, *others]))
    parts = zip(
        _mapped(data, sizes),
        _beside_mapped("y", y, sizes),
        _beside_mapped("weights", weights, sizes),
        strict=True,
    )
    return PartitionedTable(list(parts), Columns(), sources, _apart(y, weights))


def _file_of(array: Any) -> Parts:
    """The file of a mapped array, as it is now. Raises InvalidInput where others would read other rows."""
    whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)
    require(
        whole and array.flags.c_contiguous,
        "X",
        "expected a whole file, its rows one after the other",
    )
    source = array_parts(array, path=os.path.realpath(str(array.filename)))
    source.refuse_changed()  # it is noted before the rows are compared
    _require_its_file(array)
    return source


def _beside_mapped(field: str, cells: Any, sizes: Sequence[int]) -> list[Any]:
    """Cells that are mapped or in memory, in parts of these sizes."""
    if not isinstance(cells, np.memmap):
        return _beside(field, cells, tuple(sizes))
    require(len(cells) == sum(sizes), field, "expected as many rows as X has")
    return list(_mapped(cells, sizes))


def _mapped(array: Any, sizes: Sequence[int]) -> Iterator[Read]:
    shape, offset, file = array.shape[1:], array.offset, os.path.realpath(str(array.filename))
    for size in sizes:
        yield partial(mapped_rows, file, array.dtype, (size, *shape), offset)
        offset += size * array.itemsize * math.prod(shape)


def _require_its_file(array: Any) -> None:
    """Refuse a mapping that differs from the file of its name, which is what others would read."""
    first = 0
    for rows in slices(array):
        offset = array.offset + first * array.itemsize * math.prod(array.shape[1:])
        own = mapped_rows(str(array.filename), array.dtype, rows.shape, offset)
        require(
            own.tobytes() == rows.tobytes(),
            "X",
            "expected the rows of its file: the mapped array has others",
        )
        first += len(rows)


def _is_npy(y: Any) -> bool:
    return isinstance(y, (str, os.PathLike)) and os.fspath(y).endswith(".npy")


def _is_dask(value: Any) -> bool:
    return type(value).__module__.startswith("dask") and extra("dask", "dask").is_dask_collection(
        value
    )
