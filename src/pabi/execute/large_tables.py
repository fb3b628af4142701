"""Tables that do not fit into memory, of whatever kind: what their rows are, and where scratch files go."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pabi.execute.array_names import is_array_file
from pabi.execute.source_files import (
    ArrayRows,
    ArrowColumns,
    LargeColumn,
    array_at,
    arrow_dataset,
    column_of,
    numeric_columns,
    require_columns,
)
from pabi.execute.sources import (
    DaskArray,
    DaskFrame,
    PartChange,
    RowsOfChange,
    Slices,
    Source,
    Steady,
    refuse_containers,
    storage,
)
from pabi.features.table_parts import PassesTable
from pabi.numbers.errors import InvalidInput

_ENDINGS = (".parquet", ".pq", ".feather", ".arrow")
_EXPECTED = (
    "expected a folder, a pattern or a list of Parquet, Feather or Arrow files, an .npy file, a dataset of "
    "pyarrow's, a memory-mapped, Zarr or dask array, or a dask data frame"
)


class LargeTable(PassesTable):
    """A table that is read from where it lies, some rows at a time, as the X of estimators and gradients.

    Parameters
    ----------
    data : path, list of paths, pyarrow dataset, memory-mapped, Zarr or dask array, or dask data frame
        A path is a folder, a pattern such as "people/*.parquet", a Parquet, Feather or Arrow file, an .npy
        file, or the folder of a Zarr array. The files of a folder or a pattern are read by name.
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
        self._data = _opened(data)
        self._path = os.fspath(data) if isinstance(data, (str, os.PathLike)) else None
        if scratch is not None and not os.access(scratch, os.W_OK | os.X_OK):
            raise InvalidInput("scratch", f"cannot write to {scratch}: expected a folder")
        self.scratch = scratch
        self.names = _names(self._data)
        self._columns = None if columns is None else tuple(columns)
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
        if not left:
            raise InvalidInput("columns", "expected at least one feature, got none")
        return left

    def features(self, without: Sequence[str] = ()) -> tuple[Steady, int]:
        """The features, which are numbers.

        Parameters
        ----------
        without : sequence of str
            Columns that have another part.

        Returns
        -------
        Steady
            The rows.
        int
            How many columns they have.

        Raises
        ------
        InvalidInput
            No column is left, a file lacks one, or one is not of numbers.
        """
        names = self.feature_names(without)
        source, width = _features(self._data, names, self._path)
        return Steady(source, "X"), width

    def width(self, without: Sequence[str] = ()) -> int:
        """How many columns the features have.

        Parameters
        ----------
        without : sequence of str
            Columns that have another part.

        Returns
        -------
        int
            d.

        Raises
        ------
        InvalidInput
            No column is left.
        """
        names = self.feature_names(without)
        return int(self._data.shape[1]) if names is None else len(names)

    def cells(self, without: Sequence[str] = ()) -> tuple[Steady, int]:
        """The features as they are, numbers or not.

        Parameters
        ----------
        without : sequence of str
            Columns that have another part.

        Returns
        -------
        Steady
            The rows, objects where columns are of several types.
        int
            How many columns they have.

        Raises
        ------
        InvalidInput
            No column is left, or a file lacks one.
        """
        names = self.feature_names(without)
        if names is None or isinstance(self._data, MadeRows):
            return self.features(without)
        if _home(self._data) == "dask":
            return Steady(DaskFrame(self._data, names), "X"), len(names)
        require_columns(self._data, names)
        return Steady(ArrowColumns(self._data, names, None), "X"), len(names)

    def is_numeric(self, without: Sequence[str] = ()) -> bool:
        """Whether all features are numbers.

        Parameters
        ----------
        without : sequence of str
            Columns that have another part.

        Returns
        -------
        bool
            It follows from the types of columns; no row is read.

        Raises
        ------
        InvalidInput
            No column is left.
        """
        self.feature_names(without)
        try:
            self.features(without)
        except InvalidInput:
            return False
        return True

    def chosen(self, names: Sequence[str]) -> LargeTable:
        """The same table with these features.

        Parameters
        ----------
        names : sequence of str
            Columns, in their order; of an array, which has no names, it takes all.

        Returns
        -------
        LargeTable
            It reads the same files.

        Raises
        ------
        InvalidInput
            A column is missing.
        """
        if isinstance(self._data, MadeRows):
            if self.names is not None and self.names != tuple(names):
                raise InvalidInput("X", f"expected the columns {list(names)!r}")
            return self
        missing = [name for name in names if self.names is not None and name not in self.names]
        if missing:
            raise InvalidInput("X", f"expected a column {missing[0]!r}, it has none")
        return (
            self
            if self.names is None
            else LargeTable(self._data, columns=names, scratch=self.scratch)
        )

    def with_rows(self, source: Source, width: int, names: Sequence[str] | None) -> LargeTable:
        """A table of other rows beside the columns of this one.

        Parameters
        ----------
        source : Source
            The rows, one for each of this table.
        width : int
            How many columns they have.
        names : sequence of str, optional
            Their names. None: they have none.

        Returns
        -------
        LargeTable
            Its columns that are no features are those of this table.

        Raises
        ------
        InvalidInput
            The folder for scratch files cannot be written to any more.
        """
        named = None if names is None else tuple(names)
        return LargeTable(MadeRows(source, width, named, self), scratch=self.scratch)

    def introduce(self, transformer: Any, *beside: Any) -> None:
        """Sets what scikit-learn's checks of X set.

        Parameters
        ----------
        transformer : estimator
            Its `n_features_in_` and `feature_names_in_` are set.
        *beside : object
            What stands beside the features. Of it, names are those of columns.

        Raises
        ------
        InvalidInput
            No column is left.
        """
        without = names_among(*beside)
        names = self.feature_names(without)
        transformer.n_features_in_ = self.width(without)
        if names is not None:
            transformer.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(transformer, "feature_names_in_"):
            del transformer.feature_names_in_

    def source_for(
        self, estimator: Any, read: Callable[[LargeTable], tuple[Steady, int]] | None = None
    ) -> Steady:
        """The rows as an estimator was fitted to them.

        Parameters
        ----------
        estimator : estimator
            A fitted one.
        read : callable, optional
            What it reads of a table: rows, and how many columns they have. None: its numbers.

        Returns
        -------
        Steady
            The columns by their names, in the order of the fit.

        Raises
        ------
        InvalidInput
            There are other columns.
        """
        names = getattr(estimator, "feature_names_in_", None)
        chosen = self if names is None else self.chosen([str(name) for name in names])
        source, d = chosen.features() if read is None else read(chosen)
        if d != estimator.n_features_in_:
            raise InvalidInput("X", f"expected {estimator.n_features_in_} columns, got {d}")
        return source

    def made_by(
        self, transformer: Any, change: PartChange, source: Steady | None = None
    ) -> LargeTable:
        """The table of what a transformer makes of the rows.

        Parameters
        ----------
        transformer : transformer
            A fitted one.
        change : callable
            What becomes of some rows, each by itself.
        source : Steady, optional
            The rows as it was fitted to them. None: the numbers of the columns.

        Returns
        -------
        LargeTable
            It is made anew in every pass.

        Raises
        ------
        InvalidInput
            There are other columns, or `set_output` asks for a frame.
        """
        refuse_containers(transformer)
        own = self.source_for(transformer) if source is None else source
        rows = RowsOfChange(own, change, transformer.n_features_in_)
        names = transformer.get_feature_names_out()
        named = hasattr(transformer, "feature_names_in_")
        return self.with_rows(rows, len(names), names.tolist() if named else None)

    def column(self, name: str, argument: str = "y") -> LargeColumn:
        """One column, its cells as they are.

        Parameters
        ----------
        name : str
            The column.
        argument : str
            What names it, for the message of an error.

        Returns
        -------
        LargeColumn
            It is read where it is gone through.

        Raises
        ------
        InvalidInput
            There is no such column; the error names the argument.
        """
        if isinstance(self._data, MadeRows) and self._data.beside is not None:
            return self._data.beside.column(name, argument)
        self._require(name, argument)
        if _home(self._data) == "dask":
            source: Source = DaskFrame(self._data[name])
        else:
            require_columns(self._data, [name])
            source = ArrowColumns(self._data, name, None)
        return LargeColumn(Steady(source, argument))

    def _require(self, name: str, argument: str) -> None:
        if self.names is None:
            raise InvalidInput(
                argument, f"expected cells, got {name!r}: X is an array, without names"
            )
        if self.names.count(name) != 1:
            raise InvalidInput(argument, f"expected the name of one column of X, got {name!r}")


