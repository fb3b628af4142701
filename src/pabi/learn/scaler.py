"""Transformers of numbers that are learnt privately: ranges, means, spreads, directions."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)

from pabi.budget.ledger import check_ledger
from pabi.describe.statistics import NoisyColumnStatistics, NoisySecondMoments
from pabi.execute.checkpoint import randomness_from
from pabi.execute.hiding import Terms
from pabi.execute.large_tables import computed_apart, in_memory
from pabi.execute.records import LARGEST, Records
from pabi.execute.sources import Parts
from pabi.execute.statistics import Asking, Question, column_moments, conclusions
from pabi.execute.sums import UserRows
from pabi.execute.tables import checked, tagged
from pabi.learn.pipelines import notes_of
from pabi.learn.plans import (
    ONE_FIT,
    PREPROCESSING,
    documented,
    planned,
    released_moments,
    resolves,
    resolving,
    whitening,
)
from pabi.learn.private_columns import PrivateColumns, onto_unit
from pabi.learn.rows import (
    AllOrNothing,
    BoundedRows,
    count_fit,
    fitted_before,
    users_of_rows,
    warn_if_shortened,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable, require
from pabi.numbers.gaussian import gdp_to_epsilon
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, plain, shown

# Finding quantiles of a column by noisy counts: bisection, on public thresholds and then within them.
#
# Each count is asked after the noisy answers before it. The share of records that a quantile leaves out
# is moved inwards as far as noise may mislead, so that a threshold beyond all values is not taken for one
# within.


_NEAR = (-40, 56)  # octaves with thresholds at every eighth: 10⁻¹² to 7·10¹⁶
_COARSE = 8  # octaves between the thresholds beyond
_EIGHTHS = 8
_HALVINGS = 4  # between two public thresholds
_HALVINGS_WITHIN = 8  # between declared bounds
_DOUBT = 0.01  # about the probability that noise misleads one of all searches
_LARGEST = float(np.finfo(np.float64).max) / 4.0
BOTH = math.sqrt(2.0)  # the noise of a difference of two answers over that of one


@cache
def thresholds() -> Array:
    """Public thresholds for columns of which nothing is declared: ±2^k·(1 + j/8), 0, and a few far out."""
    far = [2.0**k for k in range(_NEAR[1], 1017, _COARSE)]
    near = [math.ldexp(1.0 + j / _EIGHTHS, k) for k in range(*_NEAR) for j in range(_EIGHTHS)]
    tiny = [2.0**k for k in range(-1016, _NEAR[0], _COARSE)]
    sizes = np.array([*tiny, *near, *far, _LARGEST])
    both = np.concatenate([-sizes[::-1], [0.0], sizes])
    both.flags.writeable = False
    return both


@dataclass(frozen=True)
class RankSearch:
    """How quantiles of one column are found.

    `shares`: of the values that are at most each quantile. `margin`: how many records the noise on an answer
    may make up. `bounds`: declared (low, high), None without any.
    """

    shares: tuple[float, ...]
    margin: float
    bounds: tuple[float, float] | None

    def asking(self) -> Asking:
        """Asks for counts; concludes (low, high) around each quantile in turn, nothing of a column with too
        few values."""
        bounds = self.bounds
        grid = thresholds() if bounds is None else midpoints(*bounds, _HALVINGS_WITHIN)
        count = yield Question(math.inf, grid)
        above = BOTH * self.margin  # below the number of values, which is noisy as well
        if not count > self.margin + above:
            return ()
        ends: list[float] = []
        for share in self.shares:
            ends += yield from self._around(min(max(share * count, self.margin), count - above))
        return tuple(ends)

    def _around(self, target: float) -> Generator[Question, float, tuple[float, float]]:
        """(low, high) between which the count passes the target."""
        if self.bounds is not None:
            return (yield from _halved(target, *self.bounds, _HALVINGS_WITHIN))
        grid = thresholds()
        first, last = 0, len(grid) - 1
        while last - first > 1:
            middle = (first + last) // 2
            count = yield Question(float(grid[middle]))
            first, last = (middle, last) if count < target else (first, middle)
        return (yield from _halved(target, float(grid[first]), float(grid[last]), _HALVINGS))


def _halved(
    target: float, low: float, high: float, times: int
) -> Generator[Question, float, tuple[float, float]]:
    for left in range(times, 0, -1):
        middle = low / 2.0 + high / 2.0
        count = yield Question(middle, midpoints(low, high, left))
        low, high = (middle, high) if count < target else (low, middle)
    return low, high


def midpoints(low: float, high: float, times: int) -> list[float]:
    """All thresholds that so many halvings of (low, high) may ask for, in order."""
    if times == 0:
        return []
    middle = low / 2.0 + high / 2.0
    return [*midpoints(low, middle, times - 1), middle, *midpoints(middle, high, times - 1)]


def questions_of(quantiles: int, *, bounded: bool) -> int:
    """How many counts of a column are asked: that of its values, and those of the searches."""
    anywhere = math.ceil(math.log2(len(thresholds()) - 1)) + _HALVINGS
    return 1 + quantiles * (_HALVINGS_WITHIN if bounded else anywhere)


def margin_of(noise_std: float, counts: int) -> float:
    """What the noise on so many counts hardly exceeds."""
    return noise_std * spread_of(_DOUBT / max(counts, 1))


def spread_of(share: float) -> float:
    """How many standard deviations from the mean a normal column's quantile is that leaves so much out."""
    from scipy.special import ndtri

    return float(-ndtri(share))


