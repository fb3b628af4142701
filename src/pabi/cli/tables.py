"""Tables that are read: some columns of CSV, Parquet, Feather and Arrow files, and of arrays, in parts."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pabi.cli.reading import file_name
from pabi.cli.table_files import (
    ARRAY,
    ARROW,
    CSV,
    ROWS,
    STANDARD_INPUT,
    UNREAD,
    encoding_of,
    ending_of,
    rows_of,
)
from pabi.cli.writing import one_line
from pabi.numbers.errors import InvalidInput, extra, require, warn_once
from pabi.numbers.showing import suggestion

# Numbers, amounts, dates and times: no names of columns.
_DATUM = re.compile(r"[-+]?\W{0,2}\d[\d.,:/ T+-]*(e[-+]?\d+)?\W{0,2}|.*@.*", re.IGNORECASE)
_UNREADABLE = (ValueError, OSError, Warning, EOFError, NotImplementedError, zlib.error, csv.Error)
# Without the last one, one gap makes doubles of the integers of its part.
_AS_THEY_ARE = {"ignore_metadata": True, "integer_object_nulls": True}
_OF_ARRAYS = "NumPy or Zarr"
_DELIMITERS = ",;\t|"
_NO_TEXT = (
    "some cells are no text in {} and count as missing: if the table has another encoding, say --encoding; "
    "this warning depends on the data: keep it to yourself"
)
_Frames = Iterator[Any]


def frames(files: Sequence[str], columns: Sequence[str]) -> _Frames:
    """pandas frames of these columns, one after the other; all text where they come from a CSV.

    None has more than 16 384 rows or is empty. Raises InvalidInput naming the file, or the column that it
    lacks, and where there is no row at all.
    """
    return _some(files, (f for file in files for f in _nonempty_frames(file, columns)))


def _some(files: Sequence[str], read: _Frames) -> _Frames:
    """What is read. Raises InvalidInput after nothing."""
    empty = True
    for frame in read:
        empty = False
        yield frame
    require(not empty, file_name(files[0]), "expected a table of at least one row, got none")


def _nonempty_frames(file: str, columns: Sequence[str]) -> _Frames:
    kind, read = _reader(file)
    with _readable(file, kind):
        yield from (frame for frame in read(file, list(columns)) if len(frame))


def whole_frames(
    files: Sequence[str], columns: Sequence[str], beside: Sequence[str] = ()
) -> _Frames:
    """A pandas frame of these columns for each file that has rows, those `beside` as they were read.

    The others of a CSV are numbers or text as `pandas.read_csv` finds them in the whole file: a pipeline was
    fitted to such a frame. Raises InvalidInput as `frames` does.
    """
    pandas = extra("pandas", "train")
    parts = ((file, list(_nonempty_frames(file, [*columns, *beside]))) for file in files)
    whole = ((file, pandas.concat(some, ignore_index=True)) for file, some in parts if some)
    return _some(
        files,
        (
            _as_read(f[list(columns)]).join(f[list(beside)])
            if rows_of(file) is None and ending_of(file) in CSV
            else f
            for file, f in whole
        ),
    )


def _as_read(texts: Any) -> Any:
    """A frame of text with the types that pandas finds in it."""
    pandas = extra("pandas", "train")
    written = io.StringIO(texts.to_csv(index=False))
    return pandas.read_csv(written, low_memory=False, skip_blank_lines=False)


def names_of(file: str) -> list[str]:
    """The names of the columns of a table: its first line, or what the file says of itself.

    No value is read. Raises InvalidInput naming the file, also where a first line looks like data.
    """
    kind, _ = _reader(file)
    with _readable(file, kind):
        if kind == "CSV":
            return _first_line(file)
        if kind == "Parquet":
            return list(extra("pyarrow.parquet", "train").read_schema(file).names)
        if kind == _OF_ARRAYS:
            return _array(file)[1]
        if kind == "query":
            return list(rows_of(file).schema.names)
        with _arrow(file) as reader:
            return list(reader.schema.names)


def _reader(file: str) -> tuple[str, Callable[[str, list[str]], _Frames]]:
    """(the kind of table, what reads it)."""
    if rows_of(file) is not None:
        return "query", _query_frames
    ending = ending_of(file)
    if ending in CSV:
        return "CSV", _csv_frames
    if ending in ARRAY:
        return _OF_ARRAYS, _array_frames
    return ("Feather or Arrow", _arrow_frames) if ending in ARROW else ("Parquet", _parquet_frames)


@contextlib.contextmanager
def _readable(file: str, kind: str) -> Iterator[None]:
    """Turns what goes wrong while a file is read into InvalidInput."""
    try:
        yield
    except InvalidInput:
        raise
    except MemoryError:  # a damaged file may say that it holds more than there is
        raise InvalidInput(
            file_name(file), f"expected a {kind} table: not enough memory, or it is damaged"
        ) from None
    except _unreadable() as bad:
        raise InvalidInput(file_name(file), f"expected a {kind} table: {one_line(bad)}") from None


def _unreadable() -> tuple[type[Exception], ...]:
    """What reading a damaged file may raise; pyarrow, where it was imported, has errors of no other kind."""
    arrow = sys.modules.get("pyarrow")
    return _UNREADABLE if arrow is None else (*_UNREADABLE, arrow.ArrowException)


# CSV.


def _csv_frames(file: str, columns: list[str]) -> _Frames:
    pandas = extra("pandas", "train")
    encoding = encoding_of(file)
    options = {"dtype": str, "keep_default_na": False, "skipinitialspace": True, "header": None}
    # A blank line is a record too: those after it would be taken for others.
    options |= {"chunksize": ROWS, "skip_blank_lines": False}
    options |= {"encoding": encoding, "encoding_errors": "pabi.unread"}
    names: list[str] | None = None
    rows = 0
    with contextlib.ExitStack() as opened:
        lines = _Lines(opened.enter_context(_binary(file)))
        options["sep"] = _delimiter(_header(file, lines.first), columns)
        chunks = opened.enter_context(pandas.read_csv(lines, **options))
        # All columns, or a row that is longer than the header would go unnoticed.
        for chunk in chunks:
            frame = chunk
            rows += len(chunk)
            if names is None:
                names = [str(name).strip() for name in chunk.iloc[0]]
                _require_header(file_name(file), columns, names)
                _require(file_name(file), columns, names)
                frame = chunk.iloc[1:]
            frame = frame[[names.index(column) for column in columns]].set_axis(columns, axis=1)
            yield _readable_cells(frame, encoding)
    require(
        not lines.mixed,
        file_name(file),
        "expected lines that all end alike: some end in a carriage return alone, or a cell holds one",
    )
    require(
        rows == lines.count,
        file_name(file),
        "expected one record in each line: a quoted cell has a line break, or a quote is not closed",
    )


def _readable_cells(frame: Any, encoding: str) -> Any:
    """The frame with cells that are no text missing; each by itself, so that none changes another."""
    odd = frame.apply(lambda cells: cells.str.contains(UNREAD, regex=False, na=False))
    if not odd.to_numpy().any():
        return frame
    warn_once(_NO_TEXT.format(encoding.removesuffix("-sig")), UserWarning)
    return frame.mask(odd, "")


def _header(file: str, line: bytes) -> str:
    """The line with the names of columns, which alone says how a table is read. Raises InvalidInput."""
    name, encoding = file_name(file), encoding_of(file)
    require(
        not line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
        name,
        "expected UTF-8, this is UTF-16: convert it, as iconv does",
    )
    text = line.decode(encoding, "pabi.unread")
    require(
        UNREAD not in text,
        name,
        f"expected a CSV table, its first line in {encoding.removesuffix('-sig')}: what else it is in "
        "says --encoding, such as latin-1 or cp1252",
    )
    return text


def _cells(line: str, delimiter: str) -> list[str]:
    rows = csv.reader([line], delimiter=delimiter, skipinitialspace=True)
    return [name.strip() for name in next(rows, [])]


def _delimiter(header: str, columns: Sequence[str]) -> str:
    """What stands between cells: the first by which all columns have a name, else that which gives most."""
    names = {mark: _cells(header, mark) for mark in _DELIMITERS}
    whole = [mark for mark in _DELIMITERS if columns and set(columns) <= set(names[mark])]
    return whole[0] if whole else max(_DELIMITERS, key=lambda mark: len(names[mark]))


class _Lines(io.RawIOBase):
    """The bytes of a table without line breaks before it; its lines are counted, by what ends them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._ready, self._held = b"", b""
        self._feeds, self._returns, self._open = 0, 0, False

    @property
    def count(self) -> int:
        return self._feeds + self._returns + self._open

    @property
    def mixed(self) -> bool:
        """Whether some lines end in a carriage return alone, and others do not."""
        return self._feeds > 0 and self._returns > 0

    @property
    def first(self) -> bytes:
        """The first line, before anything is read."""
        while b"\n" not in self._ready and b"\r" not in self._ready and (more := self._next()):
            self._ready += more
        return self._ready.splitlines()[0] if self._ready else b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._ready = self._ready or self._next()
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _next(self) -> bytes:
        text, read = b"", b"\n"
        while read and not text:
            read = self._stream.read(1 << 16)
            block = self._held + read
            self._held = b"\r" if read and block.endswith(b"\r") else b""  # a line feed may follow
            text = block.removesuffix(self._held)
            text = text if self.count else text.lstrip(b"\r\n")
        self._feeds += text.count(b"\n")
        self._returns += text.count(b"\r") - text.count(b"\r\n")
        if text:
            self._open = not text.endswith((b"\n", b"\r"))
        return text


