"""Cells of tables, each taken by itself."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array

# Cells of tables: what is made of a cell depends on that cell alone, never on what stands beside it.
#
# Containers have one type for all of their cells, which numpy and pandas choose by looking at all of
# them: one text among numbers makes text of all, one gap makes floats of integers. So cells are taken one
# by one, and their text follows from a rule that such changes of type leave as it is. Of truth values
# beside numbers numpy makes numbers, whose text is another.
#
# The text of a cell is "" where it is missing: None, NaN, NaT, pandas' NA and what a numpy array masks.
# Text is taken without outer blanks. A number, and text that reads as one, is written the same whatever
# its type: 1, 1.0, "1.0" and "01" are "1". True, False and text that reads so, of any case, are "true"
# and "false". Anything else is what `str` makes of it.


PLAIN = "biuf"  # kinds of numpy's types whose cells are what they are, whatever stands beside them
_READ = "OTU" + PLAIN
_DOUBLE, _EXACT = 8, 1 << 53  # bytes; doubles hold all integers below it
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NAMED = {"true": "true", "false": "false"} | {
    sign + name: sign.strip("+") + "inf" for sign in ("", "+", "-") for name in ("inf", "infinity")
}
_WHOLE = (int, np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16, np.uint8)
_TRUTH = {"true": 1.0, "false": 0.0}
_COMPLEX = (complex, np.complexfloating)
_UNNAMED = (*_COMPLEX, np.datetime64, np.timedelta64, bytes)
_NO_NUMBER = "expected numbers: a cell's argument must be a string or a number, got something else"


class NotANumber(InvalidInput, TypeError):
    """A cell is none; a TypeError as well, as of Python's own `float`."""


def cells_of(column: Any) -> NDArray[Any]:
    """The cells of an array, a list, or a series of pandas', polars or pyarrow, none of them converted.

    They have a type of numpy's where the array, or the type of the series, says so, else they are objects.
    """
    if isinstance(column, np.ndarray):
        return np.asarray(unmasked(column))
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):
        own = np.asarray(column)
        return own if dtype.kind in f"{PLAIN}c" else _objects(column.astype(object))
    if hasattr(
        column, "to_pylist"
    ):  # pyarrow: its own conversion makes floats of integers with gaps
        kind = column.type
        exact = not column.null_count and not hasattr(kind, "value_type")
        if exact and _is_plain(kind):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return _objects(_listed(column))
    if hasattr(column, "to_list"):  # pandas' own types, and polars
        return _objects(column.to_list())
    if isinstance(column, Sequence) and not isinstance(column, str):
        return _objects(column)
    return np.asarray(column)


def unmasked(cells: Any) -> Any:
    """The same; of a masked array its cells, those that are masked missing."""
    if not isinstance(cells, np.ma.MaskedArray):
        return cells
    own, kind = np.asarray(cells.data), cells.dtype.kind
    if not np.any(cells.mask) or kind == "V":
        return own
    if kind in "fcmM":
        return np.where(cells.mask, np.asarray(np.nan if kind in "fc" else "NaT", own.dtype), own)
    own = own.astype(object)
    own[cells.mask] = None
    return own


def _is_plain(kind: Any) -> bool:
    try:
        return np.dtype(kind.to_pandas_dtype()).kind in PLAIN
    except (NotImplementedError, TypeError):
        return False


