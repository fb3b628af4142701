"""Plans that follow a reflected Langevin diffusion for a while: its last point, or its path's average."""

from __future__ import annotations

import math

from pabi.describe.langevin import LangevinDiffusion
from pabi.erm import bounds
from pabi.erm.bounds import least_argument
from pabi.erm.problem import Draft, Problem, Terms
from pabi.erm.stability import average_stability, uniform_stability

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
    ]
    scales.append(problem.diameter / problem.gap)
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
