"""What every scheme of batches says of the records: when one is used, and how large its batch can be.

A table: the type of the batches → one of a closed union of schemes. It compares exact types, so that a
subclass with another meaning is refused. All that the checker knows of a scheme is here; the rest of the
checker goes by the answer: *known uses*, a *secret order* that is drawn once or every epoch, or *fresh
subsets* of a fixed size or of independent draws.

Every batch sum is divided by the same `size` b, so that a batch of m records is the fraction m/b of a full
one. A step on a fraction between two others is an average of steps on those, with the same gradients. So its
slope or modulus is at most the larger of theirs, and two ends speak for all batches between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar, assert_never

from flint import arb, fmpq

from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    FullBatch,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.verification.arithmetic import Refused, above, fraction_of
from pabi.verification.theorem import Adjacency

Fractions = tuple[Any, ...]  # a batch is one of these, or lies between them


# Batches that come in the same order of positions every epoch.


@dataclass(frozen=True)
class Epochs:
    """Epochs of `period` batches, in each of which a record is at one position.

    `usual`: the fractions that the batch at a position may be, `last`: those of the last of an epoch (none
    where a certificate has to state a cap and does not). `usual_share`, `last_share`: the probability that a
    record, given all others, is at such a position; what is missing of 1 is that it is at none.
    `tail`: a bound on the probability that one batch is not one of its fractions. `keys`: what a certificate
    states of the batches beside the description.
    `independent`: whether where a record is changes nothing about which other records are in which batch, but
    for such a batch.
    """

    size: int
    period: int
    usual: Fractions
    last: Fractions
    usual_share: Any
    last_share: Any
    tail: Fraction = Fraction(0)
    keys: tuple[str, ...] = ()
    independent: bool = False

    def fractions(self, position: int) -> Fractions:
        """The fractions of a full batch that the batch at this position may be."""
        return self.last if position == self.period - 1 else self.usual

    def share(self, a: int, b: int) -> Any:
        """The probability that a record is at one of positions a..b, cyclically if b < a."""
        if b < a:
            return self.share(a, self.period - 1) + self.share(0, b)
        less = self.usual_share - self.last_share if b == self.period - 1 else 0
        return (b - a + 1) * self.usual_share - less

    @property
    def spare(self) -> Any:
        """The probability that a record is in no batch of an epoch."""
        return 1 - self.share(0, self.period - 1)

    def failure(self, steps: int) -> Fraction:
        """The probability that the batch of any of so many steps is not one of its fractions, which is added
        to δ once wherever slopes or moduli are used."""
        return min(Fraction(1), self._different(steps) * self.tail)

    def _different(self, steps: int) -> int:
        """How many batches so many steps have at most: they come back in every epoch."""
        return self.period


class KnownPositions(Epochs):
    """Everybody knows which batch a record is in."""


class SecretOnce(Epochs):
    """A record's position is drawn once, in secret."""


class SecretEveryEpoch(Epochs):
    """A record's position is drawn anew every epoch, in secret."""

    def _different(self, steps: int) -> int:
        """No batch comes back."""
        return steps


# Batches that are drawn anew at every step.


class Exchange(Enum):
    """What happens to a batch that the record is drawn into, on the one data set and on the other.

    `gradients`: how many gradients the pull of the drawn record is made of: it is added, or takes the place
    of another. `change`: how far apart steps from one place can be on the two data sets, in pulls. `other`:
    how far what is drawn on the second data set moves such a step, in pulls.
    """

    gradients: int
    change: Any
    other: Any

    PRESENCE = "a record that is there or not", 1, fmpq(1), fmpq(0)
    EITHER = "either of two records", 1, fmpq(2), fmpq(1)
    DISPLACED = "fixed size", 2, fmpq(1), fmpq(1)
    ZEROED = "fixed size, a record zeroed", 2, fmpq(1, 2), fmpq(1, 2)

    def __init__(self, _: str, gradients: int, change: Any, other: Any) -> None:
        self.gradients, self.change, self.other = gradients, change, other

    @property
    def on_both(self) -> bool:
        """Whether a batch into which a record is drawn changes on the second data set as well."""
        return bool(self.other)


@dataclass(frozen=True)
class FixedDraws:
    """Every step draws `size` of the n records without replacement, in secret."""

    size: int
    n: int

    @property
    def probability(self) -> Fraction:
        """With which a record is in a batch."""
        return Fraction(self.size, self.n)

    def exchange(self, adjacency: Adjacency) -> Exchange:
        """What happens to a batch that the record is drawn into, under this adjacency."""
        match adjacency:
            case "replace_one":
                return Exchange.DISPLACED
            case "zero_out":
                return Exchange.ZEROED
            case _:
                assert_never(adjacency)

    def up_to(self, cap: int, steps: int) -> tuple[Fractions, Fraction]:
        """(the fractions that batches of at most `cap` records may be, the probability that one of so many
        steps has a larger one)."""
        _check_cap(cap, self.size)
        return (fmpq(1),), Fraction(0)


