"""Declared columns, and what each of their cells becomes, by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.files import _unknown
from pabi.execute.cells import PLAIN, doubles_of, is_missing, text_of, texts_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array

MISSING = frozenset({"", "?", "na", "n/a", "nan", "none", "null"})  # of any case
_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n", "0"), -1.0),
    **dict.fromkeys(MISSING, 0.0),
}


@dataclass(frozen=True)
class Encoded:
    """A column of m cells, each of which sets one feature, or k of them.

    `feature`: (m,) or (m, k) which of the column's features, from 0. `value`: their values in [−1, 1]; the
    column's other features are 0. `beyond`: whether a cell is outside what was declared, a fact about the
    data.
    """

    feature: NDArray[np.intp]
    value: Array
    beyond: bool


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: one feature, clipped to [low, high] and mapped onto [−1, 1].

    `log1p`: whether on the scale of log(1 + x). `comma`: whether text has a decimal comma. A missing number
    is 0.
    """

    low: float
    high: float
    log1p: bool
    comma: bool = False

    def features(self, name: str) -> list[str]:
        """The name of the one feature, that of the column."""
        return [name]

    def encode(self, name: str, cells: NDArray[Any]) -> Encoded:
        """The cells as numbers in [−1, 1]. Raises InvalidInput naming the column."""
        x = numbers(name, cells, comma=self.comma)
        clipped = np.clip(x, self.low, self.high)
        low, high = self.low, self.high
        if self.log1p:
            clipped, low, high = np.log1p(clipped), math.log1p(low), math.log1p(high)
        centre, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        value = np.clip((clipped - centre) / reach, -1.0, 1.0)
        beyond = bool(np.any((x < self.low) | (x > self.high)))
        return Encoded(np.zeros(len(x), np.intp), np.where(np.isnan(value), 0.0, value), beyond)


@dataclass(frozen=True)
class Categorical:
    """A column of levels: one feature a level, 1 for the cell's own.

    Any other cell, a missing one too, is 0 in all of them; with `other` it is 1 in a feature of its own.
    `any_case`: whether capitals and small letters are the same, by Unicode's case folding.
    """

    levels: tuple[str, ...]
    other: bool
    any_case: bool = False

    def features(self, name: str) -> list[str]:
        """The names of the features, `name=level` each, and `name: other`."""
        return [f"{name}={level}" for level in self.levels] + [f"{name}: other"] * self.other

    def encode(self, name: str, cells: NDArray[Any]) -> Encoded:
        """The number of each cell's level, and 1, or 0 where it has none."""
        number = {folded(text_of(level), self.any_case): i for i, level in enumerate(self.levels)}
        levels = [folded(text, self.any_case) for text in texts_of(name, cells)]
        feature = np.array([number.get(level, len(number)) for level in levels], dtype=np.intp)
        declared = feature < len(number)
        beyond = not self.other and any(
            level not in number and level.lower() not in MISSING for level in set(levels)
        )
        if not self.other:
            feature[~declared] = 0
        return Encoded(feature, np.where(declared | self.other, 1.0, 0.0), beyond)


@dataclass(frozen=True)
class Boolean:
    """A column of truth values: one feature, 1 for true, −1 for false, 0 where it is missing."""

    def features(self, name: str) -> list[str]:
        """The name of the one feature, that of the column."""
        return [name]

    def encode(self, name: str, cells: NDArray[Any]) -> Encoded:
        """The cells as 1, −1 or 0. Raises InvalidInput naming the column."""
        values = [_TRUTH.get(text.lower()) for text in texts_of(name, cells)]
        require(
            None not in values,
            name,
            "expected true or false, 1 or 0, yes or no in every row of a boolean column",
        )
        return Encoded(np.zeros(len(values), np.intp), np.array(values, dtype=np.float64), False)


_CYCLES = {"month": 12, "weekday": 7, "hour": 24}  # how many there are
_DAY = 86_400  # seconds


