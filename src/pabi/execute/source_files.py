"""Rows in files and folders: `.npy`, Zarr, Parquet, Feather and Arrow, read some at a time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.cells import cells_of
from pabi.execute.hiding import unshown
from pabi.execute.progress import is_zarr
from pabi.execute.sources import (
    READ,
    Chunks,
    Parts,
    home_of,
    readable,
    scratch_file,
    slices,
    stamp,
    storage,
    writable,
)
from pabi.numbers.errors import InvalidInput, extra, require

# Columns of Parquet, Feather and Arrow files, read some rows at a time.


# Rows of a batch: whole blocks of rows, and so many that what a batch costs by itself is little.
_FEWEST, _MOST = 1 << 12, 1 << 16


def arrow_columns(
    dataset: Any, names: str | Sequence[str], dtype: np.dtype[Any] | None, argument: str = "X"
) -> Parts:
    """Columns of a dataset of pyarrow's, or the cells of one column, file by file.

    `names`: a string for one column. `dtype`: of numbers, None for cells as they are, objects where there are
    several columns.
    """
    one = isinstance(names, str)
    columns = [names] if isinstance(names, str) else list(names)
    cell = np.dtype(object) if dtype is None else dtype
    rows = READ // (cell.itemsize * len(columns)) // _FEWEST * _FEWEST

    def read() -> Chunks:
        for batch in _batches(dataset, columns, min(_MOST, max(_FEWEST, rows))):
            yield cells_of(batch.column(0)) if one else _rows(batch, cell)

    return Parts(read, argument, partial(_state, dataset), width=None if one else len(columns))


def _state(dataset: Any) -> object:
    """What changes when a file does, of all files; None where the dataset is in memory."""
    filesystem = getattr(dataset, "filesystem", None)
    if filesystem is None:
        return "read once" if isinstance(dataset, ReadOnce) else None
    if _is_local(filesystem):
        return tuple(map(stamp, dataset.files))
    about = filesystem.get_file_info(list(dataset.files))
    return tuple((one.path, one.size, one.mtime_ns) for one in about)


def arrow_dataset(files: Any) -> Any:
    """The dataset of a folder, a file or a list of files. Raises InvalidInput naming it."""
    datasets, arrow = extra("pyarrow.dataset", "train"), extra("pyarrow", "train")
    endings = {file.rpartition(".")[2].lower() for file in files}
    kind = "feather" if endings <= {"feather", "arrow"} else "parquet"
    try:
        return datasets.dataset(list(files), format=kind)
    except (OSError, arrow.ArrowException) as bad:
        raise InvalidInput("X", f"expected {kind} files: {_line(bad)}") from None


def numeric_columns(dataset: Any, names: Sequence[str]) -> np.dtype[Any]:
    """The type that holds the numbers of these columns. Raises InvalidInput naming one that has none."""
    kinds = []
    for name in names:
        column = dataset.schema.field(name).type
        require(_is_number(column), "X", f"expected numbers in the column {name!r}, got {column}")
        decimal = extra("pyarrow.types", "train").is_decimal(column)
        kinds.append(np.dtype(np.float64 if decimal else column.to_pandas_dtype()))
    return storage(np.result_type(*kinds))


def require_columns(dataset: Any, names: Sequence[str]) -> None:
    """Raises InvalidInput unless every file has these columns, once each and of one type, and comes once."""
    arrow = extra("pyarrow", "train")
    seen: set[object] = set()
    for fragment in _fragments(dataset):
        where = getattr(fragment, "path", None) or "X"
        try:
            own = fragment.physical_schema
        except (OSError, arrow.ArrowException):
            raise InvalidInput(where, "cannot be read: it is damaged or gone") from None
        groups, file = getattr(fragment, "row_groups", None) or (), _file_of(fragment)
        parts: set[object] = {(file, group.id) for group in groups} or {file}
        require(
            where == "X" or not parts & seen,
            where,
            "expected once: a record that is read twice counts twice",
        )
        seen |= parts
        for name in names:
            require(
                len(own.get_all_field_indices(name)) == 1,
                where,
                f"expected one column {name!r}, as in the first file",
            )
            require(
                _has_type_of_its_own(fragment, name),
                where,
                f"expected a type for the column {name!r}, as by column_types of CSV, or Parquet files: the "
                "one that is found follows from cells, so that a record would change those of others",
            )
            expected, kind = dataset.schema.field(name).type, own.field(name).type
            require(
                kind == expected,
                where,
                f"expected {expected} in the column {name!r}, as in the first file, got {kind}",
            )


def _has_type_of_its_own(fragment: Any, name: str) -> bool:
    """Whether the type of a column is stated, not found by looking at cells, as in text."""
    form: Any = getattr(fragment, "format", None)
    match type(form).__name__:
        case "CsvFileFormat":
            return name in form.default_fragment_scan_options.convert_options.column_types
        case "JsonFileFormat":
            return False
        case _:
            return True


def _file_of(fragment: Any) -> object:
    """What tells the file of a part from others: on this machine no name, of which it may have several."""
    path = getattr(fragment, "path", None)
    if path is None or not _is_local(fragment.filesystem):
        return path
    with readable(path):
        about = os.stat(path)
    return about.st_dev, about.st_ino


def _is_local(filesystem: Any) -> bool:
    return isinstance(filesystem, extra("pyarrow.fs", "train").LocalFileSystem)


def require_whole_files(dataset: Any) -> None:
    """Raises InvalidInput where others would not read by name what is in the dataset."""
    kind = extra("pyarrow.dataset", "train").ParquetFileFragment
    own = _fragments(dataset)
    whole = all(
        one.num_row_groups == one.metadata.num_row_groups for one in own if isinstance(one, kind)
    )
    require(
        whole and _is_local(dataset.filesystem),
        "X",
        "expected whole files of this machine's, got parts or others",
    )


class ReadOnce:
    """The rows of a stream of Arrow's, read once and kept in a file without a name, as a dataset of one part.

    A query answers in whatever order, and the next time perhaps otherwise; passes take the same rows.

    Parameters
    ----------
    stream : object with `__arrow_c_stream__`, or a lazy frame of polars'
        What yields the rows. Where that fails, the error says its type alone.
    folder : path or None
        Where the file is; None is the system's folder for temporary ones.
    name : str
        What errors name.
    """

    path = filesystem = None

    def __init__(self, stream: Any, folder: str | os.PathLike[str] | None, name: str = "X") -> None:
        self._file, self._lock = scratch_file(home_of(folder)), Lock()
        self._places: list[tuple[int, int]] = []
        self._rows, self.schema = 0, extra("pyarrow", "train").schema([])
        batches = _plain_batches(stream)
        while (batch := unshown(name, lambda: next(batches, None))) is not None:
            self.schema = batch.schema
            for first in range(0, batch.num_rows, _MOST):
                with writable(home_of(folder)):
                    self._keep(batch.slice(first, _MOST))
        self.physical_schema = self.schema  # of the one part, which it is itself

    def _keep(self, batch: Any) -> None:
        written = batch.serialize()
        self._places.append((self._file.tell(), written.size))
        self._rows += batch.num_rows
        self._file.write(written)

    def get_fragments(self) -> list[ReadOnce]:
        """The one part."""
        return [self]

    def count_rows(self) -> int:
        """How many rows there are."""
        return self._rows

    def to_batches(
        self, columns: Sequence[str] | None = None, batch_size: int = _MOST, **_: Any
    ) -> Iterator[Any]:
        """Record batches of these columns, in the order in which they came."""
        arrow = extra("pyarrow", "train")
        for place, size in self._places:
            with self._lock:  # several columns are read side by side
                self._file.seek(place)
                held = self._file.read(size)
            batch = arrow.ipc.read_record_batch(arrow.py_buffer(held), self.schema)
            batch = batch if columns is None else batch.select(list(columns))
            yield from (batch.slice(k, batch_size) for k in range(0, batch.num_rows, batch_size))


def is_stream(data: Any) -> bool:
    """Whether it yields record batches of Arrow's, each value of one type whatever stands beside it.

    A frame of pandas' does not: the type of a column follows from all of its cells.
    """
    homes = {kind.__module__.partition(".")[0] for kind in type(data).__mro__}
    lazy = "polars" in homes and hasattr(data, "collect_schema")
    return "pandas" not in homes and (lazy or hasattr(data, "__arrow_c_stream__"))


def _plain_batches(stream: Any) -> Iterator[Any]:
    """The record batches of a stream, or of each frame of a lazy one; every value where it stands."""
    arrow = extra("pyarrow", "train")
    lazy = hasattr(stream, "collect_schema") and not hasattr(stream, "__arrow_c_stream__")
    for part in _frames(stream) if lazy else [stream]:
        reader = arrow.RecordBatchReader.from_stream(part)
        plain = arrow.schema([(field.name, _plain_type(field.type)) for field in reader.schema])
        yield arrow.RecordBatch.from_arrays(
            [arrow.array([], kind) for kind in plain.types], schema=plain
        )
        for batch in reader:
            yield arrow.RecordBatch.from_arrays(list(map(_plain, batch.columns)), schema=plain)


def _plain(cells: Any) -> Any:
    """A column of a type of Arrow's own: numbers of PostgreSQL's `numeric` are text."""
    if hasattr(cells, "dictionary"):
        return cells.dictionary.cast(_plain_type(cells.type)).take(cells.indices)
    return getattr(cells, "storage", cells)


def _plain_type(kind: Any) -> Any:
    arrow = extra("pyarrow", "train")
    if arrow.types.is_dictionary(kind):  # of text in views, as polars has it, Arrow takes no cell
        views = str(kind.value_type) == "string_view"
        return arrow.string() if views else kind.value_type
    return getattr(kind, "storage_type", kind)


def _frames(lazy: Any) -> Iterator[Any]:
    """The frames of a lazy one, some rows at a time where polars has that."""
    with warnings.catch_warnings():  # that it may change
        warnings.simplefilter("ignore")
        frames = lazy.collect_batches() if hasattr(lazy, "collect_batches") else [lazy.collect()]
    return iter(frames)


def _fragments(dataset: Any) -> list[Any]:
    """The parts of a dataset. Raises InvalidInput where it is filtered: they would be more than it holds."""
    try:
        return list(dataset.get_fragments())
    except ValueError:
        raise InvalidInput(
            "X", "expected a dataset of pyarrow's without a filter: write what is left to a file"
        ) from None


def _batches(dataset: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Record batches of these columns; of Parquet files row by row, which holds the least in memory."""
    arrow = extra("pyarrow", "train")
    try:
        for fragment in _fragments(dataset):
            yield from _of_fragment(fragment, columns, rows)
    except (OSError, arrow.ArrowException):
        raise InvalidInput("X", "cannot be read to its end: a file is damaged or gone") from None


