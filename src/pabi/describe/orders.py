"""What a batch scheme means for one record: which steps use it, and who knows.

A proof speaks of an order and never of a scheme. A scheme answers with exactly one of three orders, and each
match over them ends in `assert_never`, so that a new one is a type error wherever nobody has thought of it.

- `KnownUses`: every record has a place in the epoch that everybody may know.
- `SecretOrder`: every record has a place in the epoch, drawn in secret.
- `FreshSubsets`: every step draws its batch afresh, in secret.

Each says whether batches are drawn afresh at every step (`fresh`), and whether a record that is drawn takes
the place of another (`displaces`).

How many records a batch has is a matter of its own (`Sizes`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import ClassVar, NamedTuple, assert_never

from pabi.numbers.rounding import TINY, fraction_up


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
    """The fractions of batches of these sizes, whose sums are divided by `divisor`.

    `allowed`: the largest probability of failure.
    """
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
    every batch but the last, `last`: that of the last one.
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
