"""Which rows each step of a run uses, as the order of its description says, and secret orders."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.describe.batches import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.execute.blocks import Rows

# Binomial numbers without the small errors of floating-point samplers.


_ONE = 1 << 192


class Binomial:
    """Draws how many of `n` records are taken if each is with the same `probability`, in (0, 1].

    Probabilities are ratios of integers, off by about 2⁻¹⁹² of the
    largest. numpy's `binomial` takes numbers far from the mean a thousandth too often (n = 10⁶, 100
    expected); whether a record is taken would then depend on how many others are.
    """

    def __init__(self, n: int, probability: Fraction) -> None:
        taken = probability.numerator
        left = probability.denominator - taken  # the odds of one record
        mode = (n + 1) * taken // (taken + left) if left else n
        below = _until_nothing(
            (k * left, (n - k + 1) * taken)  # P(k − 1)/P(k)
            for k in range(mode, 0, -1)
        )
        above = _until_nothing(
            ((n - k) * taken, (k + 1) * left)  # P(k + 1)/P(k)
            for k in range(mode, n)
        )
        self._first = mode - len(below)
        self._cumulative = list(accumulate([*reversed(below), _ONE, *above]))

    def draw(self, generator: np.random.Generator) -> int:
        """One draw, a number in 0..n."""
        total = self._cumulative[-1]
        count = (total.bit_length() + 7) // 8
        excess = 8 * count - total.bit_length()
        while True:
            value = int.from_bytes(generator.bytes(count), "little") >> excess
            if value < total:
                return self._first + bisect_right(self._cumulative, value)


def _until_nothing(ratios: Iterable[tuple[int, int]]) -> list[int]:
    """Products of 2¹⁹² and the ratios so far, rounded down, while they are positive."""
    weight, weights = _ONE, []
    for numerator, denominator in ratios:
        weight = weight * numerator // denominator
        if weight == 0:
            break
        weights.append(weight)
    return weights


# Secret orders of records: drawn at once for few, and bucket by bucket for many.
#
# An order of many records is never drawn as a whole. Every record draws its bucket, uniformly and
# independently, and each bucket is put into a uniformly random order of its own. All orders are then
# equally likely (Rao 1961, Sandelius 1962; Sanders 1998 for data on disks). Labels and inner orders
# follow from a key of 256 bits, so that a run on data in memory and one on data on a disk have the same
# order, and neither has to store it.


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
            yield first, generator.integers(self.count, size=size, dtype=np.uint32).astype(np.intp)

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


class Arranged(Protocol):
    """Rows that lie in the order in which they are used."""

    def arrange(self, secret: Secret | None, again: bool = False) -> None:
        """Puts them into a secret order, or into their own; `again`: for more than one epoch."""


class BatchRows(ABC):
    """The batches of a run, one a step.

    `secret`: what they are cut by and what a checkpoint must hold to go on in the same order, None where
    the rows keep theirs or every batch is drawn afresh. No sampled batch is kept.
    """

    secret: Secret | None = None

    @abstractmethod
    def batch(self, step: int) -> Rows | None:
        """The rows of `step` (0-based), None for an empty batch; steps are asked for in order."""


def batch_rows(
    run: NoisySGD,
    generator: np.random.Generator,
    secret: Secret | None = None,
    arranged: Arranged | None = None,
) -> BatchRows:
    """The batches of `run`, one a step.

    `secret`: the secret order in force, where a run goes on. `arranged`: rows that are put into a permuted
    order themselves, so that batches are places in it.
    """
    order = run.order
    match order:
        case KnownUses():
            return _Listed(run)
        case SecretOrder():
            return _in_secret_order(run, order, generator, secret, arranged)
        case FreshSubsets():
            return _Sampled(run, order, generator)
        case _:
            assert_never(order)


def fits(run: NoisySGD, secret: Secret | None) -> bool:
    """Whether a run can be in this secret order, or has none and there is none."""
    order = run.order
    match order:
        case KnownUses() | FreshSubsets():
            return secret is None
        case SecretOrder():
            return secret is not None and _fits(run, order, secret)
        case _:
            assert_never(order)


def _in_secret_order(
    run: NoisySGD,
    order: SecretOrder,
    generator: np.random.Generator,
    secret: Secret | None,
    arranged: Arranged | None,
) -> BatchRows:
    match order.sizes:
        case FixedSizes():
            return _Permuted(run, order.once, generator, secret, arranged)
        case RandomSizes():
            return _Binned(run, order, generator, secret)
        case _:
            assert_never(order.sizes)


def _fits(run: NoisySGD, order: SecretOrder, secret: Secret) -> bool:
    match order.sizes:
        case FixedSizes():
            return is_order(secret, run.n)
        case RandomSizes():
            return secret.shape == (run.n,) and bool(
                np.all((secret >= 0) & (secret < order.period))
            )
        case _:
            assert_never(order.sizes)


class _Listed(BatchRows):
    """Rows as they are, batch after batch."""

    def __init__(self, run: NoisySGD) -> None:
        self._n, self._size, self._per_epoch = run.n, run.batch_size, run.steps_per_epoch
        sizes = run.order.sizes
        assert isinstance(sizes, FixedSizes)
        # Less than n where the last places of the order are spare.
        self._end = (self._per_epoch - 1) * sizes.size + sizes.last

    def batch(self, step: int) -> Rows | None:
        return self._places(step)

    def _places(self, step: int) -> slice:
        """Where in the order the batch lies."""
        first = step % self._per_epoch * self._size
        return slice(first, min(first + self._size, self._end))


class _Permuted(_Listed):
    """Rows in an order drawn once, or afresh for every epoch. Those at its spare places are in no batch."""

    def __init__(
        self,
        run: NoisySGD,
        once: bool,
        generator: np.random.Generator,
        secret: Secret | None,
        arranged: Arranged | None,
    ) -> None:
        super().__init__(run)
        self._once, self._generator, self._arranged = once, generator, arranged
        self._again = once and run.data_steps > run.steps_per_epoch
        self.secret, self._order = secret, None if secret is None else self._in(secret)

    def batch(self, step: int) -> Rows | None:
        if self.secret is None or (step % self._per_epoch == 0 and not self._once):
            self.secret = drawn_order(self._n, self._generator)
            self._order = self._in(self.secret)
        part = self._places(step)
        return part if self._order is None else self._order[part]

    def _in(self, secret: Secret) -> NDArray[np.intp] | None:
        """The rows in this order; None where they lie in it themselves."""
        if self._arranged is None:
            return whole_order(secret, self._n)
        self._arranged.arrange(secret, self._again)
        return None


class _Binned(BatchRows):
    """Rows in the batch that each was put into, independently of all others: once, or afresh for every epoch.

    A batch beyond the cap is empty.
    """

    def __init__(
        self,
        run: NoisySGD,
        order: SecretOrder,
        generator: np.random.Generator,
        secret: Secret | None,
    ) -> None:
        self._n, self._per_epoch, self._once = run.n, order.period, order.once
        self._most, self._generator = order.sizes.most, generator
        self.secret = secret
        if secret is not None:
            self._sort(secret)

    def batch(self, step: int) -> Rows | None:
        if self.secret is None or (step % self._per_epoch == 0 and not self._once):
            self.secret = self._generator.integers(self._per_epoch, size=self._n)
            self._sort(self.secret)
        j = step % self._per_epoch
        rows = self._rows[self._ends[j - 1] if j else 0 : self._ends[j]]
        return rows if 0 < rows.size <= self._most else None

    def _sort(self, secret: Secret) -> None:
        self._rows = np.argsort(secret, kind="stable")  # ascending within each batch
        self._ends = np.cumsum(np.bincount(secret, minlength=self._per_epoch))


class _Sampled(BatchRows):
    """A fresh batch at every step: its size, then a uniformly random set of that size, in ascending order.

    With a binomial size every record is in the set with the order's probability, independently of the others.
    A set beyond the cap is never drawn, let alone cut: the batch is empty.
    """

    def __init__(self, run: NoisySGD, order: FreshSubsets, generator: np.random.Generator) -> None:
        self._n, self._most, self._generator = run.n, order.sizes.most, generator
        match order.sizes:
            case FixedSizes():
                self._size: Callable[[], int] = lambda: run.batch_size
            case RandomSizes():
                sizes = Binomial(run.n, order.probability)
                self._size = lambda: sizes.draw(generator)
            case _:
                assert_never(order.sizes)

    def batch(self, step: int) -> Rows | None:
        size = self._size()
        if size == 0 or size > self._most:
            return None
        # Uniform over sets, though not over their orders: Floyd's algorithm for few among many.
        rows = self._generator.choice(self._n, size, replace=False, shuffle=False)
        return np.sort(rows).astype(np.intp, copy=False)
