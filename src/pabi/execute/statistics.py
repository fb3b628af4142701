"""Releases the noisy statistics that were accounted: second moments, and those of columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.ledger import Ledger
from pabi.describe.statistics import NoisyColumnStatistics, NoisySecondMoments
from pabi.execute.checkpoint import Randomness
from pabi.execute.hiding import Terms
from pabi.execute.noise import grid_for, noisy
from pabi.execute.records import MOST_ROWS, Records, refuse_longer
from pabi.execute.sources import Parts
from pabi.execute.sums import Total, UserRows, checked_groups, rounding_room
from pabi.numbers import validate
from pabi.numbers.errors import must_be, require
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, up
from pabi.tradeoff.certificate import released_notes
from pabi.tradeoff.guarantee import Guarantee

# Releases the noisy second moments that were accounted: the same description, executed on bounded rows.
#
# Rows are added up in blocks of at most 4096, and the sums of blocks with compensation. By the argument
# of `pabi.execute.sums` two computed sums, of adjacent data sets of n rows of norm R, are farther apart
# than the exact ones by at most R²·2n(m + 16)·2⁻⁵³ in Frobenius norm, m the rows of a block. The noise
# that is drawn is raised by as much, and by what rounding the sums to the grid of the noise may add
# (`pabi.execute.noise`): at most 2⁻²² of R², but for noise that is 2²³/d times as large or larger.


_HELD = 1 << 23  # numbers of dense rows in memory at once (64 MB)
_STRIP = 256  # rows of the matrix that one product adds to
_SPARSE = 64  # rows of which one number in so many is not 0 are multiplied faster as dense ones
_ROOT_HALF = up(math.sqrt(0.5))
_BY_THE_GRID = 2.0**-22  # of R², what rounding the sums to their grid may add
_SQUARES = 2.0**-800, 2.0**800  # of norms, between which nothing over- or underflows


class ReleasedMoments(NamedTuple):
    """Noisy second moments, with what their release costs.

    Attributes
    ----------
    values : float64 array
        S = Σ x·xᵀ + noise, (d, d) and symmetric, or its diagonal (d,); read-only. It is a sum, not a mean.
        Noise may make eigenvalues and sums of squares negative.
    guarantee : Guarantee
        What its release costs.

    References
    ----------
    docs, "Second moments".
    """

    values: Array
    guarantee: Guarantee


def second_moments(
    moments: NoisySecondMoments,
    records: Records,
    random_state: int | np.random.Generator | None = None,
    *,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
    groups: UserRows | ArrayLike | None = None,
) -> ReleasedMoments:
    """The noisy second moments of `records`, with their guarantee.

    Rows are those that a linear model sees: scaled down to the norm that the records declare, with the
    constant of an intercept at the end.

    Parameters
    ----------
    moments : NoisySecondMoments
        What to release.
    records : Records
        n rows of length `dimension`, with a declared `feature_norm`.
    random_state : None, int or numpy Generator
        None (default): noise from a ChaCha generator keyed by the operating system. Anything else is for
        tests: a PrivacyWarning, and a guarantee that says so.
    delta : float, in [0, 1)
        At which the guarantee is read; it is valid at every δ.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.
    groups : (m,) array-like
        The user of every row, for moments with `unit="user"`: a user contributes the mean of x·xᵀ.

    Returns
    -------
    ReleasedMoments
        The matrix or its diagonal, and the guarantee.

    Raises
    ------
    InvalidInput
        `moments` that have no noise, or that do not agree with the records in `n`, `dimension` or
        `feature_norm`; `records` or `random_state` of another type; δ out of its range.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    Dong, Roth, Su 2022, Theorem 2.7; docs, "Second moments".
    """
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    return noisy_moments(terms, moments, records, groups)


def noisy_moments(
    terms: Terms,
    moments: NoisySecondMoments,
    records: Records,
    groups: UserRows | ArrayLike | None,
) -> ReleasedMoments:
    """What `second_moments` returns, on these terms."""
    users = None if groups is None else checked_groups(groups, getattr(moments, "n", None))
    _refuse_others(moments, records, users)
    square, least = moments.feature_norm**2, moments.moment_noise_std
    must_be(_SQUARES[0] < square < _SQUARES[1], "feature_norm", f"a square in {_SQUARES}", square)
    grid = grid_for(square * _BY_THE_GRID / moments.dimension, least)
    moved = grid * moments.dimension / square
    must_be(moved < 0.25, "noise_std", "noise below 2⁴³/d times the square of feature_norm", least)
    noise_std = up(least * noise_factor(moments.n, None if users is None else MOST_ROWS, moved))
    factors = None if users is None else _roots(users)

    def execute(randomness: Randomness) -> Array:
        generator = randomness.generator()
        if moments.diagonal:
            return noisy(_sums_of_squares(records, factors), noise_std, grid, generator)
        return _noisy_matrix(records, noise_std, grid, generator, factors)

    values, guarantee = terms.release(terms.guarantee_of(moments), execute)
    return ReleasedMoments(values, guarantee.noting(released_notes({"values": values})))


def _roots(users: UserRows) -> Array:
    """The roots of the rows' shares, rounded down: with them squares have the shares."""
    return np.where(users.shares == 1.0, 1.0, np.sqrt(users.shares) * (1.0 - EIGHT_ROUNDINGS))