def _listed(column: Any) -> list[Any]:
    """The cells of a column of pyarrow's; a date that Python has no room for is a number, and bytes
    that are no text are missing."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return [_one(cell) for cell in column]


def _one(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return getattr(cell, "value", None)


def _objects(cells: Any) -> NDArray[Any]:
    """(m,) objects; numpy would look into them."""
    return np.fromiter(cells, dtype=object, count=len(cells))


def table_of(X: Any, name: str = "X") -> NDArray[Any]:
    """(n, d) cells of an array, a frame or a list of rows, none of them converted; objects but of an array.

    What is none of these is left to `numpy.asarray`. Raises InvalidInput where it refuses.
    """
    if isinstance(X, np.ndarray):
        return np.asarray(unmasked(X))
    if (columns := columns_of(X)) is not None:
        if columns and (_alike(columns) or all(map(_is_double, columns))):
            return np.column_stack(columns)
        return _beside(columns, len(columns[0]) if columns else 0)
    rows = [cells_of(row) for row in X] if isinstance(X, (list, tuple)) and X else []
    if not rows or any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
        return _left(name, X)
    return _smaller(np.ascontiguousarray(_beside(rows, rows[0].size).T))


def _left(name: str, X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except (TypeError, ValueError, OverflowError):
        pass  # raised outside of it: what numpy says may show a cell
    raise InvalidInput(name, "expected a table, with rows of one length")


def _alike(columns: Sequence[NDArray[Any]]) -> bool:
    return columns[0].dtype.kind in PLAIN and len({cells.dtype for cells in columns}) == 1


def _is_double(cells: NDArray[Any]) -> bool:
    """Whether all of them are numbers that doubles hold, so that no text changes where they become some."""
    if cells.dtype.kind == "f":
        return cells.dtype.itemsize <= _DOUBLE
    whole = cells.dtype.kind in "iu"
    return whole and (not cells.size or max(-int(cells.min()), int(cells.max())) < _EXACT)


def _smaller(table: NDArray[Any]) -> NDArray[Any]:
    """The same cells as doubles, where all are Python's own numbers that doubles hold."""
    plain = set(map(type, table.ravel().tolist())) <= {int, float}
    doubles = typed(table) if plain else table
    exact = doubles.dtype == np.float64 or (doubles.dtype == np.int64 and _is_double(doubles))
    return doubles.astype(np.float64) if exact else table


def _beside(columns: Sequence[NDArray[Any]], n: int) -> NDArray[Any]:
    table = np.empty((n, len(columns)), dtype=object, order="F")
    for j, cells in enumerate(columns):
        table[:, j] = cells
    return table


