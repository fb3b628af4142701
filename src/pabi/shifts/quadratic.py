"""The closed form for moduli √(κδ² + h) and steps without sensitivities, from the best start to the best end.

The least cost of paying z off by a given step, from a distance z before step k, is A·z² + B: before a step
with r² = κz² + h, paying for it and having A·r'² + B to pay afterwards costs r²·G + B at best,
G = 1/(σ² + 1/A) (Bravo, Flores-Mella, Guzmán, Thm 3.4, by induction from the end). As ω(0) = 0, the runs may
meet in any step and stay together from then on, so that the least cost is the lower envelope of such lines
in z², one for every step in which they can meet.
"""

from __future__ import annotations

import math

import numpy as np

from pabi.numbers.rounding import Array

_PRUNED, _GRID = 96, 64  # lines kept before a look at which of them matter, at so many distances


class _Lines:
    """Lines slope·x + offset in x = z², each with the step `end` after which the runs have met."""

    def __init__(self, most: float) -> None:
        self.grid = np.concatenate([[0.0], np.geomspace(1e-9 * most, most, _GRID)])
        self.slope, self.offset, self.end = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    def back(self, k: int, kappa: float, h: float, square: float) -> None:
        """Moves the lines from after step k to before it, where meeting in step k becomes possible."""
        gain = 1.0 / (square + 1.0 / np.append(self.slope, math.inf))
        self.slope = kappa * gain if kappa > 0.0 else np.zeros(gain.size)
        self.offset = np.append(self.offset, 0.0)
        if h > 0.0:
            self.offset += h * gain
        self.end = np.append(self.end, k + 1)
        if self.slope.size > _PRUNED:
            least = np.argmin(np.outer(self.grid, self.slope) + self.offset, axis=1)
            # Line 0 meets in the last step: the published closed form.
            few = np.unique(np.append(least, 0))
            self.slope, self.offset, self.end = self.slope[few], self.offset[few], self.end[few]

    def least(self, x: float) -> tuple[float, int]:
        """(the least cost at x, the end of the line that attains it)."""
        values = self.slope * x + self.offset
        i = int(np.argmin(values))
        return float(values[i]), int(self.end[i])


def closed_form(
    kappa: Array, h: Array, sigma: Array, diameter: float, start: float
) -> tuple[int, float, Array]:
    """(first step that pays, distance before it, distances to aim at after each step from there on).

    `kappa`, `h`, `sigma`: (t,). From distance `start` before the first step, or from `diameter` before any.
    """
    t, squares = kappa.size, sigma * sigma
    apart = max(diameter, start) if diameter < math.inf else start
    lines = _Lines(4.0 * (apart * apart + float(h.max(initial=0.0))) or 1.0)
    best, first, end, distance = math.inf, 0, t, start
    columns = zip(kappa[::-1].tolist(), h[::-1].tolist(), squares[::-1].tolist(), strict=True)
    with np.errstate(all="ignore"):  # no noise, or none of the distance left: ∞ and 0
        for k, (c, b, v) in zip(range(t - 1, -1, -1), columns, strict=True):
            lines.back(k, c, b, v)
            if k and diameter < math.inf:
                cost, at = lines.least(diameter * diameter)
                if cost < best:
                    best, first, end, distance = cost, k, at, diameter
        cost, at = lines.least(start * start)
    if not cost > best:
        first, end, distance = 0, at, start
    aims = np.zeros(t - first)
    share = _shares(kappa[first:end], squares[first:end])
    x = distance * distance
    for i in range(end - first - 1):
        x = (kappa[first + i] * x + h[first + i]) * share[i] ** 2
        aims[i] = math.sqrt(x)
    return first, distance, aims


def _shares(kappa: Array, squares: Array) -> Array:
    """The part of what is owed that is left after each step, if the last one is to leave nothing."""
    share, later = np.zeros(kappa.size), 0.0  # 1/A of what comes after
    for k in range(kappa.size - 1, -1, -1):
        below = squares[k] + later
        if below > 0.0:
            share[k] = later / below if below < math.inf else 1.0
        later = below / kappa[k] if kappa[k] > 0.0 else math.inf
    return share
