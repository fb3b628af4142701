"""Where a table is read from: files, folders and patterns, each record once, or a query."""

from __future__ import annotations

import codecs
import filecmp
import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pabi.cli.reading import TABLE, refuse_other_kinds
from pabi.execute.progress import is_zarr
from pabi.numbers.errors import InvalidInput, require

CSV, PARQUET, ARROW = (".csv", ".csv.gz"), (".parquet", ".pq"), (".feather", ".arrow")
ARRAY = (".npy", ".zarr")
STANDARD_INPUT = "-"
_IN_FOLDERS = (*CSV, *PARQUET, *ARROW)  # arrays are named: one beside them may be of targets
_ENDINGS = (*_IN_FOLDERS, ".npy")
_EXPECTED = "expected a file named .csv, .csv.gz, .parquet, .pq, .feather, .arrow or .npy"
_TWICE = "a record that is read twice has twice the influence that is accounted"


class NamedTable(str):
    """What a table is called. `encoding`: of the text of a CSV. `rows`: those that a query gave, if any."""

    encoding: str = "utf-8-sig"
    rows: Any = None


def encoding_of(file: str) -> str:
    """The encoding of the text of a CSV."""
    return file.encoding if isinstance(file, NamedTable) else "utf-8-sig"


def rows_of(file: str) -> Any:
    """The rows that a query gave, None of a file."""
    return file.rows if isinstance(file, NamedTable) else None


def _named(file: str, encoding: str) -> str:
    """The name of a file with its encoding. Raises InvalidInput naming the option."""
    try:
        codec = codecs.lookup(encoding).name
    except LookupError:
        codec = encoding
    # In others, one record's bytes could take those of the next with them.
    if not re.fullmatch(r"utf-8|iso8859-\d+|cp125\d|cp437|cp850|koi8-[ru]|mac-roman", codec):
        raise InvalidInput(
            "--encoding",
            f"expected utf-8, or one byte a character as of latin-1 or cp1252, got {encoding!r}: convert the "
            "table, as iconv does",
        )
    name = NamedTable(file)
    name.encoding = "utf-8-sig" if codec == "utf-8" else codec
    return name


def table_files(names: Sequence[str], encoding: str | None = None) -> list[str]:
    """The files that `names` stand for, in order; those of a folder or a pattern by name.

    A folder stands for all tables in it and below it, but hidden ones; a pattern is one of the shell's.
    """
    files = [file for name in names for file in _files_of(name)]
    if encoding is not None:
        files = [_named(file, encoding) for file in files]
    if STANDARD_INPUT in files and len(files) > 1:
        raise InvalidInput(STANDARD_INPUT, "expected standard input alone, or files")
    if files != [STANDARD_INPUT]:
        _refuse_twice(files)
    return files


def tables(
    names: Sequence[str],
    encoding: str | None,
    *,
    query: str | None,
    database: str | None,
    scratch: str | None = None,
) -> list[str]:
    """The tables that `names` stand for, or the answer to a query. Raises InvalidInput unless it is one."""
    if query is None:
        require(database is None, "--query", "missing: --database is asked by a query")
        require(names, "DATA", "missing: expected tables, or --query and --database")
        return table_files(names, encoding)
    require(not names, "--query", "expected either tables or a query")
    if database is None:
        raise InvalidInput("--database", "missing: where --query is asked")
    from pabi.cli.queries import answer

    name = NamedTable("--query")
    name.rows = answer(database, query, scratch)
    return [name]


def ending_of(file: str) -> str:
    """How the name of a table ends, in lower case. Raises InvalidInput for a name that is not one's."""
    if file == STANDARD_INPUT:
        return ".csv"
    if is_zarr(file):
        return ".zarr"
    name = Path(file).name.lower()
    ending = next((e for e in _ENDINGS if name.endswith(e)), None)
    if ending is None:
        raise InvalidInput(file, _EXPECTED)
    return ending


def _files_of(name: str) -> list[str]:
    path = Path(name)
    if is_zarr(name):
        return [name]
    if name == STANDARD_INPUT or path.is_file():
        refuse_other_kinds(path, TABLE)
        ending_of(name)
        return [name]
    if path.is_dir():
        return _nonempty(name, list(_tables_below(path)), "expected a folder with tables in it")
    if glob.has_magic(name):
        matches = [file for file in sorted(glob.glob(name, recursive=True)) if Path(file).is_file()]
        return _nonempty(name, matches, "expected a pattern that some files match")
    raise InvalidInput(name, f"{_EXPECTED}: no such file")


def _tables_below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path.name.lower().endswith(_IN_FOLDERS):
            yield str(path)


def _nonempty(name: str, files: list[str], otherwise: str) -> list[str]:
    require(files, name, f"{otherwise}: got none")
    for file in files:
        ending_of(file)
    return files


def _refuse_twice(files: list[str]) -> None:
    """Refuses a file that is named twice, or under two names, a table in two formats, and copies."""
    seen: set[object] = set()
    for file in files:
        about = os.stat(file)
        stem = os.path.abspath(file).removesuffix(ending_of(file))
        if seen & {(about.st_dev, about.st_ino), stem}:
            raise InvalidInput(file, f"expected every table once, got it a second time: {_TWICE}")
        seen |= {(about.st_dev, about.st_ino), stem}
    _refuse_copies(files)


def _refuse_copies(files: list[str]) -> None:
    """Refuses a file with the contents of another one. Only files of one size are read."""
    of_size: dict[int, list[str]] = {}
    for file in files:
        alike = of_size.setdefault(os.stat(file).st_size, [])
        for other in alike:
            if filecmp.cmp(file, other, shallow=False) and not _only_a_header(file):
                raise InvalidInput(
                    file, f"expected every table once, got a copy of {other}: {_TWICE}"
                )
        alike.append(file)


def _only_a_header(file: str) -> bool:
    """Whether it is text without a second line: tables without records may be alike."""
    if ending_of(file) != ".csv":
        return False
    with open(file, "rb") as text:
        text.readline()
        return not text.readline()