def columns_of(X: Any) -> list[NDArray[Any]] | None:
    """The cells of every column of a frame, None of anything else."""
    if hasattr(X, "iloc") and X.ndim == 2:
        return [cells_of(X.iloc[:, j]) for j in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return list(map(cells_of, X.get_columns()))
    if hasattr(X, "itercolumns"):
        return list(map(cells_of, X.itercolumns()))
    return None


def typed(cells: NDArray[Any]) -> NDArray[Any]:
    """Objects as an array of the one type in which each of them is what it was, if there is one.

    Truth values are numbers beside some.
    """
    if cells.dtype != object:
        return cells
    kinds = set(map(type, cells.ravel().tolist()))
    if kinds == {str}:
        own = np.array(cells.tolist())  # which cuts off what it takes for an end
        return own if own.tolist() == cells.tolist() else cells
    with contextlib.suppress(OverflowError):
        if kinds and kinds <= {bool, *_WHOLE}:
            return cells.astype(bool if kinds == {bool} else np.int64)
        if kinds and kinds <= {bool, float, np.float64, np.float32, *_WHOLE}:
            doubles = cells.astype(np.float64)
            return cells if np.any(np.abs(doubles) >= _EXACT) else doubles
    return cells


def joined(parts: list[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """The cells of arrays, each of its own type: joining numbers and text would make text of both."""
    alike = len({part.dtype if part.dtype.kind != "U" else "U" for part in parts}) == 1
    return np.concatenate(parts if alike else [part.astype(object) for part in parts], axis)


def is_missing(cell: Any) -> bool:
    """Whether it is None, NaN, NaT, pandas' NA or numpy's `masked`."""
    if cell is None or cell is np.ma.masked or type(cell).__name__ == "NAType":
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()
    unequal = cell != cell
    return isinstance(unequal, (bool, np.bool_)) and bool(unequal)


def text_of(cell: Any) -> str:
    """The text of a cell, by the rule above."""
    if isinstance(cell, str):
        return _as_read(cell.strip())
    if isinstance(cell, (bool, np.bool_)):
        return "true" if cell else "false"
    if isinstance(cell, (int, np.integer)):
        return _whole(int(cell))
    if is_missing(cell):
        return ""
    if isinstance(cell, (float, np.floating, Decimal, Fraction)):
        return _written(cell)
    if isinstance(cell, _COMPLEX) and cell.imag == 0.0:  # as one cell makes of all others
        return _written(cell.real)
    return str(cell).strip()


def _as_read(text: str) -> str:
    if text.isdecimal() and text.isascii() and text[0] != "0":
        return text
    if text.isalpha() or _NUMBER.fullmatch(text) is None:
        return _NAMED.get(text.lower(), text)
    if text.lstrip("+-").isdecimal():
        return text if len(text) > _MOST_DIGITS else str(int(text))
    return _written(float(text))


_MOST_DIGITS = sys.int_info.default_max_str_digits


def _whole(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # of more digits than Python writes
        return hex(number)


def _written(number: Any) -> str:
    try:
        double = float(number)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double):
        return str(double) if number in (math.inf, -math.inf) else str(number)
    return _whole(int(double)) if double.is_integer() else repr(double)


def texts_of(name: str, cells: NDArray[Any]) -> list[str]:
    """The texts of (m,) cells. Raises InvalidInput naming the column where its type is none that is read."""
    refuse_other_types(name, cells.dtype)
    if cells.dtype.kind in PLAIN:
        values, places = np.unique(cells, return_inverse=True)
        texts = np.array([text_of(cell) for cell in values.tolist()], dtype=object)
        return list(texts[places])
    memory: dict[str, str] = {}
    result = []
    for cell in cells.tolist():
        if type(cell) is not str:
            result.append(text_of(cell))
        elif (text := memory.get(cell)) is not None:
            result.append(text)
        else:
            result.append(memory.setdefault(cell, text_of(cell)))
    return result


def refuse_other_types(name: str, dtype: Any) -> None:
    """Raises InvalidInput for types of dates, complex numbers and the like, of a whole array."""
    kind = getattr(dtype, "kind", "O")
    require(kind != "c", name, f"Complex data not supported: expected real numbers, got {dtype}")
    require(kind in _READ, name, f"expected numbers or text, got {dtype}")


def number_of(cell: Any) -> float:
    """The cell as a double, NaN where it is missing; text is read. Raises what `float` raises."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            truth = _TRUTH.get(cell.strip().lower())
        if truth is None:
            raise ValueError
        return truth
    if isinstance(cell, _UNNAMED):
        raise TypeError
    return math.nan if is_missing(cell) else float(cell)


def doubles_of(name: str, cells: NDArray[Any]) -> Array:
    """The cells, in any shape, as doubles, NaN where they are missing. Raises InvalidInput naming them, and
    showing none."""
    refuse_other_types(name, cells.dtype)
    if cells.dtype.kind in PLAIN:
        return np.asarray(cells, dtype=np.float64)
    refused: InvalidInput
    try:
        flat = [number_of(cell) for cell in cells.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(cells.shape)
    except TypeError:
        refused = NotANumber(name, _NO_NUMBER)
    except OverflowError:
        refused = InvalidInput(name, "expected numbers, got one that is too large for a double")
    except ValueError:
        refused = InvalidInput(name, "expected numbers, got text")
    raise refused  # outside of the handlers: what Python says shows the cell


def doubles_beside(columns: Sequence[NDArray[Any]], names: Sequence[str] | None) -> Array:
    """(n, d) doubles of the columns of X. Raises InvalidInput naming the column, where they have names."""
    parts = []
    for j, cells in enumerate(columns):
        try:
            parts.append(doubles_of("X", cells))
        except InvalidInput as bad:
            refused = type(bad)("X", f"{str(bad).partition(': ')[2]}{where(names, j)}")
            break
    else:
        return np.column_stack(parts)
    raise refused


def where(names: Sequence[str] | None, column: int) -> str:
    """In which column something is, as errors say it; nothing where columns have no names."""
    return "" if names is None else f", in the column {names[column]!r}"


def checked_part(
    cells: NDArray[Any],
    *,
    dtype: Any = (),
    ensure_all_finite: bool | str = True,
    sparse: bool = True,
    columns: Sequence[str] | None = None,
) -> NDArray[Any]:
    """What `checked` returns of some rows of a large table, whose columns are the right ones."""
    if dtype is None:
        return cells
    if cells.dtype.kind not in PLAIN:
        cells = doubles_beside(list(cells.T), columns)
    if cells.dtype.kind == "f" and ensure_all_finite is not False:
        gaps = ensure_all_finite == "allow-nan"
        good = np.all(~np.isinf(cells) if gaps else np.isfinite(cells), axis=0)
        if not np.all(good):
            what = "or NaN where one is missing, got infinity" if gaps else "got NaN or infinity"
            column = where(columns, int(np.argmin(good)))
            raise InvalidInput("X", f"expected finite numbers, {what}{column}")
    return cells if dtype == () else cells.astype(dtype, copy=False)
