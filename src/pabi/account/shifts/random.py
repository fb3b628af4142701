"""Shifts under random batches: distances that are drawn, and payments for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.account.facts.sampled import Blocks, RecordFactor, SampledRun
from pabi.numbers import encoding
from pabi.numbers.locking import tick
from pabi.numbers.rounding import Array, fraction_up
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import MixtureLaw, log_moments

# Shares 1 - u of a step's noise that may hide the shift; β = 1/√u multiplies the record's factor.
_FEW = np.concatenate([[0.0], np.geomspace(1e-5, 0.05, 10), np.linspace(0.1, 0.9, 9)])
_MANY = np.concatenate([[0.0], np.geomspace(1e-4, 0.04, 40), np.linspace(0.05, 0.97, 93)])
_LEVELS, _ROUNDS = 25, 12  # of the part of a pull that is charged for, and to settle on them
_SUMS = 1e-11  # above the roundings of products and sums over all steps of a window, relative
_STEP = 1.0 + 1e-13  # above those of one step
_RANGE, _KNOTS, _TABLE = 7.0, 100, 4000  # of log μ, where moments are computed and interpolated


def price(factor: RecordFactor, probability: float, power: float, mus: Array) -> Array:
    """2·log-moment/(λ(λ+1)) of the factor, shape (m,), at one place, where with the record drawn the sums
    are μ > 0 apart."""
    if probability == 1.0:
        return np.square(mus)
    laws = [_law(factor, mu, probability) for mu in mus.tolist()]
    return np.asarray(2.0 / (power * (power + 1.0)) * log_moments(laws, power))


def _law(factor: RecordFactor, mu: float, p: float) -> MixtureLaw:
    """The losses of the factor where with the record drawn the sums are `mu` > 0 apart."""
    match factor:
        case RecordFactor.PRESENT:
            return MixtureLaw.of(Half.single(mu, mu, p))
        case RecordFactor.DISPLACING:
            return MixtureLaw(Half.single(mu, mu, p), Half.single(mu, mu, p))
        case RecordFactor.REPLACED:
            return MixtureLaw(Half.single(0.5 * mu, mu, p), Half.single(0.5 * mu, mu, p))
        case RecordFactor.ZEROED:
            return MixtureLaw(Half.single(2.0 * mu, mu, p), Half.single(mu, mu, p))
        case _:
            assert_never(factor)


def prices_below(
    factor: RecordFactor, probability: float, power: float, mus: Array, close: float = 1e-3
) -> Array:
    """`price`, or a little less: that of each of `mus` (m,) > 0 rounded down by `close` of its logarithm."""
    level, index = np.unique(np.floor(np.log(mus) / close), return_inverse=True)
    return price(factor, probability, power, np.exp(level * close))[index]


class Cost:
    """The price of the record's factor with parameter μ, interpolated."""

    def __init__(self, factor: RecordFactor, probability: float, power: float, most: float) -> None:
        from scipy.interpolate import CubicSpline

        top = math.log(min(max(most, 1e-6), 60.0))
        knots = np.linspace(top - _RANGE, top, _KNOTS)
        moments = price(factor, probability, power, np.exp(knots))
        ratio = np.log(np.maximum(moments, 1e-300)) - 2.0 * knots
        self._log_mu = np.linspace(top - _RANGE, top, _TABLE)
        self._log_ratio = CubicSpline(knots, ratio)(self._log_mu)

    def __call__(self, mu: Array) -> Array:
        """The cost of each parameter, 0 for 0; of the shape of `mu`."""
        with np.errstate(divide="ignore", over="ignore"):
            log_mu = np.log(mu)
            ratio = np.interp(log_mu, self._log_mu, self._log_ratio)
            return np.where(mu > 0.0, np.exp(np.minimum(2.0 * log_mu + ratio, 700.0)), 0.0)


class Split(NamedTuple):
    """How a distance is paid off over blocks: the cost, the shares 1 - u of each block's noise, the
    Gaussian parameter √Σ(αa/σ)², and the distance at the beginning of each block."""

    cost: float
    share: Array
    gaussian: float
    before: Array