def _first_line(file: str) -> list[str]:
    with _binary(file) as stream:
        lines = (line.strip(b"\r\n") for line in stream)  # no further than it has to
        first = next(filter(None, lines), b"").splitlines()[:1]
    header = _header(file, *first) if first else ""
    names = _cells(header, _delimiter(header, ()))
    require(
        not any(map(_is_datum, names)),
        file_name(file),
        "expected a first line with the names of columns; the first line looks like data: name them "
        "with --columns",
    )
    return names


@contextlib.contextmanager
def _binary(file: str) -> Iterator[Any]:
    """The bytes of a CSV, unpacked."""
    if file == STANDARD_INPUT:
        require(sys.stdin is not None, "standard input", "expected a CSV table: it is closed")
        yield sys.stdin.buffer
        return
    packed = ending_of(file) == ".csv.gz"
    with gzip.open(file, "rb") if packed else open(file, "rb") as stream:
        yield stream


def _require_header(file: str, columns: list[str], names: list[str]) -> None:
    """Refuse a first line with no declared name in it, without showing what it has: that may be a record."""
    if not any(column in names for column in columns):
        looks = "the first line looks like data" if any(map(_is_datum, names)) else "it has none"
        raise InvalidInput(
            file,
            f"expected a first line with the names of columns, such as {columns[0]!r}; {looks}",
        )


