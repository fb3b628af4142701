"""The slopes of steps that show the most of a record, where every step may have a slope of its own.

What step k adds to the iterate counts W_k in the release, the product of the slopes after it. With slopes in
[low_k, high_k] the weights obey low_k·W_k ≤ W_(k−1) ≤ high_k·W_k. Where the record adds s_k and the noise has
the standard deviation σ_k, a release that is Gaussian has μ = ΣW_k s_k / √(ΣW_k²σ_k²). The weights with the
largest μ are, but for their scale, those that minimise Σ(W_kσ_k)²/2 − W_k s_k: the projection on a cone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pabi.numbers.rounding import Array


@dataclass(frozen=True)
class _Derivative:
    """A piecewise linear function that rises: values at points of [0, ∞), and the slope after the last."""

    points: Array
    values: Array
    end: float

    @property
    def root(self) -> float:
        """Where it vanishes; 0 where it is nowhere negative."""
        if self.values[0] >= 0.0:
            return 0.0
        if self.values[-1] < 0.0:
            return float(self.points[-1] - self.values[-1] / self.end)
        after = int(np.searchsorted(self.values, 0.0))
        (x, y), (u, v) = self.points[after - 1 : after + 1], self.values[after - 1 : after + 1]
        return float(x + (y - x) * -u / (v - u))

    def after(self, low: float, high: float) -> _Derivative:
        """That of W ↦ the least value over [low·W, high·W]."""
        root = self.root
        left, right = self.points < root, self.points > root
        points = np.append(self.points[left] / high, root / high)
        values = np.append(high * self.values[left], 0.0)
        if low > 0.0:
            with np.errstate(over="ignore"):
                further = np.append(root / low, self.points[right] / low)
            near = np.isfinite(further)  # no weight is as large as the others
            points = np.append(points, further[near])
            values = np.append(values, np.append(0.0, low * self.values[right])[near])
        return _Derivative(points, values, self.end * low**2)

    def plus(self, variance: float, move: float) -> _Derivative:
        """With the derivative of (Wσ)²/2 − W·s added."""
        return _Derivative(
            self.points, self.values + variance * self.points - move, self.end + variance
        )


def best_weights(moves: Array, stds: Array, *, low: Array, high: Array) -> Array:
    """(t,) what every step should count in the release, 1 the last step of which any counts.

    `moves`: (t,) what the record adds, ≥ 0 and somewhere positive. `stds`: (t,) of the noise, > 0. `low`,
    `high`: (t,) the ends of the slopes, 0 ≤ low ≤ high and high > 0; those of the first step do not matter.
    """
    start = _Derivative(np.zeros(1), np.zeros(1), 0.0)
    derivative, roots = start.plus(float(stds[0] ** 2), float(moves[0])), []
    for k in range(1, len(moves)):
        roots.append(derivative.root)
        derivative = derivative.after(float(low[k]), float(high[k]))
        derivative = derivative.plus(float(stds[k] ** 2), float(moves[k]))
    weights = [derivative.root]
    for k in range(len(moves) - 1, 0, -1):
        weights.append(float(np.clip(roots[k - 1], low[k] * weights[-1], high[k] * weights[-1])))
    return np.array(weights[::-1]) / weights[0]
