"""Made-up tables to try a step of a pipeline on: no record is in them, whatever the step was fitted to.

Nobody says what a step expects, so that tables of several kinds are made: numbers, counts, levels, texts.
Two tables of one kind differ in all that can be learnt, such as means, ranges, levels, words and gaps, but
for a few rows in their middle, which are the same. Words and levels that the settings declare are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from pabi.numbers.rounding import Array

ROWS, MANY_ROWS = 24, 160
WIDTH, MANY, MOST = 24, 2048, 4096  # columns, where nothing says how many
WIDEST = 20_000  # columns of a dense table
WIDEST_TEXT = 1000  # columns of a table with text
SHARED = slice(10, 13)  # the rows that two tables have in common
_LEVELS = 9  # of what is not declared
_ENTRIES = 60  # of a row of a sparse table


@dataclass(frozen=True)
class TablePair:
    """Two tables of one kind, with what is to be predicted, and the rows that both have.

    `count`: of rows. `labels`: of a table, by kind; each is to be tried until one does.
    """

    kind: str
    count: int
    tables: tuple[Any, Any]
    rows: Any
    first: Any
    labels: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Shape:
    """What is public of a table: how many columns it has, and their names, where they are known."""

    width: int | None = None
    names: tuple[str, ...] | None = None


Maker = Callable[[Array, int], Any]
"""(numbers in (0, 1), which of two tables) ↦ the table, each row from the row of numbers alone."""


def cases(settings: Mapping[str, Any], shape: Shape) -> Iterator[TablePair]:
    """Pairs of small tables of all kinds that a step with these settings might take."""
    columns = _declared_columns(settings.values())
    names = shape.names or _declared_names(settings.values()) or ()
    width = shape.width or len(columns) or len(names) or WIDTH
    columns = columns if len(columns) == width else []
    names = names if len(names) == width else ()
    makers = _makers(columns, names, _words(settings.values()), width)
    return _cases(makers, ROWS, width)


def odd_cases(settings: Mapping[str, Any], shape: Shape) -> Iterator[Iterator[TablePair]]:
    """Pairs of tables of numbers for each size that a step may ask for: as wide as a setting, or large."""
    widths = {np.shape(value)[-1] for value in settings.values() if _is_numeric(value)}
    for width in sorted(widths - {0}) if shape.width is None else ():
        yield _cases(_numeric(width), ROWS, width)
    if shape.width is None:
        yield _cases([("numbers", _as_they_are)], ROWS, MOST)
    yield _cases(_numeric(shape.width or MANY), MANY_ROWS, shape.width or MANY)


def _cases(makers: Iterable[tuple[str, Maker]], n: int, width: int) -> Iterator[TablePair]:
    numbers, labels = _numbers(n, width), _labels(n)
    for kind, maker in makers:
        tables = (maker(numbers[0], 0), maker(numbers[1], 1))
        rows, first = maker(numbers[0][SHARED], 0), maker(numbers[0][SHARED][:1], 0)
        yield TablePair(kind, n, tables, rows, first, labels)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "iuf"


def label_cases() -> Iterator[tuple[str, Any, Any]]:
    """Pairs of label vectors: of one set of labels, then of two sets."""
    one = np.array(["a", "b", "c", "a", "b", "c", "a", "a"])
    yield "same", one, one[::-1].copy()
    yield "other", one, np.array(["b", "d", "e", "b", "d", "e", "f", "f"])


def _numbers(n: int, width: int) -> tuple[Array, Array]:
    """Two matrices in (0, 1): the second has no entry from 1/2 on, and most of them near 0."""
    generator = np.random.default_rng(0)
    width = min(width, WIDEST)
    one = generator.uniform(0.001, 0.999, (n, width))
    other = 0.499 * generator.uniform(0.1, 0.999, (n, width)) ** 3
    one[SHARED] = other[SHARED] = generator.uniform(0.2, 0.5, (3, width))
    return one, other


def _labels(n: int) -> tuple[tuple[Any, Any], ...]:
    one, other = np.arange(n) % 3, np.arange(n)[::-1] // 2 % 3
    other[SHARED] = one[SHARED]
    real = np.arange(n) / n
    return (
        (one, other),
        ((one > 0).astype(int), (other > 0).astype(int)),
        (real, np.where(one == other, real, real**2)),
        (np.stack([one > 0, one > 1], 1).astype(int), np.stack([other > 0, other > 1], 1) * 1),
        (None, None),
    )


def _numeric(width: int) -> Iterator[tuple[str, Maker]]:
    """Numbers, some with gaps or very large, and counts, counts in a sparse table too."""
    yield "sparse", partial(_sparse, width=width)
    if width <= WIDEST:
        yield "numbers", _as_they_are
        yield "counts", _counts
        yield "gaps", _gaps
        yield "extremes", _extremes


def _makers(
    columns: Sequence[Sequence[Any]],
    names: Sequence[str],
    words: Sequence[str],
    width: int,
) -> Iterator[tuple[str, Maker]]:
    """(kind, maker) of every kind."""
    if width > WIDEST_TEXT:
        yield from _numeric(width)
        return
    by_cells: list[tuple[str, Maker]] = [
        ("truth", lambda u, which: np.round(u)),
        ("levels", partial(_levels, columns=columns or [words or ("no", "yes")] * width)),
        ("strange levels", _strange_levels),
    ]
    frame = _frame()
    for kind, maker in [*_numeric(width), *by_cells]:
        yield kind, maker
        if frame is not None and (kind == "numbers" or (names and kind != "sparse")):
            of_columns = names or [f"x{k}" for k in range(width)]
            yield f"named {kind}", partial(_named, maker=maker, names=of_columns, frame=frame)
    yield "texts", partial(_texts, words=words)
    yield "dicts", _dicts


def _frame() -> Any:
    """pandas.DataFrame, None where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError:
        return None
    return DataFrame


