"""Where the rows of a cluster's table are: in blocks of dask's collections, or in files that workers read."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pabi.execute.arrow_sources import ArrowColumns, arrow_dataset, numeric_columns
from pabi.execute.large_tables import LargeTable
from pabi.execute.sources import readable, storage
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_TOGETHER = 1 << 26  # bytes of a mapped array in one partition
_EXPECTED = (
    "expected an array or a data frame of dask's, files, or a LargeTable of them; of rows in memory "
    "dask.array.from_array makes an array of dask's"
)


@runtime_checkable
class Reader(Protocol):
    """Rows that a worker reads by itself."""

    def read(self) -> NDArray[Any]:
        """The rows."""


@dataclass(frozen=True)
class FileRows:
    """Columns of one Parquet, Feather or Arrow file; see `ArrowColumns`."""

    file: str
    names: str | Sequence[str]
    dtype: np.dtype[Any] | None

    def read(self) -> NDArray[Any]:
        """The rows."""
        columns = ArrowColumns(arrow_dataset([self.file]), self.names, self.dtype)
        return np.concatenate([*self._none(), *columns.chunks()])

    def _none(self) -> list[NDArray[Any]]:
        """No rows, of the shape of some."""
        return [] if self.dtype is None else [np.empty((0, len(self.names)), self.dtype)]


@dataclass(frozen=True)
class MappedRows:
    """Some rows of an array that is a file, such as an `.npy` file."""

    file: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    def read(self) -> NDArray[Any]:
        """The rows. Raises InvalidInput where the file ends before them."""
        count = math.prod(self.shape)
        with readable(self.file):
            flat = np.fromfile(self.file, self.dtype, count, offset=self.offset)
        if len(flat) < count:
            raise InvalidInput(self.file, "it is shorter than it was; nothing was released")
        return flat.reshape(self.shape)


@dataclass(frozen=True)
class Columns:
    """What every block has to have.

    `names`: of the features, None of an array. `target`: the name of the column beside them, None where
    targets are elsewhere. `dtype`: that of the features of a data frame, None where they are as they are.
    """

    names: tuple[str, ...] | None = None
    target: str | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True, eq=False)
class PartitionedTable:
    """(features, targets) of every partition: delayed values of dask's, `Reader`s, or targets in memory."""

    pairs: list[tuple[Any, Any]]
    columns: Columns


def blocks_of(X: Any, y: Any) -> PartitionedTable:
    """The blocks of a table and of what stands beside it. Raises InvalidInput naming `X` or `y`."""
    data = X
    if isinstance(X, (LargeTable, str, os.PathLike, list, tuple)) or _is_arrow(X):
        table = X if isinstance(X, LargeTable) else LargeTable(X)
        if not _is_dask(table.data):
            return _of_files(table, y)
        data = table.data
        names = table.feature_names(without=(y,) if isinstance(y, str) else ())
        if names is not None:
            data = data[[*names, y] if isinstance(y, str) else list(names)]
    if isinstance(data, np.memmap):
        return _of_files(LargeTable(data), y)
    if not _is_dask(data):
        raise InvalidInput("X", f"{_EXPECTED}; got a {type(X).__name__}")
    return _of_frame(data, y) if hasattr(data, "columns") else _of_array(data, y)


def _of_array(X: Any, y: Any) -> PartitionedTable:
    if X.ndim > 1 and any(count > 1 for count in X.numblocks[1:]):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    if isinstance(y, str):
        raise InvalidInput("y", f"expected cells, got {y!r}: X is an array, without names")
    parts = X.to_delayed().reshape(-1).tolist()
    return PartitionedTable(list(zip(parts, _beside(y, X.chunks[0]), strict=True)), Columns())


def _of_frame(X: Any, y: Any) -> PartitionedTable:
    names = tuple(map(str, X.columns))
    if isinstance(y, str):
        if names.count(y) != 1:
            raise InvalidInput("y", f"expected the name of one column of X, got {y!r}")
        names = tuple(name for name in names if name != y)
    if not names:
        raise InvalidInput("X", "expected at least one feature, got none")
    kinds = [_numeric(X.dtypes[name], name) for name in names]
    columns = Columns(names, y if isinstance(y, str) else None, storage(np.result_type(*kinds)))
    parts = X.to_delayed()
    beside = [None] * len(parts) if isinstance(y, str) else _beside(y, (math.nan,) * len(parts))
    return PartitionedTable(list(zip(parts, beside, strict=True)), columns)


