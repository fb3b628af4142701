"""Losses on grids, and hulls of points.

The likelihood ratio e^-Y is a martingale under garbling: what spreads it, keeping its mean under P, makes a
pair easier to tell apart, and what merges outcomes makes it harder. Pessimistic (Doroshenko, Ghazi, Kamath,
Kumar, Manurangsi 2022, "connect the dots"): the mass of a cell goes to the two ends of the cell, so that the
masses under both P and Q are kept. Optimistic: the cell around a grid point is merged to one outcome, whose
loss lies near that point; what it lacks is taken from the neighbouring point, on the tangents of h, or where
there is too little to take, the loss is rounded down. Either errs by O(step²) per release.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.errors import must_be
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array
from pabi.numbers.vectorised import both_signs
from pabi.tradeoff.base import TradeOff, one_order, supported
from pabi.tradeoff.pairs import Discrete, Pair

_ROUND = 4e-15  # relative: covers the quadrature and rounding of a mass
_SHARE = 1e-17  # absolute, for every unit of mass: covers a share of it that underflows
_INFINITE = 1e-10  # relative: covers the quadrature of an excess and the tail's closed form
_RESOLVED = 1e-12  # relative: below it the Q of a cell is lost in the rounding of its P
_AT_CENTRE = 1e-8  # of a step: how near to the loss of its cell a centre is sought
_BELOW_CENTRE = 1e-6  # of a step: how far below it a centre is put, so that it is not above
_ALL, _HALF = 0.999, 0.499  # of what a neighbour has, with room for rounding
MISSING = 1e-12  # of mass 1: more than all cells of a pair err together by quadrature and rounding
_ROUNDS = 24  # of merging cells before all losses are rounded down
MOST_CELLS = 1 << 23
_MANY = 1 << 14  # cells of a pair that is not symmetric, below which none are saved
_NOTHING = 60.0  # nats: e^-60 of a moment changes no reading
_MOST_BELOW = 1 << 22  # cells below the highest loss of a pair that is not symmetric


class Losses(NamedTuple):
    """Mass `p[i]` at loss offset + (first + i)·step, or offset + `places[i]`·step where there are `places`,
    and the mass of the infinite loss."""

    first: int
    p: Array
    infinity: float
    offset: float = 0.0
    places: NDArray[np.intp] | None = None

    @property
    def indices(self) -> NDArray[np.intp]:
        """The multiples of the step, (points,)."""
        if self.places is not None:
            return self.places
        return np.arange(self.first, self.first + self.p.size)


class Grid(NamedTuple):
    """All that the losses on a grid depend on, beside the losses themselves.

    `slack`: by how much raising the lowest losses may move the mean of one release. `delta`: the δ to be
    read; what is cut off is a millionth of it. `power`: the tilt of the reading.
    """

    step: float
    slack: float
    delta: float
    power: float


def pessimistic(
    pair: Pair, step: float, tail: float, slack: float = 0.0, *, power: float = 0.0
) -> Losses:
    """Losses that dominate the pair; what lies beyond a tail of excess `tail` becomes infinite,
    and the lowest are raised where that raises the mean by no more than `slack`, or, of very many, hardly
    E e^(power·Y)."""
    first, last, offset = _range(pair, step, tail=tail, slack=slack, power=power)
    edges = offset + _edges(first, last, step)
    cells = pair.cells(edges)
    upper = cells.excess / -math.expm1(-step)
    upper = np.minimum(upper * (1.0 + _ROUND) + _SHARE * cells.mass, cells.mass)
    p = np.zeros(edges.size)
    p[1:] += upper
    p[:-1] += cells.mass - upper
    mass, excess = pair.above(float(edges[-1]))
    p[-1] += max(0.0, mass - excess)
    infinity, finite = pair.infinity + excess, 1.0 - pair.infinity
    if pair.symmetric:
        first, p = _mirrored(p, step, pair.atom)
    else:  # what lies below the grid is moved up to its lowest point
        on_grid = min(finite, pair.above(float(edges[0]))[0])
        p[0] += finite - on_grid
    missing = finite - excess - float(p.sum())
    if missing > MISSING:  # nobody knows where it lies
        infinity = min(1.0, infinity + missing)
    else:
        p[0] += max(0.0, missing)
    return Losses(first, p * (1.0 + _ROUND), infinity * (1.0 + _INFINITE), offset)


def optimistic(
    pair: Pair, step: float, tail: float, slack: float = 0.0, *, power: float = 0.0
) -> Losses:
    """Losses that the pair dominates; those beyond a tail of excess `tail` are rounded down, and the
    lowest dropped where that changes the mean by no more than `slack`, or, of very many, hardly
    E e^(power·Y)."""
    first, last, offset = _range(pair, step, tail=tail, slack=slack, power=power)
    half = math.exp(0.5 * step)
    if pair.symmetric:
        centre = pair.cells(np.array([0.0, 0.5 * step]))
        mass, excess = float(centre.mass[0]), float(centre.excess[0])
        cells = pair.cells(_edges(0, last, step) + 0.5 * step)
        # At 0 both P and Q have the atom and the two halves of the cell, one mirrored.
        level = np.concatenate([[pair.atom + 2.0 * mass - excess], np.zeros(last)])
        lack = np.zeros(last + 1)
        level[1:] = (cells.mass - cells.excess)[:last] * half
        lack[1:] = _lack(cells.mass, cells.excess, step)[:last]
        with np.errstate(under="ignore"):
            factor = np.exp(-step * np.arange(last, 0, -1))
        level = np.concatenate([factor * (level + lack)[:0:-1], level])
        lack = np.concatenate([-factor * lack[:0:-1], lack])
        first = -last
    else:
        cells = pair.cells(offset + _edges(first, last + 1, step) - 0.5 * step)
        level = (cells.mass - cells.excess) * half
        lack = _lack(cells.mass, cells.excess, step)
    p = _settled(level, lack, step)
    # Losses above the grid are rounded down to its last point: e^y·Q of them.
    mass, excess = pair.above(offset + (last + 0.5) * step)
    p[-1] += max(0.0, mass - excess) / half
    return Losses(first, p * (1.0 - _ROUND), pair.infinity, offset)


def _range(
    pair: Pair, step: float, *, tail: float, slack: float, power: float
) -> tuple[int, int, float]:
    """(first, last, offset) of a grid: from 0 for a symmetric pair, else with a little room on both sides."""
    low, high = pair.reach(tail, max(slack, 1e-300))
    if pair.symmetric:
        return 0, max(1, math.ceil(high / step)), 0.0
    offset = _centre(pair, step)
    last = math.ceil((high - offset) / step) + 2
    first = max(math.floor((low - offset) / step) - 2, last - _MOST_BELOW)
    if power > 0.0 and last - first > _MANY:
        # What is raised to y from below adds e^(λy) to the moment at most.
        low = (pair.finite_log_moment(power) - _NOTHING) / power
        first = max(first, min(math.floor((low - offset) / step), last - _MANY))
    return first, last, offset


def _edges(first: int, last: int, step: float) -> Array:
    """The points first·step, …, last·step. Raises MemoryError for too many."""
    if last - first > MOST_CELLS or max(abs(first), abs(last)) > 1 << 52:
        raise MemoryError(f"{last - first} cells")
    return np.asarray(np.arange(first, last + 1) * step, dtype=np.float64)


@lru_cache(maxsize=4096)
def _centre(pair: Pair, step: float) -> float:
    """Where the cell around it, that at the edge of the support, merged, has its loss; or a hair below.

    A sampled Gaussian has most of its mass within about p of log(1 - p), or, if both data sets have a part
    that is drawn as rarely, of 0. On a grid with a point there
    that bulk need not be split, however coarse the grid. 0 for pairs without such an edge.
    """
    if pair.edge is None:
        return 0.0
    centre, before = pair.edge, None
    for _ in range(12):
        cell = pair.cells(np.array([-0.5, 0.5]) * step + centre)
        mass, excess = float(cell.mass[0]), float(cell.excess[0])
        if not excess < mass * (1.0 - _RESOLVED):
            return 0.0  # the cell is too long for its Q to be told
        # log of P(cell)/Q(cell) - centre, where Q(cell) = e^(-left)·(mass - excess)
        gap = -0.5 * step - math.log1p(-excess / mass)
        if abs(gap) <= _AT_CENTRE * step:
            break
        move = gap
        if before is not None and before[1] != gap:  # the secant's step, where it is sensible
            secant = -gap * (centre - before[0]) / (gap - before[1])
            move = secant if abs(secant) <= step else gap
        before = centre, gap
        centre += move
    return centre - _BELOW_CENTRE * step


def _mirrored(p: Array, step: float, atom: float) -> tuple[int, Array]:
    """All losses of a symmetric pair from those ≥ 0: P(-y) = e^-y·P(y)."""
    with np.errstate(under="ignore"):
        below = (p * np.exp(-step * np.arange(p.size)))[:0:-1]
    both = np.concatenate([below, p])
    both[p.size - 1] += p[0] + atom
    return 1 - p.size, both


def _lack(mass: Array, excess: Array, step: float) -> Array:
    """P(cell) - e^y·Q(cell), y the middle of the cell: what its P has more than a loss of y gives."""
    return np.asarray(math.exp(0.5 * step) * excess - math.expm1(0.5 * step) * mass)


def _settled(level: Array, lack: Array, step: float) -> Array:
    """P's masses on the grid, from e^y·Q(cell) and what the cells lack.

    A cell i that lacks d > 0 takes d/(e^step - 1) from i - 1 and then has e^step times that more; one
    with d < 0 likewise from i + 1. No neighbour gives more than it has; cells that would need
    more have their loss rounded down if d > 0, and are merged with the one below otherwise.
    """
    span = math.expm1(step)
    level, lack = level.copy(), lack.copy()
    for attempt in range(_ROUNDS + 1):
        up = lack > 0.0
        lack[up & _short(level, lack, span)] = 0.0  # the loss is rounded down
        short = ~up & _short(level, lack, span)
        if not short.any():
            surplus, deficit = np.maximum(lack, 0.0), np.maximum(-lack, 0.0)
            p = level + (deficit + (1.0 + span) * surplus) / span
            p[:-1] -= surplus[1:] / span
            p[1:] -= (1.0 + span) * deficit[:-1] / span
            return np.maximum(p, 0.0)  # what rounding left of a cell that gave all it has
        if attempt < _ROUNDS:
            if short[0]:
                level[0], lack[0] = 0.0, 0.0
            short[0] = False
            short[np.arange(attempt % 2, short.size, 2)] = False  # no two that touch
            _merge_down(level, lack, np.flatnonzero(short), span)
    _round_down(level, lack, span)
    return level


def _short(level: Array, lack: Array, span: float) -> NDArray[np.bool_]:
    """Which cells need more than the neighbour has from whom they take, or more than half of it where
    that neighbour is asked from both sides."""
    before, after = np.append(0.0, level[:-1]), np.append(level[1:], 0.0)
    up = lack > 0.0
    need = np.where(up, lack / span, -lack * (1.0 + span) / span)
    from_below, from_above = np.where(up, need, 0.0), np.where(up, 0.0, need)
    # What the other neighbour of the one that gives takes from it.
    also_below = np.append([0.0, 0.0], from_above[:-2])[: need.size]
    also_above = np.append(from_below[2:], [0.0, 0.0])[: need.size]
    other = np.where(up, also_below, also_above)
    supply = np.where(up, before, after)
    crowded = (need + other > _ALL * supply) & (need > _HALF * supply)
    return np.asarray((need > _ALL * supply) | crowded)


def _merge_down(level: Array, lack: Array, cells: NDArray[np.intp], span: float) -> None:
    """Merges these cells with those below them, in place: one outcome with the sum of the masses."""
    moved = level[cells] / (1.0 + span)
    lack[cells - 1] += lack[cells] + level[cells] * (span / (1.0 + span))
    level[cells - 1] += moved
    level[cells], lack[cells] = 0.0, 0.0


def _round_down(level: Array, lack: Array, span: float) -> None:
    """Rounds all losses down, in place."""
    down = np.flatnonzero(lack < 0.0)
    moved = level[down] / (1.0 + span)  # Q's mass is kept, at the lower loss P's is less
    level[down] = 0.0
    inside = down > 0
    np.add.at(level, down[inside] - 1, moved[inside])
    lack[:] = 0.0


# What a curve says between the points of a grid.


class Profile(NamedTuple):
    """Bounds on δ at the losses `first·step + offset`, … of a grid; between them, h is convex.

    `lower` and `upper` differ by the errors of the transform, not by that of the grid.
    """

    epsilon: Array
    lower: Array
    upper: Array

    def span(self, excess: float) -> tuple[float, float]:
        """The range of ε in which the two are within a relative `excess`; empty if (∞, -∞)."""
        good = np.flatnonzero(self.upper - self.lower <= excess * self.upper)
        if good.size == 0:
            return math.inf, -math.inf
        return float(self.epsilon[good[0]]), float(self.epsilon[good[-1]])

    def at(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) at `epsilon`, on the chord in e^ε between grid points."""
        grid = self.epsilon
        if epsilon >= grid[-1]:
            return 0.0, float(self.upper[-1])
        if epsilon < grid[0]:
            # The chord from δ = 1 at ε = -∞.
            return float(self.lower[0]), 1.0 - (1.0 - float(self.upper[0])) * math.exp(
                epsilon - grid[0]
            )
        k = int(np.searchsorted(grid, epsilon, side="right")) - 1
        share = math.expm1(epsilon - grid[k]) / math.expm1(grid[k + 1] - grid[k])
        low = float(self.lower[k] + share * (self.lower[k + 1] - self.lower[k]))
        high = float(self.upper[k] + share * (self.upper[k + 1] - self.upper[k]))
        return low, high * (1.0 + EIGHT_ROUNDINGS)


