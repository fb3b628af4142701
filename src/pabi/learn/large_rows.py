"""Estimators and transformers on tables that are read in passes: which rows they read, and what of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pabi.execute.large_columns import LargeColumn
from pabi.execute.large_tables import LargeTable, is_large, large_column, large_table, names_among
from pabi.execute.made_rows import row_parts
from pabi.execute.sources import Steady
from pabi.features.table_parts import TablePart
from pabi.numbers.errors import InvalidInput

Method = TypeVar("Method", bound=Callable[..., Any])


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
    table.introduce(estimator, *beside)
    return LargeRows(table, names_among(*beside))


def part_by_part(method: Method) -> Method:
    """The same method of X alone, which takes a large table in one pass, and joins what comes of its parts.

    What comes of a row has to depend on that row alone.
    """

    @wraps(method)
    def whole(self: Any, X: Any) -> Any:
        if (source := _fitted_source(self, X)) is None:
            return method(self, X)
        parts = row_parts(source, self.n_features_in_)
        results = [method(self, TablePart(part)) for part in parts]
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
        fitted = copy(self)  # where this one is fitted again, rows stay what they are
        return table.made_by(self, lambda part: method(fitted, part), source)

    return whole  # type: ignore[return-value]


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
    source: Steady = table.source_for(estimator, estimator._source)
    return source
