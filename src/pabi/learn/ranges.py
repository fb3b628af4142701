"""A transformer that learns the range of every column privately, and clips to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from pabi.convert.gdp import gdp_to_epsilon
from pabi.describe.column_statistics import NoisyColumnStatistics
from pabi.execute.column_statistics import conclusions
from pabi.execute.table_passes import Cells
from pabi.learn.documentation import documented
from pabi.learn.large_rows import as_it_is_read
from pabi.learn.private_columns import PrivateColumns, onto_unit, root_share
from pabi.learn.ranks import BOTH, RankSearch, margin_of, questions_of, spread_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.fields import flag
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, shown

OUTERMOST = (
    0.3  # the share of records that a quantile may leave out at most, however strong the noise
)
_INNERMOST_TAIL = 1e-3  # the least share that a range is widened for
_UNKNOWN = (-1.0, 1.0)  # of a column with too few values, where nothing is declared
_LARGEST = float(np.finfo(np.float64).max) / 4.0


class RangeSearch(PrivateColumns):
    """How transformers buy ranges of columns: the plan of the counts, and what follows from them."""

    def _range_counts(
        self, n: int, d: int, share: float, *, quantiles: tuple[float, ...], bounded: bool
    ) -> NoisyColumnStatistics:
        """The counts that cost a share of the budget's μ².

        Raises TargetUnreachable where noise hides all that they could show.
        """
        questions = questions_of(len(quantiles), bounded=bounded)
        blank = self._blank(n, d, "counts", questions=questions)
        counts = self._with_noise(blank, root_share(self._mu(), share))
        margin = BOTH * margin_of(counts.column_noise_std, d * questions)
        if margin > OUTERMOST * n:
            least = gdp_to_epsilon(min(self._mu() * margin / (OUTERMOST * n), 1e3), self.delta)
            raise TargetUnreachable(
                f"at epsilon = {exact(self.epsilon)}, delta = {exact(self.delta)} noise hides the quantiles "
                f"of {d} columns in {n} samples: expected an epsilon above about {shown(least)}, more rows, "
                "fewer columns, or declared bounds",
                least,
            )
        return counts

    def _searched(
        self,
        counts: NoisyColumnStatistics,
        table: Cells,
        generator: np.random.Generator,
        *,
        quantiles: tuple[float, ...],
        bounds: Array | None,
    ) -> list[tuple[float, ...]]:
        """(low, high) around each quantile of every column, nothing of columns with too few values."""
        margin = margin_of(counts.column_noise_std, counts.columns * counts.questions)

        def asking(j: int) -> Any:
            own = None if bounds is None else (float(bounds[0, j]), float(bounds[1, j]))
            return RankSearch(quantiles, margin, own).asking()

        return conclusions(counts, table, asking, generator)

    def _ranges_from(
        self,
        counts: NoisyColumnStatistics,
        ends: list[tuple[float, ...]],
        *,
        quantiles: tuple[float, ...],
        bounds: Array | None,
    ) -> Array:
        """(2, d): the ranges that follow from (low, high) around a low and a high quantile."""
        margin = margin_of(counts.column_noise_std, counts.columns * counts.questions) / counts.n
        low, high = quantiles
        by = (_widened(low, margin), _widened(1.0 - high, BOTH * margin))
        rows = []
        for j, own in enumerate(ends):
            most = None if bounds is None else (float(bounds[0, j]), float(bounds[1, j]))
            rows.append(_range(own, by, most))
        return np.array(rows, dtype=np.float64).T


def _widened(tail: float, margin: float) -> float:
    """By how much a half range grows that stops at `margin` records: as if the column were normal."""
    return max(1.0, spread_of(max(tail, _INNERMOST_TAIL)) / spread_of(max(tail, margin, 1e-12)))


def _range(
    ends: tuple[float, ...], by: tuple[float, float], bounds: tuple[float, float] | None
) -> tuple[float, float]:
    if not ends:
        return _UNKNOWN if bounds is None else bounds
    low, high = min(ends[0], ends[2]), max(ends[1], ends[3])  # noise may exchange the two quantiles
    middle = low / 2.0 + high / 2.0
    least, most = bounds or (-_LARGEST, _LARGEST)
    return (
        max(least, middle - by[0] * (middle - low)),
        min(most, middle + by[1] * (high - middle)),
    )


@documented
@dataclass(eq=False, repr=False)
class PrivateRanges(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    RangeSearch,
    BaseEstimator,  # type: ignore[misc]
):
    """Learns a range of every column with a proven (ε, δ), clips to it and maps it onto [−1, 1].

    A low and a high quantile of each column are found by bisection with noisy counts. Nothing has to be known
    of a column. Declared bounds save questions; ranges are then found to 1/256 of them.

    Parameters
    ----------
    $BUDGET
    quantiles : (low, high)
        Shares of the values below the range and up to its end, low < ½ < high. Where noise hides so small a
        tail, a larger one is left out, and the range is widened as if the column were normal.
    bounds : (low, high), (2, d) array or dict from columns to (low, high), optional
        Public bounds, between which a range is sought.
    scaled : bool
        Whether ranges are mapped onto [−1, 1]. If not, values are clipped only.
    $RELEASE

    Attributes
    ----------
    ranges_ : (2, d) array
        The lower and the upper ends.
    $RELEASED_COLUMNS

    Raises
    ------
    TargetUnreachable
        In `fit` and `plan`, where noise hides the quantiles; its `best` is an ε at which it would not.

    Notes
    -----
    Missing values are left out of the counts, and stay missing. A model that follows with
    `feature_ranges=(-1, 1)` shortens no row.

    References
    ----------
    docs, "Prepare data privately"; docs, "Theory", 18.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    quantiles: Any = (0.01, 0.99)
    bounds: Any = None
    scaled: bool = True
    adjacency: str = "replace_one"
    random_state: Any = None
    ledger: Any = None
    strict: bool = False

    def _quantiles(self) -> tuple[float, float]:
        try:
            low, high = self.quantiles
        except (TypeError, ValueError):
            raise InvalidInput("quantiles", "expected a pair (low, high)") from None
        return (
            validate.number("quantiles", low, at_least=0.0, below=0.5),
            validate.number("quantiles", high, above=0.5, at_most=1.0),
        )

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        flag("scaled", self.scaled)
        bounded = self._declared(self.bounds, d) is not None
        quantiles = self._quantiles()
        return (self._range_counts(n, d, 1.0, quantiles=quantiles, bounded=bounded),)

    def _learnt(
        self,
        table: Cells,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        assert generator is not None
        how: Any = {
            "quantiles": self._quantiles(),
            "bounds": self._declared(self.bounds, table.shape[1]),
        }
        ends = self._searched(releases[0], table, generator, **how)
        return {"ranges_": self._ranges_from(releases[0], ends, **how)}

    @as_it_is_read
    def transform(self, X: ArrayLike) -> Array:
        """The values within their ranges, mapped onto [−1, 1] if `scaled`.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame or LargeTable
            Numbers, NaN where one is missing. Of a large table comes a large table, which is made anew in
            every pass over it.

        Returns
        -------
        array
            (m, d) float64; a frame where `set_output` says so.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to, or holds what is no number.
        NotFittedError
            `fit` was not called before.
        """
        values = self._fitted_table(X)
        if self.scaled:
            return onto_unit(values, self.ranges_)
        return np.asarray(np.clip(values, *self.ranges_))
