"""A transformer that fills in missing values with statistics that are learnt privately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from pabi.describe.column_statistics import NoisyColumnStatistics
from pabi.execute.column_statistics import level_counts
from pabi.execute.large_tables import LargeTable
from pabi.execute.sources import Steady
from pabi.execute.table_passes import Cells, TablePasses
from pabi.features.cells import texts_of
from pabi.features.table_parts import TablePart
from pabi.learn.categories import MISSING, LevelSearch, level_counters
from pabi.learn.documentation import documented
from pabi.learn.large_rows import as_it_is_read, large_rows
from pabi.learn.scaler import MomentsInRanges, means
from pabi.numbers import validate
from pabi.numbers.fields import flag

_GAPLESS = "biu"  # kinds of numpy's types that have no missing values
_STRATEGIES = ("mean", "median", "most_frequent", "constant")
_HALF = (0.5,)


@documented
@dataclass(eq=False, repr=False)
class PrivateImputer(
    TransformerMixin,  # type: ignore[misc]
    MomentsInRanges,
    LevelSearch,
    BaseEstimator,  # type: ignore[misc]
):
    """Fills in missing values by a mean, a median or a frequent level, learnt with a proven (ε, δ).

    Parameters
    ----------
    $BUDGET
    strategy : str
        "mean" or "median" of numbers, "most_frequent" of cells of any kind, or "constant", which learns and
        costs nothing. How many values are missing is never shown without noise.
    fill_value : number or str, optional
        What "constant" fills in, and the others in a column with too few values to learn from. None: 0.
    $COLUMN_RANGES_OF_IMPUTER
    add_indicator : bool
        Whether a feature follows for every column that is 1 where its value was missing. All columns have
        one: which have gaps is private.
    $RELEASE

    Attributes
    ----------
    statistics_ : (d,) array
        What is filled in: numbers, or levels as text.
    $RELEASED_COLUMNS

    Raises
    ------
    TargetUnreachable
        In `fit` and `plan`, where noise hides the medians or ranges; its `best` is an ε at which it would
        not.

    References
    ----------
    docs, "Prepare data privately"; docs, "Theory", 18.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    strategy: str = "mean"
    fill_value: Any = None
    feature_ranges: Any = "auto"
    ranges_share: float = 0.5
    add_indicator: bool = False
    adjacency: str = "replace_one"
    random_state: Any = None
    ledger: Any = None
    strict: bool = False

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        flag("add_indicator", self.add_indicator)
        match validate.choice("strategy", self.strategy, _STRATEGIES):
            case "mean":
                return self._planned_moments(n, d)
            case "median":
                bounded = self._declared_ranges(d) is not None
                how: Any = {"quantiles": _HALF, "bounded": bounded}
                return (self._range_counts(n, d, 1.0, **how),)
            case "most_frequent":
                return (self._level_counts(n, d, declared=False),)
            case _:
                return ()

    def _learnt(
        self,
        table: Cells,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        width = table.shape[1]
        fill = self._filler()
        if generator is None:
            return {"statistics_": np.array([fill] * width, dtype=object)}
        statistics = self._statistics(table, releases, generator)
        kind = np.float64 if self._numeric else object
        return {"statistics_": np.array(statistics, dtype=kind)}

    @property
    def _numeric(self) -> bool:
        """Whether tables are of numbers; otherwise cells are of any kind."""
        return self.strategy in ("mean", "median")

    def _statistics(self, table: Any, releases: Any, generator: np.random.Generator) -> list[Any]:
        match self.strategy:
            case "mean":
                ranges, values = self._moments(table, releases, generator)
                reach = ranges[1] / 2.0 - ranges[0] / 2.0
                return list(ranges[0] / 2.0 + ranges[1] / 2.0 + reach * means(values, releases[-1]))
            case "median":
                bounds = self._declared_ranges(table.shape[1])
                ends = self._searched(releases[0], table, generator, quantiles=_HALF, bounds=bounds)
                fill = self._filler()
                return [own[0] / 2.0 + own[1] / 2.0 if own else fill for own in ends]
            case _:
                columns = level_counters(table, range(table.shape[1]))
                most = map(_most_frequent, level_counts(releases[0], columns, generator))
                return [self._filler() if level is None else level for level in most]

    def _filler(self) -> Any:
        """What is filled in where nothing is learnt. Raises InvalidInput."""
        value = 0.0 if self.fill_value is None else self.fill_value
        return validate.number("fill_value", value) if self._numeric else value

    def _table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        if self._numeric:
            return np.asarray(super()._table(X, reset=reset))
        return self._cells(X, reset=reset)

    def _fitting_table(self, X: Any, y: Any) -> Any:
        if self._numeric or (rows := large_rows(self, X, y)) is None:
            return super()._fitting_table(X, y)
        source, d = rows.table.cells(
            rows.without
        )  # as they are: numbers would not say what is true
        return TablePasses.counted(
            source, d, lambda part: self._cells(TablePart(part), reset=False)
        )

    def _source(self, table: LargeTable, without: Sequence[str] = ()) -> tuple[Steady, int]:
        return table.features(without) if self._numeric else table.cells(without)

    @as_it_is_read
    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The table with its gaps filled in, and with indicators of them if `add_indicator`.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or LargeTable
            The table. Of a large table comes a large table, which is made anew in every pass over it.

        Returns
        -------
        array
            (m, d) or (m, 2d): doubles where means or medians are filled in, else objects, whatever the type
            of the table. A frame where `set_output` says so.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to.
        NotFittedError
            `fit` was not called before.
        """
        table = self._fitted_table(X)
        gaps = _gaps(table)
        whole = np.where(gaps, self.statistics_, table.astype(self.statistics_.dtype))
        indicators = gaps.astype(np.float64).astype(whole.dtype)
        return np.hstack([whole, indicators]) if self.add_indicator else whole

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns, and with `add_indicator` `column: missing` of each.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns, where X had none.

        Returns
        -------
        array
            The names, in the order of the features.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        """
        check_is_fitted(self)
        names = list(_check_feature_names_in(self, input_features))
        return np.array(
            names + [f"{name}: missing" for name in names] * self.add_indicator, dtype=object
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = self.strategy in ("most_frequent", "constant")
        tags.transformer_tags.preserves_dtype = []
        return tags


def _most_frequent(counts: Mapping[str, float]) -> str | None:
    """The level of the largest noisy count, None where none is shown."""
    shown = {level: count for level, count in counts.items() if level != MISSING}
    return max(shown, key=lambda level: shown[level]) if shown else None


def _gaps(table: NDArray[Any]) -> NDArray[np.bool_]:
    if table.dtype.kind in _GAPLESS:
        return np.zeros(table.shape, dtype=bool)
    if table.dtype.kind == "f":
        return np.asarray(np.isnan(table))
    texts = np.array(texts_of("X", table.ravel()), dtype=object)
    return np.asarray(texts == MISSING, dtype=bool).reshape(table.shape)