@dataclass(frozen=True)
class MadeRows:
    """Rows that are made in every pass, such as encoded ones, of `width` numbers each.

    `names`: of the numbers. `beside`: the table whose other columns stand beside them.
    """

    source: Source
    width: int
    names: tuple[str, ...] | None = None
    beside: LargeTable | None = None

    @property
    def shape(self) -> tuple[int | None, int]:
        """(unknown, width)."""
        return None, self.width


def large_table(X: Any) -> LargeTable | None:
    """The table that X is, None where it is in memory, or in a file that is mapped there."""
    if isinstance(X, LargeTable):
        return X
    return LargeTable(X) if _home(X) in ("dask", "zarr") or _is_dataset(X) else None


def large_column(table: LargeTable, cells: Any, argument: str = "y") -> LargeColumn:
    """A column beside a table: one of its own, by name, or cells of any kind."""
    if isinstance(cells, LargeColumn):
        return cells
    if isinstance(cells, str):
        return table.column(cells, argument)
    if _home(cells) == "dask":
        return LargeColumn(Steady(_dask_column(cells), argument))
    if _home(cells) == "zarr":
        return LargeColumn(Steady(Slices(cells), argument))
    return column_of(cells, argument)


def is_large(cells: Any) -> bool:
    """Whether cells are not in memory: a column's name, or one of dask or Zarr."""
    return isinstance(cells, str) or _home(cells) in ("dask", "zarr")