@dataclass(frozen=True)
class PayOff:
    """Paying a distance to zero over the blocks, while every step with data costs a record factor.

    `pulls(before)`: how far apart the record's pulls can be at β = 1, over the noise, one per block, from the
    distance before the block. `doubled`: 2 where both runs are shifted, each by its own payment.
    """

    cost: Cost
    pulls: Callable[[Blocks, Array], Array]
    doubled: float = 1.0

    def best(self, blocks: Blocks, distance: float) -> Split:
        """The cheapest way found to pay off `distance` over `blocks`."""
        before = np.full(blocks.length.size, distance)
        if distance == 0.0 or blocks.contraction == 0.0:  # it vanishes by itself, perhaps late
            none = np.zeros(before.size)
            before = distances(blocks, none, distance, 0.0)
            total = float(self.cost(self.pulls(blocks, before)) @ blocks.length)
            return Split(total, none, 0.0, before)
        demand = self.doubled * distance * blocks.contraction
        if not demand < 1e150:  # its square overflows
            return Split(math.inf, np.zeros(before.size), math.inf, before)
        splits = []
        for _ in range(2):
            pulls = self.pulls(blocks, before)
            share = self._shares(blocks, pulls, demand)
            room = float(blocks.room @ share)
            gaussian = demand / math.sqrt(room) if room > 0.0 else math.inf
            before = distances(blocks, share, distance, room)
            after = self.pulls(blocks, before)
            with np.errstate(divide="ignore", invalid="ignore"):
                records = np.where(after > 0.0, after / np.sqrt(1.0 - share), 0.0)
            total = gaussian * gaussian + float(self.cost(records) @ blocks.length)
            splits.append(Split(total, share, gaussian, before))
        return min(splits, key=lambda split: split.cost)

    def _shares(self, blocks: Blocks, pulls: Array, demand: float) -> Array:
        """The share of every block's noise that hides the shift, (blocks,).

        For one price of room the best share is chosen block by block. The right price is bisected
        with few shares to choose from, then closer by, with many where it matters.
        """
        room, idle = blocks.room, pulls == 0.0  # with no record to hide all noise hides the shift
        active, rest = np.flatnonzero(~idle), float(room @ np.where(idle, 1.0, 0.0))
        share = np.where(idle, 1.0, 0.0)
        best, low, high = math.inf, 0.0, math.inf
        for shares, trials in ((_FEW, 13), (_MANY, 8)):
            weights = room[active]
            beta = 1.0 / np.sqrt(1.0 - shares)
            factors = self.cost(beta * pulls[active, None]) * blocks.length[active, None]
            base = factors[:, 0].sum() if active.size else 0.0
            rows = np.arange(active.size)
            if low == 0.0:  # at which the first block takes its first share
                with np.errstate(divide="ignore", over="ignore"):
                    first = (factors[:, 1] - factors[:, 0]) / (weights * shares[1])
                low = float(np.min(first, initial=math.inf)) * (1.0 + 1e-9)
                if not 0.0 < low < math.inf:
                    return share
                high = min(low * 1e16, 1e300)
            # The right price is (demand/chosen)², and the room chosen grows with the price.
            for _ in range(trials):
                price = math.sqrt(low) * math.sqrt(high)
                choice = np.argmin(factors - price * weights[:, None] * shares, axis=1)
                chosen = rest + float(weights @ shares[choice])
                if chosen > 0.0:
                    extra = float(factors[rows, choice].sum()) - base
                    total = demand * demand / chosen + extra
                    if total < best:
                        best, best_price = total, price
                        share = np.where(idle, 1.0, 0.0)
                        share[active] = shares[choice]
                if chosen > 0.0 and math.sqrt(price) > demand / chosen:
                    high = price
                else:
                    low = price
            if best == math.inf:
                return share
            low, high = best_price / 3.0, best_price * 3.0
            active = active[share[active] > 0.0]
            best = math.inf
        return share


