"""Where rows come from that are not in memory as a whole: arrays on disks, dask's collections.

A source is read from its beginning to its end, as often as it takes. What was read before must come again:
files are known by their sizes and times, anything else by a checksum of its rows.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pabi.execute.hiding import unshown
from pabi.features.cells import cells_of, columns_of, doubles_of, joined, unmasked
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

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
