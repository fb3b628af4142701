"""Rows that come in parts: of an array, or read in passes from where they lie."""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pabi.execute.cells import cells_of, columns_of, doubles_of, joined, unmasked
from pabi.execute.hiding import unshown
from pabi.execute.records import MOST_ROWS
from pabi.numbers.errors import InvalidInput, extra, require

# Reading while something else is computed, by one more thread.


T = TypeVar("T")


class Ahead(Generic[T]):
    """The parts 0..count − 1 of something, of which the next is read while one is used.

    After the last comes the first again. No more than two parts are in memory.
    """

    def __init__(self, read: Callable[[int], T], count: int) -> None:
        self._read, self._count = read, count
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pabi-reading")
        self._parts: dict[int, Future[T]] = {}

    def part(self, number: int) -> T:
        """One of the parts. What the reading of it raises is raised here."""
        # Where it was not expected, all that was read may be overwritten.
        read = self._parts if number in self._parts else {}
        here = dict.fromkeys((number, (number + 1) % self._count))
        self._parts = {k: read.get(k) or self._pool.submit(self._read, k) for k in here}
        return self._parts[number].result()

    def close(self) -> None:
        """Waits for what is being read, and forgets all parts."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._parts.clear()


def ahead(values: Iterator[T]) -> Iterator[T]:
    """The same values, of which the next is made while one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="pabi-reading") as pool:
        expected = pool.submit(next, values, None)
        while (one := expected.result()) is not None:
            expected = pool.submit(next, values, None)
            yield one


Chunks = Iterator[NDArray[Any]]
Change = Callable[[NDArray[Any]], NDArray[Any]]
Read = Callable[[], Chunks]

READ = 1 << 22  # bytes of rows that are read together, and more where one chunk has more
_CELLS = np.dtype(object)  # of cells as they are
_ROWS = 1 << 18  # that are read together at most: what becomes of short ones may be much longer
_TOGETHER = 1 << 16  # rows of an array in memory
_HELD = 1 << 22  # numbers of a part that is cut, unless one block of rows has more
CHANGED = "it changed while it was read: expected the same rows in every pass; nothing was released"
_NONE = "expected at least one row, got none"
_MIXED = "expected labels that are all text, or all numbers"