# The kinds.


def _as_they_are(u: Array, which: int) -> Array:
    return u


def _counts(u: Array, which: int) -> Array:
    return np.floor(4.0 * u)


def _gaps(u: Array, which: int) -> Array:
    """Every other column has gaps: in the two tables those that have none in the other."""
    gap = u < 0.15
    gap[:, which::2] = False
    return np.where(gap, np.nan, u)


def _extremes(u: Array, which: int) -> Array:
    """Numbers of both signs that are very large in the first table alone."""
    signs = np.where(np.arange(u.shape[1]) % 2, -1.0, 1.0)
    return np.where(u < 0.5, u, 1e6 * signs * u)


def _sparse(u: Array, which: int, width: int) -> csr_matrix:
    few = u[:, :_ENTRIES]
    stride = max(width // few.shape[1], 1)
    columns = stride * np.arange(few.shape[1])
    rows = np.repeat(np.arange(len(u)), few.shape[1])
    table = csr_matrix(
        (np.floor(4.0 * few).ravel(), (rows, np.tile(columns, len(u)))), (len(u), width)
    )
    table.eliminate_zeros()
    return table


def _levels(u: Array, which: int, columns: Sequence[Sequence[Any]]) -> Any:
    cells = [[options[int(x * len(options))] for x in u[:, j]] for j, options in enumerate(columns)]
    text = any(isinstance(cell, str) for column in cells for cell in column)
    return np.array(cells, dtype=object if text else np.float64).T


def _strange_levels(u: Array, which: int) -> Any:
    return np.array([[_strange(x) for x in row] for row in u], dtype=object)


def _strange(x: float) -> str:
    return f"w{int(_LEVELS * x)}"


def _texts(u: Array, which: int, words: Sequence[str]) -> list[str]:
    vocabulary = [*words, *(_strange(k / _LEVELS + 0.01) for k in range(_LEVELS))]
    return [" ".join(vocabulary[int(x * len(vocabulary))] for x in row) for row in u]


def _dicts(u: Array, which: int) -> list[dict[str, float]]:
    return [{_strange(x): float(x) for x in row} for row in u]


def _named(u: Array, which: int, maker: Maker, names: Sequence[str], frame: Any) -> Any:
    return frame(maker(u, which), columns=list(names))


# What the settings declare.


def _declared_columns(values: Iterable[Any]) -> list[Sequence[Any]]:
    """The levels of each column, where a setting is a list of lists."""
    for value in values:
        lists = _items(value)
        if lists and all(_items(one) and not _items(_items(one)[0]) for one in lists):
            return [_items(one) for one in lists]
    return []


def _declared_names(values: Iterable[Any]) -> tuple[str, ...] | None:
    """The keys of a setting that is a dict from strings to more than numbers."""
    for value in values:
        if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
            return tuple(value)
    return None


def _words(values: Iterable[Any]) -> list[str]:
    """All strings in lists, sets and keys of dicts, and in lists within lists."""
    words: list[str] = []
    for value in values:
        for item in _items(value):
            words += [item] if isinstance(item, str) else _words([item])
    return words


def _items(value: Any) -> list[Any]:
    """The items of a list, a tuple, a set, an array or the keys of a dict; none of anything else."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else []
    return list(value) if isinstance(value, (list, tuple, set, frozenset, Mapping)) else []