def noise_factor(n: int, chain: int | None = None, moved: float = 0.0) -> float:
    """What the noise on sums over n records is multiplied by, at least 1, to hide what rounding may add.

    `chain`: of additions in a row, where it is not that of n rows. `moved`: what is added by rounding the
    sums to a grid, over the bound on what one record adds.
    """
    require(
        moved < 0.25, "noise_std", "so much noise hides the records' part in the sums' last bits"
    )
    room = moved + rounding_room(n, min(n, MOST_ROWS) if chain is None else chain)
    require(room < 0.5, "n", f"{n} records are too many for sums in float64")
    return up(1.0 / (1.0 - room))


def _refuse_others(moments: NoisySecondMoments, records: Records, users: UserRows | None) -> None:
    """Raises InvalidInput unless the records are as described."""
    validate.exactly("moments", moments, NoisySecondMoments, "a pabi.NoisySecondMoments")
    validate.instance("records", records, Records, "pabi.learn.Records")
    require(
        (users is not None) == (moments.unit == "user"),
        "groups",
        "missing: moments of users need a user a row"
        if users is None
        else "expected moments of users",
    )
    if users is not None:
        checked_groups(users, moments.n, records.n)
    held = records.n if users is None else users.users
    for name, own in (("n", held), ("dimension", records.width)):
        stated = getattr(moments, name)
        require(stated == own, name, f"expected {own}, that of the records, got {stated}")
    require(
        records.feature_norm is not None,
        "feature_norm",
        "missing from the records: nothing bounds their rows",
    )
    refuse_longer(records, moments.feature_norm)


# Every local below is secret but what is returned.


def _noisy_matrix(
    records: Records,
    noise_std: float,
    grid: float,
    generator: np.random.Generator,
    factors: Array | None,
) -> Array:
    """Row by row, from the diagonal on; what stands below it is overwritten by what is released."""
    matrix = _products(records, factors)
    np.fill_diagonal(matrix, noisy(np.diagonal(matrix), noise_std, grid, generator))
    beside = up(noise_std * _ROOT_HALF)
    for i in range(len(matrix) - 1):
        after = slice(i + 1, None)
        matrix[i, after] = matrix[after, i] = noisy(matrix[i, after], beside, grid, generator)
    return matrix


def _sums_of_squares(records: Records, factors: Array | None = None) -> Array:
    """(width,): Σ x_j² over all rows."""
    total = Total((records.width,))
    for rows in _rows(records, factors):
        if isinstance(rows, np.ndarray):
            total.add(np.einsum("ij,ij->j", rows, rows))
        else:
            squares = np.bincount(rows.indices, rows.data**2, minlength=records.width)
            total.add(np.asarray(squares, dtype=np.float64))
    return total.value


def _products(records: Records, factors: Array | None = None) -> Array:
    """(width, width): Σ x·xᵀ over all rows, of which only the triangle from the diagonal up is meant."""
    total = Total((records.width, records.width))
    for rows in _rows(records, factors):
        if isinstance(rows, np.ndarray):
            _add_dense(total, rows)
        else:
            product = (rows.T @ rows).tocoo()
            upper = product.row <= product.col
            total.add_at((product.row[upper], product.col[upper]), product.data[upper])
    return total.value


def _add_dense(total: Total, rows: Array) -> None:
    """Adds rowsᵀ·rows, strip by strip, each from the diagonal on: half of the work."""
    for first in range(0, rows.shape[1], _STRIP):
        strip = slice(first, first + _STRIP)
        total.add_at((strip, slice(first, None)), rows[:, strip].T @ rows[:, first:])


