"""How two paths of a diffusion can part on a dissipative loss, and what that costs.

At distance z they part at a rate of at most β(Δ + g(z)), g(z) = min{−mz, λ/z − κz}: m < 0 is the least
curvature, and ⟨∇L(x) − ∇L(y), x − y⟩ ≥ κ‖x − y‖² − λ. The rate is positive up to the distance z* with
κz*² = Δz* + λ, which no two paths from one point ever reach. From distance d the shifts
a = 2β(Δ + g(z)) bring them together in the time R(d) = ∫_0^d dz/(β(Δ + g)), as long as they took to part,
at a cost of μ² = 2β∫_0^d (Δ + g) (docs, "Diffusions").
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pabi.describe.losses import Loss
from pabi.numbers.search import bisected

_NEAR = 1e-6  # relative distance to z* within which R(d) has lost its digits
_WIDTH = 1e-13  # of the bracket of a distance, relative


class Growth(NamedTuple):
    """How fast two paths part, from the constants of the mean loss with its regulariser.

    Distances d are in [0, `limit`), and times are multiplied by β.

    Attributes
    ----------
    expansion : float, > 0
        M = −m.
    rate : float, > 0
        κ.
    offset : float, > 0
        λ.
    gap : float
        Δ, how far the gradients of adjacent data sets are apart.
    """

    expansion: float
    rate: float
    offset: float
    gap: float

    @property
    def limit(self) -> float:
        """z*: the distance that no two paths from one point ever reach."""
        root = math.hypot(self.gap, 2.0 * math.sqrt(self.rate) * math.sqrt(self.offset))
        return (self.gap + root) / (2.0 * self.rate)

    @property
    def turn(self) -> float:
        """The distance at which the two bounds −mz and λ/z − κz cross."""
        return math.sqrt(self.offset / (self.expansion + self.rate))

    def spread(self, d: float) -> float:
        """∫_0^d (Δ + g), which the cost of a distance d is a multiple of."""
        near = min(d, self.turn)
        total = self.gap * d + 0.5 * self.expansion * near * near
        if d > near:
            # Next to the turn the two nearly cancel, and log(d/near) would have lost its digits.
            total += self.offset * math.log1p((d - near) / near)
            total -= 0.5 * self.rate * (d - near) * (d + near)
        return total

    def time(self, d: float) -> float:
        """β·R(d): how long two paths take to part to the distance d, times β."""
        near = min(d, self.turn)
        total = math.log1p(self.expansion * near / self.gap) / self.expansion
        if d > near:
            # κz² − Δz − λ = κ(z − z*)(z + y)
            top = self.limit
            y = self.offset / (self.rate * top)
            total += (
                top * math.log((top - near) / (top - d)) - y * math.log((d + y) / (near + y))
            ) / (self.rate * (top + y))
        return total

    def reached(self, time: float) -> float | None:
        """What paths from one point reach by `time`: a d with β·R(d) ≥ `time`, next to the least.

        None if it is next to z*, where R(d) has lost its digits.
        """
        low, high = 0.0, self.limit * (1.0 - _NEAR)
        if not time <= self.time(high) < math.inf:
            return None
        return bisected(lambda d: self.time(d) >= time, low, high, close=_narrow)[1]


def _narrow(low: float, high: float) -> bool:
    """Whether a bracket is as narrow as it has to be."""
    return high - low <= _WIDTH * high


def growth_of(loss: Loss, gap: float) -> Growth | None:
    """The growth on the mean loss with its regulariser; None where it is not dissipative, or convex anyway.

    `gap`: Δ. Rounding is covered by the margin of whoever reads the result.
    """
    m = loss.least_curvature
    if loss.dissipativity is None or m is None:
        return None
    offset, rate = loss.dissipativity
    if not m + loss.l2 < 0.0 or not offset > 0.0:
        return None
    return Growth(expansion=-m - loss.l2, rate=rate + loss.l2, offset=offset, gap=gap)