def _numeric(dtype: Any, name: str) -> np.dtype[Any]:
    kind = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(kind, np.dtype) or kind.kind not in "fiub":
        raise InvalidInput("X", f"expected real numbers in the column {name!r}, got dtype {dtype}")
    return kind


def _beside(y: Any, chunks: tuple[float, ...]) -> list[Any]:
    """The targets of every partition, whose rows are so many, NaN where that is not known."""
    countable = not any(math.isnan(rows) for rows in chunks)
    if not _is_dask(y):
        return _cut(np.asarray(y), chunks if countable else None)
    if hasattr(y, "chunks") and countable and y.chunks[0] != chunks:
        if sum(y.chunks[0]) != sum(chunks):
            raise InvalidInput("y", "expected as many rows as X has")
        y = y.rechunk({0: chunks})
    if hasattr(y, "chunks") and y.ndim > 1:
        y = y.rechunk(dict.fromkeys(range(1, y.ndim), -1))
    delayed = y.to_delayed()
    parts = delayed.reshape(-1).tolist() if isinstance(delayed, np.ndarray) else list(delayed)
    if len(parts) != len(chunks):
        raise InvalidInput("y", f"expected {len(chunks)} partitions, those of X, got {len(parts)}")
    return parts


def _cut(y: NDArray[Any], chunks: Sequence[float] | None) -> list[NDArray[Any]]:
    """Targets in memory, partition by partition."""
    if chunks is None:
        raise InvalidInput(
            "y", "expected the name of a column, or a collection of dask's with the partitions of X"
        )
    if y.ndim == 0 or len(y) != sum(chunks):
        raise InvalidInput("y", "expected as many rows as X has")
    return np.split(y, np.cumsum(chunks)[:-1].astype(int))


def _of_files(table: LargeTable, y: Any) -> PartitionedTable:
    data = table.data
    if isinstance(data, np.ndarray):
        return _of_mapped(data, y)
    files = getattr(data, "files", None)
    if files is None:
        raise InvalidInput("X", "expected files or a collection of dask's, got rows in memory")
    if not isinstance(y, str):
        raise InvalidInput("y", "expected the name of a column of the files")
    table.column(y)  # every file has it
    names = table.feature_names(without=(y,)) or ()
    table.features(without=(y,))  # and all of these, as numbers
    dtype = numeric_columns(data, names)
    pairs = [(FileRows(file, names, dtype), FileRows(file, y, None)) for file in files]
    return PartitionedTable(pairs, Columns(dtype=dtype))


def _of_mapped(data: NDArray[Any], y: Any) -> PartitionedTable:
    rows = max(1, _TOGETHER // (data.itemsize * math.prod(data.shape[1:])))
    sizes = [min(rows, len(data) - first) for first in range(0, len(data), rows)]
    targets = np.load(y, mmap_mode="r", allow_pickle=False) if _is_npy(y) else y
    if isinstance(targets, np.memmap):
        if len(targets) != len(data):
            raise InvalidInput("y", "expected as many rows as X has")
        beside: list[Any] = list(_mapped(targets, sizes))
    else:
        beside = _beside(targets, tuple(sizes))
    return PartitionedTable(list(zip(_mapped(data, sizes), beside, strict=True)), Columns())


def _mapped(array: NDArray[Any], sizes: Sequence[int]) -> Iterator[MappedRows]:
    whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)
    if not (isinstance(array, np.memmap) and whole and array.flags.c_contiguous):
        raise InvalidInput("X", "expected a whole file, its rows one after the other")
    row, offset = array.itemsize * math.prod(array.shape[1:]), array.offset
    for size in sizes:
        file = os.path.realpath(str(array.filename))
        yield MappedRows(file, array.dtype, (size, *array.shape[1:]), offset)
        offset += size * row


def _is_npy(y: Any) -> bool:
    return isinstance(y, (str, os.PathLike)) and os.fspath(y).endswith(".npy")


def _is_dask(value: Any) -> bool:
    return type(value).__module__.startswith("dask") and extra("dask", "dask").is_dask_collection(
        value
    )


def _is_arrow(value: Any) -> bool:
    return type(value).__module__ == "pyarrow._dataset"
