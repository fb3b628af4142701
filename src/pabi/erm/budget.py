"""How much an (ε, δ) allows: the largest bounded range and the largest Gaussian-DP parameter."""

from __future__ import annotations

import math
from dataclasses import replace

from pabi.account.best import best_guarantee
from pabi.analyses import exponential
from pabi.describe.langevin import LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.numbers.errors import TargetUnreachable
from pabi.numbers.search import bisected
from pabi.numbers.showing import exact, shown

Run = ExponentialMechanism | IteratedExponentialMechanism | LangevinDiffusion


def largest_range(epsilon: float, delta: float) -> float:
    """ε₀ such that whatever has an ε₀-bounded range is about (ε, δ)-private; ε itself at δ = 0.

    The root of (1 − e^(−(ε₀−ε)/2))² = δ(1 − e^(−ε₀)).
    """
    shrunk = math.exp(-epsilon)
    inside = delta * (-math.expm1(-epsilon) + delta * shrunk)
    return epsilon + 2.0 * (math.log1p(math.sqrt(inside)) - math.log1p(-delta))


def largest_mu(epsilon: float, delta: float) -> float:
    """μ such that whatever is μ-Gaussian-DP is about (ε, δ)-private; 0 at δ = 0."""
    from pabi.convert.gdp import gdp_to_epsilon

    if delta == 0.0:
        return 0.0

    def exceeds(logarithm: float) -> bool:
        return gdp_to_epsilon(math.exp(logarithm), delta) > epsilon

    high = 0.0
    while not exceeds(high):
        high += 1.0
    low = high - 1.0
    while exceeds(low):
        low, high = low - 1.0, low
        if low < -300.0:
            return 0.0
    low, _ = bisected(exceeds, low, high, close=lambda low, high: high - low < 1e-14, rounds=60)
    return math.exp(low)


def spent(run: Run, delta: float) -> float:
    """The ε of the best guarantee of `run` at `delta`."""
    if delta == 0.0 and not isinstance(run, LangevinDiffusion):
        # Gaussian guarantees say nothing here, and composing them takes long.
        return exponential.bounded_range(run, 0.0).epsilon(0.0)
    return best_guarantee(run, delta).epsilon(delta)


def within(run: Run, epsilon: float, delta: float) -> Run:
    """`run`, made warmer by as little as its guarantee needs to be (ε, δ).

    It starts at the boundary to within roundings. Raises TargetUnreachable where that is not so.
    """
    warmer = run
    for k in range(40):
        if spent(warmer, delta) <= epsilon:
            return warmer
        factor = 1e-14 * 4.0**k
        if factor >= 0.5:
            break
        warmer = _warmer(run, 1.0 - factor)
    best = spent(warmer, delta)
    raise TargetUnreachable(
        f"epsilon = {exact(epsilon)} at delta = {exact(delta)} cannot be met: "
        f"the best reachable is {shown(best)}",
        best,
    )


def _warmer(run: Run, factor: float) -> Run:
    if isinstance(run, IteratedExponentialMechanism):
        return replace(run, epsilons=tuple(e * factor for e in run.epsilons))
    if isinstance(run, LangevinDiffusion):
        return replace(run, inverse_temperature=run.inverse_temperature * factor)
    if run.epsilon is not None:
        return replace(run, epsilon=run.epsilon * factor)
    return replace(run, inverse_temperature=run.kappa * factor)
