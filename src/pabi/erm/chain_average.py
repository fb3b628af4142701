"""The average of a projected Langevin chain's path, and what is proven of its risk.

Steps x ← Π(x − h∇L(x) + √(2η)Z), h = ηβ, q = 1 − hm. With φ the squared distance from the minimiser,
h·f(x) ≤ ½(qφ(x) − E φ(x⁺)) + ηp + ½h²G² for every convex L with ‖∇L‖ ≤ G, and
h·E f(x⁺) ≤ ½(qφ(x) − E φ(x⁺)) + ηp/(1 − hM) where L is M-smooth and hM < 1. Weights q^(−k) make both sums
telescope. Proofs: docs, "Private optimisation".
"""

from __future__ import annotations

import math

import numpy as np

from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.erm.bounds import MARGIN, over_expm1
from pabi.erm.planned import Plan
from pabi.execute.hiding import GRID
from pabi.numbers.rounding import Array

_BELOW = 1.0 - 1e-9  # below the roundings of a share that is taken off


def enough_steps(plan: Plan) -> int:
    """How many steps raise the empirical term by about a tenth: hM ≤ 1/20, or ½hG² a tenth of the term."""
    run = plan.run
    assert isinstance(run, LangevinDiffusion)
    integral = float(run.inverse_temperature) * run.time
    empirical = dict(plan.terms)["empirical"]
    rough = 5.0 * integral * plan.lipschitz**2 / empirical
    steps = min(rough, 20.0 * integral * plan.smoothness)
    if plan.strong_convexity:
        steps = max(steps, 2.0 * integral * plan.strong_convexity)
    return max(1, math.ceil(min(steps, 1e18)))


def contracting_steps(plan: Plan) -> float:
    """From how many steps on the chain's contract by 1 − hm: h(M + m) ≤ 2. ∞ where M is not known."""
    run = plan.run
    assert isinstance(run, LangevinDiffusion)
    rate = plan.smoothness + (plan.strong_convexity or 0.0)
    needed = 0.5 * float(run.inverse_temperature) * run.time * rate
    return math.ceil(needed * MARGIN) if math.isfinite(needed) else math.inf


def of_path(plan: Plan, chain: LangevinChain, path: Array) -> tuple[Array, float | None]:
    """(the average, a bound on its expected excess risk) of (steps, p) iterates after the start at 0.

    The bound is None where hm ≥ 1, and for the population's risk unless steps are known not to expand.
    """
    h, steps, m = chain.gradient_step, chain.steps, plan.strong_convexity or 0.0
    rate = -math.log1p(-h * m) if h * m < 1.0 else math.inf  # ln 1/q
    smooth, rough = _smooth(plan, chain), 1.0 / chain.inverse_temperature
    rough = plan.dimension * rough + 0.5 * h * plan.lipschitz**2
    use_ends = smooth <= rough
    points = path if use_ends else np.concatenate([np.zeros((1, path.shape[1])), path[:-1]])
    if not math.isfinite(rate):
        return np.array(points[-1]), None
    # The weights q^(−k), relative to the last one's.
    weights = np.exp(rate * (np.arange(steps) - (steps - 1.0)))
    average = weights @ points / weights.sum()
    # h·Σ q^(−k) = (e^(rate·steps) − 1)/m, and h·steps for m = 0.
    start = 0.5 * plan.radius**2
    start *= over_expm1(rate, steps) * (m / rate if m > 0.0 else 1.0 / h)
    rounding = plan.lipschitz * math.sqrt(plan.dimension) * GRID * chain.step_noise_std
    bound = start + min(smooth, rough) + rounding
    if plan.objective == "sco":
        bound += _stability(plan, chain, rate, use_ends)
    return average, min(bound * MARGIN, plan.trivial_bound) if math.isfinite(bound) else None


def _smooth(plan: Plan, chain: LangevinChain) -> float:
    """The noise's term, (p/β)/(1 − hM)."""
    left = 1.0 - chain.gradient_step * plan.smoothness
    return plan.dimension / chain.inverse_temperature / left if left > 0.0 else math.inf


def _stability(plan: Plan, chain: LangevinChain, rate: float, ends: bool) -> float:
    """The stability (2L²/(mn))(1 − steps/Σ q^(−j)) of the average, where a step is known to contract by q."""
    h, steps, m = chain.gradient_step, chain.steps, plan.strong_convexity or 0.0
    if not h * (plan.smoothness + m) <= 2.0:
        return math.inf
    scale = 2.0 * plan.lipschitz**2 / plan.run.n
    if m == 0.0:
        return scale * h * 0.5 * (steps + (1 if ends else -1))
    # Whichever points are averaged, the ends are at least as far apart.
    share = steps * over_expm1(rate, steps) * (h * m / rate)
    return scale / m * max(0.0, 1.0 - share * _BELOW)
