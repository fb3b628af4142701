"""Releases the noisy statistics of columns that were accounted: the same description, executed on a table.

All sums are exact: counts are whole numbers, and moments are those of cells rounded to multiples of 2⁻²⁰.
What is released is rounded to a grid of 2⁻²⁰ of the noise (`pabi.execute.hiding`). Callers pass the
generator, and run all this where what an error leaves behind is emptied (`pabi.execute.hiding.unseen`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pabi.describe.column_statistics import NoisyColumnStatistics
from pabi.execute.hiding import on_grid
from pabi.execute.table_passes import Cells, parts_of
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


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


def conclusions(
    statistics: NoisyColumnStatistics,
    values: Cells,
    asking: Callable[[int], Asking],
    generator: np.random.Generator,
) -> list[tuple[float, ...]]:
    """What `asking(j)` concludes of column j, for every column, from noisy counts alone.

    `values`: (n, columns) float64, NaN where a value is missing. There are as many passes over them as some
    column has questions that were not `among` those of a pass before. Raises InvalidInput where more is asked
    than was described.
    """
    _refuse_others(statistics, "counts", *values.shape)
    searches = [_Search(statistics, asking(j)) for j in range(values.shape[1])]
    while waiting := [(j, one) for j, one in enumerate(searches) if one.conclusion is None]:
        grids = [(j, one.thresholds()) for j, one in waiting]
        totals = [np.zeros(len(grid), dtype=np.int64) for _, grid in grids]
        for part in parts_of(values):
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
        noise = self._statistics.column_noise_std
        while self._question is not None and self._question.threshold in self._counts:
            if self._asked == self._statistics.questions:
                most = self._statistics.questions
                raise InvalidInput("questions", f"expected at most {most} of a column")
            self._asked += 1
            count = self._counts[self._question.threshold]
            self._ask(float(on_grid(count + noise * generator.standard_normal(1), noise)[0]))

    def _ask(self, answer: float | None) -> None:
        try:
            self._question = next(self._asking) if answer is None else self._asking.send(answer)
        except StopIteration as end:
            self.conclusion, self._question = end.value, None


def column_moments(
    statistics: NoisyColumnStatistics, values: Cells, generator: np.random.Generator
) -> Array:
    """(3, columns): noisy sums of x and of 1 − x² over the values there are, and numbers of missing ones.

    `values`: (n, columns) in [−1, 1], NaN where a value is missing.
    """
    _refuse_others(statistics, "moments", *values.shape)
    sums = np.zeros((3, values.shape[1]), dtype=np.int64)
    for part in parts_of(values):
        sums += _units(part)
    exact = sums / np.array([[FINENESS], [FINENESS], [1]])
    noise = statistics.column_noise_std
    return on_grid(exact + noise * generator.standard_normal(exact.shape), noise)


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
    _refuse_others(statistics, "levels", counters[0].total(), len(columns))
    if (levels is None) == (statistics.threshold is None):
        raise InvalidInput(
            "threshold", "expected one where levels are not declared, and only there"
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
    noisy = on_grid(exact + noise * generator.standard_normal(len(names)), noise)
    least = -np.inf
    if statistics.threshold is not None:
        # The grid is 2⁻²⁰ of the noise at most twice over, and rounds by half of itself.
        least = 1.0 + (statistics.threshold + 2.0**-19) * noise
    return {name: float(x) for name, x in zip(names, noisy, strict=True) if x > least}


def _refuse_others(statistics: NoisyColumnStatistics, kind: str, n: int, columns: int) -> None:
    """Raises InvalidInput unless the table is as described."""
    if type(statistics) is not NoisyColumnStatistics:
        name = type(statistics).__name__
        raise InvalidInput("statistics", f"expected a pabi.NoisyColumnStatistics, got a {name}")
    if statistics.statistic != kind:
        raise InvalidInput("statistic", f"expected {kind!r}, got {statistics.statistic!r}")
    for name, stated, own in (("n", statistics.n, n), ("columns", statistics.columns, columns)):
        if stated != own:
            raise InvalidInput(name, f"expected {own}, that of the table, got {stated}")
    if n > _MOST:
        raise InvalidInput("n", f"expected at most {_MOST} records")
