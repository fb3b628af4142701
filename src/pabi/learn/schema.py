"""The transformer of declared columns, and labels, targets and weights as estimators take them."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.multiclass import type_of_target

from pabi.execute.cells import (
    PLAIN,
    cells_of,
    columns_of,
    doubles_of,
    is_missing,
    refuse_other_types,
    table_of,
    typed,
)
from pabi.execute.large_tables import LargeTable, large_table, refuse_containers
from pabi.execute.sources import Parts
from pabi.execute.tables import refuse_collection, tagged
from pabi.learn.columns import Categorical, Date, Encoded, dated, read_columns
from pabi.learn.rows import id_columns
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require, warn_once
from pabi.numbers.rounding import TINY, Array

# The transformer of columns.


def _tables_of(path: str) -> Any:
    """What stands in a TOML file. Raises InvalidInput naming it."""
    try:
        with open(path, "rb") as file:
            return dated(tomllib.load(file))
    except OSError as bad:
        raise InvalidInput(path, f"expected a schema file (TOML): {bad.strerror or bad}") from None
    except (ValueError, RecursionError) as bad:
        raise InvalidInput(path, f"malformed TOML: {bad}") from None


@tagged(requires_fit=False)
class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features from the columns of a table, by a public map that treats every row by itself.

    Parameters
    ----------
    columns : dict
        One table a column to use, by name, as in a schema file:

        `{"kind": "numeric", "range": [low, high]}`: clipped to the range, which is mapped onto
        [−1, 1]; a missing number is 0. With `"transform": "log1p"` on the scale of log(1 + x). With
        `"decimal": ","` text such as "3,5" is a number.
        `{"kind": "categorical", "levels": [...]}`: one feature a level, 1 for the cell's own. Another
        or a missing cell leaves them all 0; with `"other": "level"` it has a feature of its own.
        `{"kind": "boolean"}`: 1 for true, −1 for false, 0 for missing.
        `{"kind": "date", "range": ["2020-01-01", "2024-12-31"]}`: the place in the range, which is mapped
        onto [−1, 1]. With `"cycles": ["month", "weekday", "hour"]`, or some of these, a sine and a cosine
        of each as well. What is no date, in ISO 8601 where it is text, counts as missing: 0 in all features.

        Levels are compared as text without outer blanks, with `"case": "any"` also whatever their case; 1,
        1.0 and "1.0" are "1", True and "TRUE" are "true".
    sparse_output : bool
        Whether features of categorical columns are a sparse matrix. False for an array. After
        `set_output(transform="pandas")` they are a data frame in either case.

    Attributes
    ----------
    feature_names_in_ : array of str
        The columns, after `fit`.

    Notes
    -----
    Each column has at most one nonzero feature a row, or a sine and a cosine more for each cycle, so that a
    row's norm is at most √(columns + cycles), which is `feature_norm`. Declare everything without looking at
    the data: what is read off them is not covered by any guarantee.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, columns: dict[str, dict[str, Any]], *, sparse_output: bool = True) -> None:
        self.columns = columns
        self.sparse_output = sparse_output

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], *, sparse_output: bool = True) -> Self:
        """The encoder of the columns that a schema file declares, as `pabi train` reads it.

        Parameters
        ----------
        path : str or path
            A TOML file with a table [columns.NAME] for every column. What it says of the target and the model
            is left to `pabi train`.
        sparse_output : bool
            As in the constructor.

        Returns
        -------
        SchemaEncoder
            With these columns, in their order.

        Raises
        ------
        InvalidInput
            The file cannot be read, is no TOML, or declares a column wrongly. The error names the file and
            the key.

        References
        ----------
        docs, "Train a private model".
        """
        columns = _tables_of(os.fspath(path)).get("columns")
        try:
            read_columns(columns)
        except InvalidInput as bad:
            raise InvalidInput(os.fspath(path), str(bad)) from None
        return cls(dict(columns), sparse_output=sparse_output)

    @property
    def feature_norm(self) -> float:
        """The largest norm that a row may have, rounded up to three decimals."""
        columns = read_columns(self.columns).values()
        squares = sum(1 + len(one.cycles) if isinstance(one, Date) else 1 for one in columns)
        # Never below it by rounding.
        return (math.floor(1000.0 * math.sqrt(squares)) + 1) / 1000.0

    def fit(self, X: Any, y: Any = None) -> Self:
        """This encoder, with schema and columns checked; nothing is learned from the data.

        Parameters
        ----------
        X : data frame, dict of columns or LargeTable
            The table. A large one is read once.
        y : object
            Not looked at.

        Returns
        -------
        self
            The encoder, with `feature_names_in_`.

        Raises
        ------
        InvalidInput
            The schema or a column is wrong. The error, a ValueError, names the key of the schema or the
            column; no message shows data.

        Warns
        -----
        UserWarning
            Some cell is outside what was declared. Whether one is depends on the data, so the warning is for
            the holder of the data only. A column looks like an id, by its name alone, so that somebody may
            have several rows: that is a question, which does not depend on the data.
        """
        return self._noted(
            X, [one.beyond for rows in self._tables(X) for one in self._encoded(rows)]
        )

    def _noted(self, X: Any, beyond: Iterable[bool]) -> Self:
        """This encoder, fitted to a table, and the warnings of `fit`."""
        self.feature_names_in_ = np.array(list(self.columns), dtype=object)
        if any(beyond):
            warn_once(
                "some cells are outside the declared ranges or levels; this warning depends on the "
                "data: keep it to yourself",
                UserWarning,
            )
        if ids := id_columns(_names(large_table(X) or X)):
            warn_once(
                f"has anybody several rows? {', '.join(ids)} looks like an id: if so, give their ids to the "
                "fit of the model as groups",
                UserWarning,
            )
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """What `fit(X).transform(X)` returns, of a table in memory encoded once.

        Parameters
        ----------
        X : data frame, dict of columns or LargeTable
            The table.
        y : object
            Not looked at.

        Returns
        -------
        CSR matrix, array or LargeTable
            As of `transform`.

        Raises
        ------
        InvalidInput
            As of both.
        """
        if large_table(X) is not None:
            return self.fit(X).transform(X)
        parts = list(self._encoded(X))
        return self._noted(X, [part.beyond for part in parts])._in_memory(parts)

    def transform(self, X: Any) -> Any:
        """The features of a table, each row from itself and the schema alone.

        Parameters
        ----------
        X : data frame, dict of columns or LargeTable
            The table.

        Returns
        -------
        CSR matrix, array or LargeTable
            (n, d) float64, sparse where a column is categorical, unless `sparse_output` is False. A data
            frame of the named features where `set_output` says so. Of a large table another, which is not
            sparse, and is made anew in every pass.

        Raises
        ------
        InvalidInput
            The schema or a column is wrong, as for `fit`; `sparse_output` is no bool.
        """
        if (table := large_table(X)) is None:
            return self._in_memory(list(self._encoded(X)))
        refuse_containers(self)
        names, own = self.get_feature_names_out().tolist(), clone(self)
        rows = self._cells(table).cut()
        return table.with_rows(
            rows.mapped(
                lambda cells: own._features(list(own._encoded(own._by_name(cells))))[0].toarray(),
                len(names),
            ),
            names,
        )

    def _in_memory(self, parts: Sequence[Encoded]) -> Any:
        rows, categorical = self._features(parts)
        return rows if categorical and self._may_be_sparse else rows.toarray()

    def _features(self, parts: Sequence[Encoded]) -> tuple[Any, bool]:
        """(the features as CSR, whether some are of levels)."""
        from scipy.sparse import csr_matrix

        columns = read_columns(self.columns)
        first = np.cumsum([0, *(len(column.features(name)) for name, column in columns.items())])
        indices = np.column_stack([p.feature + at for p, at in zip(parts, first, strict=False)])
        data = np.column_stack([part.value for part in parts])
        n, p = data.shape
        rows = csr_matrix(
            (data.ravel(), indices.ravel(), p * np.arange(n + 1)), shape=(n, int(first[-1]))
        )
        rows.eliminate_zeros()
        return rows, any(isinstance(column, Categorical) for column in columns.values())

    def _tables(self, X: Any) -> Iterable[Any]:
        """The table in memory, or the parts of a large one, each with its columns by name."""
        table = large_table(X)
        return [X] if table is None else map(self._by_name, self._cells(table))

    def _cells(self, table: LargeTable) -> Parts:
        require(table.names is not None, "X", "expected columns with names, got an array without")
        self._refuse_absent(table.columns)
        return table.chosen(list(self.columns)).cells()

    def _refuse_absent(self, names: Any) -> None:
        absent = next((name for name in read_columns(self.columns) if name not in names), None)
        require(absent is None, "X", f"expected a column {absent!r}, as the schema declares")

    def _by_name(self, cells: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip(self.columns, cells.T, strict=True))

    @property
    def _may_be_sparse(self) -> bool:
        """Whether neither the user nor the container of the output asks for an array."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        container = chosen or get_config()["transform_output"]
        return validate.flag("sparse_output", self.sparse_output) and container == "default"

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the features: that of the column, for categorical ones with the level.

        Parameters
        ----------
        input_features : object
            Not looked at.

        Returns
        -------
        array
            (d,) str, `name`, `name=level` or `name: other`.

        Raises
        ------
        InvalidInput
            The schema is wrong.
        """
        columns = read_columns(self.columns).items()
        return np.array([f for name, column in columns for f in column.features(name)], object)

    def _encoded(self, X: Any) -> Iterable[Encoded]:
        columns = read_columns(self.columns)
        present = _names(X)
        require(
            present is not None,
            "X",
            f"expected a data frame or a dict of columns, got a {type(X).__name__}",
        )
        self._refuse_absent(present)
        for name, column in columns.items():
            dtype = getattr(X[name], "dtype", None)
            if not (isinstance(column, Date) and getattr(dtype, "kind", None) == "M"):
                refuse_other_types(name, dtype)
        cells = {name: cells_of(X[name]) for name in columns}
        shapes = {column.shape for column in cells.values()}
        require(
            len(shapes) <= 1 and all(len(shape) == 1 for shape in shapes),
            "X",
            "expected columns of one length",
        )
        return (column.encode(name, cells[name]) for name, column in columns.items())


def _names(X: Any) -> Any:
    """The names of the columns of a table, None of what has none."""
    refuse_collection(X)
    return X if isinstance(X, Mapping) else getattr(X, "column_names", getattr(X, "columns", None))


# Labels, targets and weights as estimators take them: each from its own cell, and from what is declared.


_UNDECLARED = "it holds a label that is not among the declared classes"
_MIXED = "expected labels that are all text, or all numbers"


def labels_in(y: Any, *, declared: bool) -> Any:
    """The labels of a table in memory: of one type, or as they are where scikit-learn's checks refuse them.

    Raises InvalidInput naming `y`, and no label.
    """
    if y is None or columns_of(y) is not None or hasattr(y, "tocsr"):
        return y
    cells = cells_of(y)
    return checked_labels(cells, declared=declared) if cells.ndim == 1 and cells.size else cells


def checked_labels(cells: NDArray[Any], *, declared: bool) -> NDArray[Any]:
    """(m,) labels, one in every row, of one type. Raises InvalidInput naming `y`, and no label."""
    labels = typed(cells[:, 0] if cells.ndim == 2 and cells.shape[1] == 1 else cells)
    require(labels.ndim == 1, "y", "expected one label a row")
    require(
        labels.dtype.kind != "c",
        "y",
        f"Complex data not supported: expected labels, got {labels.dtype}",
    )
    missing = labels.dtype.kind == "f" and bool(np.any(np.isnan(labels)))
    require(
        not missing and not (labels.dtype.kind == "O" and any(map(is_missing, labels.tolist()))),
        "y",
        "Input y contains NaN: expected one label a row, in every row",
    )
    text = labels.dtype.kind != "O" or all(isinstance(one, str) for one in labels.tolist())
    require(labels.dtype.kind in f"{PLAIN}UO" and (declared or text), "y", _MIXED)
    return labels


def codes_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """The numbers of the labels' classes. Raises InvalidInput."""
    if labels.dtype.kind == "O":
        places = {label: code for code, label in enumerate(classes.tolist())}
        try:
            listed = [places[label] for label in labels.tolist() if not isinstance(label, complex)]
            return np.array(listed, dtype=np.intp).reshape(labels.shape)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            pass  # raised outside of it: a KeyError shows the label
        raise InvalidInput("y", _UNDECLARED)
    require((classes.dtype.kind in PLAIN) == (labels.dtype.kind in PLAIN), "y", _UNDECLARED)
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    require(np.all(classes[codes] == labels), "y", _UNDECLARED)
    return codes