@dataclass(frozen=True)
class Date:
    """A column of dates and times: its place in [low, high], mapped onto [−1, 1], and the cycles in which it
    is.

    `low`, `high`: seconds since 1970. `cycles`: of "month", "weekday" and "hour", each a sine and a cosine of
    its number. Clocks are taken as written, without their zone. A cell that is no date, or a missing one, is
    0 in all features.
    """

    low: float
    high: float
    cycles: tuple[str, ...]

    def features(self, name: str) -> list[str]:
        """The name of the column, and `name: cycle sine` and `name: cycle cosine` for each cycle."""
        waves = [f"{name}: {cycle} {wave}" for cycle in self.cycles for wave in ("sine", "cosine")]
        return [name, *waves]

    def encode(self, name: str, cells: NDArray[Any]) -> Encoded:
        """The features of every cell. Raises nothing that depends on one."""
        x, odd = _seconds(cells)
        dates = np.isfinite(x)
        at = np.where(dates, x, self.low).astype(np.int64)
        place = (np.clip(at, self.low, self.high) - self.low) / (self.high - self.low) * 2.0 - 1.0
        columns = [place]
        for cycle in self.cycles:
            angle = 2.0 * np.pi / _CYCLES[cycle] * _number_in(cycle, at)
            columns += [np.sin(angle), np.cos(angle)]
        value = np.where(dates[:, None], np.stack(columns, axis=1), 0.0)
        last = self.high // _DAY * _DAY + _DAY  # a day lasts to its end
        beyond = odd or bool(np.any(dates & ((at < self.low) | (at >= last))))
        return Encoded(np.broadcast_to(np.arange(len(columns)), value.shape), value, beyond)