def _of_fragment(fragment: Any, columns: list[str], rows: int) -> Iterator[Any]:
    if not isinstance(fragment, extra("pyarrow.dataset", "train").ParquetFileFragment):
        yield from fragment.to_batches(columns=columns, batch_size=rows, use_threads=False)
        return
    parquet = extra("pyarrow.parquet", "train")
    # Checksums of pages, where the file has them: a bit that flipped is no number.
    options = {"pre_buffer": False, "page_checksum_verification": True}
    groups = [group.id for group in fragment.row_groups]  # it may be a part of its file
    with fragment.open() as stream, parquet.ParquetFile(stream, **options) as file:
        for batch in file.iter_batches(rows, groups, columns=columns, use_threads=False):
            yield batch.select(columns)


def _rows(batch: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """(m, d) the columns of a batch, each in one piece of memory; a missing number is NaN."""
    columns = np.empty((batch.num_columns, batch.num_rows), dtype)
    for j, column in enumerate(batch.columns):
        columns[j] = cells_of(column) if dtype.kind == "O" else _numbers(column)
    return columns.T


def _numbers(column: Any) -> NDArray[Any]:
    decimal = extra("pyarrow.types", "train").is_decimal(column.type)
    return np.asarray((column.cast("float64") if decimal else column).to_numpy(False))


def _is_number(kind: Any) -> bool:
    types = extra("pyarrow.types", "train")
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _line(error: BaseException) -> str:
    """The first line of what pyarrow says, which names files, columns and types."""
    return str(error).partition("\n")[0]


# Arrays in files and folders: `.npy` files, which are mapped, and Zarr arrays.


def array_at(path: str, dimensions: tuple[int, ...] = (2,)) -> Any:
    """The array, of numbers in so many dimensions. Raises InvalidInput naming the path."""
    array = _zarr(path) if is_zarr(path) else _mapped(path)
    require(array.dtype.kind in "fiub", path, f"expected real numbers, got dtype {array.dtype}")
    if array.ndim not in dimensions:
        shapes = " or ".join({1: "(n,)", 2: "(n, d)"}[count] for count in dimensions)
        raise InvalidInput(path, f"expected shape {shapes}, got {array.shape}")
    return array


def column_at(path: str) -> Parts:
    """The (n,) cells of an array in a file. Raises InvalidInput naming the path."""
    return array_parts(array_at(path, (1,)), path, path)


def array_parts(array: Any, name: str = "X", path: str | None = None) -> Parts:
    """The rows of an array that is read slice by slice; one in a file is known by the times of all its files.

    A mapping may differ from the file of its name, so of others only rows can tell.
    """
    width = int(array.shape[1]) if array.ndim == 2 else None
    return Parts(partial(slices, array), name, partial(stamps, path), width)


def stamps(path: str | None) -> object:
    """What changes when a file, or a file in a folder, does; None where there is none."""
    if path is None:
        return None
    if not is_zarr(path):
        return stamp(path)
    return [stamp(str(file)) for file in sorted(Path(path).rglob("*")) if file.is_file()]


def names_of_columns(d: int) -> list[str]:
    """What the columns of an array are called: x0, x1, …"""
    return [f"x{j}" for j in range(d)]


def _mapped(path: str) -> Any:
    with readable(path):
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError:
            raise InvalidInput(path, "expected an array of numbers") from None


def _zarr(path: str) -> Any:
    zarr = extra("zarr", "zarr")
    try:
        return zarr.open_array(os.fspath(path), mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(path, "expected a Zarr array: it cannot be read") from None