def class_set(classes: Any) -> NDArray[Any]:
    """The distinct declared classes, in order. Raises InvalidInput."""
    try:
        stated = typed(cells_of(classes))
        labels, kind = np.unique(stated), type_of_target(stated)
    except (TypeError, ValueError):
        raise InvalidInput("classes", "expected labels of one kind") from None
    require(
        kind in ("binary", "multiclass") and len(labels) >= 2,
        "classes",
        "expected a one-dimensional array of two labels or more",
    )
    return labels


def numbers_in(y: Any) -> Any:
    """The targets of a table in memory as doubles, NaN where one is missing. Raises InvalidInput."""
    return y if y is None or hasattr(y, "tocsr") else doubles_of("y", targets_of(y))


def targets_of(y: Any) -> NDArray[Any]:
    """The cells of targets in memory, (n,) or (n, k), none of them converted. Raises InvalidInput."""
    cells = table_of(y, "y") if columns_of(y) is not None else cells_of(y)
    if cells.dtype == object and cells.ndim == 1 and any(np.ndim(cell) for cell in cells[:1]):
        return table_of(y, "y")
    return cells


def amounts(cells: Any, several: bool) -> Array:
    """(m,) or (m, K) float64 targets. Raises InvalidInput naming `y`."""
    targets = doubles_of("y", cells_of(cells))
    if not several and targets.shape[1:] == (1,):
        targets = targets[:, 0]
    require(targets.ndim == 1 + several, "y", "expected one number a row of X")
    require(np.all(np.isfinite(targets)), "y", "expected finite numbers, got NaN or infinity")
    return targets


