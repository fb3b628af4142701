"""How records are grouped into batches: fixed, cyclic, shuffled and sampled.

A run of n records in batches of `size` has l = ⌈n/size⌉ batches an epoch, of which the last may be short.
Every batch sum, the short one included, is divided by the same `size`. What a scheme means for one record
is its `order` (`pabi.describe.orders`), the only thing that proofs and trainers look at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
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
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.validate import Check, Checked, by, optional

_COUNT: Check = partial(validate.integer, at_least=1)
_BINARY = 1e-9
_RATE: Check = partial(validate.number, above=0.0, at_most=1.0)


@dataclass(frozen=True)
class Batches(Checked):
    """How records are grouped into batches; see the subclasses, of which `SCHEMES` lists all.

    Attributes
    ----------
    kind : str
        The name of the scheme in run files.
    sentence : str
        What a guarantee assumes of the order of records.
    """

    kind: ClassVar[str]
    sentence: ClassVar[str]

    def batch_size(self, n: int) -> int:
        """The number that every batch sum is divided by.

        Parameters
        ----------
        n : int
            Records.

        Returns
        -------
        int
            The scheme's `size`; `n` for full batches.

        Raises
        ------
        InvalidInput
            For a `size` above `n`.
        """
        size: int = getattr(self, "size", n)  # a full batch has no size of its own
        require(size <= n, "size", f"expected an integer in 1..n = {n}, got {size}")
        return size

    def per_epoch(self, n: int) -> int:
        """The number of batches in one pass over all records.

        Parameters
        ----------
        n : int
            Records.

        Returns
        -------
        int
            ⌈n/size⌉.

        Raises
        ------
        InvalidInput
            For a `size` above `n`.
        """
        return -(-n // self.batch_size(n))

    def order(self, n: int, steps: int) -> Order:
        """Which of the steps use a record, and who knows.

        Parameters
        ----------
        n : int
            Records.
        steps : int
            Steps that use data.

        Returns
        -------
        KnownUses, SecretOrder or FreshSubsets
            What proofs and trainers look at.

        Raises
        ------
        InvalidInput
            For a `size` above `n`.
        """
        return self._order(n, steps)

    def _order(self, n: int, steps: int) -> Order:
        raise NotImplementedError

    def _sizes(self, n: int) -> FixedSizes:
        """The sizes of batches that are cut from a list of the records."""
        size = self.batch_size(n)
        return FixedSizes(size, n - (self.per_epoch(n) - 1) * size)


class _Known(Batches):
    """A fixed partition in a fixed order."""

    def _order(self, n: int, steps: int) -> Order:
        return KnownUses(self.per_epoch(n), self._sizes(n))


@dataclass(frozen=True)
class FullBatch(_Known):
    """Every step uses all n records, and sums are divided by n.

    References
    ----------
    docs, "Theory", 2.
    """

    kind = "full_batch"
    sentence = "every step uses all records"


@dataclass(frozen=True)
class _Sized(Batches):
    size: int = field(metadata=by(_COUNT))


@dataclass(frozen=True)
class _Permuted(_Sized):
    """A list of the records in a random order, cut into batches."""

    redrawn: ClassVar[Redrawn]

    def _order(self, n: int, steps: int) -> Order:
        sizes = self._sizes(n)
        each, last = Fraction(sizes.size, n), Fraction(sizes.last, n)
        return SecretOrder(self.per_epoch(n), self.redrawn, each, last, sizes)


@dataclass(frozen=True)
class Cyclic(_Sized, _Known):
    """A fixed partition into batches of `size` records, visited in the same fixed order every epoch.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.

    Raises
    ------
    InvalidInput
        For a `size` below 1. A run refuses a `size` above n.

    References
    ----------
    docs, "The worst record".
    """

    kind = "cyclic"
    sentence = "the partition into batches and their order do not depend on the data"


@dataclass(frozen=True)
class ShuffleOnce(_Permuted):
    """One random permutation of the records for all epochs, cut into batches that are visited cyclically.

    The permutation is uniformly random, secret and independent of the data.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.

    Raises
    ------
    InvalidInput
        For a `size` below 1. A run refuses a `size` above n.

    References
    ----------
    docs, "Secret order".
    """

    kind = "shuffle_once"
    sentence = (
        "one permutation is drawn uniformly, independently of the data, is used in every epoch, and stays "
        "secret"
    )
    redrawn = Redrawn.ONCE


@dataclass(frozen=True)
class Reshuffle(_Permuted):
    """A fresh random permutation of the records every epoch, cut into batches.

    The permutations are uniformly random, secret and independent of the data.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.

    Raises
    ------
    InvalidInput
        For a `size` below 1. A run refuses a `size` above n.

    References
    ----------
    docs, "Secret order".
    """

    kind = "reshuffle"
    sentence = (
        "a fresh permutation is drawn uniformly every epoch, independently of the data, and stays "
        "secret"
    )
    redrawn = Redrawn.EVERY_EPOCH


@dataclass(frozen=True)
class FixedSize(_Sized):
    """Every step draws `size` of the n records without replacement, in secret.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.

    Raises
    ------
    InvalidInput
        For a `size` below 1. A run refuses a `size` above n.

    References
    ----------
    docs, "Random batches".
    """

    kind = "fixed_size"
    sentence = (
        "every step draws its batch uniformly without replacement, independently of the data "
        "and of all other steps, and the batches stay secret"
    )

    def _order(self, n: int, steps: int) -> Order:
        size = self.batch_size(n)
        return FreshSubsets(Fraction(size, n), FixedSizes(size, size))


@dataclass(frozen=True)
class _Capped(_Sized):
    """Batches whose sizes are random.

    A batch of more than `cap` ≥ `size` records is replaced by an empty one.
    """

    cap: int | None = field(default=None, metadata=by(optional(_COUNT)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is not None and self.cap < self.size:
            raise InvalidInput("cap", f"expected at least size = {self.size}, got {self.cap}")


@dataclass(frozen=True)
class Poisson(_Capped):
    """Every step includes each record with probability size/n, in secret and independently.

    Without a cap the accountant allows for the small probability of a batch too large for the loss's
    modulus.

    Parameters
    ----------
    size : int, ≥ 1
        Every sum is divided by it, however many records were drawn. Without a `probability` it is the
        expected number of records of a batch as well.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one, so that memory and the moduli are
        bounded. It is never truncated, which would make one record's membership depend on the others.
    probability : float in (0, 1], optional
        With which a record is in a batch, in place of size/n, for trainers that divide sums by another number
        than the one they expect. An epoch is then ⌈1/probability⌉ steps.

    Raises
    ------
    InvalidInput
        For a `size` below 1, a `cap` below `size` or a `probability` outside (0, 1]. A run refuses a `size`
        above n.

    References
    ----------
    docs, "Batches above the cap".
    """

    kind = "poisson"
    sentence = (
        "every step includes each record independently with the same probability, independently "
        "of the data and of all other steps, and the batches stay secret"
    )
    probability: float | None = field(default=None, kw_only=True, metadata=by(optional(_RATE)))

    def per_epoch(self, n: int) -> int:
        """The number of batches in which each record is expected to be once.

        Parameters
        ----------
        n : int
            Records.

        Returns
        -------
        int
            ⌈n/size⌉, or ⌈1/probability⌉ where that is stated.

        Raises
        ------
        InvalidInput
            For a `size` above `n`.
        """
        if self.probability is None:
            return super().per_epoch(n)
        self.batch_size(n)  # which refuses sizes above n
        expected = 1.0 / self.probability
        return math.ceil(
            expected * (1.0 - _BINARY)
        )  # 1e-6 is 10⁶ batches, whatever it is in binary

    def _order(self, n: int, steps: int) -> Order:
        size = self.batch_size(n)
        stated = self.probability
        probability = Fraction(size, n) if stated is None else Fraction(stated)
        return FreshSubsets(probability, RandomSizes(n, probability, steps, self.cap))


@dataclass(frozen=True)
class BallsInBins(_Capped):
    """Every record is put into one of ⌈n/size⌉ batches uniformly at random, once, and in secret.

    Records are placed independently of the data and of one another. The batches are visited cyclically.
    Without a cap the accountant allows, once, for the small probability of a batch too large for the loss's
    modulus.

    Parameters
    ----------
    size : int, ≥ 1
        Every sum is divided by it, however many records a batch has.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one, never truncated.

    Raises
    ------
    InvalidInput
        For a `size` below 1 or a `cap` below `size`. A run refuses a `size` above n.

    References
    ----------
    Chua et al. 2025, "Balls-and-Bins Sampling for DP-SGD". What it costs the last iterate: docs, "Secret
    order".
    """

    kind = "balls_in_bins"
    sentence = (
        "every record is put into one of the batches uniformly at random, once, independently of the data "
        "and of all other records, and which one stays secret"
    )

    def _order(self, n: int, steps: int) -> Order:
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
    """`batches` if it is one of these schemes.

    Raises InvalidInput for anything else, as nothing is proven of it, and for a subclass, which may override
    what it says.
    """
    if type(batches) in SCHEMES.values():
        return batches  # type: ignore[no-any-return]
    names = ", ".join(cls.__name__ for cls in SCHEMES.values())
    what = repr(batches)
    if isinstance(batches, Batches):
        what = f"a {type(batches).__name__}, of which nothing is proven"
    raise InvalidInput("batches", f"expected one of pabi's {names}, got {what}")


def order_of(batches: Batches, n: int, steps: int) -> Order:
    """The order of one record under a scheme that is known. Raises InvalidInput for any other."""
    return checked(batches).order(n, steps)
