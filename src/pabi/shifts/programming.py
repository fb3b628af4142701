"""Where to begin to pay, and roughly how much: dynamic programming over distances, from the end.

The least cost of what remains is kept at 0 and on a grid of distances z, and taken to be linear in z²
between two of them, which is what it is for quadratic costs. What a step owes is then best paid down, in
every cell of the grid, to r/(1 + Aσ²), A the slope in that cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pabi.normal_forms.step_moduli import Shapes
from pabi.numbers.locking import tick
from pabi.numbers.rounding import Array

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
    coarse = _search(shape, omega, s, sigma, diameter, apart, _Grid(top, _COARSE))
    if not coarse or not _TINY < t - coarse[0].first <= _SHORT:
        return coarse
    begin = max(0, t - 2 * (t - coarse[0].first) - 50)
    part = shape.between(begin, t)
    rest = (omega[begin:], s[begin:], sigma[begin:], diameter, apart[begin:])
    fine = _search(part, *rest, _Grid(top, _FINE))
    return coarse[:1] + [r._replace(first=r.first + begin) for r in fine]


def _search(
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
