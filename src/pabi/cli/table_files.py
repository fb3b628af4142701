"""Where a table is read from: files, folders and patterns, each record once, or a query of a database."""

from __future__ import annotations

import codecs
import contextlib
import filecmp
import glob
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pabi.cli.reading import TABLE, refuse_other_kinds
from pabi.execute.progress import is_zarr
from pabi.numbers.errors import InvalidInput, extra, require

if TYPE_CHECKING:
    from pabi.execute.source_files import ReadOnce

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
    require(
        re.fullmatch(r"utf-8|iso8859-\d+|cp125\d|cp437|cp850|koi8-[ru]|mac-roman", codec),
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
    require(
        STANDARD_INPUT not in files or len(files) <= 1,
        STANDARD_INPUT,
        "expected standard input alone, or files",
    )
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
        require(
            not seen & {(about.st_dev, about.st_ino), stem},
            file,
            f"expected every table once, got it a second time: {_TWICE}",
        )
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


# What PostgreSQL, DuckDB or SQLite answer to a query, read once.


ROWS = 1 << 14  # of a table that are in memory as they were read
# In the place of bytes that are no text: a character that no text has.
UNREAD = "\uffff"
codecs.register_error("pabi.unread", lambda bad: (UNREAD, bad.end))  # type: ignore[attr-defined]
# What a URI with a password has: a colon before a host, or an option.
_SECRET = re.compile(r"//.*:.*@|password", re.IGNORECASE)
# What is wrong with SQL is found before any row is looked at; and what answers it with a stream of Arrow's.
_Asked = tuple[Callable[[str], object], Callable[[str], Any]]


def answer(database: str, query: str, folder: str | None) -> ReadOnce:
    """The rows that a database answers to a query, read once; nothing is changed in it.

    `database`: a file of DuckDB or SQLite, or a URI of PostgreSQL. Raises InvalidInput naming `--database` or
    `--query`: no message shows a password, or a value of a row. `folder`: where the rows are kept.
    """
    from pabi.execute.hiding import unshown
    from pabi.execute.source_files import ReadOnce

    with contextlib.ExitStack() as opened:
        check, ask = opened.enter_context(_connected(database))
        try:
            check(query)
        except Exception as bad:
            raise InvalidInput("--query", _message(bad, query)) from None
        return ReadOnce(unshown("--query", lambda: ask(query)), folder, "--query")


@contextlib.contextmanager
def _connected(database: str) -> Iterator[_Asked]:
    """What asks a database, which is opened to be read."""
    with contextlib.ExitStack() as opened:
        try:
            ways = opened.enter_context(_kind(database)(database))
        except InvalidInput:
            raise
        except Exception as bad:
            reason = f"expected one that answers: {_message(bad, database)}"
            raise InvalidInput("--database", reason) from None
        yield ways


def _kind(database: str) -> Callable[[str], contextlib.AbstractContextManager[_Asked]]:
    if re.match("postgres(ql)?://", database):
        return _postgres
    with contextlib.suppress(OSError), open(database, "rb") as file:
        head = file.read(16)
        if head == b"SQLite format 3\0":
            return _sqlite
        if head[8:12] == b"DUCK":
            return _duckdb
    raise InvalidInput("--database", "expected postgresql://…, or a file of DuckDB or SQLite")


@contextlib.contextmanager
def _postgres(uri: str) -> Iterator[_Asked]:
    dbapi = extra("adbc_driver_postgresql.dbapi", "query")
    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")

        def ask(sql: str) -> Any:
            cursor.execute(sql)
            return cursor.fetch_record_batch()

        yield cursor.adbc_prepare, ask


@contextlib.contextmanager
def _duckdb(file: str) -> Iterator[_Asked]:
    with extra("duckdb", "query").connect(file, read_only=True) as connection:
        yield _explained(connection), connection.sql


@contextlib.contextmanager
def _sqlite(file: str) -> Iterator[_Asked]:
    """Every value as text: a column holds values of any type, and none of them may change another's."""
    uri = f"{Path(file).resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "pabi.unread")
        yield _explained(connection), lambda sql: _texts(connection.execute(sql))


def _explained(connection: Any) -> Callable[[str], object]:
    return lambda sql: connection.execute(f"EXPLAIN {sql}").fetchall()


def _texts(cursor: Any) -> Any:
    arrow = extra("pyarrow", "query")
    schema = arrow.schema([(column[0], arrow.string()) for column in cursor.description])

    def batches() -> Iterator[Any]:
        while rows := cursor.fetchmany(ROWS):
            columns = [list(map(_text, cells)) for cells in zip(*rows, strict=True)]
            yield arrow.record_batch(columns, schema=schema)

    return arrow.RecordBatchReader.from_batches(schema, batches())


def _text(cell: Any) -> str | None:
    text = None if cell is None else str(cell)
    return None if text is None or UNREAD in text else text


def _message(bad: Exception, of: str) -> str:
    """The first line of what a driver says; its type alone where it may show parts of a password."""
    if _SECRET.search(of):
        return type(bad).__name__
    return re.sub(r"^.*ERROR: +", "", str(bad).strip().partition("\n")[0])
