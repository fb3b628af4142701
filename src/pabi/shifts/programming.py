"""Where to begin to pay, and roughly how much: dynamic programming over distances, from the end.

The least cost of what remains is kept at 0 and on a grid of distances z, and taken to be linear in z²
between two of them, which is what it is for quadratic costs. What a step owes is then best paid down, in
every cell of the grid, to r/(1 + Aσ²), A the slope in that cell.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pabi.rounding import Array
from pabi.shifts.shapes import Shapes

_COARSE, _FINE = 22, 64  # distances on the grid
_DECADES = 5.0  # that they span
_SHORT = 20_000  # steps of a window that is looked at on the fine grid as well
_CHUNK = 512  # steps whose moduli are evaluated at once
_LONGER = 6  # windows that many times the best one are not looked at
_CLOSE = 1.15  # starts that are looked at as well, if not that much worse


class Rough(NamedTuple):
    """Pay from step `first` on, aiming at the distances `wanted` (t − first,) after each step."""

    first: int
    wanted: Array


class _Costs(NamedTuple):
    """The least cost from a distance on: `zero` from 0, and in the cells of the grid slope·z² + offset."""

    zero: float
    slope: Array
    offset: Array


class _Grid:
    def __init__(self, top: float, points: int) -> None:
        self.z = top * np.logspace(-_DECADES, 0.0, points)
        self.low, self.high = self.z[:-1], self.z[1:]
        self.low_square, self.width = self.low**2, np.diff(self.z**2)

    def cells(self, zero: float, points: Array) -> _Costs:
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
    shape: Shapes, s: Array, sigma: Array, diameter: float, apart: Array, top: float
) -> list[Rough]:
    """The best start and path found, and others nearly as good.

    `apart` (t,): how far apart the runs can be before each step; `top`: the largest distance that is
    worth looking at. The start may be any step before which they can be `diameter` apart, or the first. A
    coarse grid tells about how long the best window is, a fine one goes through windows of such lengths.
    """
    t = shape.steps
    coarse = _search(shape, s, sigma, diameter, apart, _Grid(top, _COARSE))
    if not coarse or t - coarse[0].first > _SHORT:
        return coarse
    begin = max(0, t - 2 * (t - coarse[0].first) - 50)
    part = shape.between(begin, t)
    fine = _search(part, s[begin:], sigma[begin:], diameter, apart[begin:], _Grid(top, _FINE))
    return coarse[:1] + [r._replace(first=r.first + begin) for r in fine]


def _search(
    shape: Shapes, s: Array, sigma: Array, diameter: float, apart: Array, grid: _Grid
) -> list[Rough]:
    t, points = shape.steps, grid.z.size
    with np.errstate(all="ignore"):
        weight = (1.0 / (sigma * sigma)).tolist()
        costs = grid.cells(0.0, np.full(points, math.inf))
        after: list[_Costs] = [costs]  # after step t − 1, t − 2, …
        starts = np.full(t, math.inf)
        best_at = t
        for k in range(t - 1, -1, -1):
            if (t - 1 - k) % _CHUNK == 0:
                begin = max(0, k + 1 - _CHUNK)
                owing = _owing(shape, s, grid.z, apart, begin, k + 1)
            least = grid.least(costs, owing[k - begin], weight[k])
            costs = grid.cells(float(least[-1]), least[:points])
            after.append(costs)
            if apart[k] == diameter or k == 0 or s[k] > 0.0:
                starts[k] = least[points]
                if best_at == t or starts[k] < starts[best_at]:
                    best_at = k
                elif t - k > _LONGER * (t - best_at) + 2000:
                    break
        return [_path(shape, s, grid, after, weight, apart, k) for k in _few(starts)]


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
    shape: Shapes,
    s: Array,
    grid: _Grid,
    after: list[_Costs],
    weight: list[float],
    apart: Array,
    first: int,
) -> Rough:
    t, z, wanted = shape.steps, float(apart[first]), []
    steps = zip(shape.evaluators()[first:], s[first:].tolist(), range(first, t), strict=True)
    for omega, demand, k in steps:
        owed = omega(z) + demand
        z = min(owed, grid.step(after[t - 1 - k], owed, weight[k])) if owed > 0.0 else 0.0
        wanted.append(z)
    return Rough(first, np.array(wanted))


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
