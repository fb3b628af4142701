"""Where to start paying: the best start for linear moduli, and a first plan for any.

Starting at τ costs J(τ): the two runs may be a diameter apart there, and that and all later demands have to
be paid. J is found for every τ at once, up to a lower bound that a few solves make exact.

Let h be a step at which some solved path has distance zero, E the cost of its payments from h on and q its
slope there. Every path from an earlier τ has to end like a path through or above that point, and the cost of
its end is convex with derivative 2q at it, so with ΔP what is to be paid between τ and h, and Δx the capacity
there,

    J(τ) ≥ E + ΔP²/Δx  if ΔP/Δx ≤ q,   J(τ) ≥ E + 2qΔP − q²Δx  otherwise,

with equality in the first case when h is where the best path from τ first returns to zero. So: solve the τ
with the least bound, add the bounds of its path, drop every τ whose bound exceeds the best cost, and repeat
until the least bound is attained. The loop ends at the exact optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.account.facts.step_moduli import Shapes
from pabi.account.shifts.isotonic import BlockPayments, scaled, segments_of, solve
from pabi.describe.iteration import Steps
from pabi.numbers.locking import tick
from pabi.numbers.rounding import TINY, Array, power_of_two_near

_ATTAINED = 1.0 - 1e-12  # a bound this close to the best cost cannot be told from it by doubles
_HUGE = 1e250


class Start(NamedTuple):
    """Start before step `tau` (0-based) at distance `distance`, and pay as `payments` says.

    `payments.first` and `payments.ends` count from the first step of the run. Slopes of payments are
    per `unit` of length, a power of two.
    """

    tau: int
    distance: float
    payments: BlockPayments
    unit: float = 1.0

    def after(self, steps: int) -> Start:
        """The same of a run that takes so many steps before."""
        payments = self.payments
        moved = payments._replace(first=payments.first + steps, ends=payments.ends + steps)
        return self._replace(tau=self.tau + steps, payments=moved)


def best_start(steps: Steps, diameter: float = math.inf, start: float = 0.0) -> Start:
    """The cheapest feasible start and its payments.

    `steps`: slopes, sensitivities and noises, (t,) each. `diameter`: D, ∞ if none. `start`: w_0.
    """
    # What is undefined bounds nothing.
    c, s = (np.where(np.isnan(x), math.inf, x) for x in (steps.c, steps.s))
    sigma = np.where(np.isnan(steps.sigma), 0.0, steps.sigma)
    unit = power_of_two_near(float(sigma.max()))
    with np.errstate(over="ignore", under="ignore"):
        v = np.square(sigma / unit)
        s = np.where(s > 0.0, np.maximum(s / unit, TINY), 0.0)
    best = _best_start(c, s, v, diameter / unit, max(start / unit, TINY) if start else 0.0)
    distance = start if best.tau == 0 else diameter
    return best._replace(distance=distance, unit=unit)


def _best_start(c: Array, s: Array, v: Array, diameter: float, start: float) -> Start:
    best = Start(0, start, solve(c, s, v, start))
    if math.isinf(diameter) or best.payments.energy == 0.0:
        return best
    t, zeros = len(c), np.flatnonzero(c == 0.0)
    earliest = int(zeros[-1]) + 1 if zeros.size else 1
    size = 1024
    while True:
        lo = max(earliest, t - size)
        cheaper = _search(c[lo:], s[lo:], v[lo:], diameter, _cost(best.payments))
        if cheaper is not None:
            best = Start(cheaper[0], diameter, cheaper[1]).after(lo)
        # The demands of the window alone bound the cost of every earlier start from below.
        unavoidable = _cost(solve(c[lo:], s[lo:], v[lo:]))
        if lo == earliest or unavoidable >= _cost(best.payments) * _ATTAINED:
            return best
        size *= 4


def _cost(payments: BlockPayments) -> float:
    """μ² without the slack for rounding, which would blur the comparison of close starts."""
    return float(payments.costs.sum()) if math.isfinite(payments.energy) else math.inf


class _Tails(NamedTuple):
    """Per start τ, in units of the distance at τ: what is left to pay and what capacity is left; and
    the product of all slopes from τ on, mantissa·2^exponent. One entry more than there are steps."""

    demand: Array
    capacity: Array
    mantissa: Array
    exponent: NDArray[np.int64]

    def ratio(self, later: NDArray[np.int64], earlier: NDArray[np.int64]) -> Array:
        """The product of the slopes from `later` on over that from `earlier` on, at most 2^1000."""
        mantissa = self.mantissa[later] / self.mantissa[earlier]
        return scaled(mantissa, self.exponent[later] - self.exponent[earlier])


def _tails(c: Array, s: Array, v: Array) -> _Tails:
    n = len(c)
    demand, capacity = np.zeros(n + 1), np.zeros(n + 1)
    mantissa, exponent = np.ones(n + 1), np.zeros(n + 1, dtype=np.int64)
    carry_d, carry_v = 0.0, 0.0
    for segment in segments_of(c, s, v):
        at_start = (segment.relative * c[segment.lo : segment.hi]).astype(np.float64)
        d = np.cumsum(segment.demand[::-1])[::-1].astype(np.float64) + carry_d
        x = np.cumsum(segment.weight[::-1])[::-1].astype(np.float64) + carry_v
        with np.errstate(over="ignore"):
            demand[segment.lo : segment.hi] = d / at_start
            capacity[segment.lo : segment.hi] = x / at_start / at_start
        here, shift = np.frexp(at_start * segment.scale.mantissa)
        mantissa[segment.lo : segment.hi] = here
        exponent[segment.lo : segment.hi] = shift.astype(np.int64) + segment.scale.exponent
        carry_d = min(float(demand[segment.lo]), _HUGE)
        carry_v = min(float(capacity[segment.lo]), _HUGE)
    return _Tails(demand, capacity, mantissa, exponent)


def _search(
    c: Array, s: Array, v: Array, diameter: float, best: float
) -> tuple[int, BlockPayments] | None:
    """The start cheaper than `best` with the least cost, or None."""
    tails = _tails(c, s, v)
    # Where all later steps together are astronomically large in local units, earlier starts cost
    # the same to the last bit.
    large = np.flatnonzero((tails.demand > _HUGE) | (tails.capacity > _HUGE))
    active = np.arange(int(large[-1]) if large.size else 0, len(c))
    bound = _bound(tails, active, diameter, _chain(solve(c, s, v), 0, tails))
    cheapest: tuple[int, BlockPayments] | None = None
    for solved in itertools.count():
        # Where a thousand starts agree to ten digits, the eleventh is not worth a solve of each.
        tolerance = min(1e-9, (1.0 - _ATTAINED) * 2.0 ** (solved // 16))
        keep = bound < best * (1.0 - tolerance)
        active, bound = active[keep], bound[keep]
        if not active.size:
            return cheapest
        i = int(np.argmin(bound))
        tau = int(active[i])
        payments = solve(c[tau:], s[tau:], v[tau:], diameter)
        chain = _chain(payments, tau, tails)
        if _cost(payments) < best:
            best = _cost(payments)
            cheapest = tau, payments._replace(first=payments.first + tau, ends=payments.ends + tau)
        active, bound = np.delete(active, i), np.delete(bound, i)
        bound = np.maximum(bound, _bound(tails, active, diameter, chain))
    raise AssertionError("unreachable")


class _Chain(NamedTuple):
    """The steps h before which a path has distance zero, the end of the run included, with the cost
    of what it pays from there on and its slope there, in units of the distance at h."""

    h: NDArray[np.int64]
    cost: Array
    slope: Array


def _chain(payments: BlockPayments, tau: int, tails: _Tails) -> _Chain:
    t = len(tails.demand) - 1
    h = payments.ends + (tau + 1)
    if not h.size or h[-1] != t:
        h = np.append(h, t)
    cost, slope = np.zeros(len(h)), np.full(len(h), np.inf)
    later = len(payments.q) - 1
    if later > 0:
        cost[:later] = np.cumsum(payments.costs[::-1])[::-1][1:]
        q = np.ldexp(payments.q[1:], np.clip(payments.shift[1:], -3000, 3000).astype(np.int32))
        slope[:later] = q * tails.ratio(h[:later], h[1 : later + 1])
    return _Chain(h, cost, slope)


def _bound(tails: _Tails, tau: NDArray[np.int64], diameter: float, chain: _Chain) -> Array:
    """The best lower bound on J(τ) that the vertices of one path give (see the module).

    That is the bound of the first vertex after τ which the straight line from the start meets from
    above; along a path, once a vertex is met from above all later ones are.
    """
    last = len(chain.h) - 1
    low = np.minimum(np.searchsorted(chain.h, tau, side="right"), last)
    high = np.full_like(low, last)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        above, _ = _line(tails, tau, diameter, chain, middle)
        high = np.where(open_ & above, middle, high)
        low = np.where(open_ & ~above, middle + 1, low)
    return _line(tails, tau, diameter, chain, low)[1]


def _line(
    tails: _Tails, tau: NDArray[np.int64], diameter: float, chain: _Chain, i: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], Array]:
    """Whether the line from each start meets vertex i of the chain from above, and its bound."""
    h = chain.h[i]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = tails.ratio(h, tau)
        pay = diameter + tails.demand[tau] - tails.demand[h] * ratio
        room = tails.capacity[tau] - tails.capacity[h] * ratio * ratio
        q = chain.slope[i] / ratio
        above = pay <= q * room
        extra = np.where(above, pay * pay / room, q * (2.0 * pay - q * room))
    # Where rounding has swallowed the room between τ and h, the cost from h on is what is known.
    return above, chain.cost[i] + np.where((room > 0.0) & (extra > 0.0), extra, 0.0)


# Where to begin to pay, and roughly how much: dynamic programming over distances, from the end.
#
# The least cost of what remains is kept at 0 and on a grid of distances z, and taken to be linear in z²
# between two of them, which is what it is for quadratic costs. What a step owes is then best paid down,
# in every cell of the grid, to r/(1 + Aσ²), A the slope in that cell.


_COARSE, _FINE = 22, 64  # distances on the grid
_DECADES = 5.0  # that they span
_TINY, _SHORT = 32, 20_000  # steps of a window between which the fine grid is looked at as well
_CHUNK = 512  # steps whose moduli are evaluated at once
_LONGER = 6  # windows that many times the best one are not looked at
_LESS = 1.0 - 1e-7  # what counts as a better one
_CLOSE = 1.15  # starts that are looked at as well, if not that much worse


class Rough(NamedTuple):
    """Pay from step `first` on, aiming at the distances `aims` (t − first,) after each step."""

    first: int
    aims: Array


class _Costs(NamedTuple):
    """The least cost from a distance on: `zero` from 0, and in the cells of the grid slope·z² + offset."""

    zero: float
    slope: Array
    offset: Array


class _Grid:
    """Distances, spaced evenly on a logarithmic scale up to `top`."""

    def __init__(self, top: float, points: int) -> None:
        self.z = top * np.logspace(-_DECADES, 0.0, points)
        self.low, self.high = self.z[:-1], self.z[1:]
        self.low_square, self.width = self.low**2, np.diff(self.z**2)

    def cells(self, zero: float, points: Array) -> _Costs:
        """The costs with value `zero` at 0 and `points` at the distances of the grid, ∞ where these are."""
        low = points[:-1]
        slope = (points[1:] - low) / self.width
        offset = low - slope * self.low_square
        if not math.isfinite(points[-1]):
            bad = ~np.isfinite(offset)
            slope[bad], offset[bad] = 0.0, math.inf
        return _Costs(zero, slope, offset)

    def options(self, costs: _Costs, owed: Array, weight: float) -> tuple[Array, Array]:
        """(cost, distance afterwards) of the best in each cell, for each of `owed` (m, 1): (m, cells)."""
        aim = owed * (1.0 / (1.0 + costs.slope / weight))
        np.maximum(aim, self.low, out=aim)
        np.minimum(aim, self.high, out=aim)
        cost = np.maximum(owed - aim, 0.0)
        cost *= cost
        if weight < math.inf:
            cost *= weight
        else:
            cost[cost > 0.0] = math.inf
        cost += aim * aim * costs.slope
        cost += costs.offset
        return cost, aim

    def least(self, costs: _Costs, owed: Array, weight: float) -> Array:
        """The least cost for each of `owed` (m,)."""
        cost, _ = self.options(costs, owed[:, None], weight)
        at_once = owed * owed
        at_once[owed > 0.0] *= weight
        at_once += costs.zero
        return np.asarray(np.minimum(cost.min(axis=1), at_once))

    def step(self, costs: _Costs, owed: float, weight: float) -> float:
        """The best distance to aim at, `owed` > 0."""
        cost, aim = self.options(costs, np.array([[owed]]), weight)
        i = int(cost.argmin())
        return 0.0 if owed * owed * weight + costs.zero <= cost[0, i] else float(aim[0, i])


def roughly(
    shape: Shapes,
    omega: Sequence[Callable[[float], float]],
    s: Array,
    sigma: Array,
    diameter: float,
    apart: Array,
    top: float,
) -> list[Rough]:
    """The best start and path found, and others nearly as good.

    `omega`: the moduli of `shape` one by one. `apart` (t,): how far apart the runs can be before each step;
    `top`: the largest distance that is worth looking at. A coarse grid tells about how long the best window
    is, a fine one goes through windows of such lengths.
    """
    t = shape.steps
    coarse = _search_programming(shape, omega, s, sigma, diameter, apart, _Grid(top, _COARSE))
    if not coarse or not _TINY < t - coarse[0].first <= _SHORT:
        return coarse
    begin = max(0, t - 2 * (t - coarse[0].first) - 50)
    part = shape.between(begin, t)
    rest = (omega[begin:], s[begin:], sigma[begin:], diameter, apart[begin:])
    fine = _search_programming(part, *rest, _Grid(top, _FINE))
    return coarse[:1] + [r._replace(first=r.first + begin) for r in fine]


def _search_programming(
    shape: Shapes,
    omega: Sequence[Callable[[float], float]],
    s: Array,
    sigma: Array,
    diameter: float,
    apart: Array,
    grid: _Grid,
) -> list[Rough]:
    t, points = shape.steps, grid.z.size
    epoch, alike = _epochs(shape, s, sigma)
    with np.errstate(all="ignore"):
        weight = (1.0 / (sigma * sigma)).tolist()
        costs = grid.cells(0.0, np.full(points, math.inf))
        after = _After([costs], epoch)
        starts = np.full(t, math.inf)
        best_at = t
        for k in range(t - 1, -1, -1):
            if (t - 1 - k) % _CHUNK == 0:
                tick()
                begin = max(0, k + 1 - _CHUNK)
                owing = _owing(shape, s, grid.z, apart, begin, k + 1)
            least = grid.least(costs, owing[k - begin], weight[k])
            costs = grid.cells(float(least[-1]), least[:points])
            after.costs.append(costs)
            if apart[k] == diameter or k == 0 or s[k] > 0.0:
                starts[k] = least[points]
                if best_at == t or starts[k] < _LESS * starts[best_at]:
                    best_at = k
                elif t - k > _LONGER * (t - best_at) + 2000:
                    break
            if k <= alike and (t - k) % epoch == 0 and after.repeats():
                if diameter == math.inf:
                    starts[:] = math.inf
                    starts[0] = 0.0  # all there is
                break
        return [_path(omega, s, grid, after, weight, apart, k) for k in _few(starts)]


class _After:
    """The costs after step t − 1, t − 2, …; those that are missing repeat the last epoch of them."""

    def __init__(self, costs: list[_Costs], epoch: int) -> None:
        self.costs, self.epoch = costs, epoch

    def repeats(self) -> bool:
        """Whether the last two epochs, on top of what they cost from 0, are the same."""
        if len(self.costs) < 2 * self.epoch + 2:
            return False
        one, other = self.costs[-1], self.costs[-1 - self.epoch]
        size = float(np.max(one.slope * one.slope, initial=1e-300)) ** 0.5
        above = one.offset - one.zero - (other.offset - other.zero)
        return bool(
            np.all(np.abs(one.slope - other.slope) <= 1e-9 * size)
            and np.all(np.abs(above) <= 1e-9 * (np.abs(other.offset - other.zero) + 1e-300))
        )

    def __getitem__(self, i: int) -> _Costs:
        beyond = i - len(self.costs) + 1
        if beyond <= 0:
            return self.costs[i]
        return self.costs[len(self.costs) - 1 - (-beyond) % self.epoch]


def _epochs(shape: Shapes, s: Array, sigma: Array) -> tuple[int, int]:
    """(steps between two uses of the record, the last step up to which every step is like the one so much
    later); (1, −1) where nothing repeats."""
    uses = np.flatnonzero(s)
    epoch = int(uses[-1] - uses[-2]) if uses.size > 1 else 1
    if shape.functions or shape.steps <= epoch:
        return 1, -1
    columns = (*shape.slope, *shape.root, *shape.shift, s, sigma)
    unlike = np.any([x[:-epoch] != x[epoch:] for x in columns], axis=0)
    return epoch, int(np.argmax(unlike)) - 1 if unlike.any() else shape.steps - 1 - epoch


def _owing(shape: Shapes, s: Array, z: Array, apart: Array, begin: int, end: int) -> Array:
    """What each step begin..end−1 owes from the grid's distances, from how far apart the runs can be, and
    from 0: (steps, points + 2)."""
    part = shape.between(begin, end)
    steps = end - begin
    places = np.concatenate([np.broadcast_to(z, (steps, z.size)), apart[begin:end, None]], axis=1)
    owed = np.zeros((steps, z.size + 2))
    owed[:, :-1] = part.at(places)
    return owed + s[begin:end, None]


def _path(
    omega: Sequence[Callable[[float], float]],
    s: Array,
    grid: _Grid,
    after: _After,
    weight: list[float],
    apart: Array,
    first: int,
) -> Rough:
    t, z, aims = len(omega), float(apart[first]), []
    for k, demand in enumerate(s[first:].tolist(), first):
        owed = omega[k](z) + demand
        z = min(owed, grid.step(after[t - 1 - k], owed, weight[k])) if owed > 0.0 else 0.0
        aims.append(z)
    return Rough(first, np.array(aims))


def _few(starts: Array) -> list[int]:
    """The best start, and the best one of windows half and twice as long if they are nearly as good: costs
    between grid points are not exact."""
    best = int(np.argmin(starts))
    if not math.isfinite(starts[best]):
        return []
    window, chosen = starts.size - best, [best]
    for short, long in ((window // 3, window * 4 // 5), (window * 5 // 4, 3 * window)):
        part = starts[max(0, starts.size - long) : max(0, starts.size - short)]
        if part.size:
            other = max(0, starts.size - long) + int(np.argmin(part))
            if other not in chosen and starts[other] < _CLOSE * starts[best]:
                chosen.append(other)
    return chosen
