"""Rows on a disk in the order in which a run takes them, with their targets and weights beside them.

Two passes make a secret order. The first writes every row to its bucket, each bucket to its part of one file;
the second, which is every epoch, reads bucket after bucket and puts each into its inner order in memory
(`pabi.execute.secret_orders`). In memory are two buckets, and the rows that are being sorted into buckets. A
known order is the same with one bucket, read in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.dense_blocks import Rows, block_length, rows_in
from pabi.execute.large_columns import Column
from pabi.execute.large_records import LargeRecords
from pabi.execute.reading_ahead import Ahead
from pabi.execute.records import MOST_ROWS, RowBlock
from pabi.execute.scratch import Scratch, writable
from pabi.execute.secret_orders import BUCKET, Buckets, Secret, sorted_by
from pabi.execute.sources import rechunked
from pabi.numbers.errors import InvalidInput

_SORTED = 1 << 26  # bytes of rows that are sorted into buckets together
_TOGETHER = 1 << 18  # rows, and no more than that


class Layout:
    """The rows of `records` with what stands beside them, in the order that `arrange` was last given.

    `targets`: (n, …) in memory, or a `Column`. `weights`: the same, None for all ones.
    """

    def __init__(self, records: LargeRecords, targets: Any, weights: Any) -> None:
        self.records, self._targets, self._weights = records, targets, weights
        self._scratch: Scratch | None = None
        self._shelf: _Shelf | None = None

    def arrange(self, secret: Secret | None) -> None:
        """Writes the rows in a secret order, or in their own; what was written before is overwritten."""
        if self._shelf is not None:
            self._shelf.close()
        if self._scratch is None:
            self._scratch = Scratch(self.records.scratch)
        self._shelf = _Shelf(self._scratch, self._rows(), self.records.n, secret)

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
        if self._scratch is not None:
            self._scratch.close()
        self._shelf = self._scratch = None

    def _block(self, held: NDArray[Any], part: slice) -> RowBlock:
        features = self.records.as_numbers(held["x"])
        names = [name for name in held.dtype.names or () if name != "x"]
        beside = {name: np.ascontiguousarray(held[name]) for name in names}
        return RowBlock(part, features, **beside)

    def _rows(self) -> Iterator[NDArray[Any]]:
        """All rows in their own order, as they are held, some thousand at a time."""
        length = block_length(self.records.d, MOST_ROWS)
        targets = _parts(self._targets, length)
        weights = None if self._weights is None else _parts(self._weights, length)
        kind: np.dtype[Any] | None = None
        for first in range(0, self.records.n, length):
            stored = self.records.stored(first, min(first + length, self.records.n))
            target = next(targets)
            kind = kind or _kind(stored, target, weights is not None)
            held = np.empty(len(stored), kind)
            block = self.records.block_of(stored, slice(0, len(stored)))
            held["x"], held["target"] = stored, target
            held["scale"], held["norm"] = block.scale, block.norm
            if weights is not None:
                held["weight"] = next(weights)
            yield held


def in_a_row(rows: Rows) -> Rows:
    """The slice of rows that follow one another; other rows as they are."""
    if isinstance(rows, slice) or not len(rows):
        return rows
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and np.array_equal(rows, np.arange(first, last + 1)):
        return slice(first, last + 1)
    return rows


def _parts(cells: Any, length: int) -> Iterator[NDArray[Any]]:
    """Cells in memory or of a `Column`, so many at a time."""
    if isinstance(cells, Column):
        return rechunked(cells.chunks(), repeat(length))
    return (cells[i : i + length] for i in range(0, len(cells), length))


def _kind(stored: NDArray[Any], target: NDArray[Any], weighted: bool) -> np.dtype[Any]:
    """What a row is on the disk."""
    numbers = ("scale", "norm", "weight") if weighted else ("scale", "norm")
    beside = [("target", target.dtype, target.shape[1:]), *((one, np.float64) for one in numbers)]
    return np.dtype([*beside, ("x", stored.dtype, stored.shape[1:])])


def _bytes(held: NDArray[Any]) -> memoryview:
    return memoryview(held.view(np.uint8).data)


class _Shelf:
    """A file of rows, bucket after bucket; rows in no secret order are cut into pieces of one size."""

    def __init__(
        self, scratch: Scratch, rows: Iterator[NDArray[Any]], n: int, secret: Secret | None
    ) -> None:
        self._path, self._file = scratch.file("rows")
        self._buckets = None if secret is None else Buckets(secret, n)
        first = next(rows)
        self._kind, rows = first.dtype, chain([first], rows)
        with writable(scratch.folder):
            starts = self._write(rows, n)
            self._file.flush()
        self._starts = np.append(starts, n)
        self._read = Ahead(self._bucket, len(starts))

    def slice(self, first: int, last: int) -> NDArray[Any]:
        """The rows at places `first` to `last` of the order."""
        parts = []
        bucket = int(np.searchsorted(self._starts, first, side="right")) - 1
        while first < last:
            start, end = int(self._starts[bucket]), int(self._starts[bucket + 1])
            if first < end:
                parts.append(self._read.part(bucket)[first - start : last - start])
            first, bucket = max(first, min(last, end)), bucket + 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """The rows at these places, of rows in no secret order."""
        assert self._buckets is None
        # Mapped for this one block: pages that stay mapped stay in memory.
        rows = np.memmap(self._path, self._kind, "r", shape=(int(self._starts[-1]),))
        return np.take(np.asarray(rows), places)

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
        buckets, together = self._buckets, max(1, _SORTED // self._kind.itemsize)
        sizes = buckets.sizes()
        starts = np.cumsum(sizes) - sizes
        free, step = starts.copy(), repeat(min(together, _TOGETHER))
        labels = rechunked((labels for _, labels in buckets.labels()), step)
        for held, label in zip(rechunked(rows, step), labels, strict=True):
            self._sort_in(held, label, free)
        return starts

    def _sort_in(
        self, held: NDArray[Any], labels: NDArray[np.intp], free: NDArray[np.intp]
    ) -> None:
        """Writes rows to their buckets, which then begin to be `free` so much later."""
        by_bucket, counts = sorted_by(labels, len(free))
        ordered, ends = held[by_bucket], np.cumsum(counts)
        for bucket in np.flatnonzero(counts).tolist():
            self._file.seek(int(free[bucket]) * self._kind.itemsize)
            own = ordered[ends[bucket] - counts[bucket] : ends[bucket]]
            self._file.write(_bytes(own))
        free += counts

    def _bucket(self, number: int) -> NDArray[Any]:
        """The rows of a bucket in their inner order."""
        first, last = int(self._starts[number]), int(self._starts[number + 1])
        held = np.empty(last - first, self._kind)
        self._file.seek(first * self._kind.itemsize)
        if self._file.readinto(_bytes(held)) != held.nbytes:
            raise InvalidInput("scratch", f"{self._path} was changed while it was in use")
        return held if self._buckets is None else held[self._buckets.inside(number, len(held))]
