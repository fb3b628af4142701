"""Plans that draw once from a Gibbs density: the exponential mechanism, plain or with a regulariser."""

from __future__ import annotations

import math
from functools import partial

from pabi.describe.mechanisms import ExponentialMechanism
from pabi.erm.bounds import MARGIN, free_energy, gibbs_any, gibbs_convex, least_argument
from pabi.erm.problem import Draft, Problem, Terms
from pabi.erm.stability import uniform_stability

ALGORITHM = "exponential_mechanism"
DOCS = 'docs, "Private optimisation"'


def drafts(problem: Problem) -> list[Draft]:
    """The plain mechanism, for the population at the best temperature, and the regularised one."""
    kappa = _kappa(problem, 0.0)
    if problem.population:
        kappa = least_argument(
            lambda k: _plain_risk(problem, k), kappa * 1e-6, kappa
        )  # colder is private, but less stable
    candidates = [_draft(problem, kappa, 0.0, partial(_plain_terms, problem))]
    if problem.m is None:
        return candidates
    if problem.m > 0.0 and problem.population:
        regularised = partial(_regularised_terms, problem, 0.0)
        candidates.append(_draft(problem, _kappa(problem, 0.0), 0.0, regularised))
    if problem.population or problem.delta > 0.0:
        unit = problem.lipschitz / problem.radius
        rho = least_argument(lambda s: _regularised_risk(problem, s), 1e-12 * unit, 1e4 * unit)
        candidates.append(
            _draft(problem, _kappa(problem, rho), rho, partial(_regularised_terms, problem, rho))
        )
    return candidates


def _draft(problem: Problem, kappa: float, rho: float, terms: partial[Terms]) -> Draft:
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
        terms,
        f"Ganesh, Thakurta, Upadhyay, Algorithm 2, {theorem}, with constants: {DOCS}",
        rho,
        partial(_quantile, problem, rho),
    )


def _coldest_range(problem: Problem) -> float:
    return problem.range / (problem.gap * problem.diameter)


def _kappa(problem: Problem, rho: float) -> float:
    """The coldest temperature that is private, by the range or as a Gaussian."""
    cold = _coldest_range(problem)
    m = _curvature(problem)
    if m is None or problem.mu == 0.0:
        return cold
    return max(cold, problem.mu**2 / _square_per_kappa(problem, m + rho, problem.gap))


def _curvature(problem: Problem) -> float | None:
    return problem.loss.least_curvature


def _square_per_kappa(problem: Problem, m: float, gap: float) -> float:
    """μ²/κ of a Gibbs density: D'(2Δ − mD'), D' = min(D, Δ/m)."""
    d = problem.diameter if m * problem.diameter <= gap else gap / m
    return d * (2.0 * gap - m * d)


def _sampling(problem: Problem, kappa: float, rho: float = 0.0) -> float:
    """E of the excess of the sampled loss, regulariser included."""
    x = kappa * (problem.lipschitz + rho * problem.radius) * problem.diameter
    bound = gibbs_any if problem.m is None else gibbs_convex
    return bound(problem.dimension, x) / kappa


def _plain_terms(problem: Problem, run: ExponentialMechanism) -> Terms:
    return _plain(problem, run.kappa)


def _plain(problem: Problem, kappa: float) -> Terms:
    sampling = ("empirical", _sampling(problem, kappa))
    if not problem.population:
        return (sampling,)
    # The total variation of the densities of two data sets, one record replaced.
    gap = 2.0 * problem.lipschitz / problem.n
    variation = math.tanh(kappa * gap * problem.diameter / 4.0)
    m = _curvature(problem)
    if m is not None:
        mu = math.sqrt(kappa * _square_per_kappa(problem, m, gap))
        variation = min(variation, math.erf(mu / math.sqrt(8.0)))
    change = uniform_stability(
        "nonconvex",
        lipschitz=problem.lipschitz,
        diameter=problem.diameter,
        advantage=min(1.0, variation * (1.0 + 1e-12)),
    )
    return (sampling, ("stability", change))


def _plain_risk(problem: Problem, kappa: float) -> float:
    return sum(v for _, v in _plain(problem, kappa))


def _regularised_terms(problem: Problem, rho: float, run: ExponentialMechanism) -> Terms:
    return _regularised(problem, rho, run.kappa)


def _regularised(problem: Problem, rho: float, kappa: float) -> Terms:
    terms: Terms = (("empirical", _sampling(problem, kappa, rho)),)
    if rho > 0.0:
        terms += (("regulariser", 0.5 * rho * problem.radius**2),)
    if problem.population:
        assert problem.m is not None
        change = uniform_stability(
            "strongly_convex",
            lipschitz=problem.lipschitz,
            n=problem.n,
            strong_convexity=problem.m + rho,
        )
        terms += (("stability", change),)
    return terms


def _regularised_risk(problem: Problem, rho: float) -> float:
    return sum(v for _, v in _regularised(problem, rho, _kappa(problem, rho)))


def _quantile(problem: Problem, rho: float, run: ExponentialMechanism, probability: float) -> float:
    """Of the excess empirical risk: Gamma(p, 1)/κ where convex, else free energy and exponential tail."""
    if problem.m is None:
        x = run.kappa * problem.trivial
        excess = free_energy(problem.dimension, x) - math.log1p(-probability)
    else:
        from scipy.stats import gamma

        excess = float(gamma.ppf(probability, problem.dimension))
    return (excess / run.kappa + 0.5 * rho * problem.radius**2) * MARGIN
