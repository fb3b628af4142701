"""Transformers that learn levels and fill missing values privately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from pabi.account.analyses.mechanisms import failure_of
from pabi.describe.statistics import NoisyColumnStatistics
from pabi.execute.cells import text_of, texts_of
from pabi.execute.sources import Parts
from pabi.execute.statistics import level_counts
from pabi.execute.tables import tagged
from pabi.learn.columns import read_levels
from pabi.learn.plans import documented
from pabi.learn.private_columns import PrivateColumns, gaussian_mu
from pabi.learn.scaler import MomentsInRanges, means, spread_of
from pabi.numbers import validate
from pabi.numbers.errors import must_be, require
from pabi.numbers.rounding import Array

# A transformer that learns the levels of columns privately, and writes each as a feature of its own.


FAILURE = 0.2  # of δ: the probability that some level is shown that one record alone has
_ROUNDING = 1e-9
MISSING = ""


class LevelSearch(PrivateColumns):
    """How transformers count levels: the noise and the threshold, and what cells are as levels."""

    def _rules(self) -> Mapping[str, Any]:
        """Cells of any kind, as they are."""
        return {"sparse": False, "dtype": None, "ensure_all_finite": False}

    def _level_counts(self, n: int, d: int) -> NoisyColumnStatistics:
        """The counts that cost (ε, δ)."""
        threshold = threshold_of(FAILURE * self.delta, d)
        blank = self._blank(n, d, "levels", threshold=threshold)
        left = (self.delta - failure_of(threshold, d)) * (1.0 - _ROUNDING)
        return self._with_noise(blank, gaussian_mu(self.epsilon, left))


def level_counters(table: Parts, columns: Sequence[int]) -> list[Counter[str]]:
    """How many records have each level of these columns."""
    counters: list[Counter[str]] = [Counter() for _ in columns]
    for part in table:
        for counter, j in zip(counters, columns, strict=True):
            counter.update(texts_of("X", part[:, j]))
    return counters


def threshold_of(failure: float, columns: int) -> float:
    """z with 1 − (1 − Q(z))^d at most `failure`, and hardly less."""
    threshold = max(0.0, spread_of(failure / columns))
    while failure_of(threshold, columns) > failure:
        threshold += _ROUNDING * max(1.0, threshold)
    return threshold


@tagged(input_tags__categorical=True, input_tags__string=True, transformer_tags__preserves_dtype=[])
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateCategories(
    TransformerMixin,  # type: ignore[misc]
    LevelSearch,
    BaseEstimator,  # type: ignore[misc]
):
    """Learns the frequent levels of columns with a proven (ε, δ), and writes each as a feature of 0 and 1.

    The levels that some record has are counted with noise, and those are shown whose noisy count is above a
    threshold. All other cells, of levels never seen too, share the feature `column: other`. A level that one
    record alone has is shown in some column with probability at most δ/5.

    Parameters
    ----------
    $BUDGET
    categories : "auto", or list or dict of the levels of every column
        Declared levels are public and cost nothing. "auto", or None in place of one column's levels, for
        those to be learnt.
    $RELEASE

    Attributes
    ----------
    categories_ : list of tuple of str
        The levels of each column, sorted, as text without outer blanks; "" stands for missing cells. 1, 1.0
        and "1.0" are the level "1", True and "TRUE" the level "true".
    $RELEASED_COLUMNS

    Notes
    -----
    Exactly one feature of each column is 1, so that rows have norm √(number of columns). A guarantee with
    levels that are learnt has a probability of failure, which no ledger accepts; with declared levels
    `guarantee_` is None, as nothing is released.

    References
    ----------
    Wilkins, Kifer, Zhang, Karrer 2024; docs, "Theory", 18.
    """

    categories: Any = "auto"

    def _levels(self, d: int) -> list[tuple[str, ...] | None]:
        """The declared levels of every column, None for those to be learnt. Raises InvalidInput."""
        if isinstance(self.categories, str):
            must_be(self.categories == "auto", "categories", '"auto" or levels', self.categories)
            return [None] * d
        names = getattr(self, "feature_names_in_", None)
        return [
            None if own is None else tuple(sorted(map(text_of, read_levels("categories", own, 1))))
            for own in _by_column(self.categories, names, d)
        ]

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        learnt = sum(own is None for own in self._levels(d))
        return (self._level_counts(n, learnt),) if learnt else ()

    def _learnt(
        self,
        table: Parts,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        levels = self._levels(table.shape[1])
        if generator is not None:
            columns = level_counters(table, [j for j, own in enumerate(levels) if own is None])
            shown = iter(level_counts(releases[0], columns, generator))
            levels = [tuple(next(shown)) if own is None else own for own in levels]
        return {"categories_": levels}

    def transform(self, X: ArrayLike) -> Any:
        """The features of the cells.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or LargeTable
            Cells of any kind. Of a large table comes a large table, which is made anew in every pass over it.

        Returns
        -------
        array
            (m, number of features) float64 of 0 and 1; a frame where `set_output` says so.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to.
        NotFittedError
            `fit` was not called before.
        """
        return self._images(X)

    def _image(self, cells: NDArray[Any]) -> Array:
        return np.hstack(
            [_indicators(texts_of("X", cells[:, j]), own) for j, own in enumerate(self.categories_)]
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the features: `column=level`, `column: missing` and `column: other`.

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
        names = _check_feature_names_in(self, input_features)
        return np.array(
            [
                feature
                for name, own in zip(names, self.categories_, strict=True)
                for feature in (*(_feature(name, level) for level in own), f"{name}: other")
            ],
            dtype=object,
        )


def _feature(name: str, level: str) -> str:
    return f"{name}={level}" if level != MISSING else f"{name}: missing"


def _indicators(cells: Sequence[str], levels: Sequence[str]) -> Array:
    """(m, number of levels and one): where each cell is 1."""
    place = {
        text_of(level): k for k, level in enumerate(levels)
    }  # older models wrote "1.0" for "1"
    features = np.zeros((len(cells), len(levels) + 1))
    features[np.arange(len(cells)), [place.get(cell, len(levels)) for cell in cells]] = 1.0
    return features


def _by_column(categories: Any, names: Any, d: int) -> list[Any]:
    """Levels, given for every column in order or by name. Raises InvalidInput."""
    if isinstance(categories, Mapping):
        columns = list(categories) if names is None else [str(name) for name in names]
        require(
            set(categories) == set(columns) and len(columns) == d,
            "categories",
            f"expected levels, or None, for each of {d} columns",
        )
        return [categories[name] for name in columns]
    require(
        isinstance(categories, (list, tuple)) and len(categories) == d,
        "categories",
        f"expected levels, or None, for each of {d} columns",
    )
    return list(categories)


def learns_levels(step: PrivateCategories) -> bool:
    """Whether the levels of some column are learnt, so that how many features there are is as well."""
    match step.categories:
        case Mapping() as named:
            return any(levels is None for levels in named.values())
        case list() | tuple() as listed:
            return any(levels is None for levels in listed)
        case other:  # "auto", or what `fit` refuses
            return isinstance(other, str)


_STRATEGIES = ("mean", "median", "most_frequent", "constant")
_HALF = (0.5,)


@tagged(
    input_tags__string=lambda self: self.strategy in ("most_frequent", "constant"),
    transformer_tags__preserves_dtype=[],
)
@documented
@dataclass(eq=False, repr=False, kw_only=True)
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

    strategy: str = "mean"
    fill_value: Any = None
    add_indicator: bool = False

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        validate.flag("add_indicator", self.add_indicator)
        self._filler()
        match validate.choice("strategy", self.strategy, _STRATEGIES):
            case "mean":
                return self._planned_moments(n, d)
            case "median":
                bounded = self._declared_ranges(d) is not None
                return (self._range_counts(n, d, 1.0, quantiles=_HALF, bounded=bounded),)
            case "most_frequent":
                return (self._level_counts(n, d),)
            case _:
                return ()

    def _learnt(
        self,
        table: Parts,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        fill = self._filler()
        if generator is None:
            return {"statistics_": np.array([fill] * table.shape[1], dtype=object)}
        statistics = self._statistics(table, releases, generator)
        return {"statistics_": np.array(statistics, np.float64 if self._numeric else object)}

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

    def _rules(self) -> Mapping[str, Any]:
        return (PrivateColumns if self._numeric else LevelSearch)._rules(self)

    def transform(self, X: ArrayLike) -> Any:
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
        return self._images(X)

    def _image(self, cells: NDArray[Any]) -> NDArray[Any]:
        gaps = _gaps(cells)
        whole = np.where(gaps, self.statistics_, cells.astype(self.statistics_.dtype))
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


def _most_frequent(counts: Mapping[str, float]) -> str | None:
    """The level of the largest noisy count, None where none is shown."""
    shown = {level: count for level, count in counts.items() if level != MISSING}
    return max(shown, key=lambda level: shown[level]) if shown else None


def _gaps(table: NDArray[Any]) -> NDArray[np.bool_]:
    if table.dtype.kind in "biu":  # which have no missing values
        return np.zeros(table.shape, dtype=bool)
    if table.dtype.kind == "f":
        return np.asarray(np.isnan(table))
    texts = np.array(texts_of("X", table.ravel()), dtype=object)
    return np.asarray(texts == MISSING, dtype=bool).reshape(table.shape)
