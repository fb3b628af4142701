"""Secret orders of records: drawn at once for few, and bucket by bucket for many.

An order of many records is never drawn as a whole. Every record draws its bucket, uniformly and
independently, and each bucket is put into a uniformly random order of its own. All orders are then equally
likely (Rao 1961, Sandelius 1962; Sanders 1998 for data on disks). Labels and inner orders follow from a key
of 256 bits, so that a run on data in memory and one on data on a disk have the same order, and neither has
to store it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Secret = NDArray[np.intp]

BUCKET = 1 << 15  # records up to which an order is drawn at once, and the mean number in a bucket
_KEY = 32  # bytes
_LABELS = 1 << 16  # records whose buckets are drawn together


def drawn_order(n: int, generator: np.random.Generator) -> Secret:
    """A uniformly random order of n records: their numbers, or the key that it follows from."""
    if n <= BUCKET:
        return generator.permutation(n)
    return np.frombuffer(generator.bytes(_KEY), np.int64).astype(np.intp)


def is_order(secret: NDArray[np.intp], n: int) -> bool:
    """Whether it is an order of n records."""
    if secret.shape == (n,):
        return np.array_equal(np.sort(secret), np.arange(n))
    return n > BUCKET and secret.shape == (_KEY // 8,)


def whole_order(secret: Secret, n: int) -> NDArray[np.intp]:
    """(n,) the numbers of the records in their order."""
    buckets = Buckets(secret, n)
    if buckets.count == 1:
        return secret
    order, ends = np.empty(n, np.intp), np.cumsum(buckets.sizes())
    free = ends - buckets.sizes()
    for first, labels in buckets.labels():
        by_bucket, counts = sorted_by(labels, buckets.count)
        within = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
        order[np.repeat(free, counts) + within] = first + by_bucket
        free += counts
    for j, part in enumerate(np.split(order, ends[:-1])):
        part[:] = part[buckets.inside(j, len(part))]
    return order


def sorted_by(labels: NDArray[np.intp], count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(places of the labels, by label and then by place; how many of each of `count` labels there are)."""
    short = labels.astype(np.uint16) if count <= 1 << 16 else labels  # sorted by their digits
    return np.argsort(short, kind="stable"), np.bincount(labels, minlength=count)


@dataclass(frozen=True, eq=False)
class Buckets:
    """The buckets of a secret order of n records.

    The order is that of the buckets, and within each of them that of `inside`.
    """

    secret: Secret
    n: int

    @property
    def count(self) -> int:
        """How many buckets there are; 1 where the order was drawn at once."""
        return 1 if len(self.secret) == self.n else -(-self.n // BUCKET)

    def labels(self) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """(number of the first record, the buckets of some records in a row), for all records in turn."""
        generator = self._generator(b"labels")
        for first in range(0, self.n, _LABELS):
            size = min(_LABELS, self.n - first)
            if self.count == 1:
                yield first, np.zeros(size, np.intp)
            else:
                drawn = generator.integers(self.count, size=size, dtype=np.uint32)
                yield first, drawn.astype(np.intp)

    def sizes(self) -> NDArray[np.intp]:
        """(count,) how many records are in every bucket."""
        total = np.zeros(self.count, np.intp)
        for _, labels in self.labels():
            total += np.bincount(labels, minlength=self.count)
        return total

    def inside(self, bucket: int, size: int) -> NDArray[np.intp]:
        """(size,) the order of the records of a bucket, among which they are numbered as they come."""
        if self.count == 1:
            return self.secret
        return self._generator(bucket.to_bytes(8, "little")).permutation(size)

    def _generator(self, purpose: bytes) -> np.random.Generator:
        """A stream of its own for every purpose: ChaCha20 under a hash of the key (SHA-256)."""
        from randomgen import ChaCha

        key = hashlib.sha256(self.secret.astype("<i8").tobytes() + purpose).digest()
        return np.random.Generator(ChaCha(key=int.from_bytes(key, "little"), rounds=20))
