"""Rows on a disk in the order in which a run takes them, with their targets and weights beside them.

Two passes make a secret order. The first writes every row to its bucket, each bucket to its part of one file;
the second, which is an epoch, reads bucket after bucket and puts each into its inner order in memory
(`pabi.execute.batches`). Where the same order is read again, it also writes each bucket back in that
order, to its place. In memory are three buckets, before that the rows that are being sorted into them. A
known order is the same with one bucket, read in pieces.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.batches import BUCKET, Buckets, Secret, sorted_by
from pabi.execute.blocks import Rows, block_length, copy_rows, rows_in
from pabi.execute.large_records import LargeRecords
from pabi.execute.large_tables import APART
from pabi.execute.records import MOST_ROWS, RowBlock
from pabi.execute.sources import Ahead, Parts, home_of, rechunked, scratch_file, writable
from pabi.numbers.errors import require


def reserve(file: int, size: int) -> None:
    """Takes so many bytes of the disk for an empty file now, where the system can. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


_SORTED = (
    1 << 26
)  # bytes of rows that are sorted into buckets together: the more, the longer are writes
_UNEVEN = "expected as many rows as X has, in every pass"
_GATHERED = 1 << 20  # bytes of rows, about, that are put beside one another before they are written


class Layout:
    """The rows of `records` with what stands beside them, in the order that `arrange` was last given.

    `targets`: (n, …). `weights`: (n,), None for all ones. `assumed`: what a guarantee assumes of them.
    """

    def __init__(self, records: LargeRecords, targets: Parts, weights: Parts | None) -> None:
        self.records, self._targets, self._weights = records, targets, weights
        apart = targets.apart or (weights is not None and weights.apart)
        self.assumed = (APART,) if apart else ()
        self._shelf: _Shelf | None = None

    def arrange(self, secret: Secret | None, again: bool = False) -> None:
        """Writes the rows in a secret order, or in their own; what was written before is overwritten.

        `again`: whether they will be read more than once.
        """
        self.close()
        buckets = None if secret is None else Buckets(secret, self.records.n)
        home = home_of(self.records.scratch)
        self._shelf = _Shelf(home, self._rows(), self.records.n, buckets, again)

    def blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The rows at some places of the order, block by block: a slice, or places in no secret order."""
        if self._shelf is None:
            self.arrange(None)
        assert self._shelf is not None
        length, places = block_length(self.records.d, MOST_ROWS), in_a_row(rows)
        for first in range(0, rows_in(rows), length):
            part = slice(first, min(first + length, rows_in(rows)))
            if isinstance(places, slice):
                held = self._shelf.slice(places.start + part.start, places.start + part.stop)
            else:
                held = self._shelf.at(places[part])
            yield self._block(held, part)

    def close(self) -> None:
        """Removes what was written."""
        if self._shelf is not None:
            self._shelf.close()
        self._shelf = None

    def _block(self, held: NDArray[Any], part: slice) -> RowBlock:
        features = self.records.as_numbers(held["x"])
        names = [name for name in held.dtype.names or () if name != "x"]
        beside = {name: held[name].copy() for name in names}  # the rows will be overwritten
        return RowBlock(part, features, **beside)

    def _rows(self) -> Iterator[NDArray[Any]]:
        """All rows in their own order, as they are held, in one array that is overwritten."""
        n, length = self.records.n, block_length(self.records.d, MOST_ROWS)
        beside = {"target": rechunked(iter(self._targets), repeat(length))}
        if self._weights is not None:
            beside["weight"] = rechunked(iter(self._weights), repeat(length))
        room: NDArray[Any] = np.empty(0)
        filled = 0
        for first in range(0, n, length):
            stored = self.records.stored(first, min(first + length, n))
            cells = {name: next(parts, stored[:0]) for name, parts in beside.items()}
            for name, values in cells.items():
                require(len(values) == len(stored), name, _UNEVEN)
            if not first:
                room = self._room(stored, cells, length)
            held = room[filled : filled + len(stored)]
            filled += len(held)
            for name, values in cells.items():
                held[name] = values
            copy_rows(stored, held["x"])
            # Beside the numbers they are found of: nothing that an earlier pass found says what these are.
            held["scale"], held["norm"] = self.records._bounded(self.records.as_numbers(held["x"]))
            if filled + length > len(room) or first + length >= n:
                for name, parts in beside.items() if first + length >= n else ():
                    # Asked for more, a source compares its rows with those of the pass before.
                    require(next(parts, None) is None, name, _UNEVEN)
                yield room[:filled]
                filled = 0

    def _room(
        self, stored: NDArray[Any], beside: dict[str, NDArray[Any]], length: int
    ) -> NDArray[Any]:
        """Room for rows as they are on the disk, for some times `length` of them, or for all."""
        fields = [(name, cells.dtype, cells.shape[1:]) for name, cells in beside.items()]
        numbers = [("scale", np.float64), ("norm", np.float64)]
        kind = np.dtype([*fields, *numbers, ("x", stored.dtype, stored.shape[1:])])
        most = -(-self.records.n // length)
        return np.empty(min(most, max(1, _SORTED // (kind.itemsize * length))) * length, kind)


def in_a_row(rows: Rows) -> Rows:
    """The slice of rows that follow one another; other rows as they are."""
    if isinstance(rows, slice) or not len(rows):
        return rows
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and np.array_equal(rows, np.arange(first, last + 1)):
        return slice(first, last + 1)
    return rows


def _bytes(held: NDArray[Any]) -> memoryview:
    return memoryview(held.view(np.uint8).data)


class _Shelf:
    """A file of rows, bucket after bucket; rows in no secret order are cut into pieces of one size."""

    def __init__(
        self,
        home: Path,
        rows: Iterator[NDArray[Any]],
        n: int,
        buckets: Buckets | None,
        again: bool,
    ) -> None:
        self._home, self._file = home, scratch_file(home)
        self._buckets, self._again = buckets, again
        first = next(rows)
        self._kind, rows = first.dtype, chain([first], rows)  # the first are overwritten later
        with writable(home):
            reserve(self._file.fileno(), n * self._kind.itemsize)
            starts = self._write(rows, n)
            self._file.flush()
        self._starts = np.append(starts, n)
        longest = int(np.max(np.diff(self._starts)))
        self._rooms = [np.empty(longest, self._kind) for _ in range(3)]
        self._sorted = np.full(
            len(starts), buckets is None
        )  # whether a bucket is in its inner order
        self._read = Ahead(self._bucket, len(starts))

    def slice(self, first: int, last: int) -> NDArray[Any]:
        """The rows at places `first` to `last` of the order; the next ones overwrite them."""
        parts: list[NDArray[Any]] = []
        bucket = int(np.searchsorted(self._starts, first, side="right")) - 1
        while first < last:
            start, end = int(self._starts[bucket]), int(self._starts[bucket + 1])
            if first < end:
                part = self._read.part(bucket)[first - start : last - start]
                if not parts and last <= end:
                    return part
                parts.append(part.copy())  # before the memory is used for another bucket
            first, bucket = max(first, min(last, end)), bucket + 1
        return np.concatenate(parts)

    def at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """The rows at these places, of rows in no secret order."""
        assert self._buckets is None
        # Mapped for this one block: pages that stay mapped stay in memory.
        length = int(self._starts[-1]) * self._kind.itemsize
        pages = mmap.mmap(self._file.fileno(), length, access=mmap.ACCESS_READ)
        return np.take(np.frombuffer(pages, self._kind), places)

    def close(self) -> None:
        """Forgets the rows."""
        self._read.close()
        self._file.close()

    def _write(self, rows: Iterator[NDArray[Any]], n: int) -> NDArray[np.intp]:
        """Writes all rows; returns where each bucket begins."""
        if self._buckets is None:
            for held in rows:
                self._file.write(_bytes(held))
            return np.arange(0, n, BUCKET)
        sizes = self._buckets.sizes()
        starts = np.cumsum(sizes) - sizes
        free, lengths = starts.copy(), list[int]()
        drawn = (labels for _, labels in self._buckets.labels())
        labels = rechunked(drawn, iter(lengths.pop, None))
        for held in rows:
            lengths.append(len(held))
            by_bucket, counts = sorted_by(next(labels), len(free))
            self._put(held, by_bucket, np.cumsum(counts), free)
            free += counts
        return starts

    def _put(
        self,
        held: NDArray[Any],
        by_bucket: NDArray[np.intp],
        ends: NDArray[np.intp],
        free: NDArray[np.intp],
    ) -> None:
        """Writes the rows at the places `by_bucket`, those of each bucket to where it begins to be `free`.

        `ends`: (count,) how many of the places are of a bucket or of one before it.
        """
        size, first = self._kind.itemsize, 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            # So many whole buckets that their rows are still in the cache when they are written.
            last = max(first + 1, int(np.searchsorted(ends, start + _GATHERED // size, "right")))
            # Places are 0..len − 1, and "clip" is the mode that does not check them again.
            rows = _bytes(np.take(held, by_bucket[start : int(ends[last - 1])], mode="clip"))
            begin = 0
            for bucket in range(first, last):
                end = (int(ends[bucket]) - start) * size
                self._file.seek(int(free[bucket]) * size)
                self._file.write(rows[begin:end])
                begin = end
            first = last

    def _bucket(self, number: int) -> NDArray[Any]:
        """The rows of a bucket in their inner order, in memory that the second bucket after it overwrites."""
        first, last = int(self._starts[number]), int(self._starts[number + 1])
        held = self._room(last - first)
        self._file.seek(first * self._kind.itemsize)
        require(
            self._file.readinto(_bytes(held)) == held.nbytes,
            "scratch",
            f"the rows in {self._home} were changed while they were in use",
        )
        if self._sorted[number]:
            return held
        assert self._buckets is not None
        inside, rows = self._buckets.inside(number, len(held)), self._room(len(held))
        np.take(held, inside, out=rows, mode="clip")
        if self._again:
            with writable(self._home):
                self._write_back(first, rows)
            self._sorted[number] = True
        return rows

    def _write_back(self, first: int, rows: NDArray[Any]) -> None:
        """Writes rows to the places from `first` on."""
        self._file.seek(first * self._kind.itemsize)
        self._file.write(_bytes(rows))
        self._file.flush()

    def _room(self, rows: int) -> NDArray[Any]:
        """Memory for so many rows, which the third request after this one returns again."""
        self._rooms = [*self._rooms[1:], self._rooms[0]]
        return self._rooms[-1][:rows]