def names_among(*cells: Any) -> tuple[str, ...]:
    """Those of the arguments that name a column."""
    return tuple(cell for cell in cells if isinstance(cell, str))


def _opened(data: Any) -> Any:
    """What is read: a dataset, an array or a data frame."""
    if isinstance(data, (str, os.PathLike)):
        return _at(os.fspath(data))
    if isinstance(data, (list, tuple)) and all(isinstance(d, (str, os.PathLike)) for d in data):
        return arrow_dataset(_files([os.fspath(one) for one in data]))
    is_table = (
        isinstance(data, np.ndarray | MadeRows)
        or _home(data) in ("dask", "zarr")
        or _is_dataset(data)
    )
    if not is_table:
        raise InvalidInput("X", f"{_EXPECTED}, got a {type(data).__name__}")
    if getattr(data, "ndim", 2) != 2:
        raise InvalidInput("X", f"expected shape (n, d), got {data.shape}")
    columns = list(getattr(data, "columns", ()))
    if len(set(columns)) < len(columns) or not all(isinstance(name, str) for name in columns):
        raise InvalidInput("X", "expected columns with names, each of its own, that are text")
    return data


def _at(path: str) -> Any:
    return array_at(path) if is_array_file(path) else arrow_dataset(_files([path]))


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
    if not files:
        raise InvalidInput("X", f"{_EXPECTED}: there is nothing at {path!r}")
    return files


def _is_table(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return file.is_file() and not hidden and file.name.lower().endswith(_ENDINGS)


def _names(data: Any) -> tuple[str, ...] | None:
    if isinstance(data, MadeRows):
        return data.names
    if _is_dataset(data):
        return tuple(data.schema.names)
    return tuple(map(str, data.columns)) if hasattr(data, "columns") else None


def _features(data: Any, names: Sequence[str] | None, path: str | None) -> tuple[Source, int]:
    if isinstance(data, MadeRows):
        return data.source, data.width
    if names is None:
        held = storage(number_type(data.dtype))
        own: Source = DaskArray(data, held) if _home(data) == "dask" else Slices(data)
        return own if path is None else ArrayRows(path, data), int(data.shape[1])
    if _home(data) == "dask":
        kinds = [number_type(data.dtypes[name], name) for name in names]
        return DaskFrame(data, names, storage(np.result_type(*kinds))), len(names)
    require_columns(data, names)
    return ArrowColumns(data, names, numeric_columns(data, names)), len(names)


def number_type(dtype: Any, name: str | None = None) -> np.dtype[Any]:
    """The numpy type of a column of numbers, also of one of pandas' own. Raises InvalidInput."""
    kind = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(kind, np.dtype) or kind.kind not in "fiub":
        where = "" if name is None else f" in the column {name!r}"
        raise InvalidInput("X", f"expected real numbers{where}, got dtype {dtype}")
    return kind


def _dask_column(cells: Any) -> Source:
    return DaskArray(cells) if hasattr(cells, "blocks") else DaskFrame(cells)


def _home(value: Any) -> str:
    """The package that a value's class is of."""
    return type(value).__module__.partition(".")[0]


def _is_dataset(value: Any) -> bool:
    return type(value).__module__ == "pyarrow._dataset"
