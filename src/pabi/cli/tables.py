"""Tables that are read: some columns of a CSV or Parquet file."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pabi.cli.kinds import TABLE, refuse_other_kinds
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_CSV, _PARQUET = (".csv",), (".parquet", ".pq")


def read_table(file: str, columns: Iterable[str]) -> Any:
    """A pandas frame of these columns, not empty; all text where it comes from a CSV.

    Raises InvalidInput naming the file, or the column that it lacks.
    """
    refuse_other_kinds(Path(file), TABLE)
    ending = Path(file).suffix.lower()
    if ending not in _CSV + _PARQUET:
        raise InvalidInput(file, "expected a file named .csv, .parquet or .pq")
    if not Path(file).is_file():
        raise InvalidInput(file, "expected a table: no such file")
    read = _read_csv if ending in _CSV else _read_parquet
    try:
        frame = read(file, list(columns))
    except InvalidInput:
        raise
    except (ValueError, OSError, Warning) as bad:
        kind = "CSV" if ending in _CSV else "Parquet"
        raise InvalidInput(file, f"expected a {kind} table: {bad}") from None
    if frame.empty:
        raise InvalidInput(file, "expected a table of at least one row, got none")
    return frame


def _read_csv(file: str, columns: list[str]) -> Any:
    pandas = extra("pandas", "train")
    options = {"dtype": str, "keep_default_na": False, "skipinitialspace": True}
    options |= {"encoding": "utf-8-sig", "index_col": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # a row longer than the header
        header = pandas.read_csv(file, header=None, nrows=1, **options).iloc[0]
        names = [str(name).strip() for name in header]
        _require_header(file, columns, names)
        _require(file, columns, names)
        # All columns, or a row that is longer than the header would go unnoticed.
        return pandas.read_csv(file, header=0, names=names, **options)[columns]


def _read_parquet(file: str, columns: list[str]) -> Any:
    parquet = extra("pyarrow.parquet", "train")
    extra("pandas", "train")
    _require(file, columns, parquet.read_schema(file).names)
    return parquet.read_table(file, columns=columns).to_pandas(ignore_metadata=True)


def _require_header(file: str, columns: list[str], names: list[str]) -> None:
    """Refuse a first line with no declared name in it, without showing what it has: that may be a record."""
    if not any(column in names for column in columns):
        looks = "the first line looks like data" if any(map(_is_number, names)) else "it has none"
        raise InvalidInput(
            file,
            f"expected a first line with the names of columns, such as {columns[0]!r}; {looks}",
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _require(file: str, columns: list[str], names: list[str]) -> None:
    for column in columns:
        if names.count(column) > 1:
            raise InvalidInput(file, f"expected one column {column!r}, got several of that name")
        if column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(file, f"expected a column {column!r}, it has none{hint}")
