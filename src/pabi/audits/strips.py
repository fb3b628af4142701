"""Gradients of the other records that are linear along one stretch of the line and curved along the next.

They pull the iterate along, by far more than noise moves it. So every step finds it in a stretch of its own,
and every step may have a slope of its own, within the curvature of the loss and the bound on its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from pabi.numbers.rounding import Array

_NEAR = 1e-12  # of a curvature: those that differ by less are one


class Visit(NamedTuple):
    """One step of the walk: whose gradient it takes and what it does with it.

    `owner`: the number of the gradient. `rate`: step size times batch fraction, what the gradient is
    multiplied with. `decay`: what the regulariser leaves of the iterate, 1 − ηλ. `curvature`: of the gradient
    there. `std`: of the noise. `slope`: the largest that the step may have. `least`, `most`: what the special
    record may add to the iterate, and `opens`: whether an epoch begins in which it does so once at most.
    """

    owner: int
    rate: float
    decay: float
    curvature: float
    std: float
    slope: float
    least: float
    most: float
    opens: bool


@dataclass
class _Pieces:
    """A gradient that is made from left to right: knots, what it is at the last one, and where it is free."""

    value: float
    points: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    curvature: float = 0.0  # of the last stretch
    begin: float = -math.inf  # of the last stretch
    visited: float = -math.inf  # nobody comes further right so far
    straight: float = -math.inf  # visited up to here without curvature

    def bend(self, low: float, high: float, curvature: float) -> bool:
        """Whether it can have this curvature on [low, high]; then it has."""
        end = self.points[-1] if self.points else -math.inf
        if abs(curvature) <= _NEAR:
            if low < end:
                return False
            self.visited = max(self.visited, high)
            self.straight = max(self.straight, high)
            return True
        same = abs(curvature - self.curvature) <= _NEAR * abs(curvature)
        if low >= max(self.visited, end):
            self._knot(low, self.value)
            self.begin = low
        elif not (same and low >= self.begin and self.straight <= self.begin):
            return False
        else:
            low = end
        if high > low:
            self._knot(high, self.value + curvature * (high - low))
        self.curvature = curvature
        self.visited = max(self.visited, high)
        return True

    def _knot(self, point: float, value: float) -> None:
        self.points.append(point)
        self.values.append(value)
        self.value = value

    def at(self, x: float) -> float:
        return float(np.interp(x, self.points, self.values)) if self.points else self.value


@dataclass(frozen=True, eq=False)
class Strips:
    """Gradients of others, and the way of the iterate through them.

    `points`, `values`: the knots of each gradient, which is constant beyond the first and the last one; none
    where it is constant altogether. `constants`: its value there. `path`: (t + 1,) where the iterate is
    without noise and without the record. `pulls`: (t,) the gradient there. `beyond`: the probability that
    the iterate leaves the stretches in which its steps are affine, on either data set.
    """

    points: tuple[Array, ...]
    values: tuple[Array, ...]
    constants: tuple[float, ...]
    path: Array
    pulls: Array
    beyond: float

    def gradient(self, owner: int, x: Array) -> Array:
        """The gradient of number `owner` at points of any shape."""
        if not len(self.points[owner]):
            return np.full_like(x, self.constants[owner])
        return np.asarray(np.interp(x, self.points[owner], self.values[owner]))


@dataclass(frozen=True)
class GradientRange:
    """What the gradients of others may be: in [`least`, `most`], `start` at the far left; `floor`: the
    curvature that all of them have beside that of their stretches. A stretch that has curvature is `width`
    wide, or just as wide as it has to be where that is 0."""

    least: float
    most: float
    start: float
    floor: float = 0.0
    width: float = 0.0


def strips(
    visits: Sequence[Visit], limits: GradientRange, begin: float, reach: float
) -> Strips | None:
    """Gradients that have the curvature of every visit, for `reach` standard deviations about the way.

    `begin`: where the iterate starts. None where there is no room for them.
    """
    owners = [_Pieces(limits.start) for _ in range(1 + max(visit.owner for visit in visits))]
    x, variance, path, pulls = begin, 0.0, [begin], []
    past_low = past_high = low = high = 0.0  # the record, of epochs before and of this one
    for visit in visits:
        if visit.opens:
            past_low, past_high, low, high = past_low + low, past_high + high, 0.0, 0.0
        span = reach * math.sqrt(variance)
        left, right = x + past_low + low - span, x + past_high + high + span
        if variance > 0.0 or right > left:
            missing = limits.width - (right - left)
            if limits.width and visit.curvature:
                if missing < 0.0:
                    return None
                left, right = left - 0.5 * missing, right + 0.5 * missing
        owner = owners[visit.owner]
        if not owner.bend(left, right, visit.curvature):
            return None
        if not limits.least <= owner.value <= limits.most:
            return None
        pull = owner.at(x)
        pulls.append(pull + limits.floor * x)
        x = visit.decay * x - visit.rate * pulls[-1]
        path.append(x)
        grown = max(1.0, visit.slope)
        past_low, past_high = visit.slope * past_low, visit.slope * past_high
        low, high = min(grown * low, visit.least), max(grown * high, visit.most)
        variance = visit.slope**2 * variance + visit.std**2
    beyond = 2.0 * len(visits) * float(ndtr(-reach))
    return Strips(
        tuple(np.array(owner.points) for owner in owners),
        tuple(np.array(owner.values) for owner in owners),
        tuple(owner.value for owner in owners),
        np.array(path),
        np.array(pulls),
        beyond,
    )
