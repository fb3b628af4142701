"""Where rows come from that are not in memory as a whole, and passes over them."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pabi.execute.hiding import unshown
from pabi.execute.records import MOST_ROWS
from pabi.features.cells import cells_of, columns_of, doubles_of, joined, unmasked
from pabi.features.table_parts import TablePart
from pabi.numbers.errors import InvalidInput, extra

# Reading while something else is computed, by one more thread.


T = TypeVar("T")


class Ahead(Generic[T]):
    """The parts 0..count − 1 of something, of which the next is read while one is used.

    After the last comes the first again. No more than two parts are in memory.
    """

    def __init__(self, read: Callable[[int], T], count: int) -> None:
        self._read, self._count = read, count
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pabi-reading")
        self._held: tuple[int, T] | None = None
        self._next: tuple[int, Future[T]] | None = None

    def part(self, number: int) -> T:
        """One of the parts. What the reading of it raises is raised here."""
        if self._held is not None and self._held[0] == number:
            return self._held[1]
        expected, self._next, self._held = self._next, None, None
        if expected is not None and expected[0] == number:
            value = expected[1].result()
        else:
            value = self._pool.submit(self._read, number).result()
        self._held = number, value
        after = (number + 1) % self._count
        if after != number:
            self._next = after, self._pool.submit(self._read, after)
        return value

    def close(self) -> None:
        """Waits for what is being read, and forgets all parts."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._held = self._next = None


