"""How records are grouped into batches: fixed, cyclic, shuffled and sampled.

A run of n records in batches of `size` has l = ⌈n/size⌉ batches an epoch, of which the last may be short.
Every batch sum, the short one included, is divided by the same `size`. What a scheme means for one record
is its `order` (`pabi.describe.batches`), the only thing that proofs and trainers look at.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, assert_never

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import TINY, fraction_up
from pabi.numbers.validate import Check, Checked, answering, by, optional

# What a batch scheme means for one record: which steps use it, and who knows.
#
# A proof speaks of an order and never of a scheme. A scheme answers with exactly one of three orders, and
# each match over them ends in `assert_never`, so that a new one is a type error wherever nobody has
# thought of it.
#
# - `KnownUses`: every record has a place in the epoch that everybody may know.
# - `SecretOrder`: every record has a place in the epoch, drawn in secret.
# - `FreshSubsets`: every step draws its batch afresh, in secret.
#
# Each says whether batches are drawn afresh at every step (`fresh`), and whether a record that is drawn
# takes the place of another (`displaces`).
#
# How many records a batch has is a matter of its own (`Sizes`).


@dataclass(frozen=True)
class FixedSizes:
    """Every batch has `size` records, but for the last of an epoch, which has `last`."""

    size: int
    last: int

    @property
    def most(self) -> int:
        """Records in the largest batch."""
        return self.size


@dataclass(frozen=True)
class RandomSizes:
    """In each of `draws` different batches every one of `n` records is with the same `probability`,
    independently of the others: as many as there are steps where each draws afresh, and the batches of one
    epoch where they come back. A batch of more than `cap` records is taken as empty; None: however many there
    are."""

    n: int
    probability: Fraction
    draws: int
    cap: int | None

    @property
    def most(self) -> int:
        """Records in the largest batch that is ever summed."""
        return self.n if self.cap is None else min(self.cap, self.n)

    def covered(self, allowed: float) -> tuple[int, float]:
        """(cap, failure): no batch that is summed has more than `cap` records, but with a probability of
        at most `failure` ≤ `allowed`."""
        if self.cap is not None:
            return self.most, 0.0
        p = min(1.0, fraction_up(self.probability))

        def failure(cap: int) -> float:
            return min(1.0, self.draws * binomial_tail(self.n, p, cap))

        least = min(self.n, math.ceil(self.n * self.probability))
        caps = range(least, self.n)
        cap = least + bisect_left(caps, True, key=lambda cap: failure(cap) <= allowed)
        return cap, failure(cap)


Sizes = FixedSizes | RandomSizes
FAILING = 1e-3  # the share of δ that may be spent on batches of random size that are too large


class Fractions(NamedTuple):
    """Records of a batch over its divisor: the numbers between which they lie for every batch of an epoch but
    the last (`full`), and for that (`last`), unless something of probability `failure` happens. `cap`: the
    records of the largest batch; `random`: whether sizes are."""

    full: tuple[Fraction, ...]
    last: tuple[Fraction, ...]
    cap: int
    random: bool
    failure: float = 0.0

    @property
    def random_cap(self) -> int | None:
        """`cap` where sizes are random, so that a proof has to say which it is about."""
        return self.cap if self.random else None


def fractions(sizes: Sizes, divisor: int, allowed: float) -> Fractions:
    """The fractions of batches of these sizes over `divisor`, but for a failure of probability `allowed` at
    most."""
    match sizes:
        case FixedSizes():
            full, last = Fraction(sizes.size, divisor), Fraction(sizes.last, divisor)
            return Fractions((full,), (last,), sizes.size, random=False)
        case RandomSizes():
            cap, failure = sizes.covered(allowed)
            every = Fraction(0), Fraction(cap, divisor)
            return Fractions(every, every, cap, random=True, failure=failure)
        case _:
            assert_never(sizes)


class Redrawn(Enum):
    """When a secret order is drawn."""

    ONCE = "once"
    EVERY_EPOCH = "every epoch"


@dataclass(frozen=True)
class KnownUses:
    """The records of batch j, 0 ≤ j < `period`, are used at the steps j, j + period, …, and everybody may
    know j."""

    period: int
    sizes: FixedSizes

    fresh: ClassVar = False
    displaces: ClassVar = False


@dataclass(frozen=True)
class SecretOrder:
    """A record is in batch j, 0 ≤ j < `period`, with a probability that does not depend on the data, and
    is used in that batch's step of every epoch. `redrawn`: once for all epochs, or afresh for each,
    independently.

    Given where all other records are, the steps are those of `KnownUses`. `each`: the probability of
    every batch but the last, `last`: that of the last one. With what is missing of 1, `spare`, the record is
    in none of them.
    """

    period: int
    redrawn: Redrawn
    each: Fraction
    last: Fraction
    sizes: Sizes

    fresh: ClassVar = False
    displaces: ClassVar = False

    @property
    def once(self) -> bool:
        """Whether a record keeps its place in all epochs."""
        match self.redrawn:
            case Redrawn.ONCE:
                return True
            case Redrawn.EVERY_EPOCH:
                return False
            case _:
                assert_never(self.redrawn)

    @property
    def spare(self) -> Fraction:
        """The probability that the record is in no batch."""
        return 1 - self.share(0, self.period - 1)

    def share(self, first: int, last: int) -> Fraction:
        """The probability of the batches `first`, …, `last`."""
        ends = last == self.period - 1
        return (last - first + (not ends)) * self.each + (self.last if ends else 0)


@dataclass(frozen=True)
class FreshSubsets:
    """Every step draws its batch in secret, independently of the data and of all other steps; a record is
    in it with `probability`. With `FixedSizes` all sets of so many records are equally likely, with
    `RandomSizes` every record is there independently of the others."""

    probability: Fraction
    sizes: Sizes

    fresh: ClassVar = True

    @property
    def displaces(self) -> bool:
        """Whether a record that is drawn takes the place of another: where sizes are fixed."""
        match self.sizes:
            case FixedSizes():
                return True
            case RandomSizes():
                return False
            case _:
                assert_never(self.sizes)


Order = KnownUses | SecretOrder | FreshSubsets

_ROUNDING = 1e-14  # of a sum of logarithms, relative to what cancels in it
_MARGIN = 1.0 + 1e-9  # above the roundings of the exponential and the ratio


def binomial_tail(n: int, p: float, cap: int) -> float:
    """An upper bound on P(Bin(n, p) > cap): beyond cap + 1 the probabilities fall at least as fast as a
    geometric series of the ratio there. 1 where they do not fall."""
    from scipy.special import gammaln

    k = cap + 1
    if k > n or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0
    ratio = (n - k) / (k + 1) * p / (1.0 - p)
    if ratio >= 1.0:
        return 1.0
    log = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    log += k * math.log(p) + (n - k) * math.log1p(-p)
    size = gammaln(n + 1.0) + n  # what the terms that cancel are made of
    bound = math.exp(min(0.0, log + _ROUNDING * size)) / (1.0 - ratio) * _MARGIN
    return min(1.0, max(TINY, bound))  # a little is not nothing, however small


_COUNT: Check = partial(validate.integer, at_least=1)
_SPARE: Check = partial(validate.integer, at_least=0)
_REDRAW = validate.one_of("once", "epoch")
_MOST = {False: "n = ", True: "n - spare = "}  # what a size is at most
_BINARY = 1e-9
_RATE: Check = partial(validate.number, above=0.0, at_most=1.0)


@dataclass(frozen=True)
class Batches(Checked):
    """How records are grouped into batches; see the subclasses, of which `SCHEMES` lists all.

    Attributes
    ----------
    kind : str
        The name of the scheme in run files.
    """

    kind: ClassVar[str]
    _sentence: ClassVar[str]

    @property
    def sentence(self) -> str:
        """What a guarantee assumes of the order of records."""
        return self._sentence

    def __repr__(self) -> str:
        """The scheme, with the options that are taken."""
        shown = [f for f in fields(self) if f.repr or getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

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
        most = self._drawn(n)
        require(
            size <= most, "size", f"expected an integer in 1..{_MOST[most < n]}{most}, got {size}"
        )
        return size

    def _drawn(self, n: int) -> int:
        """The places of a list of the records that batches are cut from."""
        return n

    def per_epoch(self, n: int) -> int:
        """The number of batches in one pass over all records.

        Parameters
        ----------
        n : int
            Records.

        Returns
        -------
        int
            ⌈n/size⌉, or ⌈(n − spare)/size⌉ where some records are in no batch.

        Raises
        ------
        InvalidInput
            For a `size` above `n`.
        """
        return -(-self._drawn(n) // self.batch_size(n))

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
        return FixedSizes(size, self._drawn(n) - (self.per_epoch(n) - 1) * size)


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
    _sentence = "every step uses all records"


@dataclass(frozen=True, repr=False)
class _Sized(Batches):
    size: int = field(metadata=by(_COUNT))


@dataclass(frozen=True, repr=False)
class _Permuted(_Sized):
    """A list of the records in a random order, cut into batches but for the `spare` last ones."""

    redrawn: ClassVar[Redrawn]
    spare: int = field(default=0, repr=False, metadata=by(_SPARE))

    @property
    def sentence(self) -> str:
        """What a guarantee assumes of the order of records."""
        if not self.spare:
            return self._sentence
        return f"{self._sentence}; the records in its last {self.spare} places are in no batch"

    def _drawn(self, n: int) -> int:
        most = n - 1
        require(
            self.spare <= most,
            "spare",
            f"expected an integer in 0..n - 1 = {most}, got {self.spare}",
        )
        return n - self.spare

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
    _sentence = "the partition into batches and their order do not depend on the data"


@dataclass(frozen=True, repr=False)
class ShuffleOnce(_Permuted):
    """One random permutation of the records for all epochs, cut into batches that are visited cyclically.

    The permutation is uniformly random, secret and independent of the data.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.
    spare : int, ≥ 0
        Records that are never in a batch, the last ones of the permutation.

    Raises
    ------
    InvalidInput
        For a `size` below 1 or a `spare` below 0. A run refuses a `spare` of n or more, and a `size` above
        n − spare.

    References
    ----------
    docs, "Secret order".
    """

    kind = "shuffle_once"
    _sentence = (
        "one permutation is drawn uniformly, independently of the data, is used in every epoch, and stays "
        "secret"
    )
    redrawn = Redrawn.ONCE


@dataclass(frozen=True, repr=False)
class Reshuffle(_Permuted):
    """A fresh random permutation of the records every epoch, cut into batches.

    The permutations are uniformly random, secret and independent of the data.

    Parameters
    ----------
    size : int, ≥ 1
        Records of a batch, and the number that its sum is divided by.
    spare : int, ≥ 0
        Records that are in no batch of an epoch, the last ones of its permutation. The remainder of n by
        `size` is what `DataLoader(shuffle=True, drop_last=True)` leaves out.

    Raises
    ------
    InvalidInput
        For a `size` below 1 or a `spare` below 0. A run refuses a `spare` of n or more, and a `size` above
        n − spare.

    References
    ----------
    docs, "Secret order".
    """

    kind = "reshuffle"
    _sentence = (
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
    _sentence = (
        "every step draws its batch uniformly without replacement, independently of the data "
        "and of all other steps, and the batches stay secret"
    )

    def _order(self, n: int, steps: int) -> Order:
        size = self.batch_size(n)
        return FreshSubsets(Fraction(size, n), FixedSizes(size, size))


@dataclass(frozen=True, repr=False)
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
    _sentence = (
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


@dataclass(frozen=True, repr=False)
class BallsInBins(_Capped):
    """Every record is put into one of ⌈n/size⌉ batches uniformly at random, in secret.

    Records are placed independently of the data and of one another, once or in every epoch anew. The batches
    are visited cyclically. Without a cap the accountant allows for the small probability of a batch too large
    for the loss's modulus.

    Parameters
    ----------
    size : int, ≥ 1
        Every sum is divided by it, however many records a batch has.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one, never truncated.
    redraw : str
        "once": a record keeps its batch in all epochs. "epoch": it is put into one anew in every epoch.

    Raises
    ------
    InvalidInput
        For a `size` below 1, a `cap` below `size` or another `redraw`. A run refuses a `size` above n.

    References
    ----------
    Chua et al. 2025, "Balls-and-Bins Sampling for DP-SGD". What it costs the last iterate: docs, "Secret
    order".
    """

    kind = "balls_in_bins"
    _sentence = (
        "every record is put into one of the batches uniformly at random, once, independently of the data "
        "and of all other records, and which one stays secret"
    )
    redraw: str = field(default="once", kw_only=True, repr=False, metadata=by(_REDRAW))

    @property
    def sentence(self) -> str:
        """What a guarantee assumes of the order of records."""
        if self._redrawn is Redrawn.ONCE:
            return self._sentence
        return (
            "every record is put into one of the batches uniformly at random, anew in every epoch, "
            "independently of the data, of all other records and of all other epochs, and which one stays "
            "secret"
        )

    @property
    def _redrawn(self) -> Redrawn:
        return {"once": Redrawn.ONCE, "epoch": Redrawn.EVERY_EPOCH}[self.redraw]

    def _order(self, n: int, steps: int) -> Order:
        period = self.per_epoch(n)
        each, once = Fraction(1, period), self._redrawn is Redrawn.ONCE
        # A batch that is drawn anew in every epoch has one step.
        sizes = RandomSizes(n, each, period if once else steps, self.cap)
        return SecretOrder(period, self._redrawn, each, each, sizes)


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

_SIZE = "a scheme calls it size: write size={}"
OTHER_NUMBERS = {
    "batch_size": _SIZE,
    "expected_batch_size": _SIZE,
    "sample_rate": "a scheme has the size of a batch: write size={} times the number of records",
    "drop_last": "ShuffleOnce and Reshuffle are told what they leave out: write spare=n % size",
}
for _scheme in SCHEMES.values():
    _scheme.__init__ = answering(OTHER_NUMBERS)(_scheme.__init__)  # type: ignore[method-assign]


def checked(batches: Any) -> Batches:
    """`batches` if it is one of these schemes.

    Raises InvalidInput for anything else, as nothing is proven of it, and for a subclass, which may override
    what it says.
    """
    if type(batches) in SCHEMES.values():
        return batches  # type: ignore[no-any-return]
    names = ", ".join(cls.__name__ for cls in SCHEMES.values())
    what = repr(batches)
    if type(batches).__module__.startswith("jax_privacy."):
        what = "what pabi.integrations.jax.from_batch_selection takes"
    if isinstance(batches, Batches):
        what = f"a {type(batches).__name__}, of which nothing is proven"
    raise InvalidInput(
        "batches",
        f"expected one of pabi's {names}, of DataLoader(shuffle=True) Reshuffle(size), got {what}",
    )


def order_of(batches: Batches, n: int, steps: int) -> Order:
    """The order of one record under a scheme that is known. Raises InvalidInput for any other."""
    return checked(batches).order(n, steps)
