"""Plans that follow a reflected Langevin diffusion for a while: its last point, or its path's average."""

from __future__ import annotations

import math

import numpy as np

from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.erm import bounds
from pabi.erm.bounds import MARGIN, average_stability, least_argument, over_expm1, uniform_stability
from pabi.erm.planned import Draft, Plan, Problem, Terms
from pabi.execute.hiding import GRID
from pabi.numbers.rounding import Array

LAST, AVERAGE = "last_point", "path_average"
_SOURCES = {
    LAST: "Ganesh, Thakurta, Upadhyay, Theorem F.1, repaired",
    AVERAGE: "Ganesh, Thakurta, Upadhyay, (42), corrected",
}


def drafts(problem: Problem) -> list[Draft]:
    """The last point and the average, each with its best time; none without a δ or without convexity."""
    if problem.m is None or problem.mu == 0.0:
        return []
    return [d for name in (LAST, AVERAGE) if (d := _draft(problem, name)) is not None]


def _draft(problem: Problem, name: str) -> Draft | None:
    def risk(integral: float) -> float:
        beta = _temperature(problem, name, integral)
        return sum(v for _, v in _terms(problem, name, beta, integral / beta))

    integral = least_argument(risk, *_integrals(problem))
    beta = _temperature(problem, name, integral)
    time = integral / beta
    if not (0.0 < beta < math.inf and 0.0 < time < math.inf):
        return None
    run = LangevinDiffusion(
        problem.loss,
        problem.n,
        beta,
        time,
        adjacency=problem.adjacency,
        diameter=problem.diameter,
        release="last" if name == LAST else "path",
    )

    def terms(run: LangevinDiffusion) -> Terms:
        return _terms(problem, name, run.inverse_temperature, run.time)

    source = f'{_SOURCES[name]}, with constants: docs, "Private optimisation"'
    return Draft(name, run, terms, source)


def _integrals(problem: Problem) -> tuple[float, float]:
    """Where to look for the best ∫β: about what balances start and noise, contraction, or stability."""
    r, p, m = problem.radius, problem.dimension, problem.m
    scales = [
        problem.mu * r / (problem.gap * math.sqrt(p)),
        r * math.sqrt(problem.n) / problem.lipschitz,
        problem.diameter / problem.gap,
    ]
    if m:
        scales.append(1.0 / m)
    return min(scales) * 1e-4, max(scales) * 1e4


def _temperature(problem: Problem, name: str, integral: float) -> float:
    """The largest β that is private if βT = `integral`.

    Of the path μ² = Δ²β·(βT)/2; of the last point (Δ²β/m)·tanh(mβT/2), or βD(2Δ − mD) once the window of the
    diameter, −ln(1 − mD/Δ)/m in units of βT, is over.
    """
    square, gap, m = problem.mu**2, problem.gap, problem.m
    assert m is not None
    half = 0.5 * integral
    if name == AVERAGE:
        return square / (gap * gap * half)
    x = m * half
    forgetting = half if x < 1e-8 else math.tanh(x) / m
    beta = square / (gap * gap * forgetting)
    y = m * problem.diameter / gap
    if y < 1.0:
        window = problem.diameter / gap * (1.0 if y == 0.0 else -math.log1p(-y) / y)
        if window < integral:
            d = problem.diameter
            beta = max(beta, square / (d * (2.0 * gap - m * d)))
    return beta


def _terms(problem: Problem, name: str, beta: float, time: float) -> Terms:
    m = problem.m
    assert m is not None
    if not (0.0 < beta < math.inf and 0.0 < time < math.inf and beta * time > 0.0):
        return (("empirical", math.inf),)
    bound = bounds.last_point if name == LAST else bounds.path_average
    lipschitz, n, integral = problem.lipschitz, problem.n, beta * time
    empirical = bound(
        problem.dimension,
        inverse_temperature=beta,
        time=time,
        radius=problem.radius,
        strong_convexity=m,
    )
    if not problem.population:
        return (("empirical", empirical),)
    if name == AVERAGE:
        change = average_stability(lipschitz=lipschitz, n=n, m=m, integral=integral)
    else:
        change = uniform_stability(
            "strongly_convex" if m > 0.0 else "convex",
            lipschitz=lipschitz,
            n=n,
            strong_convexity=m or None,
            integral=integral,
        )
    return ("empirical", empirical), ("stability", change)


# The average of a projected Langevin chain's path, and what is proven of its risk.
#
# Steps x ← Π(x − h∇L(x) + √(2η)Z), h = ηβ, q = 1 − hm. With φ the squared distance from the minimiser,
# h·f(x) ≤ ½(qφ(x) − E φ(x⁺)) + ηp + ½h²G² for every convex L with ‖∇L‖ ≤ G, and h·E f(x⁺) ≤ ½(qφ(x) − E
# φ(x⁺)) + ηp/(1 − hM) where L is M-smooth and hM < 1. Weights q^(−k) make both sums telescope. Proofs:
# docs, "Private optimisation".


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