def ahead(values: Iterator[T]) -> Iterator[T]:
    """The same values, of which the next is made while one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="pabi-reading") as pool:
        expected = pool.submit(_next, values)
        while (one := expected.result()) is not None:
            expected = pool.submit(_next, values)
            yield one


def _next(values: Iterator[T]) -> T | None:
    return next(values, None)


Chunks = Iterator[NDArray[Any]]

READ = 1 << 22  # bytes of rows that are read together, and more where one chunk has more
_CELLS = np.dtype(object)  # of cells as they are
_ROWS = 1 << 18  # that are read together at most: what becomes of short ones may be much longer
_CHANGED = (
    "it changed while it was read: expected the same rows in every pass; nothing was released"
)


class Source(Protocol):
    """Rows, or cells of one column, in an order that is always the same."""

    def chunks(self) -> Chunks:
        """All rows in turn, some at a time."""

    def state(self) -> object:
        """What is equal as long as nothing changes, without reading rows; None where only rows can tell."""


@dataclass(eq=False)
class Steady:
    """A source that is read several times and must not change.

    `name`: of the argument, for messages.
    """

    source: Source
    name: str
    _before: list[object] = field(default_factory=list)
    _passed: list[tuple[int, int]] = field(default_factory=list)

    def chunks(self) -> Chunks:
        """All rows in turn. Raises InvalidInput where they are not those of the pass before."""
        self._compare(self._before, self.source.state())
        rows = check = 0
        chunks = self.source.chunks()
        while (chunk := unshown(self.name, lambda: next(chunks, None))) is not None:
            if chunk.ndim == 0:
                raise InvalidInput(self.name, "expected rows in every part, got something else")
            rows += len(chunk)
            if self._before[0] is None:
                check = zlib.crc32(_bytes(chunk), check)
            yield chunk
        self._compare(self._before, self.source.state())
        self._compare(self._passed, (rows, check))

    def _compare(self, before: list[Any], now: object) -> None:
        before[:] = before or [now]
        if before[0] != now:
            raise InvalidInput(self.name, _CHANGED)


def _bytes(chunk: NDArray[Any]) -> Any:
    if chunk.dtype == object:
        return "\0".join(map(_shown, chunk.ravel().tolist())).encode()
    return np.ascontiguousarray(chunk).view(np.uint8).reshape(-1)


def _shown(cell: Any) -> str:
    return hex(cell) if type(cell) is int else repr(cell)  # which refuses thousands of digits


def rechunked(chunks: Chunks, sizes: Iterator[int]) -> Chunks:
    """The rows of `chunks` in arrays of these lengths; the last one may be shorter.

    They are views of chunks, but where rows of several are put together.
    """
    rest: NDArray[Any] | None = None
    for size in sizes:
        parts: list[NDArray[Any]] = []
        left = size
        while left and (chunk := next(chunks, None) if rest is None else rest) is not None:
            if len(chunk):
                parts.append(chunk[:left])
            rest = chunk[left:] if len(chunk) > left else None
            left -= min(left, len(chunk))
        if not parts:
            return
        yield parts[0] if len(parts) == 1 else joined(parts)


def storage(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that numbers of this type are held in: float32 where it holds them all, else float64."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def held_as(dtype: np.dtype[Any], cells: NDArray[Any]) -> NDArray[Any]:
    """Cells as numbers of this type, each from itself alone, or as objects. Raises InvalidInput."""
    if dtype in (_CELLS, cells.dtype):
        return cells.astype(dtype, copy=False)
    with np.errstate(all="ignore"):  # a warning of numbers too large would show a record
        return doubles_of("X", cells).astype(dtype, copy=False)


def frame_rows(part: Any, names: Sequence[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    """(m, d) cells of a part of a data frame, as `held_as` has them. Raises InvalidInput."""
    columns = columns_of(part)
    if columns is None or list(part.columns) != list(names):
        raise InvalidInput("X", f"expected columns {list(names)!r} in every partition")
    return np.column_stack([held_as(dtype, cells) for cells in columns])


@dataclass(frozen=True)
class Parts:
    """Rows that a function makes anew for every pass."""

    make: Callable[[], Chunks]

    def chunks(self) -> Chunks:
        """All rows in turn."""
        return self.make()

    def state(self) -> object:
        """None: only rows can tell."""
        return None


@dataclass(frozen=True)
class Slices:
    """An array that is read slice by slice: of numpy, memory-mapped, or of Zarr."""

    array: Any

    def chunks(self) -> Chunks:
        """All rows in turn."""
        length = _rows_together(self.array)
        for first in range(0, self.array.shape[0], length):
            yield _slice(self.array, first, length)

    def state(self) -> object:
        """None: a mapping may differ from the file of its name, so only rows can tell."""
        return None


def _rows_together(array: Any) -> int:
    """So many rows that a read is worth it; of a chunked array whole chunks."""
    least = min(_ROWS, max(1, READ // max(1, _row_bytes(array))))
    chunk = int((getattr(array, "chunks", None) or (1,))[0])
    return max(chunk, least // chunk * chunk)


def _row_bytes(array: Any) -> int:
    return int(array.dtype.itemsize) * math.prod(map(int, array.shape[1:]))


def _slice(array: Any, first: int, length: int) -> NDArray[Any]:
    """Some rows; of a mapped array what is mapped, which the file of its name need not hold."""
    pages = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else None
    if pages is None:
        return np.asarray(unmasked(array[first : first + length]))
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    if pages.size() < begin + len(pages):  # a read behind the end of a file ends the process
        raise InvalidInput(os.fspath(array.filename or "X"), _CHANGED)
    rows = np.array(array[first : first + length], subok=False)
    # Pages stay in memory unless they are given back; of a private mapping that would undo what was written.
    if array.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
    return rows


@dataclass(frozen=True)
class DaskArray:
    """An array of dask's, computed one block of rows after another.

    `dtype`: of numbers, None for cells as they are.
    """

    array: Any
    dtype: np.dtype[Any] | None = None

    def chunks(self) -> Chunks:
        """All rows in turn. What a block holds has no say in what becomes of the cells of others."""
        for i in range(self.array.numblocks[0]):
            beside = self.array.blocks[i].to_delayed().ravel().tolist()
            blocks = list(map(cells_of, extra("dask", "dask").compute(*beside)))
            if self.dtype is not None:
                blocks = [held_as(self.dtype, block) for block in blocks]
            yield joined(blocks, axis=-1)

    def state(self) -> object:
        """None: only rows can tell."""
        return None


@dataclass(frozen=True)
class DaskFrame:
    """Columns of a data frame of dask's, or one column, computed partition by partition.

    `names`: None for a series, whose cells are as they are. `dtype`: of the cells of several columns, objects
    where they are as they are: a type that a part had by itself would depend on what stands in it.
    """

    frame: Any
    names: Sequence[str] | None = None
    dtype: np.dtype[Any] = _CELLS

    def chunks(self) -> Chunks:
        """All rows in turn."""
        chosen = self.frame if self.names is None else self.frame[list(self.names)]
        for i in range(chosen.npartitions):
            part = chosen.partitions[i].compute()
            yield cells_of(part) if self.names is None else frame_rows(part, self.names, self.dtype)

    def state(self) -> object:
        """None: only rows can tell."""
        return None


def stamp(file: str) -> object:
    """What changes when a file does: which one it is, its size, and when it was written."""
    with readable(file):
        about = os.stat(file)
    return file, about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


@contextlib.contextmanager
def readable(file: str) -> Iterator[None]:
    """Turns what goes wrong while a file is read into one line."""
    try:
        yield
    except OSError as bad:
        raise InvalidInput(file, f"cannot be read: {bad.strerror}") from None


# Cells that are gone through in passes, of a large table or of one in memory.


Change = Callable[[NDArray[Any]], NDArray[Any]]

_TOGETHER = 1 << 16  # rows of a table in memory


@dataclass(frozen=True, eq=False)
class TablePasses:
    """(n, d) cells of a large table, which are read in every pass.

    `change`: (m, d) cells of some rows ↦ what is seen of them, (m, d), row by row.
    """

    source: Steady
    shape: tuple[int, int]
    change: Change

    @classmethod
    def counted(cls, source: Steady, d: int, change: Change) -> TablePasses:
        """The cells of a source with d columns, all of which were changed once.

        Raises InvalidInput where a change does, or where there are no rows.
        """
        n = 0
        for cells in ahead(source.chunks()):
            if cells.ndim != 2 or cells.shape[1] != d:
                raise InvalidInput(
                    "X", f"expected {d} columns in every part, got {cells.shape[1:]}"
                )
            n += len(change(cells))
        if n == 0:
            raise InvalidInput("X", "expected at least one row, got none")
        return cls(source, (n, d), change)

    def parts(self) -> Iterator[NDArray[Any]]:
        """All rows in turn, some at a time."""
        return map(self.change, ahead(self.source.chunks()))

    def mapped(self, change: Change) -> TablePasses:
        """The cells, changed once more."""
        before = self.change
        return replace(self, change=lambda cells: change(before(cells)))


Cells = NDArray[Any] | TablePasses


def parts_of(table: Cells) -> Iterator[NDArray[Any]]:
    """All rows in turn, some at a time."""
    if isinstance(table, TablePasses):
        return table.parts()
    return (table[first : first + _TOGETHER] for first in range(0, len(table), _TOGETHER))


def changed(table: Cells, change: Change) -> Cells:
    """What becomes of the cells row by row: now, or of those of a large table when they are read."""
    return table.mapped(change) if isinstance(table, TablePasses) else change(table)


# Rows that transformers make of those of a large table, anew in every pass.


PartChange = Callable[[TablePart], NDArray[Any]]

_HELD = 1 << 22  # numbers of a part, unless one block of rows has more


@dataclass(frozen=True, eq=False)
class RowsOfChange:
    """What becomes of the rows of a source with d columns, some thousand at a time."""

    rows: Steady
    change: PartChange
    d: int

    def chunks(self) -> Chunks:
        """All rows in turn."""
        return (np.asarray(self.change(TablePart(part))) for part in row_parts(self.rows, self.d))

    def state(self) -> object:
        """Of what they are made from."""
        return self.rows.source.state()


def row_parts(source: Steady, d: int) -> Iterator[NDArray[Any]]:
    """All rows in turn, in parts of a multiple of the rows of a block. Raises InvalidInput for other columns
    than d."""
    block = max(1, min(MOST_ROWS, _HELD // (d + 1)))
    length = block * max(1, _HELD // (block * d))
    for part in rechunked(ahead(source.chunks()), repeat(length)):
        if part.ndim != 2 or part.shape[1] != d:
            raise InvalidInput("X", f"expected {d} columns in every part, got {part.shape[1:]}")
        yield part


def refuse_containers(transformer: Any) -> None:
    """Raises InvalidInput where scikit-learn would make a frame of what a transformer returns."""
    from sklearn import get_config

    own = getattr(transformer, "_sklearn_output_config", {})
    container = own.get("transform", get_config()["transform_output"])
    if container != "default":
        raise InvalidInput(
            "set_output", f'expected "default" for a large table, got {container!r}: it is no frame'
        )