def crossing(epsilon: Array, delta: Array, target: float) -> float | None:
    """The ε at which δ, given on a grid and linear in e^ε between, falls to `target`; None outside."""
    above = np.flatnonzero(delta > target)
    if above.size == 0 or above[-1] == delta.size - 1:
        return None
    k = int(above[-1]) + 1
    share = (delta[k - 1] - target) / (delta[k - 1] - delta[k])
    return float(
        epsilon[k - 1] + math.log1p(share * math.expm1(float(epsilon[k] - epsilon[k - 1])))
    )


# A pair of finitely many outcomes that reveals no less than upper bounds on δ allow.


SLACK = 1e-10  # relative: more than rounding moves a point of the hull


def checked_both_orders(field: str, value: Any) -> TradeOff:
    """`value`, a function for both orders of the data sets. Raises InvalidInput for one of a single order."""
    curve = TradeOff._table.check(value, field)
    must_be(not one_order(curve.orientation), field, "a function for both orders", curve)
    return curve


class OfPoints(TradeOff):
    """A trade-off function known by upper bounds on δ on a grid, the same in both orders of the data sets."""

    @property
    @abstractmethod
    def _profile(self) -> tuple[Array, Array]:
        """(ε, upper bounds on δ) on a grid from 0 on."""

    def losses(self) -> tuple[Pair, ...]:
        """The loss of a pair of finitely many outcomes that reveals no less, the same in both orders."""
        return (self._pair,)

    @cached_property
    def _pair(self) -> Discrete:
        return pair_above(*self._profile)

    def _delta(self, epsilon: float) -> float:
        return float(self._delta_array(np.array([epsilon]))[0])

    def _tradeoff(self, alpha: Array) -> Array:
        epsilon, delta = self._profile
        return supported(alpha, epsilon, left=delta, right=delta)


