"""Plans that draw once from a Gibbs density: the exponential mechanism, plain or with a regulariser."""

from __future__ import annotations

import math
from functools import partial

from pabi.describe.mechanisms import ExponentialMechanism
from pabi.erm.bounds import (
    MARGIN,
    free_energy,
    gibbs_any,
    gibbs_convex,
    least_argument,
    uniform_stability,
)
from pabi.erm.planned import Draft, Problem, Terms

ALGORITHM = "exponential_mechanism"
DOCS = 'docs, "Private optimisation"'
# Above the roundings of tanh, erf and a square root.
_ROUNDINGS = 1.0 + 1e-12


def drafts(problem: Problem) -> list[Draft]:
    """The plain mechanism, for the population at the best temperature, and the regularised one."""
    coldest = kappa = _kappa(problem, 0.0)
    if problem.population:  # colder is private, but less stable
        kappa = least_argument(partial(_risk, problem, None), coldest * 1e-6, coldest)
    choices: list[tuple[float | None, float]] = [(None, kappa)]
    if problem.m is not None:
        if problem.m > 0.0 and problem.population:
            choices.append((0.0, coldest))
        if problem.population or problem.delta > 0.0:
            unit = problem.lipschitz / problem.radius
            rho = least_argument(
                lambda s: _risk(problem, s, _kappa(problem, s)), 1e-12 * unit, 1e4 * unit
            )
            choices.append((rho, _kappa(problem, rho)))
    return [_draft(problem, *choice) for choice in choices]


def _draft(problem: Problem, regulariser: float | None, kappa: float) -> Draft:
    rho = regulariser or 0.0
    # Where the range alone decides, the mechanism itself works out the coldest temperature exactly.
    exact = kappa == _coldest_range(problem)
    run = ExponentialMechanism(
        problem.loss.with_l2(rho),
        problem.n,
        problem.dimension,
        problem.diameter,
        epsilon=problem.range if exact else None,
        inverse_temperature=None if exact else kappa,
        adjacency=problem.adjacency,
    )
    theorem = "Theorem D.1" if problem.m is not None else "Theorem D.5"
    if problem.population:
        theorem = "Theorem E.4" if rho > 0.0 else f"{theorem}, Corollary E.3"
    return Draft(
        ALGORITHM,
        run,
        lambda run: _terms(problem, regulariser, run.kappa),
        f"Ganesh, Thakurta, Upadhyay, Algorithm 2, {theorem}, with constants: {DOCS}",
        rho,
        partial(_quantile, problem, rho),
    )


def _coldest_range(problem: Problem) -> float:
    return problem.range / (problem.gap * problem.diameter)


def _kappa(problem: Problem, rho: float) -> float:
    """The coldest temperature that is private, by the range or as a Gaussian."""
    cold, m = _coldest_range(problem), problem.loss.least_curvature
    if m is None or problem.mu == 0.0:
        return cold
    return max(cold, problem.mu**2 / _square_per_kappa(problem, m + rho, problem.gap))


def _square_per_kappa(problem: Problem, m: float, gap: float) -> float:
    """μ²/κ of a Gibbs density: D'(2Δ − mD'), D' = min(D, Δ/m)."""
    d = problem.diameter if m * problem.diameter <= gap else gap / m
    return d * (2.0 * gap - m * d)


def _terms(problem: Problem, regulariser: float | None, kappa: float) -> Terms:
    """What the risk is the sum of. Without a regulariser, None, stability is that of nonconvex losses."""
    rho = regulariser or 0.0
    x = kappa * (problem.lipschitz + rho * problem.radius) * problem.diameter
    bound = gibbs_any if problem.m is None else gibbs_convex
    terms: Terms = (("empirical", bound(problem.dimension, x) / kappa),)
    if rho > 0.0:
        terms += (("regulariser", 0.5 * rho * problem.radius**2),)
    if problem.population:
        change = (
            _plain_stability(problem, kappa)
            if regulariser is None
            else _regularised_stability(problem, rho)
        )
        terms += (("stability", change),)
    return terms


def _plain_stability(problem: Problem, kappa: float) -> float:
    """By the total variation of the densities of two data sets, one record replaced."""
    gap, m = 2.0 * problem.lipschitz / problem.n, problem.loss.least_curvature
    variation = math.tanh(kappa * gap * problem.diameter / 4.0)
    if m is not None:
        mu = math.sqrt(kappa * _square_per_kappa(problem, m, gap))
        variation = min(variation, math.erf(mu / math.sqrt(8.0)))
    return uniform_stability(
        "nonconvex",
        lipschitz=problem.lipschitz,
        diameter=problem.diameter,
        advantage=min(1.0, variation * _ROUNDINGS),
    )


def _regularised_stability(problem: Problem, rho: float) -> float:
    """By the strong convexity of the loss and its regulariser."""
    assert problem.m is not None
    return uniform_stability(
        "strongly_convex",
        lipschitz=problem.lipschitz,
        n=problem.n,
        strong_convexity=problem.m + rho,
    )


def _risk(problem: Problem, regulariser: float | None, kappa: float) -> float:
    return sum(v for _, v in _terms(problem, regulariser, kappa))


def _quantile(problem: Problem, rho: float, run: ExponentialMechanism, probability: float) -> float:
    """A quantile of the excess empirical risk: by Gamma(p, 1)/κ where convex, else by free energy."""
    if problem.m is None:
        x = run.kappa * problem.trivial
        excess = free_energy(problem.dimension, x) - math.log1p(-probability)
    else:
        from scipy.stats import gamma

        excess = float(gamma.ppf(probability, problem.dimension))
    return (excess / run.kappa + 0.5 * rho * problem.radius**2) * MARGIN
