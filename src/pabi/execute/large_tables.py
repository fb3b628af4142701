"""Tables that do not fit into memory, of whatever kind: what their rows are, and where scratch files go."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pabi.execute.cells import cells_of, checked_part
from pabi.execute.progress import is_array_file
from pabi.execute.source_files import (
    ReadOnce,
    array_at,
    array_parts,
    arrow_columns,
    arrow_dataset,
    is_stream,
    names_of_columns,
    numeric_columns,
    require_columns,
)
from pabi.execute.sources import (
    Change,
    Parts,
    dask_blocks,
    dask_partitions,
    row_by_row,
    storage,
)
from pabi.numbers.errors import InvalidInput, must_be, require

_ENDINGS = (".parquet", ".pq", ".feather", ".arrow")
_EXPECTED = (
    "expected a folder, a pattern or a list of Parquet, Feather or Arrow files, an .npy file, a dataset, a "
    "table or a stream of Arrow's, a memory-mapped, Zarr or dask array, or a frame of dask's or polars'"
)


APART = (
    "features, targets, weights and users that Dask computes one after the other are of one state of their "
    "source, with their rows in one order"
)


class LargeTable:
    """A table that is read from where it lies, some rows at a time, as the X of estimators and gradients.

    Parameters
    ----------
    data : path, list of paths, pyarrow dataset, array, data frame or Arrow stream
        A path is a folder, a pattern such as "people/*.parquet", a Parquet, Feather or Arrow file, an .npy
        file, or the folder of a Zarr array. The files of a folder or a pattern are read by name. Arrays are
        memory-mapped, Zarr's or dask's, data frames dask's or polars', also lazy ones. Of whatever else has
        `__arrow_c_stream__`, such as a relation of DuckDB's or a reader of record batches, and of polars'
        frames all rows are read once, now, into a file without a name in `scratch`.
    columns : sequence of str, optional
        The features, of a table with named columns. None: all columns that have no other part.
    scratch : path, optional
        A folder on a disk with room for the rows, in which a private folder holds them in their secret order
        while a model is trained. None: the system's folder of temporary files.

    Attributes
    ----------
    names : tuple of str or None
        The names of all columns, None of an array.

    Raises
    ------
    InvalidInput
        `data` is nothing of this, `columns` are not among its columns, or `scratch` is no folder to write to.

    Notes
    -----
    Dask's collections, pyarrow's datasets, Zarr's and memory-mapped arrays may be passed to `fit` and to
    ready gradients as they are; this class is for paths, and to choose columns and the folder.

    References
    ----------
    docs, "My data do not fit".
    """

    def __init__(
        self,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        require(
            scratch is None or os.access(scratch, os.W_OK | os.X_OK),
            "scratch",
            f"cannot write to {scratch}: expected a folder",
        )
        self._data = _opened(data, scratch)
        self._path = os.fspath(data) if isinstance(data, (str, os.PathLike)) else None
        self.scratch = scratch
        self.names = _names(self._data)
        self._columns = None if columns is None else tuple(columns)
        self._noted: dict[str, object] = {}  # of all that is read of it
        for name in self._columns or ():
            self._require(name, "columns")

    @property
    def data(self) -> Any:
        """What is read: a dataset of pyarrow's, an array, or a collection of dask's."""
        return self._data

    def feature_names(self, without: Sequence[str] = ()) -> tuple[str, ...] | None:
        """The names of the features, None of an array.

        Parameters
        ----------
        without : sequence of str
            Columns that have another part.

        Returns
        -------
        tuple of str or None
            In their order.

        Raises
        ------
        InvalidInput
            No column is left.
        """
        if self.names is None:
            return None
        chosen = self.names if self._columns is None else self._columns
        left = tuple(name for name in chosen if name not in without)
        require(left, "columns", "expected at least one feature, got none")
        return left

    def width(self) -> int:
        """How many columns the features have."""
        names = self.feature_names()
        return int(self._data.shape[1]) if names is None else len(names)

    def features(self) -> Parts:
        """The features, which are numbers. Raises InvalidInput where a file lacks one, or one is none."""
        return self._at_once(_rows(self._data, self.feature_names(), self._path))

    def cells(self) -> Parts:
        """The features as they are, objects where columns have names. Raises InvalidInput likewise."""
        return self._at_once(_rows(self._data, self.feature_names(), self._path, numeric=False))

    def column(self, name: str, argument: str = "y") -> Parts:
        """The cells of one column as they are. Raises InvalidInput, which names the argument."""
        if isinstance(self._data, MadeRows) and self._data.beside is not None:
            return self._data.beside.column(name, argument)
        self._require(name, argument)
        return self._at_once(_rows(self._data, name, None, argument))

    def _at_once(self, parts: Parts) -> Parts:
        """Parts of the table as it was when the first were asked for: all that is read is of one table."""
        if not isinstance(self._data, MadeRows):  # which are made of one that knows
            parts._noted.setdefault("state", self._noted.setdefault("state", parts.state()))
        return parts

    def beside(self, cells: Any, argument: str = "y") -> Parts:
        """A column beside the features: one of the table's, by name, or cells of any kind."""
        if isinstance(cells, Parts):
            return cells
        if isinstance(cells, str):
            return self.column(cells, argument)
        if _home(cells) == "dask":
            read = dask_blocks if hasattr(cells, "blocks") else dask_partitions
            return Parts(partial(read, cells), argument, apart=True)
        return array_parts(cells if _home(cells) == "zarr" else cells_of(cells), argument)

    def chosen(self, names: Sequence[str]) -> LargeTable:
        """The same table with these features, in this order; all of an array. Raises InvalidInput."""
        if self.names is None or self.feature_names() == tuple(names):
            return self
        if missing := [name for name in names if name not in self.names]:
            raise InvalidInput("X", f"expected a column {missing[0]!r}, it has none")
        if isinstance(self._data, MadeRows):
            return self._taken([self.names.index(name) for name in names])
        table = LargeTable(self._data, columns=names, scratch=self.scratch)
        table._noted = self._noted
        return table

    def _taken(self, places: list[int]) -> LargeTable:
        """The same table with the columns at these places, of rows that are made or of an array."""
        rows = self.features().mapped(lambda cells: cells[:, places], len(places))
        return self.with_rows(rows, None if self.names is None else [self.names[j] for j in places])

    def without(self, *beside: Any) -> LargeTable:
        """The same table without the columns among these, which stand beside its features."""
        names = self.feature_names([cells for cells in beside if isinstance(cells, str)])
        return self if names is None else self.chosen(names)

    def with_rows(self, rows: Parts, names: Sequence[str] | None) -> LargeTable:
        """A table of other rows, one for each of this one, beside the columns of this one."""
        named = None if names is None else tuple(names)
        return LargeTable(MadeRows(rows, named, self), scratch=self.scratch)

    def read_by(self, step: Any, *beside: Any, reset: bool = False) -> Parts:
        """The rows as a step reads them, in the columns it was fitted to.

        `reset`: it is to be fitted to all but those that stand `beside`, and notes them. Raises InvalidInput
        for other columns.
        """
        if reset:
            self.introduce(step, *beside)
        names = getattr(step, "feature_names_in_", None)
        chosen = self if names is None else self.chosen([str(name) for name in names])
        rules: dict[str, Any] = getattr(step, "_rules", dict)()
        rows = chosen.cells() if rules.get("dtype", float) is None else chosen.features()
        require(
            rows.width == step.n_features_in_,
            "X",
            f"expected {step.n_features_in_} columns, got {rows.width}",
        )
        return rows.mapped(partial(checked_part, columns=chosen.feature_names(), **rules))

    def introduce(self, step: Any, *beside: Any) -> None:
        """Sets what scikit-learn's checks of X set; of what stands `beside`, names are those of columns."""
        table = self.without(*beside)
        names = table.feature_names()
        step.n_features_in_ = table.width()
        if names is not None:
            step.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(step, "feature_names_in_"):
            del step.feature_names_in_

    def made_by(self, step: Any, change: Change) -> LargeTable:
        """The table of what `change` makes of the rows as a step reads them, in every pass anew.

        Raises InvalidInput for other columns, or where `set_output` asks for a frame.
        """
        refuse_containers(step)
        names = step.get_feature_names_out().tolist()
        rows = self.read_by(step).cut().mapped(change, len(names))
        return self.with_rows(rows, names if hasattr(step, "feature_names_in_") else None)

    # What scikit-learn asks of an array or a frame where it takes columns side by side.

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d); rows of which it is not known how many there are take a pass."""
        if isinstance(self._data, MadeRows) and self._data.beside is not None:
            return self._data.beside.shape[0], self.width()
        count = getattr(self._data, "shape", (None,))[0]
        if is_dataset(self._data):
            count = self._data.count_rows()
        if not isinstance(count, int):
            count = self.cells().counted().rows
        return int(count or 0), self.width()

    @property
    def columns(self) -> list[str]:
        """The names of the features, x0, x1, … of an array."""
        return list(self.feature_names() or names_of_columns(self.width()))

    def __getitem__(self, key: Any) -> LargeTable:
        """The same table with these features, by their names or places."""
        rows, chosen = key
        require(rows == slice(None), "X", "expected all rows of a table that is read in passes")
        names, kind = self.columns, np.asarray(chosen).dtype.kind
        if not isinstance(chosen, slice):
            chosen = [names.index(one) if kind in "OU" else one for one in np.ravel(chosen)]
        places = np.arange(len(names))[chosen].tolist()
        return (
            self._taken(places) if self.names is None else self.chosen([names[j] for j in places])
        )

    def __narwhals_dataframe__(self) -> _Frame:
        return _Frame(self)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InvalidInput(
            "X", "expected steps of this library for a large table: others read it into memory"
        )

    def __array_function__(self, function: Any, *call: Any) -> Any:
        """Columns side by side, as numpy has those of arrays, without names."""
        _, (tables, *_), options = call
        beside = function is np.hstack or (function is np.concatenate and options.get("axis") == 1)
        if not beside or not all(isinstance(table, LargeTable) for table in tables):
            return self.__array__()
        rows = row_by_row(
            [table._typed() for table in tables],
            lambda *parts: np.hstack(parts),
            "X",
            sum(table.width() for table in tables),
        )
        return self.with_rows(rows, None)

    def _typed(self) -> Parts:
        """The features as numbers where their types say that they are, else as they are."""
        try:
            return self.features()
        except InvalidInput:
            return self.cells()

    def _require(self, name: str, argument: str) -> None:
        if self.names is None:
            raise InvalidInput(
                argument, f"expected cells, got {name!r}: X is an array, without names"
            )
        must_be(self.names.count(name) == 1, argument, "the name of one column of X", name)


@dataclass(frozen=True)
class MadeRows:
    """Rows that are made in every pass, such as encoded ones.

    `beside`: the table whose other columns stand beside them.
    """

    rows: Parts
    names: tuple[str, ...] | None = None
    beside: LargeTable | None = None

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """(unknown, columns)."""
        return None, self.rows.width


@dataclass(frozen=True)
class _Frame:
    """A table as narwhals knows frames; scikit-learn finds columns by it from version 1.9 on."""

    _native_frame: LargeTable
    _version: Any = None

    def __narwhals_dataframe__(self) -> _Frame:
        return self

    def _with_version(self, version: Any) -> _Frame:
        return _Frame(self._native_frame, version)

    def __getitem__(self, key: Any) -> _Frame:
        return _Frame(self._native_frame[key], self._version)

    def __getattr__(self, name: str) -> Any:
        table = self._native_frame
        return getattr(table, name) if name in ("columns", "shape") else table.__array__()


def large_table(X: Any) -> LargeTable | None:
    """The table that X is, None where it is in memory, or in a file that is mapped there."""
    if isinstance(X, LargeTable):
        return X
    return LargeTable(X) if _home(X) in ("dask", "zarr") or is_dataset(X) else None


def in_memory(X: Any, cells: Any, argument: str) -> Any:
    """Cells beside a table: as they are, but those of a column, of dask's or of Zarr's, which are read."""
    parts = _read_beside(X, cells, argument)
    return cells if parts is None else parts.together()


def computed_apart(X: Any, *beside: Any) -> tuple[str, ...]:
    """What a guarantee assumes of a table and of what stands beside it, where Dask computes some of that."""
    parts = (_read_beside(X, cells, "y") for cells in beside)
    return (APART,) if any(one is not None and one.apart for one in parts) else ()


def _read_beside(X: Any, cells: Any, argument: str) -> Parts | None:
    """Cells beside a table that are read; None of those in memory."""
    table = large_table(X)
    large = isinstance(cells, (str, Parts)) or _home(cells) in ("dask", "zarr")
    return table.beside(cells, argument) if table is not None and large else None


def refuse_containers(step: Any) -> None:
    """Raises InvalidInput where scikit-learn would make a frame of what a transformer returns."""
    from sklearn import get_config

    own = getattr(step, "_sklearn_output_config", {})
    container = own.get("transform", get_config()["transform_output"])
    require(
        container == "default",
        "set_output",
        f'expected "default" for a large table, got {container!r}: it is no frame',
    )


def _opened(data: Any, scratch: str | os.PathLike[str] | None) -> Any:
    """What is read: a dataset, an array or a data frame."""
    if isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        return array_at(path) if is_array_file(path) else arrow_dataset(_files([path]))
    if isinstance(data, (list, tuple)) and all(isinstance(d, (str, os.PathLike)) for d in data):
        return arrow_dataset(_files([os.fspath(one) for one in data]))
    if is_stream(data):
        return ReadOnce(data, scratch)
    is_table = (
        isinstance(data, np.ndarray | MadeRows)
        or _home(data) in ("dask", "zarr")
        or is_dataset(data)
    )
    require(is_table, "X", f"{_EXPECTED}, got a {type(data).__name__}")
    if getattr(data, "ndim", 2) != 2:
        raise InvalidInput("X", f"expected shape (n, d), got {data.shape}")
    columns = list(getattr(data, "columns", ()))
    require(
        len(set(columns)) == len(columns) and all(isinstance(name, str) for name in columns),
        "X",
        "expected columns with names, each of its own, that are text",
    )
    return data


def _files(paths: list[str]) -> list[str]:
    """The files that folders, patterns and names stand for. Raises InvalidInput where one is missing."""
    files = [file for path in paths for file in _files_at(path)]
    if len({os.stat(file)[1:3] for file in files}) < len(files):  # numbers of files and devices
        raise InvalidInput(
            "X", "expected every file once: a record that is read twice counts twice"
        )
    return files


def _files_at(path: str) -> list[str]:
    if Path(path).is_dir():
        files = sorted(str(file) for file in Path(path).rglob("*") if _is_table(file, Path(path)))
    elif glob.has_magic(path):
        files = sorted(file for file in glob.glob(path, recursive=True) if Path(file).is_file())
    else:
        files = [path] if Path(path).is_file() else []
    require(files, "X", f"{_EXPECTED}: there is nothing at {path!r}")
    return files


def _is_table(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return file.is_file() and not hidden and file.name.lower().endswith(_ENDINGS)


def _names(data: Any) -> tuple[str, ...] | None:
    if isinstance(data, MadeRows):
        return data.names
    if is_dataset(data):
        return tuple(data.schema.names)
    return tuple(map(str, data.columns)) if hasattr(data, "columns") else None


def _rows(
    data: Any,
    names: str | Sequence[str] | None,
    path: str | None,
    argument: str = "X",
    *,
    numeric: bool = True,
) -> Parts:
    """Columns of these names, or the cells of one column; all columns of an array."""
    if isinstance(data, MadeRows):
        return data.rows
    own = _home(data) == "dask"
    if names is None:
        held = storage(number_type(data.dtype))
        width = int(data.shape[1])
        return (
            Parts(partial(dask_blocks, data, held), width=width)
            if own
            else array_parts(data, path=path)
        )
    one = isinstance(names, str)
    if not own:
        require_columns(data, [names] if isinstance(names, str) else names)
        dtype = numeric_columns(data, names) if numeric and not one else None
        return arrow_columns(data, names, dtype, argument)
    if one:
        return Parts(partial(dask_partitions, data[names]), argument, apart=True)
    kinds = [number_type(data.dtypes[name], name) for name in names] if numeric else [object]
    dtype = storage(np.result_type(*kinds)) if numeric else np.dtype(object)
    return Parts(partial(dask_partitions, data, names, dtype), width=len(names))


def number_type(dtype: Any, name: str | None = None) -> np.dtype[Any]:
    """The numpy type of a column of numbers, also of one of pandas' own. Raises InvalidInput."""
    kind = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(kind, np.dtype) or kind.kind not in "fiub":
        where = "" if name is None else f" in the column {name!r}"
        raise InvalidInput("X", f"expected real numbers{where}, got dtype {dtype}")
    return kind


def _home(value: Any) -> str:
    """The package that a value's class is of."""
    return type(value).__module__.partition(".")[0]


def is_dataset(value: Any) -> bool:
    """Whether it is a dataset of pyarrow's, or a stream of Arrow's that was read once."""
    return isinstance(value, ReadOnce) or type(value).__module__ == "pyarrow._dataset"