def _same(cells: NDArray[Any]) -> NDArray[Any]:
    return cells


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Rows of a table, or cells of a column, that come in parts; an array in memory is a source of one.

    `read`: yields all rows as they are, some at a time, in every pass the same ones. `state`: what is equal
    as long as nothing changes, found without reading; None where only rows can tell. `width`: how many
    columns a table has. `change`: what becomes of some rows, of each from itself alone. `array`: all rows,
    changed already, where they are in memory. `length`: how many make a part; None for parts as they are
    read. `rows`: how many there are, where they were counted. `apart`: whether Dask computes them in every
    pass, without what stands beside them.
    """

    read: Read
    name: str = "X"
    state: Callable[[], object] = lambda: None
    width: int | None = None
    change: Change = _same
    array: Any = None
    length: int | None = None
    rows: int | None = None
    apart: bool = False
    _noted: dict[str, object] = field(default_factory=dict)  # of rows before they are changed

    def __post_init__(self) -> None:
        self._noted.setdefault("width", self.width)

    @classmethod
    def of(cls, cells: Any, name: str = "X") -> Parts:
        """An array, dense or sparse, as one part."""
        return cls(lambda: iter(()), name, array=cells)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d) of a table that is in memory, or was counted."""
        if self.array is not None:
            return self.array.shape  # type: ignore[no-any-return]
        assert self.rows is not None
        assert self.width is not None
        return self.rows, self.width

    def __iter__(self) -> Chunks:
        """All rows in turn, some at a time, of which the next are read while some are used."""
        if self.array is None:
            return ahead(self._changed(self.chunks()))
        firsts = range(0, self.array.shape[0], _TOGETHER)
        return (self.array[first : first + _TOGETHER] for first in firsts)

    def chunks(self) -> Chunks:
        """All rows as they are read. Raises InvalidInput where they are not those of the pass before."""
        self.refuse_changed()
        rows = check = 0
        chunks = self.read()
        while (chunk := unshown(self.name, lambda: next(chunks, None))) is not None:
            self._refuse_other_shapes(chunk)
            rows += len(chunk)
            if self._noted["state"] is None:
                check = zlib.crc32(_bytes(chunk), check)
            yield chunk
        self.refuse_changed()
        self._compare("rows", (rows, check))

    def _compare(self, what: str, now: object) -> None:
        require(self._noted.setdefault(what, now) == now, self.name, CHANGED)

    def refuse_changed(self) -> None:
        """Raises InvalidInput where the state is not that of the last time, if there was one."""
        self._compare("state", self.state())

    def _refuse_other_shapes(self, chunk: NDArray[Any]) -> None:
        require(chunk.ndim != 0, self.name, "expected rows in every part, got something else")
        width = self._noted["width"]
        require(
            width is None or chunk.shape[1:] == (width,),
            self.name,
            f"expected {width} columns in every part, got {chunk.shape[1:]}",
        )

    def _changed(self, chunks: Chunks) -> Chunks:
        if self.length is not None:
            chunks = rechunked(chunks, repeat(self.length))
        for chunk in chunks:
            yield unshown(self.name, partial(self.change, chunk))

    def mapped(self, change: Change, width: int | None = None) -> Parts:
        """The rows, changed once more: those in memory now, others whenever they are read.

        `width`: how many columns they have then, where that changes.
        """
        if self.array is not None:
            return Parts.of(change(self.array), self.name)
        before = self.change
        return replace(self, change=lambda cells: change(before(cells)), width=width or self.width)

    def cut(self) -> Parts:
        """The same rows in parts of a multiple of the rows of a block, of about 4 million numbers."""
        if self.width is None:
            return self
        block = max(1, min(MOST_ROWS, _HELD // (self.width + 1)))
        return replace(self, length=block * max(1, _HELD // (block * self.width)))

    def together(self, change: Change = _same) -> Any:
        """What becomes of all rows, in memory. Raises InvalidInput where there are none."""
        if self.array is not None:
            return change(self.array)
        parts = list(self.mapped(change))
        require(parts, self.name, _NONE)
        return joined(parts)

    def first(self) -> NDArray[Any]:
        """Some rows, at least one. Raises InvalidInput where there is none."""
        if self.array is not None:
            return np.asarray(self.array)
        rows = next(filter(len, self._changed(self.chunks())), None)  # a part may have no rows
        if rows is None:
            raise InvalidInput(self.name, _NONE)
        return rows

    def picked(self, rows: NDArray[np.intp]) -> Parts:
        """Some of the rows: those with these numbers, which ascend."""
        if self.array is not None:
            return Parts.of(self.array[rows], self.name)

        def read() -> Chunks:
            first = 0
            for chunk in self:
                ends = np.searchsorted(rows, (first, first + len(chunk)))
                yield chunk[rows[slice(*ends)] - first]
                first += len(chunk)

        return Parts(read, self.name, tuple, self.width, rows=len(rows))

    def counted(self, expected: int | None = None) -> Parts:
        """The same, of which it is known how many there are; all were changed once."""
        rows = sum(map(len, self)) if self.array is None else self.array.shape[0]
        require(expected is None or rows == expected, self.name, "expected as many rows as X has")
        require(rows, self.name, _NONE)
        return replace(self, rows=rows)

    def labels(self) -> NDArray[Any]:
        """The distinct cells, in order."""
        if self.array is not None:
            return np.unique(self.array)
        labels: list[NDArray[Any]] = []
        for cells in self:
            try:
                labels = [np.unique(joined([*labels, np.unique(cells)]))]
            except TypeError:
                raise InvalidInput("y", _MIXED) from None
        return labels[0] if labels else self.first()

    def times(self, other: Parts) -> Parts:
        """The products with as many numbers."""
        if self.array is not None and other.array is not None:
            return Parts.of(self.array * other.array, self.name)

        return row_by_row((self, other), lambda left, right: left * right, "sample_weight")


def row_by_row(
    sides: Sequence[Parts], change: Callable[..., NDArray[Any]], name: str, width: int | None = None
) -> Parts:
    """What becomes of the rows of several sources with as many rows, of those at one place together."""

    def read() -> Chunks:
        cut = (rechunked(iter(side), repeat(_TOGETHER)) for side in sides)
        return (change(*rows) for rows in zip(*cut, strict=True))

    return Parts(read, name, tuple, width)  # each side is itself looked at for changes


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


def slices(array: Any) -> Chunks:
    """All rows of an array that is read slice by slice: of numpy, memory-mapped, or of Zarr."""
    length = _rows_together(array)
    for first in range(0, array.shape[0], length):
        yield _slice(array, first, length)


def _rows_together(array: Any) -> int:
    """So many rows that a read is worth it; of a chunked array whole chunks."""
    row = int(array.dtype.itemsize) * math.prod(map(int, array.shape[1:]))  # in bytes
    least = min(_ROWS, max(1, READ // max(1, row)))
    chunk = int((getattr(array, "chunks", None) or (1,))[0])
    return max(chunk, least // chunk * chunk)


def _slice(array: Any, first: int, length: int) -> NDArray[Any]:
    """Some rows; of a mapped array what is mapped, which the file of its name need not hold."""
    pages = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else None
    if pages is None:
        return np.asarray(unmasked(array[first : first + length]))
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    if pages.size() < begin + len(pages):  # a read behind the end of a file ends the process
        raise InvalidInput(os.fspath(array.filename or "X"), CHANGED)
    rows = np.array(array[first : first + length], subok=False)
    # Pages stay in memory unless they are given back; of a private mapping that would undo what was written.
    if array.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
    return rows


def dask_blocks(array: Any, dtype: np.dtype[Any] | None = None) -> Chunks:
    """All rows of an array of dask's, one block of rows after another.

    What a block holds has no say in what becomes of the cells of others. `dtype`: of numbers, None for cells
    as they are.
    """
    for i in range(array.numblocks[0]):
        beside = array.blocks[i].to_delayed().ravel().tolist()
        blocks = list(map(cells_of, extra("dask", "dask").compute(*beside)))
        if dtype is not None:
            blocks = [held_as(dtype, block) for block in blocks]
        yield joined(blocks, axis=-1)


def dask_partitions(
    frame: Any, names: Sequence[str] | None = None, dtype: np.dtype[Any] = _CELLS
) -> Chunks:
    """All rows of columns of a data frame of dask's, or the cells of a series, partition by partition.

    `names`: None for a series, whose cells are as they are. `dtype`: of the cells of several columns, objects
    where they are as they are: a type that a part had by itself would depend on what stands in it.
    """
    chosen = frame if names is None else frame[list(names)]
    for i in range(chosen.npartitions):
        part = chosen.partitions[i].compute()
        yield cells_of(part) if names is None else frame_rows(part, names, dtype)


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


# A file for rows that do not fit into memory, in their secret order.
#
# It has no name: nobody else can open it, and it is gone with its process, whatever ends that. Its space
# on the disk is free then, and not wiped.


def home_of(parent: str | os.PathLike[str] | None) -> Path:
    """The folder for scratch files; None is the system's for temporary ones."""
    return Path(tempfile.gettempdir() if parent is None else parent)


def scratch_file(home: Path) -> io.BufferedRandom:
    """A new file in a folder, to write to and read from. Raises InvalidInput naming `scratch`."""
    with writable(home):
        return tempfile.TemporaryFile(dir=home)


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turns what goes wrong with files in a folder into one line."""
    try:
        yield
    except OSError as bad:
        reason = bad.strerror or "it cannot be written"
        raise InvalidInput("scratch", f"cannot write to {folder}: {reason}") from None