def pair_above(half: Array, delta: Array, other: Array | None = None) -> Discrete:
    """The pair whose δ, as a function of e^ε, is the lower hull of points above the curve.

    `half`: increasing ε from 0 on. `delta`: upper bounds there on δ; `other`: those in the other order, where
    it has others. The true δ is convex in e^ε and 1 at 0, so that it is below the hull. A kink of the hull at
    e^ε is an outcome of loss ε whose probability under Q is by how much the slope rises there.
    """
    epsilon = np.concatenate([-half[:0:-1], half])
    turned = delta if other is None else other
    every = both_signs(epsilon, np.concatenate([turned[:0:-1], delta]))
    height = np.minimum(every * (1.0 + SLACK), 1.0)
    x, y = np.concatenate([[0.0], np.exp(epsilon)]), np.concatenate([[1.0], height])
    corners = lower_hull(x, y)
    x, y = x[corners], y[corners]
    slopes = np.append(np.diff(y) / np.diff(x), 0.0)
    rises = np.maximum(np.diff(slopes), 0.0)
    masses, values = rises * x[1:], epsilon[np.array(corners[1:]) - 1]
    possible = masses > 0.0
    possible[-1] |= not possible.any()  # where all is revealed: an outcome of no mass
    return Discrete(values[possible], masses[possible], min(1.0, float(y[-1])))


def lower_hull(x: Array, y: Array) -> list[int]:
    """The corners of the lower convex hull of points with increasing x."""
    corners: list[int] = []
    for i in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners
