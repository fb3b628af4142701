"""What PostgreSQL, DuckDB or SQLite answer to a query, read once."""

from __future__ import annotations

import codecs
import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pabi.numbers.errors import InvalidInput, extra

if TYPE_CHECKING:
    from pabi.execute.source_files import ReadOnce

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
        rows = unshown("--query", lambda: ask(query))
        return ReadOnce(rows, folder, "--query")


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