def distances(blocks: Blocks, share: Array, distance: float, room: float) -> Array:
    """The largest distance in each block before a step, when every step pays in proportion to its room,
    rounded up. (Within a block of equal shares it falls or is convex, so that it is that at one end.)

    With W the product of the slopes up to a block's beginning, z = distance·W·(1 - the part of the room
    that lies before it).
    """
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.append(0.0, np.cumsum(blocks.length * np.log(blocks.c)))[:-1]
        grown = np.exp(np.minimum(logs, 700.0))
    used = np.append(0.0, np.cumsum(blocks.room * share))[:-1] / room if room > 0.0 else 0.0
    before = distance * grown * (np.maximum(1.0 - used, 0.0) + _SUMS) * (1.0 + _SUMS)
    return np.asarray(np.maximum(before, np.append(before[1:], 0.0)))


class LeadIn(NamedTuple):
    """The part of the record's pull that each of the steps before a pay-off charges for, and how the
    distance that the rest leaves is paid off."""

    pulls: Array
    split: Split
    cost: float


def lead_in(
    pay_off: PayOff,
    blocks: Blocks,
    steps: tuple[Array, Array, Array],
    start: float,
    diameter: float,
) -> LeadIn | None:
    """The best e of steps z ↦ cz + s - e, from the distance `start` on, before `blocks`.

    `steps`: c, s and σ of each, arrays (m,). At the price of a distance after them, twice the pay-off's
    Gaussian cost by the distance, every step by itself has a best e; price and distance settle in a few
    rounds. None if the distance overflows.
    """
    c, s, sigma = steps
    parts = np.linspace(0.0, 1.0, _LEVELS)
    costs = pay_off.cost(parts * (s / sigma)[:, None])
    growth = np.cumprod(np.append(1.0, c[::-1]))[::-1]  # from each step to the end
    level, every, best = np.zeros(s.size, dtype=np.int64), np.arange(s.size), None
    for _ in range(_ROUNDS):
        pulls = parts[level] * s
        left = (start * float(growth[0]) + float(growth[1:] @ (s - pulls))) * (1.0 + _SUMS)
        if not left < math.inf:
            break
        z = min(diameter, left)
        split = pay_off.best(blocks, z)
        total = split.cost + float(costs[every, level].sum())
        if best is None or total < best.cost:
            best = LeadIn(pulls, split, total)
        price = 2.0 * split.gaussian**2 / z if z > 0.0 else 0.0
        left_over = (growth[1:] * s)[:, None] * (1.0 - parts)
        level = (level + np.argmin(costs + price * left_over, axis=1) + 1) // 2  # half-way
    return best


class Descent(NamedTuple):
    """Payments of a two-sided shift step by step: payments, and the distances before each."""

    cost: float
    payments: Array
    before: Array


def two_sided(
    c: float,
    s: float,
    apart: Callable[[int], float],
    steps: int,
    final: Callable[[Array], Array],
    stage: Callable[[Array, Array], Array],
    most: int = 4000,
) -> Descent:
    """Payments a ≤ s of equal steps z ↦ cz + s - a, found from the last backwards (dynamic programming
    on a grid of z), so that stage(z, a) summed, and final(z) after them, is least. After k of all
    `steps` steps, as long as none has paid, z is `apart(k)`."""
    points, highest = 97, apart(steps)
    grid = highest * np.linspace(0.0, 1.0, points) ** 1.5
    actions = s * np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 40)])
    value = final(grid)
    after = np.minimum(highest, c * grid[:, None] + s - actions)
    price = stage(grid[:, None], actions[None, :])
    policies = []
    for k in range(min(steps, most)):
        if k % 100 == 0:
            tick()
        options = price + np.interp(after, grid, value)
        best = np.argmin(options, axis=1)
        following = options[np.arange(points), best]
        if best[-1] == 0:
            break
        policies.append(actions[best])
        value = following
    z, payments, before, cost = apart(steps - len(policies)), [], [], 0.0
    for policy in reversed(policies):
        a = min(s, float(np.interp(z, grid, policy)))
        payments.append(a)
        before.append(z)
        cost += float(stage(np.array([z]), np.array([a]))[0])
        z = min(highest, max(c * z, c * z + s - a) * _STEP)
    return Descent(
        cost + float(final(np.array([z]))[0]), np.array(payments), np.array([*before, z])
    )