def _number_in(cycle: str, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which month, weekday or hour it is, from 0; Monday is 0."""
    if cycle == "month":
        months: NDArray[np.int64] = seconds.view("datetime64[s]").astype("datetime64[M]").view("i8")
        return months % 12
    return (seconds // _DAY + 3) % 7 if cycle == "weekday" else seconds // 3600 % 24


def _seconds(cells: NDArray[Any]) -> tuple[Array, bool]:
    """((m,) seconds since 1970, NaN where a cell is no date or missing; whether one is no date)."""
    if cells.dtype.kind == "M":
        whole = cells.astype("datetime64[s]")
        return np.where(np.isnat(whole), np.nan, whole.view("i8").astype(np.float64)), False
    # Text alone is remembered: instants of two zones are equal, and their clocks are not.
    of_text = cache(_instant)
    read = [(of_text if type(cell) is str else _instant)(cell) for cell in cells.tolist()]
    return np.array([at for at, _ in read], dtype=np.float64), any(odd for _, odd in read)


def _instant(cell: Any) -> tuple[float, bool]:
    """(seconds since 1970, NaN where a cell is no date or missing; whether it is no date)."""
    if is_missing(cell):
        return math.nan, False
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[s]").astype(np.int64)), False
    if not isinstance(cell, date):
        text = text_of(cell)
        if text.lower() in MISSING:
            return math.nan, False
        try:
            cell = datetime.fromisoformat(text)
        except ValueError:
            return math.nan, True
    days = cell.toordinal() - 719_163  # of 1970-01-01
    clock = (cell.hour * 60 + cell.minute) * 60 + cell.second if isinstance(cell, datetime) else 0
    return float(days * _DAY + clock), False


Column = Numeric | Categorical | Boolean | Date

_KEYS = {
    "numeric": {"kind", "range", "transform", "decimal"},
    "categorical": {"kind", "levels", "other", "case"},
    "boolean": {"kind"},
    "date": {"kind", "range", "cycles"},
}


def read_columns(tables: Any) -> dict[str, Column]:
    """The declared columns, by name, in order. Raises InvalidInput naming `columns.NAME.KEY`."""
    require(
        isinstance(tables, Mapping) and tables,
        "columns",
        "expected a table [columns.NAME] for every column to use",
    )
    return {str(name): _column(f"columns.{name}", table) for name, table in tables.items()}


def _column(field: str, table: Any) -> Column:
    must_be(isinstance(table, Mapping), field, f"a table [{field}]", table)
    kind = validate.choice(f"{field}.kind", table.get("kind"), tuple(_KEYS))
    for key in table:
        if key in _KEYS[kind]:
            continue
        owner = next((other for other, keys in _KEYS.items() if key in keys), None)
        reason = f"belongs to {owner} columns, and this one is {kind}" if owner else None
        raise InvalidInput(f"{field}.{key}", reason or _unknown(key, _KEYS[kind], f"[{field}]"))
    if kind == "boolean":
        return Boolean()
    if kind == "date":
        return Date(*_read_dates(f"{field}.range", table.get("range")), _cycles(field, table))
    if kind == "categorical":
        other = validate.choice(f"{field}.other", table.get("other", "zero"), ("zero", "level"))
        any_case = read_case(field, table)
        levels = read_levels(f"{field}.levels", table.get("levels"), 1, any_case=any_case)
        return Categorical(tuple(str(one).strip() for one in levels), other == "level", any_case)
    transform = validate.choice(
        f"{field}.transform", table.get("transform", "none"), ("none", "log1p")
    )
    low, high = read_range(f"{field}.range", table.get("range"))
    must_be(transform != "log1p" or low > -1.0, f"{field}.range", "a low end > -1 for log1p", low)
    return Numeric(low, high, transform == "log1p", read_comma(field, table))


def read_comma(field: str, table: Mapping[str, Any]) -> bool:
    """Whether text has a decimal comma. Raises InvalidInput naming `field`."""
    return validate.choice(f"{field}.decimal", table.get("decimal", "."), (".", ",")) == ","


def read_case(field: str, table: Mapping[str, Any]) -> bool:
    """Whether levels are compared whatever their case. Raises InvalidInput naming `field`."""
    return validate.choice(f"{field}.case", table.get("case", "same"), ("same", "any")) == "any"


def folded(text: str, any_case: bool) -> str:
    """The text of a level as it is compared."""
    return text.casefold() if any_case else text


def _cycles(field: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """Distinct cycles. Raises InvalidInput naming `field`."""
    value = table.get("cycles", [])
    listed = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for cycle in listed:
        validate.choice(f"{field}.cycles", cycle, tuple(_CYCLES))
    must_be(len(set(listed)) == len(listed), f"{field}.cycles", "each cycle once", value)
    return listed


def _read_dates(field: str, value: Any) -> tuple[float, float]:
    """The ends of a range in seconds since 1970, the first before the last. Raises InvalidInput."""
    ends = list(value) if isinstance(value, (list, tuple)) else []
    seconds = [_instant(end)[0] for end in ends]
    must_be(
        len(ends) == 2 and seconds[0] < seconds[1],
        field,
        '["2020-01-01", "2024-12-31"], or the like',
        value,
    )
    return seconds[0], seconds[1]


def read_range(field: str, value: Any) -> tuple[float, float]:
    """Finite (low, high), low < high, from [low, high]. Raises InvalidInput naming `field`."""
    require(value is not None, field, "missing: expected [low, high]")
    if isinstance(value, np.ndarray):
        value = value.tolist()
    must_be(isinstance(value, (list, tuple)) and len(value) == 2, field, "[low, high]", value)
    low, high = (validate.number(field, end) for end in value)
    must_be(low < high and math.isfinite(high - low), field, "[low, high] with low < high", value)
    return low, high


def read_levels(field: str, value: Any, at_least: int, *, any_case: bool = False) -> list[Any]:
    """Levels that are distinct as they are compared, all strings or all integers. Raises InvalidInput naming
    `field`."""
    several = isinstance(value, (list, tuple)) and len(value) >= at_least
    kinds = {type(level) for level in value} if several else set()
    texts = [folded(text_of(level), any_case) for level in value] if several else []
    must_be(
        kinds in ({str}, {int}) and "" not in texts,
        field,
        f"a list of {at_least} or more distinct strings, or of integers",
        value,
    )
    twice = next((level for level in texts if texts.count(level) > 1), None)
    require(twice is None, field, f"expected distinct levels, got {twice!r} twice")
    return list(value)


def dated(value: Any) -> Any:
    """What stands in TOML with its dates as text, which models can hold."""
    if isinstance(value, dict):
        return {key: dated(one) for key, one in value.items()}
    if isinstance(value, list):
        return [dated(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value


# Cells.


def numbers(name: str, cells: NDArray[Any], *, comma: bool = False) -> Array:
    """(m,) float64, NaN where missing, as words of `MISSING` are. Raises InvalidInput naming the column."""
    if cells.dtype.kind not in PLAIN:
        cells = _without_words(cells, comma)
    try:
        return doubles_of(name, cells)
    except InvalidInput:
        raise InvalidInput(
            name, "expected numbers in every row of a numeric column, got something else"
        ) from None


def _without_words(cells: NDArray[Any], comma: bool) -> NDArray[Any]:
    """The same objects, None in the place of words that stand for missing ones."""
    plain = cells.tolist()
    if comma:
        plain = [cell.replace(",", ".") if isinstance(cell, str) else cell for cell in plain]
    return np.array([None if _is_missing_word(cell) else cell for cell in plain], object)


def _is_missing_word(cell: Any) -> bool:
    word = isinstance(cell, str) and not cell[-1:].isdecimal()  # no word ends in a digit
    return word and cell.strip().lower() in MISSING
