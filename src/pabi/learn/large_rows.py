"""Estimators and transformers on tables that are read in passes: which rows they read, and what of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import wraps
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from pabi.execute.large_columns import LargeColumn
from pabi.execute.large_tables import LargeTable, is_large, large_column, large_table, names_among
from pabi.execute.reading_ahead import ahead
from pabi.execute.records import MOST_ROWS
from pabi.execute.sources import Chunks, Steady, rechunked
from pabi.features.tables import TablePart
from pabi.numbers.errors import InvalidInput

Method = TypeVar("Method", bound=Callable[..., Any])

_HELD = 1 << 22  # numbers of a part, unless one block of rows has more


class LargeRows(NamedTuple):
    """The rows of a table that is read in passes. `without`: columns that are no features."""

    table: LargeTable
    without: tuple[str, ...]


def large_rows(estimator: Any, X: Any, *beside: Any) -> LargeRows | None:
    """The rows of a large table that `estimator` is fitted to, None of one in memory.

    Sets what scikit-learn's checks of X set. `beside`: what stands beside the features; of it, names are
    those of columns.
    """
    if (table := large_table(X)) is None:
        return None
    rows = LargeRows(table, names_among(*beside))
    names = table.feature_names(rows.without)
    estimator.n_features_in_ = table.width(rows.without)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return rows


def part_by_part(method: Method) -> Method:
    """The same method of X alone, which takes a large table in one pass, and joins what comes of its parts.

    What comes of a row has to depend on that row alone.
    """

    @wraps(method)
    def whole(self: Any, X: Any) -> Any:
        if (source := _fitted_source(self, X)) is None:
            return method(self, X)
        results = [method(self, TablePart(part)) for part in _parts(source, self.n_features_in_)]
        if not results:
            raise InvalidInput("X", "expected at least one row, got none")
        return np.concatenate(results)

    return whole  # type: ignore[return-value]


def as_it_is_read(method: Method) -> Method:
    """The same method of X alone, which makes a large table of a large table, anew in every pass.

    What comes of a row has to depend on that row alone.
    """

    @wraps(method)
    def whole(self: Any, X: Any) -> Any:
        table, source = large_table(X), _fitted_source(self, X)
        if table is None or source is None:
            return method(self, X)
        _refuse_containers(self)
        fitted = copy(self)  # where this one is fitted again, rows stay what they are
        rows = _MadeAsRead(
            source, lambda part: method(fitted, TablePart(part)), self.n_features_in_
        )
        names = self.get_feature_names_out()
        named = hasattr(self, "feature_names_in_")
        return table.with_rows(rows, len(names), names.tolist() if named else None)

    return whole  # type: ignore[return-value]


def _refuse_containers(transformer: Any) -> None:
    """Raises InvalidInput where scikit-learn would make a frame of what a transformer returns."""
    own = getattr(transformer, "_sklearn_output_config", {})
    container = own.get("transform", get_config()["transform_output"])
    if container != "default":
        raise InvalidInput(
            "set_output", f'expected "default" for a large table, got {container!r}: it is no frame'
        )


@dataclass(frozen=True, eq=False)
class _MadeAsRead:
    """What becomes of the rows of a source, some thousand at a time."""

    rows: Steady
    change: Callable[[NDArray[Any]], NDArray[Any]]
    d: int

    def chunks(self) -> Chunks:
        """All rows in turn."""
        return (np.asarray(self.change(part)) for part in _parts(self.rows, self.d))

    def state(self) -> object:
        """Of what they are made from."""
        return self.rows.source.state()


def large_scored(score: Callable[..., Any], X: Any, *, y: Any, sample_weight: Any) -> float:
    """`score(X, y, sample_weight)`, where targets and weights may be columns of a large table X.

    They are read into memory, as what is predicted is.
    """
    if (table := large_table(X)) is not None:
        y, sample_weight = _whole(table, y, "y"), _whole(table, sample_weight, "sample_weight")
    return float(score(X, y, sample_weight))


def _whole(table: LargeTable, cells: Any, argument: str) -> Any:
    if isinstance(cells, LargeColumn) or is_large(cells):
        return large_column(table, cells, argument).whole()
    return cells


def _fitted_source(estimator: Any, X: Any) -> Steady | None:
    """The rows of a large table as `estimator` was fitted to them, None of a table in memory.

    Raises InvalidInput where it has other columns.
    """
    if (table := large_table(X)) is None:
        return None
    check_is_fitted(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    chosen = table if names is None else table.chosen([str(name) for name in names])
    source: Steady
    source, d = estimator._source(chosen)
    if d != estimator.n_features_in_:
        raise InvalidInput("X", f"expected {estimator.n_features_in_} columns, got {d}")
    return source


def _parts(source: Steady, d: int) -> Iterator[NDArray[Any]]:
    """All rows in turn, in parts of a multiple of the rows of a block."""
    block = max(1, min(MOST_ROWS, _HELD // (d + 1)))
    length = block * max(1, _HELD // (block * d))
    for part in rechunked(ahead(source.chunks()), repeat(length)):
        if part.ndim != 2 or part.shape[1] != d:
            raise InvalidInput("X", f"expected {d} columns in every part, got {part.shape[1:]}")
        yield part
