"""What payments in blocks cost, and whether they clear: replayed in doubles, in balls where those leave it open.

Step k takes a distance z to max(0, c_k·z + s_k − a_k). With W_k the product of the slopes after step k, the last
distance is 0 if from every step on the payments a_j·W_j add up to at least the demands s_j·W_j, of which the
distance at the start is one. A block that ends at step e and pays at the slope q pays a_k = q·σ_k²·W_k/W_e, so
that with λ = q/W_e the payments of any of its steps add up to λ·Σ(σ_k·W_k)², and cost λ times that.

All these are products, quotients and sums of numbers ≥ 0. They are kept as head·(1 + tail)·2^power, where
head is what doubles make of them and tail adds up what each operation lost, relative to its result. Each such
loss is itself computed, so that what is unknown is of second order:

**Lemma.** Let ν = n·2^-53, n the number of steps and 16 more, and let every difference of two sums be at least
1/κ of the first, κ·ν ≤ 2^-31. Then everything that is compared is known to a relative 2^-54.

*Proof.* An operation with result h·(1 + η) has |η| ≤ u = 2^-53; η is computed to a relative 2u (`two_sum` and
`two_product` are exact, one division follows). (1) W: a product of n heads, so |Σ η| ≤ 1.1ν, summed with an error
below 2ν². Π(1 + η) is exp(Σ η) but for a relative nu² and exp(x) is 1 + x but for x²: known to 4ν². (2) (σ·W)²:
tail below 2.5ν, known to 13ν², as a product of (1 + x) and (1 + y) is 1 + x + y but for xy. (3) Sums of these over
part of a cell: the losses of adding up n numbers are at most ν of the sum; the sum of tails times heads and of
losses, 3.5ν of it, is computed to ν of itself: known to 18ν². (4) A difference is known to 40κν², with a tail below
8κν. (5) λ, a quotient: tail below 2.5ν, known to 8ν². (6) Their product, and once more times λ: tails below 13κν,
known to (40 + 16)κν² and the square of the tails; sums as in (3), with tails below 15κν. Together below
256(κν)² ≤ 2^-54. ∎

A number that is 2^-900 of the largest payment or less counts as 0 where it is paid, as 2^-899 of it where it is
owed or costs. The demands have to be below the payments by a relative 2^-50, and 2^-50 are added to the cost,
which is more than is unknown and the few roundings of the comparison, 5·2^-53 together. What is not within
these bounds is replayed in balls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from pabi.numbers.encoding import read_floats, read_integers
from pabi.verification.arithmetic import (
    Refused,
    check_cost,
    in_time,
    integer,
    nonnegative,
    positions,
    timed,
)
from pabi.verification.roundings import Array, Integers, two_product, two_sum

# Payments, as a case states them.


class Payments(NamedTuple):
    """Payments in blocks from `distance` before step `tau`, and the demands that they pay for (0-based).

    Block i ends at step `ends[i]`, the first begins at step `first`, and pays at the slope q·2^shift/unit of its
    last step. The step `at[i]` demands `owed[i]`; `at` increases.
    """

    tau: int
    distance: float
    first: int
    ends: Integers
    q: Array
    shift: Integers
    unit: float
    at: Integers
    owed: Array


def payments_of(
    case: dict[str, Any], distance: float, at: Integers, owed: Array, steps: int
) -> Payments:
    """The written-out payments of a case of so many steps. Refused where they are none, or out of order."""
    if "blocks" in case or "skipped" in case:
        raise Refused("blocks: the payments are stated twice")
    ends, q = read_integers("ends", case["ends"]), read_floats("q", case["q"])
    tau, first = integer("tau", case["tau"]), integer("first", case["first"])
    if tau >= steps:
        raise Refused(f"step {tau + 1}: tau: the run is over")
    unit = nonnegative("unit", case["unit"])
    if unit == 0.0:
        raise Refused("unit: expected a number > 0")
    if not len(ends) == len(q) <= steps:
        raise Refused(f"q: expected one for each of the {len(ends)} ends, at most one a step")
    shift = read_integers("shift", case["shift"]) if "shift" in case else np.zeros_like(ends)
    if len(shift) != len(q):
        raise Refused(f"shift: expected {len(q)} of them")
    if len(q):
        begins = np.concatenate(([first], ends[:-1] + 1))
        bad = (begins < tau) | (ends < begins) | (ends >= steps) | ~(q > 0.0) | ~(q < math.inf)
        if bad.any():
            k = int(ends[bad.argmax()])
            raise Refused(f"step {k + 1}: blocks out of order, or a payment that is no number")
    return Payments(tau, distance, first, ends, q, shift, unit, at, owed)


class Steps(NamedTuple):
    """Slopes and sensitivities that are not below those of the steps, and noises that are not above them."""

    c: Array
    s: Array
    sigma: Array


# In balls: step by step.


def replayed(steps: Steps, paid: Payments) -> Any:
    """The cost of payments, a ball. Raises Refused, naming a step, if the distance does not end at zero."""
    t = positions("steps", len(steps.c))
    c, sigma = ([arb(x) for x in column.tolist()] for column in (steps.c, steps.sigma))
    demands = dict(zip(paid.at.tolist(), paid.owed.tolist(), strict=True))
    rates: list[Any] = [None] * t
    begin, ends = paid.first, paid.ends.tolist()
    for end, q, shift in timed(zip(ends, paid.q.tolist(), paid.shift.tolist(), strict=True)):
        pay = arb(q) * arb(2) ** shift / arb(paid.unit)
        if not (pay > 0 and pay.is_finite()):
            raise Refused(f"step {end + 1}: a payment that is no number")
        for k in timed(range(end, begin - 1, -1)):
            rates[k] = pay * sigma[k]
            pay = pay * c[k]
        begin = end + 1
    z, cost, uncleared = arb(paid.distance), arb(0), None
    last_of_block = set(ends)
    for k in timed(range(paid.tau, t)):
        owed = c[k] * z + arb(demands.get(k, 0.0))
        rate = rates[k]
        if rate is not None:
            owed = owed - rate * sigma[k]
            cost = cost + rate * rate
            if uncleared is None and k in last_of_block and owed > 0:
                uncleared = k
        z = arb(0) if owed <= 0 else owed if owed > 0 else owed.upper()
    if not z.is_zero():
        k = t - 1 if uncleared is None else uncleared
        raise Refused(
            f"step {k + 1}: the payments leave a distance there, and {z.str(5)} at the end"
        )
    return cost


# In doubles: many cases at once.


class OutOfReach(Exception):
    """Doubles leave it open."""


@dataclass(frozen=True, slots=True)
class Fine:
    """Numbers head·(1 + tail)·2^power, head being 0 or from ½ to 1."""

    head: Array
    tail: Array
    power: Integers

    @classmethod
    def of(cls, x: Array, tail: Any = 0.0, power: Any = 0) -> Fine:
        """The numbers x·(1 + tail)·2^power."""
        head, shift = np.frexp(x)
        return cls(head, np.broadcast_to(tail, head.shape), shift + power)

    def at(self, which: Any) -> Fine:
        """Some of the numbers."""
        return Fine(self.head[which], self.tail[which], self.power[which])

    def times(self, other: Fine) -> Fine:
        """The products."""
        product, lost = two_product(self.head, other.head)
        tail = self.tail + other.tail + _over(lost, product)
        return Fine.of(product, tail, self.power + other.power)

    def over(self, other: Fine) -> Fine:
        """The quotients, where the others are not 0."""
        quotient = self.head / other.head
        product, lost = two_product(quotient, other.head)
        tail = self.tail - other.tail + _over((self.head - product) - lost, self.head)
        return Fine.of(quotient, tail, self.power - other.power)

    def scaled(self, power: Any, least: float) -> Array:
        """The heads in units of 2^power, or `least` where they are below 2^-900 and not 0."""
        apart = np.clip(self.power - power, -_FAR - 1, _FAR)
        heads = np.ldexp(self.head, apart.astype(np.int32))
        return np.where((apart < -_FAR) & (self.head > 0.0), least, heads)


_FAR = 900


def _over(lost: Array, of: Array) -> Array:
    return np.divide(lost, of, out=np.zeros_like(lost), where=of > 0.0)


def _sums(head: Array, tail: Array) -> tuple[Array, Array]:
    """The sums of the numbers head·(1 + tail) up to each, along the last axis, as two numbers to be added."""
    sums = np.cumsum(head, axis=-1)
    total, lost = two_sum(sums[..., :-1], head[..., 1:])
    if not np.array_equal(total, sums[..., 1:]):
        raise OutOfReach  # added up in another order
    rest = np.cumsum(head * tail, axis=-1)
    rest[..., 1:] += np.cumsum(lost, axis=-1)
    return sums, rest


def _sums_from(head: Array, tail: Array) -> tuple[Array, Array]:
    """The sums from each on."""
    sums, rest = _sums(head[..., ::-1], tail[..., ::-1])
    return sums[..., ::-1], rest[..., ::-1]


def products_after(c: Array) -> Fine:
    """W_k, the product of the slopes after each step."""
    factors = c[:0:-1]
    if not (factors > 0.0).all():
        raise OutOfReach
    heads, powers = np.frexp(factors)
    # Powers of two are taken out where they keep the products near 1.
    level = np.rint(np.cumsum(np.log2(heads)))
    factors = np.ldexp(heads, -np.diff(level, prepend=0.0).astype(np.int32))
    products = np.concatenate(([1.0], np.cumprod(factors)))
    rounded, lost = two_product(products[:-1], factors)
    near = (products > 0.125) & (products < 8.0)
    if not near.all() or not np.array_equal(rounded, products[1:]):
        raise OutOfReach
    tails = np.concatenate(([0.0], np.cumsum(lost / rounded)))
    total = np.concatenate(([0], np.cumsum(powers, dtype=np.int64) + level.astype(np.int64)))
    return Fine.of(products, tails, total).at(slice(None, None, -1))


class Cells:
    """Sums of (σ·W)² over parts of cells of `size` steps each."""

    def __init__(self, sigma: Array, later: Fine, size: int) -> None:
        count, t = -(-len(sigma) // size), len(sigma)
        noise = Fine.of(sigma).times(later)
        padding = (0, count * size - t)
        head, tail = (np.pad(x, padding).reshape(count, size) for x in (noise.head, noise.tail))
        power = np.pad(noise.power, padding).reshape(count, size)
        some = head > 0.0
        largest = np.where(some, power, -_POWERS).max(axis=1)
        self.size, self.power = size, np.where(some.any(axis=1), largest, 0)
        apart = power - self.power[:, None]
        if ((apart < -_DEEP) & some).any():
            raise OutOfReach
        here = np.ldexp(head, np.clip(apart, -_DEEP, 0).astype(np.int32))
        square, lost = two_product(here, here)
        tails = 2.0 * tail + _over(lost, square)
        self.until = [x.reshape(-1) for x in _sums(square, tails)]
        self.since = [x.reshape(-1) for x in _sums_from(square, tails)]

    def between(self, begin: Integers, end: Integers) -> tuple[Fine, Array]:
        """The sums over the steps begin, …, end of one cell, and κ of each."""
        late = begin % self.size > 0
        head, rest = (
            np.where(late, since[begin], until[end])
            for since, until in zip(self.since, self.until, strict=True)
        )
        worst = np.ones(len(begin))
        inside = np.flatnonzero(late & ((end + 1) % self.size > 0))
        if inside.size:
            (whole, more), (beyond, less) = (
                [sums[at] for sums in self.since] for at in (begin[inside], end[inside] + 1)
            )
            head[inside], lost = two_sum(whole, -beyond)
            rest[inside] = lost + (more - less)
            worst[inside] = np.where(whole > 0.0, whole / head[inside], 1.0)
        return Fine.of(head, _over(rest, head), 2 * self.power[begin // self.size]), worst


_POWERS = 1 << 40  # exponents of two are within these bounds
_DEEP = 400  # those in one cell differ by no more
_EXTRA = 16  # operations beside those of every step
_REACH = 2.0**22  # κ times the steps, at most
MOST_STEPS = (1 << 22) - _EXTRA
_AT_ONCE = 1 << 17  # parts of cells
_ROUND = 1.0 + 2.0**-50


class _Parts(NamedTuple):
    """The steps of one case, cut at the ends of cells and blocks, and before demands. `begin`: the first step of
    each part. `block`: the block that it is in, −1 for none. `at`: the part that each demand begins."""

    begin: Integers
    end: Integers
    block: Integers
    at: Integers


class Doubles:
    """Replays payments for the same slopes and noises, in cells of `size` steps."""

    def __init__(self, steps: Steps, size: int) -> None:
        self.steps, self.later = steps, products_after(steps.c)
        self.cells = Cells(steps.sigma, self.later, size)

    def costs(self, cases: Sequence[Payments]) -> Iterator[Any | None]:
        """What each costs, a ball that is not below it, or None where it is open whether it clears."""
        some: list[tuple[Payments, _Parts]] = []
        count = 0
        for paid in cases:
            in_time()
            parts = self._parts(paid)
            some.append((paid, parts))
            count += len(parts.begin)
            if count >= _AT_ONCE:
                yield from self._together(some)
                some, count = [], 0
        if some:
            yield from self._together(some)

    def _parts(self, paid: Payments) -> _Parts:
        t, size = len(self.steps.c), self.cells.size
        cells = np.arange(paid.tau + size - paid.tau % size, t, size)
        marks = np.concatenate(([paid.tau, min(paid.first, t)], cells, paid.ends + 1, paid.at))
        # Mostly in order already: `np.unique` would not make use of that.
        marks = np.sort(marks[(marks >= paid.tau) & (marks < t)], kind="stable")
        begin = marks[np.append(True, marks[1:] > marks[:-1])]
        block = np.searchsorted(paid.ends, begin)
        block[(begin < paid.first) | (block == len(paid.ends))] = -1
        return _Parts(begin, np.append(begin[1:], t) - 1, block, np.searchsorted(begin, paid.at))

    def _together(self, some: Sequence[tuple[Payments, _Parts]]) -> Iterator[Any | None]:
        lengths = np.array([len(parts.begin) for _, parts in some])
        width, starts = int(lengths.max()), np.cumsum(lengths) - lengths
        first = (
            np.arange(len(some)) * width + width - lengths
        )  # where a case begins in a table, from the right
        where = np.concatenate([np.arange(a, a + n) for a, n in zip(first, lengths, strict=True)])

        def table(place: Integers, values: Array) -> Array:
            out = np.zeros(len(some) * width)
            out[place] = values
            return out.reshape(len(some), width)

        begin = np.concatenate([parts.begin for _, parts in some])
        end = np.concatenate([parts.end for _, parts in some])
        rooms, worst = self.cells.between(begin, end)
        rates = self._rates(some)
        paid = rooms.times(rates)
        costs = paid.times(rates)
        unit, cost_unit = (
            np.maximum.reduceat(np.where(x.head > 0.0, x.power, -_POWERS), starts)
            for x in (paid, costs)
        )
        row = np.repeat(np.arange(len(some)), lengths)
        pays = np.add(
            *_sums_from(table(where, paid.scaled(unit[row], 0.0)), table(where, paid.tail))
        )
        taken, place, which = self._demands(some, first)
        owed = table(place, taken.scaled(unit[which], _LITTLE))
        owes = np.add(*_sums_from(owed, table(place, taken.tail)))
        start = self._start(some)
        whole = start.scaled(unit, _LITTLE) * (1.0 + start.tail) + owes.reshape(-1)[first]
        clear = (owes * _ROUND <= pays).all(axis=1) & (whole * _ROUND <= pays.reshape(-1)[first])
        known = worst * (len(self.steps.c) + _EXTRA) <= _REACH
        clear &= np.logical_and.reduceat(known, starts)
        spent = table(where, costs.scaled(cost_unit[row], _LITTLE))
        totals = np.add(*_sums(spent, table(where, costs.tail)))[:, -1]
        for fine, total, power in zip(clear, totals.tolist(), cost_unit.tolist(), strict=True):
            yield arb(total) * arb(_ROUND) * arb(2) ** power if fine else None

    def _rates(self, some: Sequence[tuple[Payments, _Parts]]) -> Fine:
        """λ of the block of every part, 0 where it is in none."""
        counts = [len(paid.q) for paid, _ in some]
        offsets = np.cumsum(counts) - counts
        q = np.concatenate([paid.q for paid, _ in some])
        shift = np.concatenate([paid.shift for paid, _ in some])
        ends = np.concatenate([paid.ends for paid, _ in some])
        unit = np.repeat([paid.unit for paid, _ in some], counts)
        rates = Fine.of(q, 0.0, shift).over(Fine.of(unit)).over(self.later.at(ends))
        blocks = zip(some, offsets, strict=True)
        which = [np.where(p.block < 0, len(q), p.block + i) for (_, p), i in blocks]
        none = Fine(
            np.append(rates.head, 0.0), np.append(rates.tail, 0.0), np.append(rates.power, 0)
        )
        return none.at(np.concatenate(which))

    def _demands(
        self, some: Sequence[tuple[Payments, _Parts]], first: Integers
    ) -> tuple[Fine, Integers, Integers]:
        """s·W of every demand from τ on, its place in a table, and its case."""
        at = np.concatenate([paid.at for paid, _ in some])
        owed = np.concatenate([paid.owed for paid, _ in some])
        which = np.repeat(np.arange(len(some)), [len(paid.at) for paid, _ in some])
        place = np.concatenate([parts.at for _, parts in some]) + first[which]
        own = at >= np.array([paid.tau for paid, _ in some])[which]
        return Fine.of(owed[own]).times(self.later.at(at[own])), place[own], which[own]

    def _start(self, some: Sequence[tuple[Payments, _Parts]]) -> Fine:
        """What the distance at τ amounts to at the end, of every case."""
        tau = np.array([paid.tau for paid, _ in some])
        moved = Fine.of(np.array([paid.distance for paid, _ in some]))
        return moved.times(Fine.of(self.steps.c[tau])).times(self.later.at(tau))


_LITTLE = 2.0 ** (1 - _FAR)


class Claim(NamedTuple):
    """Payments that are said to cost at most μ², with `besides`, a ball."""

    paid: Payments
    mu: float
    besides: Any = 0


class Replay:
    """Checks payments for the same steps. `period`: of the steps that use a record, at which sums are cut."""

    def __init__(self, steps: Steps, period: int = 1) -> None:
        self.steps, self.period = steps, period

    def check(self, claims: Sequence[Claim]) -> None:
        """Refuse unless all of them clear and cost no more than is said."""
        left = list(claims)
        if len(self.steps.c) <= MOST_STEPS:
            for size in {min(self.period, len(self.steps.c)): None, 1: None}:
                left = self._open(left, size)
        for claim in left:
            cost = claim.besides + replayed(self.steps, claim.paid)
            check_cost(cost, claim.mu, f"step {len(self.steps.c)}")

    def _open(self, claims: list[Claim], size: int) -> list[Claim]:
        """Those of the claims that doubles leave open."""
        within = [c for c in claims if np.all((c.paid.shift > -_POWERS) & (c.paid.shift < _POWERS))]
        if not within:
            return claims
        try:
            with np.errstate(all="ignore"):
                costs = list(Doubles(self.steps, size).costs([c.paid for c in within]))
        except OutOfReach:
            return claims
        proven = {
            id(c)
            for c, cost in zip(within, costs, strict=True)
            if cost is not None and c.besides + cost <= arb(c.mu) * arb(c.mu)
        }
        return [c for c in claims if id(c) not in proven]
