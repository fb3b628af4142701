"""Rows within public bounds: what estimators and transformers have in common before anything is learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.large_records import LargeRecords
from pabi.execute.large_tables import LargeTable
from pabi.execute.records import Records, seen_norm
from pabi.execute.sources import Steady
from pabi.features.tables import checked
from pabi.learn.large_rows import LargeRows, large_rows
from pabi.learn.private_steps import PrivateStep
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP
from pabi.numbers.ranges import by_column
from pabi.numbers.rounding import Array
from pabi.numbers.warning import warn_once

_WIDER = (
    "some rows exceed feature_norm or feature_ranges and were scaled down: give wider feature_ranges or a "
    "larger feature_norm, from public knowledge"
)
_PRIVATE = (
    "whether it is one row or all of them is private and not said; this warning depends on the data: keep it "
    "to yourself"
)


class BoundedRows(PrivateStep):
    """scikit-learn's checks of X, and its rows within the bounds that the constructor declares.

    `feature_norm`: R or "auto". `feature_ranges`: of every column, None without any. `intercept_scaling`: of
    a constant column, which `fit_intercept` adds.
    """

    feature_norm: float | str
    feature_ranges: Any
    fit_intercept: bool
    intercept_scaling: float
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def _checked(self, X: Any, **kwargs: Any) -> Any:
        return checked(self, X, **kwargs)

    def _records(self, X: Any) -> Records:
        """The rows of `X` within the declared bounds."""
        norm, constant = self._row_norm(self.n_features_in_), self._intercept_feature
        if isinstance(X, LargeRows):
            return LargeRecords(X.table, norm, constant, self._ranges(), without=X.without)
        return Records(X, norm, constant, self._ranges())

    def _source(self, table: LargeTable, without: Sequence[str] = ()) -> tuple[Steady, int]:
        """(the rows that are read of a large table, how many columns they have)."""
        return table.features(without)

    def _large(self, X: Any, *beside: Any) -> LargeRows | None:
        """The rows of a table that is read in passes, None of one in memory; sets what `_checked` sets.

        `beside`: what stands beside the features; of it, names are those of columns.
        """
        return large_rows(self, LargeTable(X) if isinstance(X, np.memmap) else X, *beside)

    def _row_norm(self, d: int) -> float:
        """R for d columns, as stated or √d for features in [−1, 1]; without ranges 1."""
        norm = number_or_auto("feature_norm", self.feature_norm)
        if norm is not None or self.feature_ranges is None:
            return 1.0 if norm is None else norm
        # Above √d by more than `Records` rounds norms up, so that no row within the ranges is scaled.
        return math.sqrt(d) * (1.0 + (d + 32) * HALF_ULP)

    @property
    def _intercept_feature(self) -> float | None:
        return self.intercept_scaling if self.fit_intercept else None

    def _ranges(self) -> Any:
        names = getattr(self, "feature_names_in_", None)
        return by_column(self.feature_ranges, names, self.n_features_in_)

    def _seen_norm(self, d: int) -> float:
        """The largest norm of a row of d columns as the model sees it, the constant included."""
        return seen_norm(self._row_norm(d), self._intercept_feature)

    def _map(self) -> tuple[Array, Array]:
        """Centres and half widths of the declared ranges, 0 and 1 without them."""
        d = self.n_features_in_
        blank = Records(np.zeros((1, d)), ranges=self._ranges())
        return (
            np.zeros(d) if blank.centre is None else blank.centre,
            np.ones(d) if blank.reach is None else blank.reach,
        )

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


def warn_if_shortened(records: Records, *, stacklevel: int, advice: str = _WIDER) -> None:
    """Warns, on behalf of a caller so many frames up, where some row was scaled down or clipped.

    One bit, for whoever holds the data; no model stores it, and nothing is counted. `advice`: what happened
    to rows, and what to do about it.
    """
    if records.shortened:
        warn_once(f"{advice}; {_PRIVATE}", UserWarning, stacklevel=stacklevel)


def number_or_auto(name: str, value: Any, **bounds: float) -> float | None:
    """A number the user gave, None for "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise InvalidInput(name, f'expected "auto" or a number, got {value!r}')
        return None
    return validate.number(name, value, **bounds)
