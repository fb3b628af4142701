"""What payments in blocks cost, and whether they clear.

Step k takes a distance z to max(0, c_k·z + s_k − a_k). With W_k the product of the slopes after step k, the
last distance is 0 if and only if from every step on the payments a_j·W_j add up to at least the demands
s_j·W_j, of which the distance at the start is one. A block that ends at step e and pays at the slope q pays
a_k = q·σ_k²·W_k/W_e. With λ = q/W_e, what some of its steps pay adds up to λ·Σ(σ_k·W_k)², and costs λ times
that.

All these are products, quotients and sums of numbers ≥ 0. They are kept as head·(1 + tail)·2^power: head is
what doubles make of them, and tail adds up what every operation lost, relative to its result. Each loss is
computed itself, so that what is unknown is of second order.

**Lemma.** Let ν = n·2^-53, n the number of steps and 16 more. Let every difference of two sums be at least
1/κ of the first, and κν ≤ 2^-31. Then all that is compared is known to a relative 2^-54.

*Proof.* An operation with the result h·(1 + η) has |η| ≤ u = 2^-53. η is known to a relative 2u: `two_sum`
and `two_product` are exact, and one division follows. Second orders that are far smaller are left out.

1. W is a product of n heads. Σ|η| ≤ 1.1ν, and Σ η is added up to ν² or so. Π(1 + η) is exp(Σ η) but for nu²,
   and exp(x) is 1 + x but for x². So W is known to 4ν².
2. (σW)² has a tail below 2.5ν. It is known to 13ν², since (1 + x)(1 + y) is 1 + x + y but for xy.
3. A sum of these over part of a cell loses at most ν of itself on the way. These losses and the tails times
   heads are at most 3.5ν of it, and are added up to ν of that. So it is known to 18ν².
4. A difference of two such sums is known to 40κν², with a tail below 8κν.
5. λ, a quotient, has a tail below 2.5ν and is known to 8ν².
6. Its product with a difference, and once more with λ, have tails below 13κν. They are known to (40 + 16)κν²
   and to what step 2 says of products; sums of them as in step 3. Together that is below 256(κν)² ≤ 2^-54. ∎

What is 2^-900 of the largest payment or less counts as 0 where it is paid, and as 2^-899 of it where it is
owed; of costs it counts as 2^-899 of the largest. Payments have to exceed demands by a relative 2^-50, and
costs are raised by 2^-50: that is more than the 2^-54 on either side and the six roundings of a comparison,
of 2^-53 each. What all this leaves open is replayed in balls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from pabi.numbers.encoding import read_floats, read_integers
from pabi.verification.arithmetic import (
    Refused,
    in_time,
    integer,
    nonnegative,
    positions,
    timed,
)
from pabi.verification.roundings import (
    FAR,
    POWERS,
    Array,
    Fine,
    Integers,
    OutOfReach,
    over,
    products_after,
    sums_from,
    sums_until,
    two_product,
    two_sum,
)

# Payments, as a case states them.


class PaidBlocks(NamedTuple):
    """Payments in blocks from `distance` before step `tau`, and the demands that they pay for (0-based).

    Block i ends at step `ends[i]`, the first begins at step `first`; each pays at the slope q·2^shift/unit of
    its last step. The step `at[i]` demands `owed[i]`, each step once.
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
) -> PaidBlocks:
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
    return PaidBlocks(tau, distance, first, ends, q, shift, unit, at, owed)


class RoundedSteps(NamedTuple):
    """Slopes and sensitivities that are not below those of the steps, and noises that are not above them."""

    c: Array
    s: Array
    sigma: Array


# In balls: step by step.


def replayed(steps: RoundedSteps, paid: PaidBlocks) -> Any:
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