@dataclass(frozen=True)
class IndependentDraws:
    """Every step includes each of the n records with the same `probability`, in secret. `cap`: a larger batch
    is taken as empty; None if every batch is taken."""

    size: int
    n: int
    cap: int | None
    probability: Fraction

    def exchange(self, adjacency: Adjacency) -> Exchange:
        """What happens to a batch that the record is drawn into, under this adjacency."""
        match adjacency:
            case "replace_one":
                return Exchange.EITHER
            case "zero_out":
                return Exchange.PRESENCE
            case _:
                assert_never(adjacency)

    def up_to(self, cap: int, steps: int) -> tuple[Fractions, Fraction]:
        """(the fractions that batches of at most `cap` records may be, the probability that one of so many
        steps has a larger one)."""
        fractions = fmpq(0), fmpq(cap, self.size)
        if self.cap is not None:
            _check_cap(cap, min(self.cap, self.n))
            return fractions, Fraction(0)
        p = fmpq(self.probability.numerator, self.probability.denominator)
        tail = binomial_tail(self.n, p, cap)
        return fractions, min(Fraction(1), steps * tail)


def _check_cap(cap: int, implied: int) -> None:
    if cap != implied:
        raise Refused(f"cap: the description implies {implied}, got {cap}")


def binomial_tail(n: int, p: Any, cap: int) -> Fraction:
    """A bound on P(Bin(n, p) > cap), which may exceed 1.

    P(Bin(n, p) = k) falls from k = cap + 1 on at least as fast as a geometric series of its ratio there.
    """
    k = cap + 1
    if k > n:
        return Fraction(0)
    if p == 1 or (n - k) * p >= (k + 1) * (1 - p):
        return Fraction(1)
    ratio = (n - k) * p / ((k + 1) * (1 - p))
    log = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    log += k * arb(p).log() + (n - k) * arb(1 - p).log()
    return fraction_of(above(log.exp() / (1 - arb(ratio))))


# The table.

Ordered = KnownPositions | SecretOnce | SecretEveryEpoch
Drawn = FixedDraws | IndependentDraws
Scheme = Ordered | Drawn


def scheme_of(batches: Batches, n: int, cap: int | None = None) -> Scheme:
    """What these batches of n records are; `cap`: the largest one that the certificate states, if any."""
    kind = type(batches)
    if kind not in _SCHEMES:
        raise Refused(f"batches: the checker knows no {kind.__name__}")
    return _SCHEMES[kind](batches, n, cap)


E = TypeVar("E", bound=Epochs)


def _partition(kind: type[E], n: int, size: int, spare: int = 0) -> E:
    """Epochs of all records but `spare` in batches of `size`, but for a last one that may be short."""
    if not 0 <= spare <= n - size:
        raise Refused(f"spare: {spare} of {n} records leave no batch of {size}")
    period = -(-(n - spare) // size)
    rest = n - spare - (period - 1) * size
    return kind(
        size=size,
        period=period,
        usual=(fmpq(1),),
        last=(fmpq(rest, size),),
        usual_share=fmpq(size, n),
        last_share=fmpq(rest, n),
    )


def _permuted(kind: type[E]) -> Callable[[Any, int, int | None], E]:
    """What batches are that are cut from the records in an order, but for those in its last places."""
    return lambda batches, n, cap: _partition(kind, n, int(batches.size), int(batches.spare))


_REDRAWN: Mapping[str, type[SecretOnce] | type[SecretEveryEpoch]] = MappingProxyType(
    {"once": SecretOnce, "epoch": SecretEveryEpoch}
)


def _balls_in_bins(batches: BallsInBins, n: int, cap: int | None) -> SecretOnce | SecretEveryEpoch:
    """Every record is in each of the bins with the same probability, wherever the others are. A bin holds any
    number of them up to the cap, or is taken as empty: then a record can empty a bin. Without a cap in the
    description all numbers are covered, or those up to the one that the certificate states, but for a
    tail, which is at least as likely as that so many other records are in one bin."""
    size = int(batches.size)
    period = -(-n // size)
    share, covered, tail = fmpq(1, period), n, Fraction(0)
    if batches.redraw not in _REDRAWN:
        raise Refused(f"redraw: the checker knows no {batches.redraw!r}")
    if batches.cap is not None:
        covered = min(batches.cap, n)
        _check_cap(covered if cap is None else cap, covered)
    elif cap is not None:
        covered = cap
        tail = binomial_tail(n, share, cap)
    fractions = fmpq(0), fmpq(covered, size)
    return _REDRAWN[batches.redraw](
        size=size,
        period=period,
        usual=fractions,
        last=fractions,
        usual_share=share,
        last_share=share,
        tail=tail,
        keys=("cap",),
        independent=batches.cap is None,
    )


def _poisson(batches: Poisson, n: int, cap: int | None) -> IndependentDraws:
    """Draws with the stated probability, a double, or else with the one that expects `size` records."""
    size, stated = int(batches.size), batches.probability
    p = Fraction(size, n) if stated is None else Fraction(stated)
    if not 0 < p <= 1:
        raise Refused(f"probability: expected a number in (0, 1], got {stated!r}")
    return IndependentDraws(size, n, batches.cap, p)


_SCHEMES: Mapping[type[Batches], Callable[[Any, int, int | None], Scheme]] = MappingProxyType(
    {
        FullBatch: lambda batches, n, cap: _partition(KnownPositions, n, n),
        Cyclic: lambda batches, n, cap: _partition(KnownPositions, n, int(batches.size)),
        ShuffleOnce: _permuted(SecretOnce),
        Reshuffle: _permuted(SecretEveryEpoch),
        BallsInBins: _balls_in_bins,
        FixedSize: lambda batches, n, cap: FixedDraws(int(batches.size), n),
        Poisson: _poisson,
    }
)
