"""`pabi schema`: a schema to fill in, from the names of columns and from nothing else of a table."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from pabi.cli.table_files import table_files
from pabi.cli.tables import names_of
from pabi.cli.writing import emit, one_line
from pabi.numbers.errors import InvalidInput

_TARGET = """\
# [target]
# levels = ["…", "…"]  # of a classifier: all labels that may occur
# range = [low, high]  # of a regression: its public range, in place of levels"""

_COLUMN = """\
# [columns.{}]
# kind = "numeric"  # or "categorical" or "boolean", which has no further keys
# range = [low, high]  # of a numeric column
# transform = "log1p"  # of a numeric column, on the scale of log(1 + x): may be left out
# levels = ["…", "…"]  # of a categorical column
# other = "level"  # of a categorical column, a feature for all other levels: may be left out"""

_MODEL = """\
# [model]  # arguments of the estimator: may be left out
# adjacency = "replace_one"
# epochs = 20"""


def schema(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Tables, as for pabi train."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,C", help="The names, in place of tables."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="T", help="The column to predict.")
    ] = None,
) -> None:
    """A schema for pabi train, with every field to be filled in.

    Of a table only the names of its columns are read, never a value: the first line of a CSV, or what a
    Parquet, Feather or Arrow file says of itself. The names count as public, and end up in the model. Every
    line is a comment. Take the comment signs off the lines that you fill in, from public knowledge alone.

    \b
    Examples:
      pabi schema people.csv --target income > schema.toml
      pabi schema --columns age,hours,job --target income > schema.toml
    """
    names = _names(data or [], columns)
    if target is not None and target not in names:
        raise InvalidInput("--target", f"expected one of the columns, got {target!r}")
    emit("\n\n".join(_parts(names, target)))


def _names(files: list[str], columns: str | None) -> list[str]:
    """The names of columns, each once and none empty."""
    if bool(files) == (columns is not None):
        raise InvalidInput("--columns", "expected the names of columns, or a table: one of them")
    if columns is not None:
        return _distinct("--columns", [name.strip() for name in columns.split(",")])
    first, *others = table_files(files)
    names = _distinct(first, names_of(first))
    for other in others:
        if set(_distinct(other, names_of(other))) != set(names):
            raise InvalidInput(other, f"expected the columns of {first!r}, got others")
    return names


def _distinct(source: str, names: list[str]) -> list[str]:
    """Those that are not empty. Raises InvalidInput, without any name, for none at all and for one twice."""
    present = [name for name in names if name]
    if not present:
        raise InvalidInput(source, "expected the names of columns, got none")
    if len(set(present)) < len(present):
        raise InvalidInput(source, "expected columns of different names, got one name twice")
    return present


def _parts(names: list[str], target: str | None) -> list[str]:
    about = "" if target is None else f" --target {one_line(target)}"
    head = (
        f"# A schema for pabi train{about}. Only the names of the columns were read, and no value.\n"
        "# Fill in the lines that you need and take their comment signs off, without looking at the data.\n"
        "# A column without a table is not used."
    )
    tables = [_COLUMN.format(_key(name)) for name in names if name != target]
    return [head, _TARGET, *tables, _MODEL]


def _key(name: str) -> str:
    """A name as a key of TOML: as it is, or in quotes, which are those of JSON."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