# How far batches drawn at random have moved the two runs apart: the law of a distance.
#
# A record that each of many batches holds with probability p has moved the runs by Σ g_k·V_k before a
# step, V_k being 1 where the batch of step k holds it and g_k what that adds. This is far below its
# largest value, Σ g_k, where p is small. Its tails are bounded by P(Σ g_k·V_k > y) ≤ e^(K(t) - ty) for
# any t > 0, with K(t) = Σ log(1 - p + p·e^(t·g_k)) (Chernoff).


_LEAST, _MOST = 1e-4, 80.0  # of t times the largest g
_TILTS = 160  # of which those are taken whose tails are wanted
# -log of the tails: close together where most of the mass is, down to 1e-17.
_DEPTHS = np.concatenate([np.linspace(0.05, 3.0, 14), np.geomspace(3.4, 40.0, 18)])
_MARGIN = 1e-9  # of tails, relative: over the roundings of the sums in their exponents


@dataclass(frozen=True, eq=False)
class DrawnDistance:
    """A law that is at least as large: with probability `weights[j]` (j,) the distance is `values[j]`, which
    increase up to the largest distance there may be.

    `lengths`: the blocks of steps right before, of which every draw counts. `tilts`: the t of every value
    but the last.
    """

    lengths: NDArray[np.int64]
    tilts: Array
    values: Array
    weights: Array

    def to_dict(self) -> dict[str, Any]:
        """For a certificate."""
        return {
            "lengths": [int(n) for n in self.lengths],
            "tilts": encoding.floats(self.tilts),
            "distances": encoding.floats(self.values[:-1]),
        }


def drawn_distance(view: SampledRun, steps: int) -> DrawnDistance | None:
    """The law of the distance after the first `steps` steps; None where it says no more than the largest."""
    blocks, p = view.before(steps), view.probability
    largest = view.distance(steps, view.factor.change)
    first = steps - blocks.steps
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # In a block of equal steps the last one counts most, or the first one if they expand.
        grown = np.exp(blocks.later) * np.maximum(1.0, blocks.c ** (blocks.length - 1.0))
        rest = view.distance(first, view.factor.change) * blocks.contraction if first else 0.0
        g = view.factor.change * blocks.s * grown * (1.0 + _MARGIN)
    if not (0.0 < float(g.max(initial=0.0)) < math.inf and rest < largest < math.inf):
        return None
    t = np.geomspace(_LEAST, _MOST, _TILTS)[:, None] / float(g.max())
    with np.errstate(under="ignore"):
        more = p * np.expm1(t * g)
        cumulant = np.log1p(more) @ blocks.length
        mean = (p * g * np.exp(t * g) / (1.0 + more)) @ blocks.length
    depth = t[:, 0] * mean - cumulant
    chosen = np.unique(np.minimum(np.searchsorted(depth, _DEPTHS), _TILTS - 1))
    chosen = chosen[rest + mean[chosen] < largest]
    if not chosen.size:
        return None
    values, tilts = rest + mean[chosen], t[chosen, 0]
    tails = np.exp(cumulant[chosen] - tilts * (values - rest)) * (1.0 + _MARGIN)
    tails = np.minimum.accumulate(np.minimum(tails, 1.0))
    weights = np.append(1.0, tails) - np.append(tails, 0.0)
    weights[0] = fraction_up(1 - sum(map(Fraction, weights[1:].tolist()), Fraction(0)))
    return DrawnDistance(blocks.length, tilts, np.append(values, largest), weights)
