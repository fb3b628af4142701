"""How records are grouped into batches: fixed, cyclic, shuffled and sampled.

A run of n records in batches of `size` has l = ⌈n/size⌉ batches an epoch, of which the last may be short.
Every batch sum, the short one included, is divided by the same `size`. What a scheme means for one record
is its `order` (`pabi.describe.orders`), the only thing that proofs and trainers look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

from pabi.describe.orders import (
    FixedSizes,
    FreshSubsets,
    KnownUses,
    Order,
    RandomSizes,
    Redrawn,
    SecretOrder,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput


@dataclass(frozen=True)
class Batches:
    """How records are grouped into batches; see the subclasses, of which `SCHEMES` lists all."""

    kind: ClassVar[str]
    sentence: ClassVar[str]  # what a guarantee assumes of the order

    def batch_size(self, n: int) -> int:
        """The number that every batch sum is divided by."""
        raise NotImplementedError

    def per_epoch(self, n: int) -> int:
        """Batches in one pass over `n` records."""
        return -(-n // self.batch_size(n))

    def order(self, n: int, steps: int) -> Order:
        """Which of the `steps` steps with data use one of `n` records, and who knows."""
        raise NotImplementedError

    def _sizes(self, n: int) -> FixedSizes:
        """Those of batches that are cut from a list of the records."""
        size = self.batch_size(n)
        return FixedSizes(size, n - (self.per_epoch(n) - 1) * size)

    def _known(self, n: int) -> KnownUses:
        return KnownUses(self.per_epoch(n), self._sizes(n))

    def _permuted(self, n: int, redrawn: Redrawn) -> SecretOrder:
        sizes = self._sizes(n)
        each, last = Fraction(sizes.size, n), Fraction(sizes.last, n)
        return SecretOrder(self.per_epoch(n), redrawn, each, last, sizes)


@dataclass(frozen=True)
class FullBatch(Batches):
    """Every step uses all n records, and sums are divided by n. Source: docs, "Theory", 2."""

    kind = "full_batch"
    sentence = "every step uses all records"

    def batch_size(self, n: int) -> int:
        return n

    def order(self, n: int, steps: int) -> Order:
        return self._known(n)


@dataclass(frozen=True)
class _Sized(Batches):
    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", validate.integer("size", self.size, at_least=1))

    def batch_size(self, n: int) -> int:
        if self.size > n:
            raise InvalidInput("size", f"expected an integer in 1..n = {n}, got {self.size}")
        return self.size


@dataclass(frozen=True)
class Cyclic(_Sized):
    """A fixed partition into batches of `size` records, visited in the same fixed order every epoch.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "The worst record".
    """

    kind = "cyclic"
    sentence = "the partition into batches and their order do not depend on the data"

    def order(self, n: int, steps: int) -> Order:
        return self._known(n)


@dataclass(frozen=True)
class ShuffleOnce(_Sized):
    """One uniformly random permutation, secret and independent of the data, then cyclic batches of `size`
    records.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Secret order".
    """

    kind = "shuffle_once"
    sentence = (
        "one permutation is drawn uniformly, independently of the data, is used in every epoch, and stays "
        "secret"
    )

    def order(self, n: int, steps: int) -> Order:
        return self._permuted(n, Redrawn.ONCE)


@dataclass(frozen=True)
class Reshuffle(_Sized):
    """A fresh uniformly random permutation every epoch, secret and independent of the data, cut into
    batches of `size` records.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Secret order".
    """

    kind = "reshuffle"
    sentence = (
        "a fresh permutation is drawn uniformly every epoch, independently of the data, and stays "
        "secret"
    )

    def order(self, n: int, steps: int) -> Order:
        return self._permuted(n, Redrawn.EVERY_EPOCH)


@dataclass(frozen=True)
class FixedSize(_Sized):
    """Every step draws `size` of the n records without replacement, in secret.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Random batches".
    """

    kind = "fixed_size"
    sentence = (
        "every step draws its batch uniformly without replacement, independently of the data "
        "and of all other steps, and the batches stay secret"
    )

    def order(self, n: int, steps: int) -> Order:
        size = self.batch_size(n)
        return FreshSubsets(Fraction(size, n), FixedSizes(size, size))


@dataclass(frozen=True)
class _Capped(_Sized):
    """Batches whose sizes are random.

    A batch of more than `cap` ≥ `size` records is replaced by an empty one.
    """

    cap: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is None:
            return
        object.__setattr__(self, "cap", validate.integer("cap", self.cap, at_least=1))
        if self.cap < self.size:
            raise InvalidInput("cap", f"expected at least size = {self.size}, got {self.cap}")


@dataclass(frozen=True)
class Poisson(_Capped):
    """Every step includes each record with probability size/n, in secret and independently.

    The sum is divided by `size`, however many records were drawn. `cap`: a batch of more than `cap`
    ≥ `size` records is replaced by an empty one, so that memory and the moduli are bounded; it is never
    truncated, which would make one record's membership depend on the others. Without a cap the
    accountant allows for the small probability of a batch too large for the loss's modulus.
    Raises InvalidInput for a `size` below 1 or a `cap` below it. Source: docs, "Batches above the cap".
    """

    kind = "poisson"
    sentence = (
        "every step includes each record independently with the same probability, independently "
        "of the data and of all other steps, and the batches stay secret"
    )

    def order(self, n: int, steps: int) -> Order:
        probability = Fraction(self.batch_size(n), n)
        return FreshSubsets(probability, RandomSizes(n, probability, steps, self.cap))


@dataclass(frozen=True)
class BallsInBins(_Capped):
    """Every record is put into one of ⌈n/size⌉ batches uniformly at random, once, in secret and independently
    of the data and of all others; then the batches are visited cyclically.

    The sum is divided by `size`, however many records a batch has. `cap`: a batch of more than `cap` ≥
    `size` records is replaced by an empty one, never truncated. Without a cap the accountant allows,
    once, for the small probability of a batch too large for the loss's modulus. Raises InvalidInput for a
    `size` below 1 or a `cap` below it. Source: Chua et al. 2025
    (Balls-and-Bins Sampling for DP-SGD); what it costs the last iterate: docs, "Secret order".
    """

    kind = "balls_in_bins"
    sentence = (
        "every record is put into one of the batches uniformly at random, once, independently of the data "
        "and of all other records, and which one stays secret"
    )

    def order(self, n: int, steps: int) -> Order:
        period = self.per_epoch(n)
        each = Fraction(1, period)
        sizes = RandomSizes(n, each, period, self.cap)
        return SecretOrder(period, Redrawn.ONCE, each, each, sizes)


SCHEMES: Mapping[str, type[Batches]] = MappingProxyType(
    {
        cls.kind: cls
        for cls in (
            FullBatch,
            Cyclic,
            ShuffleOnce,
            Reshuffle,
            BallsInBins,
            FixedSize,
            Poisson,
        )
    }
)


def checked(batches: Any) -> Batches:
    """`batches` if it is one of these schemes. Raises InvalidInput: nothing is proven of any other, nor of a
    subclass, which may override what it says."""
    if type(batches) in SCHEMES.values():
        return batches  # type: ignore[no-any-return]
    names = ", ".join(cls.__name__ for cls in SCHEMES.values())
    raise InvalidInput("batches", f"expected one of pabi's {names}, got {_told(batches)}")


def order_of(batches: Batches, n: int, steps: int) -> Order:
    """The order of one record under a scheme that is known. Raises InvalidInput for any other."""
    return checked(batches).order(n, steps)


def _told(value: Any) -> str:
    """A value by what it is, as an error says it."""
    if not isinstance(value, Batches):
        return repr(value)
    return f"a {type(value).__name__}, of which nothing is proven"
