"""A transformer that centres and scales columns by their means and spreads, learnt privately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from pabi.describe.column_statistics import NoisyColumnStatistics
from pabi.execute.column_statistics import column_moments
from pabi.execute.table_passes import Cells, changed
from pabi.learn.documentation import documented
from pabi.learn.large_rows import as_it_is_read
from pabi.learn.private_columns import onto_unit, root_share
from pabi.learn.ranges import RangeSearch
from pabi.numbers import validate
from pabi.numbers.fields import POSITIVE
from pabi.numbers.rounding import Array

QUANTILES = (0.01, 0.99)  # of ranges that are bought
_CLEAR = 3.0  # standard deviations of noise that a number of missing values has to exceed
_FINEST = 2.0**-24  # the least variance of a column, of a half range squared


class MomentsInRanges(RangeSearch):
    """How transformers learn means within ranges that are declared, or bought by a share of the budget."""

    feature_ranges: Any
    ranges_share: float

    def _declared_ranges(self, d: int) -> Array | None:
        """(2, d), None where they are bought."""
        if isinstance(self.feature_ranges, str):
            validate.choice("feature_ranges", self.feature_ranges, ("auto",))
            return None
        return self._declared(self.feature_ranges, d)

    def _planned_moments(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        mu, blank = self._mu(), self._blank(n, d, "moments")
        share = validate.number("ranges_share", self.ranges_share, above=0.0, below=1.0)
        if self._declared_ranges(d) is not None:
            return (self._with_noise(blank, mu),)
        counts = self._range_counts(n, d, share, quantiles=QUANTILES, bounded=False)
        return counts, self._with_noise(blank, root_share(mu, 1.0 - share))

    def _moments(
        self,
        table: Cells,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator,
    ) -> tuple[Array, Array]:
        """(ranges, the noisy moments of the values within them)."""
        *before, moments = releases
        ranges = self._declared_ranges(table.shape[1])
        if before:
            how: Any = {"quantiles": QUANTILES, "bounds": None}
            ends = self._searched(before[0], table, generator, **how)
            ranges = self._ranges_from(before[0], ends, **how)
        assert ranges is not None
        within = changed(table, lambda cells: onto_unit(cells, ranges))
        return ranges, column_moments(moments, within, generator)


def values_there_are(missing: Array, moments: NoisyColumnStatistics) -> Array:
    """About how many values of each column there are, from the noisy numbers of missing ones; at least 1."""
    clear = missing > _CLEAR * moments.column_noise_std
    return np.asarray(np.maximum(moments.n - np.where(clear, missing, 0.0), 1.0))


def means(values: Array, moments: NoisyColumnStatistics) -> Array:
    """The mean of each column in [−1, 1], 0 where noise could make up so few values."""
    there = values_there_are(values[2], moments)
    enough = there > _CLEAR * moments.column_noise_std
    return np.where(enough, np.clip(values[0] / there, -1.0, 1.0), 0.0)


@documented
@dataclass(eq=False, repr=False)
class PrivateScaler(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    MomentsInRanges,
    BaseEstimator,  # type: ignore[misc]
):
    """Centres columns and scales them to variance 1, by noisy moments with a proven (ε, δ).

    Parameters
    ----------
    $BUDGET
    $COLUMN_RANGES
    bound : float, > 0
        Values are clipped to [−bound, bound] after scaling: `feature_ranges=(-bound, bound)` of the model
        that follows shortens no row.
    $RELEASE

    Attributes
    ----------
    mean_, scale_ : (d,) arrays
        What is taken off a column, and what it is divided by.
    ranges_ : (2, d) array
        The ranges within which moments were taken.
    $RELEASED_COLUMNS

    Raises
    ------
    TargetUnreachable
        In `fit` and `plan`, where noise hides the quantiles of ranges that are bought; its `best` is an ε at
        which it would not.

    Notes
    -----
    A variance below the size of its noise is raised to it. Missing values are left out, and stay missing. The
    sums of squares and the numbers of missing values cost nothing beside the sums.

    References
    ----------
    docs, "Prepare data privately"; docs, "Theory", 18.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    feature_ranges: Any = "auto"
    ranges_share: float = 0.5
    bound: float = 3.0
    adjacency: str = "replace_one"
    random_state: Any = None
    ledger: Any = None
    strict: bool = False

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        POSITIVE("bound", self.bound)
        return self._planned_moments(n, d)

    def _learnt(
        self,
        table: Cells,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        assert generator is not None
        ranges, values = self._moments(table, releases, generator)
        moments = releases[-1]
        mean = means(values, moments)
        square = 1.0 - values[1] / values_there_are(values[2], moments)
        least = max(moments.column_noise_std / moments.n, _FINEST)
        spread = np.sqrt(np.clip(square - mean * mean, least, 1.0))
        centre, reach = ranges.mean(axis=0), ranges[1] / 2.0 - ranges[0] / 2.0
        return {"ranges_": ranges, "mean_": centre + reach * mean, "scale_": reach * spread}

    @as_it_is_read
    def transform(self, X: ArrayLike) -> Array:
        """The values, centred, scaled and clipped.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or LargeTable
            Numbers, NaN where one is missing. Of a large table comes a large table, which is made anew in
            every pass over it.

        Returns
        -------
        array
            (m, d) float64 in [−bound, bound]; a frame where `set_output` says so.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to, or holds what is no number.
        NotFittedError
            `fit` was not called before.
        """
        within = np.clip(self._fitted_table(X), *self.ranges_)
        return np.asarray(np.clip((within - self.mean_) / self.scale_, -self.bound, self.bound))