# A transformer that learns the range of every column privately, and clips to it.


OUTERMOST = (
    0.3  # the share of records that a quantile may leave out at most, however strong the noise
)
_INNERMOST_TAIL = 1e-3  # the least share that a range is widened for
_UNKNOWN = (-1.0, 1.0)  # of a column with too few values, where nothing is declared


class RangeSearch(PrivateColumns):
    """How transformers buy ranges of columns: the plan of the counts, and what follows from them."""

    def _range_counts(
        self, n: int, d: int, share: float, *, quantiles: tuple[float, ...], bounded: bool
    ) -> NoisyColumnStatistics:
        """The counts that cost a share of the budget's μ²."""
        questions = questions_of(len(quantiles), bounded=bounded)
        blank = self._blank(n, d, "counts", questions=questions)
        counts = self._with_noise(blank, self._mu() * math.sqrt(share))
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
        table: Parts,
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

    def _bought(
        self,
        counts: NoisyColumnStatistics,
        table: Parts,
        generator: np.random.Generator,
        *,
        quantiles: tuple[float, ...],
        bounds: Array | None,
    ) -> Array:
        """(2, d): the ranges that follow from (low, high) around a low and a high quantile."""
        ends = self._searched(counts, table, generator, quantiles=quantiles, bounds=bounds)
        margin = margin_of(counts.column_noise_std, counts.columns * counts.questions) / counts.n
        low, high = quantiles
        by = (_widened(low, margin), _widened(1.0 - high, BOTH * margin))
        most = [None] * len(ends) if bounds is None else [(a, b) for a, b in bounds.T.tolist()]
        rows = [_range(own, by, limits) for own, limits in zip(ends, most, strict=True)]
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
@dataclass(eq=False, repr=False, kw_only=True)
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

    quantiles: Any = (0.01, 0.99)
    bounds: Any = None
    scaled: bool = True

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
        validate.flag("scaled", self.scaled)
        bounded = self._declared(self.bounds, d) is not None
        return (self._range_counts(n, d, 1.0, quantiles=self._quantiles(), bounded=bounded),)

    def _learnt(
        self,
        table: Parts,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        assert generator is not None
        bounds = self._declared(self.bounds, table.shape[1])
        ranges = self._bought(
            releases[0], table, generator, quantiles=self._quantiles(), bounds=bounds
        )
        return {"ranges_": ranges}

    def transform(self, X: ArrayLike) -> Any:
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
        return self._images(X)

    def _image(self, cells: Array) -> Array:
        ranges = self.ranges_
        return onto_unit(cells, ranges) if self.scaled else np.asarray(np.clip(cells, *ranges))


QUANTILES = (0.01, 0.99)  # of ranges that are bought
_CLEAR = 3.0  # standard deviations of noise that a number of missing values has to exceed
_FINEST = 2.0**-24  # the least variance of a column, of a half range squared


@dataclass(eq=False, repr=False, kw_only=True)
class MomentsInRanges(RangeSearch):
    """How transformers learn means within ranges that are declared, or bought by a share of the budget."""

    feature_ranges: Any = "auto"
    ranges_share: float = 0.5

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
        return counts, self._with_noise(blank, mu * math.sqrt(1.0 - share))

    def _moments(
        self,
        table: Parts,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator,
    ) -> tuple[Array, Array]:
        """(ranges, the noisy moments of the values within them)."""
        *before, moments = releases
        ranges = self._declared_ranges(table.shape[1])
        if before:
            ranges = self._bought(before[0], table, generator, quantiles=QUANTILES, bounds=None)
        assert ranges is not None
        within = table.mapped(lambda cells: onto_unit(cells, ranges))
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
@dataclass(eq=False, repr=False, kw_only=True)
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

    bound: float = 3.0

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        validate.POSITIVE("bound", self.bound)
        return self._planned_moments(n, d)

    def _learnt(
        self,
        table: Parts,
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

    def transform(self, X: ArrayLike) -> Any:
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
        return self._images(X)

    def _image(self, cells: Array) -> Array:
        within = np.clip(cells, *self.ranges_)
        return np.asarray(np.clip((within - self.mean_) / self.scale_, -self.bound, self.bound))


# A transformer that makes features alike in all directions, privately, for pipelines.


@tagged(transformer_tags__preserves_dtype=[])
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateWhitener(
    BoundedRows,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Whitens features by noisy second moments, which are released with a proven (ε, δ).

    Rows x, a constant included, become s·(Σ̃₊ + λI)^(−1/2)·x with Σ̃ the noisy mean of x·xᵀ, λ the size of its
    noise and s such that all rows have one norm. It centres as well, since the constant is one of the
    features.

    Parameters
    ----------
    $TARGET
    equal_norms : bool
        Whether every row is scaled to `output_norm`; a row of zeros stays one. If not, only longer rows are
        scaled down to it, and the map is such that the mean square of norms is about half of its square.
    output_norm : float, > 0
        The norm of rows that come out: `feature_norm` of the estimator that follows.
    adjacency : str
        "replace_one" or "zero_out".
    noise_std : float, > 0, optional
        σ of the noise on the sum of x·xᵀ, in place of `epsilon`.
    $ROWS
    users : int or (n,) array-like, optional
        The enrolled users, where `fit` gets `groups`, as of the estimators.

    Attributes
    ----------
    guarantee_ : Guarantee
        What the release of the second moments costs. What is made of them costs nothing more.
    moments_ : NoisySecondMoments
        The release that was accounted and executed.
    preconditioner_ : RowMap
        The map.
    n_features_in_ : int
        d, the columns of X.
    feature_names_in_ : (d,) array
        Their names, where X has names.

    Raises
    ------
    TargetUnreachable
        In `fit`, where ε is so small that noise would hide all second moments there can be; its `best` is the
        ε above which it would not.

    Notes
    -----
    Of more than 4096 columns only the diagonal of Σ̃ is released, and features are scaled one by one; a sparse
    table then stays sparse.

    References
    ----------
    docs, "Private preconditioning".
    """

    equal_norms: bool = True
    output_norm: float = 1.0

    def fit(self, X: ArrayLike, y: Any = None, *, groups: ArrayLike | None = None) -> Self:
        """This transformer, with second moments of the table released.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix, or LargeTable
            Features, real and finite. What `LargeTable` takes is read in passes; paths need it.
        y : ignored
            For pipelines. Where it names a column of a large table, that is no feature.
        groups : (n,) array-like, optional
            The user of every row, by any id, or the name of a column of a large table. A user contributes the
            mean of x·xᵀ.

        Returns
        -------
        self
            The transformer, with the attributes that end in an underscore.

        Raises
        ------
        InvalidInput
            An argument of the constructor or X is wrong; the error names it. It is a ValueError, as
            scikit-learn's own checks of X raise.
        TargetUnreachable
            ε is so small that noise would hide all second moments there can be; its `best` is the ε above
            which it would not.
        BudgetExceeded
            Less is left in `ledger`; nothing has then been computed from the data.

        Warns
        -----
        UserWarning
            Some row was scaled down or clipped to its range. Whether it was depends on the data.
        PrivacyWarning
            `random_state` is not None. This estimator, or a clone of it, was fitted before and has no
            `ledger`. Each once in a process.
        """
        with AllOrNothing(self):
            check_ledger(self.ledger)
            table = self._large(X, y, groups)
            records = self._records(checked(self, X) if table is None else table)
            apart = computed_apart(table, groups)
            groups = in_memory(table, groups, "groups")
            equal = validate.flag("equal_norms", self.equal_norms)
            output = validate.number(
                "output_norm", self.output_norm, at_least=1.0 / LARGEST, at_most=LARGEST
            )
            users, of_users = users_of_rows(groups, self.users, records.n)
            of_users += apart
            moments = self._moments(records, users)
            around = fitted_before(self, strict=self.strict)
            warn_if_shortened(records)
            terms = Terms(delta=self.delta, random_state=self.random_state, ledger=self.ledger)
            randomness_from(self.random_state)  # warns of a state that is not secret
            cost = moments.guarantee(self.delta)
            with terms.reserved(cost.assuming(PREPROCESSING, *of_users)):
                count_fit(self)
                part = replace(terms, ledger=None, proven=cost)
                one = released_moments(part, moments, records, users)
            self.preconditioner_ = whitening(one.values, moments, norm=output, equal=equal)
            self.moments_, self._n_features_out = moments, records.width
            self.guarantee_ = one.guarantee.assuming(PREPROCESSING, ONE_FIT, *of_users, *around)
            self.guarantee_ = self.guarantee_.noting(notes_of(self))
        return self

    def _moments(self, records: Records, users: UserRows | None) -> NoisySecondMoments:
        """The release, which depends on public numbers alone, or an error where noise hides everything."""
        delta = validate.number("delta", self.delta, above=0.0, below=1.0)
        moments = planned(
            records.n if users is None else users.users,
            records.width,
            norm=self._seen_norm(records.d),
            epsilon=validate.number("epsilon", self.epsilon, above=0.0),
            delta=delta,
            adjacency=self.adjacency,
            noise_std=self.noise_std,
            unit="record" if users is None else "user",
        )
        if resolves(moments):
            return moments
        hidden = f"noise hides the second moments of {records.width} columns in {moments.n} {moments.unit}s"
        most = resolving(moments)
        require(self.noise_std is None, "noise_std", f"{hidden}: expected less than {plain(most)}")
        least = replace(moments, noise_std=most).guarantee(delta).epsilon(delta)
        raise TargetUnreachable(
            f"at epsilon = {exact(self.epsilon)}, delta = {exact(delta)} {hidden}: expected an epsilon above "
            f"{shown(least)}, more rows or fewer columns",
            least,
        )

    def transform(self, X: ArrayLike) -> Any:
        """The rows within the declared bounds, mapped.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. Of a large table comes a large table, which is made anew in every pass
            over it.

        Returns
        -------
        array or CSR matrix
            (m, d), one column more where the constant is one; sparse where X is and each feature is scaled by
            itself. No row is longer than `output_norm`. Arrays are float32, unless that norm is out of its
            range.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return self._images(X)

    def _image(self, cells: Any) -> Any:
        return self.preconditioner_.table(
            self._records(cells), anywhere=self.moments_.unit == "user"
        )