def _rows(records: Records, factors: Array | None) -> Iterator[Any]:
    """All rows in turn as the model sees them, times their factors.

    They come as (m, width) float64 arrays, m ≤ 4096, or CSR matrices. The next array may overwrite the one
    before it.
    """
    length = min(records.n, MOST_ROWS, max(1, _HELD // records.width))
    return (_sparse_rows if records.sparse else _dense_rows)(records, length, factors)


def _dense_rows(records: Records, length: int, factors: Array | None) -> Iterator[Array]:
    memory = np.empty((length, records.width))
    for first in range(0, records.n, length):
        part = slice(first, min(first + length, records.n))
        for block in records.blocks(part):
            features = memory[block.part, : records.d]
            if block.scale is None:
                features[...] = block.features
            else:
                np.multiply(block.features, block.scale[:, None], out=features)
        memory[:, records.d :] = records.intercept_scaling or 0.0
        rows = memory[: part.stop - part.start]
        if factors is not None:
            rows *= factors[part, None]
        yield rows


def _sparse_rows(records: Records, length: int, factors: Array | None) -> Iterator[Any]:
    for block in records.blocks(slice(0, records.n)):
        rows = records.as_seen(block)
        if factors is not None:
            rows = rows.multiply(factors[block.part, None]).tocsr()
        if rows.nnz * _SPARSE <= rows.shape[0] * rows.shape[1]:
            yield rows
            continue
        for first in range(0, rows.shape[0], length):
            yield rows[first : first + length].toarray()


# Releases the noisy statistics of columns that were accounted: the same description, executed on a table.
#
# All sums are exact: counts are whole numbers, and moments are those of cells rounded to multiples of
# 2⁻²⁰, so that they are on the grid of the noise (`pabi.execute.noise`). Callers pass the generator, and
# run all this where what an error leaves behind is emptied (`pabi.execute.hiding.unseen`).


class Question(NamedTuple):
    """How many values of a column are at most `threshold`.

    `among`: thresholds that may be asked after next, sorted; those of one pass over the table are counted
    together.
    """

    threshold: float
    among: Sequence[float] | Array = ()


Asking = Generator[Question, float, tuple[float, ...]]
"""Yields a question, is sent the noisy count, and returns what it concludes."""


FINENESS = 1 << 20  # units of a cell in [−1, 1]: of a multiple of 2⁻²⁰ sums are exact
_MOST = 1 << 32  # records, so that sums of units are doubles
_MOST_NOISE = 2.0**44


def conclusions(
    statistics: NoisyColumnStatistics,
    values: Parts,
    asking: Callable[[int], Asking],
    generator: np.random.Generator,
) -> list[tuple[float, ...]]:
    """What `asking(j)` concludes of column j, for every column, from noisy counts alone.

    `values`: (n, columns) float64, NaN where a value is missing. There are as many passes over them as some
    column has questions that were not `among` those of a pass before. Raises InvalidInput where more is asked
    than was described.
    """
    _refuse_other_tables(statistics, "counts", *values.shape)
    searches = [_Search(statistics, asking(j)) for j in range(values.shape[1])]
    while waiting := [(j, one) for j, one in enumerate(searches) if one.conclusion is None]:
        grids = [(j, one.thresholds()) for j, one in waiting]
        totals = [np.zeros(len(grid), dtype=np.int64) for _, grid in grids]
        for part in values:
            for (j, grid), total in zip(grids, totals, strict=True):
                ordered = np.sort(part[:, j])  # NaN is last, and beyond every threshold
                total += np.searchsorted(ordered, grid, side="right")
        for (_, one), (_, grid), total in zip(waiting, grids, totals, strict=True):
            one.go_on(dict(zip(grid.tolist(), total.tolist(), strict=True)), generator)
    return [one.conclusion for one in searches if one.conclusion is not None]


class _Search:
    """What is asked of one column, and what was counted of it. Every attribute but `conclusion` is secret."""

    def __init__(self, statistics: NoisyColumnStatistics, asking: Asking) -> None:
        self._statistics, self._asking, self._asked = statistics, asking, 0
        self._counts: dict[float, int] = {}
        self.conclusion: tuple[float, ...] | None = None
        self._question: Question | None = None
        self._ask(None)

    def thresholds(self) -> Array:
        """What is to be counted in the next pass, sorted."""
        assert self._question is not None
        return np.unique([self._question.threshold, *self._question.among])

    def go_on(self, counts: dict[float, int], generator: np.random.Generator) -> None:
        """Answers as many questions as the counts of this pass and those before it do."""
        self._counts |= counts
        while self._question is not None and self._question.threshold in self._counts:
            require(
                self._asked != self._statistics.questions,
                "questions",
                f"expected at most {self._statistics.questions} of a column",
            )
            self._asked += 1
            count = np.array([float(self._counts[self._question.threshold])])
            self._ask(float(_noisy(self._statistics, count, 1.0, generator)[0]))

    def _ask(self, answer: float | None) -> None:
        try:
            self._question = next(self._asking) if answer is None else self._asking.send(answer)
        except StopIteration as end:
            self.conclusion, self._question = end.value, None


def column_moments(
    statistics: NoisyColumnStatistics, values: Parts, generator: np.random.Generator
) -> Array:
    """(3, columns): noisy sums of x and of 1 − x² over the values there are, and numbers of missing ones.

    `values`: (n, columns) in [−1, 1], NaN where a value is missing. Of users those are left out who have no
    row.
    """
    _refuse_other_tables(statistics, "moments", *values.shape)
    sums = np.zeros((3, values.shape[1]), dtype=np.int64)
    for part in values:
        sums += _units(part)
    sums[2] += statistics.n - values.shape[0]  # of users without rows all cells are missing
    exact = sums / np.array([[FINENESS], [FINENESS], [1]])
    return _noisy(statistics, exact, 1.0 / FINENESS, generator)


def _noisy(
    statistics: NoisyColumnStatistics,
    exact: Array,
    unit: float,
    generator: np.random.Generator,
) -> Array:
    """Sums that are multiples of the unit, with their noise."""
    noise = statistics.column_noise_std
    must_be(noise <= _MOST_NOISE, "noise_std", f"at most {_MOST_NOISE!r}", noise)
    grid = grid_for(unit, noise)
    if grid > unit:  # each number moves by half of it, on either table
        noise = up(noise * (1.0 + 2.0 * grid))
    return noisy(exact, noise, grid, generator)


def _units(values: Array) -> Any:
    """(3, columns) whole numbers: both sums in units of 2⁻²⁰, 1 − x² rounded down, and how many are missing.

    Rounding 1 − x² down keeps one record's part of the sums within its bound (docs, "Theory", 18).
    """
    missing = np.isnan(values)
    whole = np.rint(np.clip(np.where(missing, 1.0, values), -1.0, 1.0) * FINENESS).astype(np.int64)
    rest = (FINENESS * FINENESS - whole * whole) // FINENESS  # 0 where a value is missing
    return np.stack([np.where(missing, 0, whole).sum(0), rest.sum(0), missing.sum(0)])


def level_counts(
    statistics: NoisyColumnStatistics,
    columns: Sequence[Sequence[str] | Counter[str]],
    generator: np.random.Generator,
    *,
    levels: Sequence[Sequence[str]] | None = None,
) -> list[dict[str, float]]:
    """The noisy count of every level that is shown, by column, in the order of the levels.

    `columns`: the level of every record, or how many records have each. `levels`: those of each column where
    they are declared; otherwise those that some record has, of which the ones above the threshold are shown.
    """
    counters = [Counter(column) for column in columns]
    _refuse_other_tables(statistics, "levels", counters[0].total(), len(columns))
    require(
        (levels is None) != (statistics.threshold is None),
        "threshold",
        "expected one where levels are not declared, and only there",
    )
    listed: Sequence[Sequence[str] | None] = levels or [None] * len(columns)
    return [
        _shown(statistics, counter, own, generator)
        for counter, own in zip(counters, listed, strict=True)
    ]


def _shown(
    statistics: NoisyColumnStatistics,
    counts: Counter[str],
    levels: Sequence[str] | None,
    generator: np.random.Generator,
) -> dict[str, float]:
    names = sorted(counts) if levels is None else list(levels)
    noise = statistics.column_noise_std
    exact = np.array([counts.get(name, 0) for name in names], dtype=np.float64)
    released = _noisy(statistics, exact, 1.0, generator)
    least = -np.inf
    if statistics.threshold is not None:
        # The grid is at most 2⁻²⁰ of the noise, or 2⁻¹⁰⁰, and rounds by half of itself.
        least = 1.0 + (statistics.threshold + 2.0**-19) * noise
    return {name: float(x) for name, x in zip(names, released, strict=True) if x > least}


def _refuse_other_tables(
    statistics: NoisyColumnStatistics, kind: str, n: int, columns: int
) -> None:
    """Raises InvalidInput unless the table is as described."""
    validate.exactly(
        "statistics", statistics, NoisyColumnStatistics, "a pabi.NoisyColumnStatistics"
    )
    must_be(statistics.statistic == kind, "statistic", f"{kind!r}", statistics.statistic)
    n = max(n, statistics.n) if statistics.unit == "user" else n  # some may have no row
    for name, stated, own in (("n", statistics.n, n), ("columns", statistics.columns, columns)):
        require(stated == own, name, f"expected {own}, that of the table, got {stated}")
    require(n <= _MOST, "n", f"expected at most {_MOST} records")
