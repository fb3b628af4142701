"""Rényi differential privacy of one order as a trade-off function."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from pabi.numbers import gaussian
from pabi.numbers.gaussian import nonnegative
from pabi.numbers.renyi import rdp_to_epsilon
from pabi.numbers.rounding import Array, bisected
from pabi.numbers.validate import Checked, by, number
from pabi.numbers.vectorised import both_signs
from pabi.tradeoff.base import Corner, Readers, decode, levels
from pabi.tradeoff.grids import OfPoints

_BITS = 200  # of ball arithmetic
_POINTS = 2000  # of the grid on which the curve is drawn, and made a pair
_LEAST_DELTA = 1e-17  # what the grid's end leaves
_FARTHEST = 300.0  # the end of a grid: e^300 is far from the largest double


@dataclass(frozen=True)
class RenyiDP(Checked, OfPoints):
    """Rényi differential privacy of one order α: a divergence of at most ρ, in both orders of the data sets.

    At ε ≥ 0, δ is the lesser of e^((α-1)(ρ-ε))·(α-1)^(α-1)/α^α and (e^((α-1)ρ) - 1)/(α·(e^((α-1)ε) - 1)), or
    what follows from them at larger ε.

    Parameters
    ----------
    order : float
        α > 1, finite.
    rho : float
        ρ in [0, ∞], in nats.

    References
    ----------
    Mironov 2017, Def. 4; docs, "Theory", 16 (Lemma 22a).
    """

    order: float = field(metadata=by(partial(number, above=1.0)))
    rho: float = field(metadata=by(nonnegative))

    kind: ClassVar[str] = "renyi_dp"
    _readers: ClassVar[Readers] = {"rho": decode}

    def _rdp(self, order: float) -> float:
        """ρ up to the order α, as divergences grow with their order, and ∞ beyond it."""
        order = number("order", order, above=1.0)
        return self.rho if order <= self.order or self.rho == 0.0 else math.inf

    @property
    def zcdp(self) -> float:
        """∞, as nothing is known of larger orders; 0 where ρ is."""
        return 0.0 if self.rho == 0.0 else math.inf

    def _delta_array(self, epsilon: Array) -> Array:
        size = np.abs(epsilon)
        value = self._corner.least(size, np.array([self._converted(e) for e in size.tolist()]))
        return np.where(epsilon == -math.inf, 1.0, both_signs(epsilon, value))

    def _converted(self, epsilon: float) -> float:
        """The lesser of the two bounds at ε ≥ 0, rounded up."""
        if self.rho == 0.0:
            return 0.0
        if self.rho == math.inf:
            return 1.0
        if epsilon == math.inf:
            return 0.0
        with ctx.workprec(_BITS):
            a, rho, e = arb(self.order), arb(self.rho), arb(epsilon)
            gain = (a - 1) * (a - 1).log() - a * a.log()
            least = gaussian.upper(((a - 1) * (rho - e) + gain).exp())
            if epsilon > 0.0:
                ratio = ((a - 1) * rho).expm1() / ((a - 1) * e).expm1() / a
                least = min(least, gaussian.upper(ratio) if ratio.is_finite() else 1.0)
            return min(1.0, least)

    @cached_property
    def _corner(self) -> Corner:
        """The best corner among the points of the grid."""
        epsilon, delta = self._bounds
        every = levels(epsilon, delta)
        best = int(np.argmax(every))
        return Corner(float(epsilon[best]), float(every[best]))

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """(ε, the lesser of the two bounds) for ε ≥ 0 up to where δ is about 0."""
        end = 1e-9
        if 0.0 < self.rho < math.inf:
            end = max(end, rdp_to_epsilon(orders=[self.order], rdp=[self.rho], delta=_LEAST_DELTA))
        epsilon = np.linspace(0.0, min(end, _FARTHEST), _POINTS + 1)
        return epsilon, np.array([self._converted(e) for e in epsilon.tolist()])

    def _epsilon(self, delta: float) -> float:
        if delta >= 1.0 or self.rho == 0.0:
            return 0.0
        if delta == 0.0 or self.rho == math.inf:
            return math.inf
        end = self._corner.epsilon
        most = rdp_to_epsilon(orders=[self.order], rdp=[self.rho], delta=delta)
        if most > end:
            return most
        if self._delta(0.0) <= delta:
            return 0.0
        _, least = bisected(lambda epsilon: self._delta(epsilon) <= delta, 0.0, max(most, end))
        return min(least, most)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        """0 and the bound: how much a mechanism with this divergence may reveal depends on the mechanism."""
        return 0.0, self._epsilon(delta)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        """(ε, δ) on a grid."""
        epsilon, delta = self._bounds
        return epsilon, self._corner.least(epsilon, delta)