def _is_datum(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return _DATUM.fullmatch(cell) is not None
    return True


def _require(file: str, columns: list[str], names: list[str]) -> None:
    for column in columns:
        require(
            names.count(column) <= 1,
            file,
            f"expected one column {column!r}, got several of that name",
        )
        if column not in names:
            hint = suggestion(column, names, quoted=True)
            raise InvalidInput(file, f"expected a column {column!r}, it has none{hint}")


# Parquet, Feather and Arrow.


def _parquet_frames(file: str, columns: list[str]) -> _Frames:
    parquet = extra("pyarrow.parquet", "train")
    extra("pandas", "train")
    with parquet.ParquetFile(file, page_checksum_verification=True) as table:
        _require(file, columns, table.schema_arrow.names)
        for batch in table.iter_batches(ROWS, columns=columns):
            yield _frame(batch)[columns]


def _arrow_frames(file: str, columns: list[str]) -> _Frames:
    extra("pandas", "train")
    with _arrow(file) as reader:
        names = reader.schema.names
        _require(file, columns, names)
    with _arrow(file, sorted(names.index(column) for column in columns)) as reader:
        batches = getattr(
            reader, "num_record_batches", None
        )  # of a file; a stream is one batch after another
        every = reader if batches is None else map(reader.get_batch, range(batches))
        for batch in every:
            for first in range(0, batch.num_rows, ROWS):
                yield _frame(batch.slice(first, ROWS))[columns]


def _query_frames(file: str, columns: list[str]) -> _Frames:
    _require(file, columns, rows_of(file).schema.names)
    for batch in rows_of(file).to_batches(columns, ROWS):
        yield _frame(batch)


def _frame(batch: Any) -> Any:
    """The cells of a record batch."""
    from pabi.execute.cells import cells_of

    pandas = extra("pandas", "train")
    try:
        return batch.to_pandas(**_AS_THEY_ARE)
    except (ValueError, OverflowError):
        # A date that Python has no room for: only that cell is none.
        named = zip(batch.schema.names, batch.columns, strict=True)
        return pandas.DataFrame({name: cells_of(column) for name, column in named}, dtype=object)


@contextlib.contextmanager
def _arrow(file: str, fields: list[int] | None = None) -> Iterator[Any]:
    """A reader of the record batches of an Arrow file or stream, of these fields alone."""
    arrow, ipc = extra("pyarrow", "train"), extra("pyarrow.ipc", "train")
    options = ipc.IpcReadOptions(included_fields=fields)
    with arrow.memory_map(file) as source:
        try:
            reader = ipc.open_file(source, options=options)
        except arrow.ArrowInvalid:
            source.seek(0)
            reader = ipc.open_stream(source, options=options)
        with reader:
            yield reader


# Arrays.


def _array_frames(file: str, columns: list[str]) -> _Frames:
    from pabi.execute.sources import slices

    pandas = extra("pandas", "train")
    array, names = _array(file)
    _require(file, columns, names)
    numbers = [names.index(column) for column in columns]
    for rows in slices(array):
        for first in range(0, len(rows), ROWS):
            yield pandas.DataFrame(rows[first : first + ROWS][:, numbers], columns=columns)


def _array(file: str) -> tuple[Any, list[str]]:
    """(the array, the names of its columns)."""
    from pabi.execute.source_files import array_at, names_of_columns

    array = array_at(file)
    return array, names_of_columns(int(array.shape[1]))