class Cells:
    """Sums of (σ·W)² over parts of cells of `size` steps each."""

    def __init__(self, sigma: Array, later: Fine, size: int) -> None:
        count, t = -(-len(sigma) // size), len(sigma)
        noise = Fine.of(sigma).times(later)
        padding = (0, count * size - t)
        head, tail = (np.pad(x, padding).reshape(count, size) for x in (noise.head, noise.tail))
        power = np.pad(noise.power, padding).reshape(count, size)
        some = head > 0.0
        largest = np.where(some, power, -POWERS).max(axis=1)
        self.size, self.power = size, np.where(some.any(axis=1), largest, 0)
        apart = power - self.power[:, None]
        if ((apart < -_DEEP) & some).any():
            raise OutOfReach
        here = np.ldexp(head, np.clip(apart, -_DEEP, 0).astype(np.int32))
        square, lost = two_product(here, here)
        tails = 2.0 * tail + over(lost, square)
        self.until = [x.reshape(-1) for x in sums_until(square, tails)]
        self.since = [x.reshape(-1) for x in sums_from(square, tails)]

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
        return Fine.of(head, over(rest, head), 2 * self.power[begin // self.size]), worst


_DEEP = 400  # those in one cell differ by no more
_EXTRA = 16  # operations beside those of every step
_REACH = 2.0**22  # κ times the steps, at most
MOST_STEPS = (1 << 20) - _EXTRA
_AT_ONCE = 1 << 17  # parts of cells, or demands and blocks
_ROUND = 1.0 + 2.0**-50


class _Parts(NamedTuple):
    """The steps of one case, cut at the ends of cells and blocks, and before demands.

    `begin`, `end`: the first and the last step of each part. `block`: the block that it is in, −1 for none.
    `at`: the part that each demand begins.
    """

    begin: Integers
    end: Integers
    block: Integers
    at: Integers


class _Places(NamedTuple):
    """Where numbers stand in a table that has a row of `width` for each case, filled from the right: a row
    begins in column `first`."""

    row: Integers
    column: Integers
    first: Integers
    width: int

    @classmethod
    def of(cls, lengths: Integers) -> _Places:
        """Those of so many numbers in each row, one after another."""
        width, row = int(lengths.max()), np.repeat(np.arange(len(lengths)), lengths)
        ends = np.cumsum(lengths)
        return cls(row, np.arange(len(row)) + (width - ends)[row], width - lengths, width)

    def sums_from(self, numbers: Fine, unit: Integers, least: float) -> Array:
        """The sums from each column on, in units of 2^unit of the row."""
        heads = self._table(numbers.scaled(unit[self.row], least))
        sums, rest = sums_from(heads, self._table(numbers.tail))
        return np.asarray(sums + rest)

    def _table(self, values: Array) -> Array:
        out = np.zeros((len(self.first), self.width))
        out[self.row, self.column] = values
        return out


class Doubles:
    """Replays payments for the same slopes and noises, in cells of `size` steps."""

    def __init__(self, steps: RoundedSteps, size: int) -> None:
        self.steps, self.later = steps, products_after(steps.c)
        self.cells = Cells(steps.sigma, self.later, size)

    def costs(self, cases: Sequence[PaidBlocks]) -> Iterator[Any | None]:
        """What each costs, a ball that is not below it, or None where it is open whether it clears."""
        some: list[tuple[PaidBlocks, _Parts]] = []
        width = 0
        for paid in cases:
            in_time()
            parts = self._parts(paid)
            width = max(width, len(parts.begin))
            if some and width * (len(some) + 1) > _AT_ONCE:
                yield from self._together(some)
                some, width = [], len(parts.begin)
            some.append((paid, parts))
        if some:
            yield from self._together(some)

    def _parts(self, paid: PaidBlocks) -> _Parts:
        t, size = len(self.steps.c), self.cells.size
        cells = np.arange(paid.tau + size - paid.tau % size, t, size)
        marks = np.concatenate(([paid.tau, min(paid.first, t)], cells, paid.ends + 1, paid.at))
        # Mostly in order already: `np.unique` would not make use of that.
        marks = np.sort(marks[(marks >= paid.tau) & (marks < t)], kind="stable")
        begin = marks[np.append(True, marks[1:] > marks[:-1])]
        block = np.searchsorted(paid.ends, begin)
        block[(begin < paid.first) | (block == len(paid.ends))] = -1
        return _Parts(
            begin=begin,
            end=np.append(begin[1:], t) - 1,
            block=block,
            at=np.searchsorted(begin, paid.at),
        )

    def _together(self, some: Sequence[tuple[PaidBlocks, _Parts]]) -> Iterator[Any | None]:
        lengths = np.array([len(parts.begin) for _, parts in some])
        starts = np.cumsum(lengths) - lengths
        places = _Places.of(lengths)
        begin = np.concatenate([parts.begin for _, parts in some])
        rooms, worst = self.cells.between(begin, np.concatenate([parts.end for _, parts in some]))
        near = np.logical_and.reduceat(worst * (len(self.steps.c) + _EXTRA) <= _REACH, starts)
        rates = self._rates(some)
        paid = rooms.times(rates)
        del begin, rooms, worst
        unit = paid.largest(starts)
        pays = places.sums_from(paid, unit, 0.0)
        costs = paid.times(rates)
        del paid, rates
        cost_unit = costs.largest(starts)
        totals = places.sums_from(costs, cost_unit, _LITTLE)[:, 0].tolist()
        del costs
        owed, at = self._demands(some, places)
        owes = at.sums_from(owed, unit, _LITTLE)
        start = self._start(some)
        whole = start.scaled(unit, _LITTLE) * (1.0 + start.tail) + owes[:, 0]
        clear = (owes * _ROUND <= pays).all(axis=1) & (whole * _ROUND <= pays[:, 0]) & near
        for fine, total, power in zip(clear, totals, cost_unit.tolist(), strict=True):
            yield arb(total) * arb(_ROUND) * arb(2) ** power if fine else None

    def _rates(self, some: Sequence[tuple[PaidBlocks, _Parts]]) -> Fine:
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
        self, some: Sequence[tuple[PaidBlocks, _Parts]], places: _Places
    ) -> tuple[Fine, _Places]:
        """s·W of every demand from τ on, and where it stands."""
        at = np.concatenate([paid.at for paid, _ in some])
        owed = np.concatenate([paid.owed for paid, _ in some])
        row = np.repeat(np.arange(len(some)), [len(paid.at) for paid, _ in some])
        column = np.concatenate([parts.at for _, parts in some]) + places.first[row]
        own = at >= np.array([paid.tau for paid, _ in some])[row]
        fine = Fine.of(owed[own]).times(self.later.at(at[own]))
        return fine, places._replace(row=row[own], column=column[own])

    def _start(self, some: Sequence[tuple[PaidBlocks, _Parts]]) -> Fine:
        """What the distance at τ amounts to at the end, of every case."""
        tau = np.array([paid.tau for paid, _ in some])
        moved = Fine.of(np.array([paid.distance for paid, _ in some]))
        return moved.times(Fine.of(self.steps.c[tau])).times(self.later.at(tau))


_LITTLE = 2.0 ** (1 - FAR)


class Claim(NamedTuple):
    """Payments that cost, with `besides`, a ball, at most μ² as is said; None where nothing is."""

    paid: PaidBlocks
    mu: float | None = None
    besides: Any = 0


class Replay:
    """Replays payments for the same steps. `period`: of those that use a record, at which sums are cut."""

    def __init__(self, steps: RoundedSteps, period: int = 1) -> None:
        self.steps, t = steps, len(steps.c)
        sizes = {min(period, t): None, 1: None} if t <= MOST_STEPS else {}
        self._doubles = [cache(partial(_doubles, steps, size)) for size in sizes]

    def costs(self, claims: Iterable[Claim]) -> list[Any]:
        """What each costs, a ball that is not below it. Refused where one does not clear."""
        costs: list[Any] = []
        some: list[Claim] = []
        held = 0
        for claim in claims:
            some.append(claim)
            held += len(claim.paid.at) + len(claim.paid.q) + 1
            if held > _AT_ONCE:
                costs += self._costs(some)
                some, held = [], 0
        return costs + self._costs(some)

    def _costs(self, claims: list[Claim]) -> list[Any]:
        costs: list[Any] = [None] * len(claims)
        for doubles in self._doubles:
            left = [i for i, cost in enumerate(costs) if cost is None]
            if left and (replay := doubles()) is not None:
                some = _in_doubles(replay, [claims[i] for i in left])
                for i, cost in zip(left, some, strict=True):
                    costs[i] = cost
        return [
            claim.besides + replayed(self.steps, claim.paid) if cost is None else cost
            for claim, cost in zip(claims, costs, strict=True)
        ]


def _doubles(steps: RoundedSteps, size: int) -> Doubles | None:
    """None where doubles do not reach."""
    try:
        with np.errstate(all="ignore"):
            return Doubles(steps, size)
    except OutOfReach:
        return None


def _in_doubles(replay: Doubles, claims: list[Claim]) -> list[Any]:
    """What each of the claims costs; None where doubles leave open whether it clears, or costs so little."""
    costs: list[Any] = [None] * len(claims)
    shifts = [claim.paid.shift for claim in claims]
    few = [i for i, x in enumerate(shifts) if np.all((x > -POWERS) & (x < POWERS))]
    try:
        with np.errstate(all="ignore"):
            some = list(replay.costs([claims[i].paid for i in few]))
    except OutOfReach:
        return costs
    for i, cost in zip(few, some, strict=True):
        mu = claims[i].mu
        if cost is not None and (mu is None or claims[i].besides + cost <= arb(mu) * arb(mu)):
            costs[i] = claims[i].besides + cost
    return costs