def positive(y: Array) -> Array:
    """The same numbers. Raises InvalidInput naming `y` where one is negative."""
    require(not np.any(y < 0.0), "y", "expected numbers ≥ 0")
    return y


# Weights of classes: public numbers by which a record's loss is multiplied.
#
# They are brought to a largest of 1. A record's gradient is then at most as long as without weights, and
# its loss at most as curved, so that every proof, and the noise, stay as they are.


_EXPECTED = (
    "expected a dict from every class to a number > 0, public and not computed from the labels"
)


def class_weights(stated: Any, classes: NDArray[Any]) -> Array:
    """(K,) weights in (0, 1], the largest 1, of the `classes` in their order."""
    if not isinstance(stated, Mapping):
        counted = isinstance(stated, str) and stated == "balanced"
        why = ': "balanced" counts the labels, which are private' if counted else ""
        raise InvalidInput("class_weight", f"{_EXPECTED}, got {validate.excerpt(stated)}{why}")
    labels = classes.tolist()
    for label in stated:
        require(label in labels, "class_weight", f"{_EXPECTED}; there is no class {label!r}")
    for label in labels:
        require(label in stated, "class_weight", f"{_EXPECTED}; missing: class {label!r}")
    weights = [validate.number("class_weight", stated[label], above=0.0) for label in labels]
    return np.maximum(np.divide(weights, max(weights)), TINY)


