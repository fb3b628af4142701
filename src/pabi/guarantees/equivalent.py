"""The Gaussian that agrees with a trade-off function at one δ, to compare releases by one number."""

from __future__ import annotations

import math
from collections.abc import Callable

from pabi.convert.gdp import gdp_epsilon_bounds, gdp_to_delta
from pabi.numbers.rounding import down
from pabi.numbers.search import bisected
from pabi.tradeoff import Gaussian, TradeOff


def mu_equivalent(curve: TradeOff, delta: float) -> float:
    """The least μ at which a Gaussian's ε at δ is no less than the curve's, a double above it."""
    if isinstance(curve, Gaussian):
        return curve.mu
    epsilon = curve.epsilon(delta)
    if math.isinf(epsilon):
        return math.inf
    if epsilon == 0.0:  # many Gaussians have that: the one that reveals as much at ε = 0
        return _least(_reaching(curve.delta(0.0)))
    return _least(lambda mu: gdp_epsilon_bounds(mu, delta)[0] >= epsilon)


def _reaching(delta: float) -> Callable[[float], bool]:
    """Whether G(μ) has at least this δ at ε = 0; what is computed is at most an ulp above the truth."""
    return lambda mu: delta == 0.0 or down(down(gdp_to_delta(mu, 0.0))) >= delta


def _least(holds: Callable[[float], bool]) -> float:
    """The least μ ≥ 0 from which on `holds` is true, a double above it; ∞ beyond the doubles."""
    if holds(0.0):
        return 0.0
    high = 1.0
    while high < math.inf and not holds(high):
        high *= 2.0
    return bisected(holds, 0.0, high)[1] if high < math.inf else high
