"""Which record is touched when: fixed, cyclic, shuffled and sampled batches.

A run of n records in batches of `size` has ⌈n/size⌉ batches an epoch, of which the last may be
short. Every batch sum, the short one included, is divided by the same `size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pabi import validate
from pabi.errors import InvalidInput


@dataclass(frozen=True)
class Batches:
    """How records are grouped into batches; see the subclasses."""

    kind: ClassVar[str]

    def batch_size(self, n: int) -> int:
        """The number that every batch sum is divided by."""
        raise NotImplementedError

    def per_epoch(self, n: int) -> int:
        """Batches in one pass over `n` records."""
        return -(-n // self.batch_size(n))

    def last_size(self, n: int) -> int:
        """Records in the last batch of a pass, 1..batch_size."""
        return n - (self.per_epoch(n) - 1) * self.batch_size(n)

    def most_records(self, n: int) -> int:
        """Records in the largest batch whose gradients are ever summed."""
        return self.batch_size(n)

    @property
    def deterministic_order(self) -> bool:
        """Whether the order of the batches is public, so that a record's position is known."""
        return True

    @property
    def sampled(self) -> bool:
        """Whether every step draws its batch afresh, independently of all others."""
        return False


@dataclass(frozen=True)
class FullBatch(Batches):
    """Every step uses all n records, and sums are divided by n. Source: docs, "Theory", 2."""

    kind = "full_batch"

    def batch_size(self, n: int) -> int:
        return n


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


@dataclass(frozen=True)
class ShuffleOnce(_Sized):
    """One uniformly random permutation, secret and independent of the data, then cyclic batches of `size`
    records.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Secret order".
    """

    kind = "shuffle_once"

    @property
    def deterministic_order(self) -> bool:
        return False


@dataclass(frozen=True)
class Reshuffle(_Sized):
    """A fresh uniformly random permutation every epoch, secret and independent of the data, cut into
    batches of `size` records.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Secret order".
    """

    kind = "reshuffle"

    @property
    def deterministic_order(self) -> bool:
        return False


@dataclass(frozen=True)
class _Sampled(_Sized):
    @property
    def deterministic_order(self) -> bool:
        return False

    @property
    def sampled(self) -> bool:
        return True

    def last_size(self, n: int) -> int:
        return self.batch_size(n)


@dataclass(frozen=True)
class FixedSize(_Sampled):
    """Every step draws `size` of the n records without replacement, in secret.

    Raises InvalidInput for a `size` below 1; a run refuses one above n. Source: docs, "Random batches".
    """

    kind = "fixed_size"


@dataclass(frozen=True)
class Poisson(_Sampled):
    """Every step includes each record with probability size/n, in secret and independently.

    The sum is divided by `size`, however many records were drawn. `cap`: a batch of more than `cap`
    ≥ `size` records is replaced by an empty one, so that memory and the moduli are bounded; it is never
    truncated, which would make one record's membership depend on the others. Without a cap the
    accountant allows for the small probability of a batch too large for the loss's modulus.
    Raises InvalidInput for a `size` below 1 or a `cap` below it. Source: docs, "Batches above the cap".
    """

    cap: int | None = None

    kind = "poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is None:
            return
        object.__setattr__(self, "cap", validate.integer("cap", self.cap, at_least=1))
        if self.cap < self.size:
            raise InvalidInput("cap", f"expected at least size = {self.size}, got {self.cap}")

    def most_records(self, n: int) -> int:
        return n if self.cap is None else min(self.cap, n)


KINDS: dict[str, type[Batches]] = {
    cls.kind: cls for cls in (FullBatch, Cyclic, ShuffleOnce, Reshuffle, FixedSize, Poisson)
}