# Weights of records: numbers up to a public largest, by which a record's loss is multiplied.
#
# They are divided by the largest that there may be. A record's gradient is then at most as long as
# without weights, and its loss at most as curved, so that every proof, and the noise, stay as they are.


_BEYOND = (
    "some sample weights exceed max_sample_weight and were taken as that: give a larger max_sample_weight, "
    "from public knowledge; this warning depends on the data: keep it to yourself"
)


def sample_weights(stated: Any, most: Any, rows: int) -> Parts | None:
    """(rows,) weights in [0, 1], the stated ones over `most`; None where none are stated.

    Warns where a weight is above `most`. Raises InvalidInput naming
    `sample_weight` or `max_sample_weight`; no message shows data.
    """
    largest = None if most is None else validate.number("max_sample_weight", most, above=0.0)
    if stated is None:
        return None
    if largest is None:
        raise InvalidInput(
            "max_sample_weight",
            "missing: sample_weight needs the largest weight there may be, a public number",
        )
    weights = _numbers(stated, rows)
    if (weights > largest).any():
        warn_once(_BEYOND, UserWarning)
    return Parts.of(np.minimum(np.minimum(weights, largest) / largest, 1.0), "sample_weight")


def _numbers(stated: Any, rows: int) -> Array:
    weights = doubles_of("sample_weight", cells_of(stated))
    require(weights.shape == (rows,), "sample_weight", "expected one number a row of X")
    require(
        np.all((weights >= 0.0) & np.isfinite(weights)),
        "sample_weight",
        "expected finite numbers ≥ 0",
    )
    return weights


def times(one: Parts | None, other: Parts | None) -> Parts | None:
    """The product of weights, where there are some."""
    if one is None or other is None:
        return other if one is None else one
    return one.times(other)
