"""The best step τ to start from, when the domain has a diameter D.

Starting at τ costs J(τ): the two runs may be D apart there, and D and all later demands have to be
paid. J is found for every τ at once, up to a lower bound that a few solves make exact.

Let h be a step at which some solved path has distance zero, E the cost of its payments from h on and q
its slope there. Every path from an earlier τ has to end like a path through or above that point, and
the cost of its end is convex with derivative 2q at it, so with ΔP what is to be paid between τ and h,
and Δx the capacity there,

    J(τ) ≥ E + ΔP²/Δx  if ΔP/Δx ≤ q,   J(τ) ≥ E + 2qΔP − q²Δx  otherwise,

with equality in the first case when h is where the best path from τ first returns to zero. So: solve the
τ with the least bound, add the bounds of its path, drop every τ whose bound exceeds the best cost, and
repeat until the least bound is attained. The loop ends at the exact optimum.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.describe.iteration import Steps
from pabi.numbers.rounding import TINY, Array, power_of_two_near
from pabi.shifts.isotonic import BlockPayments, scaled, segments_of, solve

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
