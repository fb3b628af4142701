"""What private risk minimisation can run: diffusions, Gibbs draws, iterated draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.execute.hiding import GRID
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.sampling import erm_bounds as bounds
from pabi.sampling.erm_bounds import (
    MARGIN,
    average_stability,
    free_energy,
    gibbs_any,
    gibbs_convex,
    least_argument,
    over_expm1,
    spent,
    uniform_stability,
)
from pabi.sampling.erm_problem import Draft, Plan, Problem, Terms

# Plans that follow a reflected Langevin diffusion for a while: its last point, or its path's average.


DOCS = 'docs, "Private optimisation"'
LAST, AVERAGE = "last_point", "path_average"
_SOURCES = {
    LAST: "Ganesh, Thakurta, Upadhyay, Theorem F.1, repaired",
    AVERAGE: "Ganesh, Thakurta, Upadhyay, (42), corrected",
}


def diffusion_drafts(problem: Problem) -> list[Draft]:
    """The last point and the average, each with its best time; none without a δ or without convexity."""
    if problem.m is None or problem.mu == 0.0:
        return []
    return [d for name in (LAST, AVERAGE) if (d := _draft_diffusion(problem, name)) is not None]


def _draft_diffusion(problem: Problem, name: str) -> Draft | None:
    def risk(integral: float) -> float:
        beta = _temperature(problem, name, integral)
        return sum(v for _, v in _terms_diffusion(problem, name, beta, integral / beta))

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

    return Draft(
        name,
        run,
        lambda run: _terms_diffusion(problem, name, run.inverse_temperature, run.time),
        f"{_SOURCES[name]}, with constants: {DOCS}",
    )


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


def _terms_diffusion(problem: Problem, name: str, beta: float, time: float) -> Terms:
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


_BELOW_DIFFUSION = 1.0 - 1e-9  # below the roundings of a share that is taken off


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
    return scale / m * max(0.0, 1.0 - share * _BELOW_DIFFUSION)


# Plans that draw once from a Gibbs density: the exponential mechanism, plain or with a regulariser.


ALGORITHM_GIBBS = "exponential_mechanism"
# Above the roundings of tanh, erf and a square root.
_ROUNDINGS = 1.0 + 1e-12


def gibbs_drafts(problem: Problem) -> list[Draft]:
    """The plain mechanism, for the population at the best temperature, and the regularised one."""
    coldest = kappa = _kappa(problem, 0.0)
    if problem.population:  # colder is private, but less stable
        kappa = least_argument(partial(_risk_gibbs, problem, None), coldest * 1e-6, coldest)
    choices: list[tuple[float | None, float]] = [(None, kappa)]
    if problem.m is not None:
        if problem.m > 0.0 and problem.population:
            choices.append((0.0, coldest))
        if problem.population or problem.delta > 0.0:
            unit = problem.lipschitz / problem.radius
            rho = least_argument(
                lambda s: _risk_gibbs(problem, s, _kappa(problem, s)), 1e-12 * unit, 1e4 * unit
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
        ALGORITHM_GIBBS,
        run,
        lambda run: _terms_gibbs(problem, regulariser, run.kappa),
        f"Ganesh, Thakurta, Upadhyay, Algorithm 2, {theorem}, with constants: {DOCS}",
        rho,
        partial(_quantile_gibbs, problem, rho),
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


def _terms_gibbs(problem: Problem, regulariser: float | None, kappa: float) -> Terms:
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


def _risk_gibbs(problem: Problem, regulariser: float | None, kappa: float) -> float:
    return sum(v for _, v in _terms_gibbs(problem, regulariser, kappa))


def _quantile_gibbs(
    problem: Problem, rho: float, run: ExponentialMechanism, probability: float
) -> float:
    """A quantile of the excess empirical risk: by Gamma(p, 1)/κ where convex, else by free energy."""
    if problem.m is None:
        x = run.kappa * problem.trivial
        excess = free_energy(problem.dimension, x) - math.log1p(-probability)
    else:
        from scipy.stats import gamma

        excess = float(gamma.ppf(probability, problem.dimension))
    return (excess / run.kappa + 0.5 * rho * problem.radius**2) * MARGIN


# Plans for strongly convex losses that draw in rounds, each from a smaller set around the last draw.


ALGORITHM = "iterated_exponential_mechanism"
_MOST_ROUNDS = 8
_BELOW = 1.0 - 1e-13  # so that roundings do not carry a sum of ε past the target


@dataclass(frozen=True)
class _Choice:
    """ε of every round, γ, and how many records the rounds but the last use (None: all do)."""

    epsilons: tuple[float, ...]
    failure: float
    split: int | None


def iterated_drafts(problem: Problem) -> list[Draft]:
    """The best number of rounds ≥ 2, if the numbers allow any."""
    if not problem.m or (problem.population and problem.n < 4):
        return []
    best, least = None, math.inf
    for rounds in range(2, _MOST_ROUNDS + 1):
        choices = [_best(problem, epsilons) for epsilons in _budgets(problem, rounds)]
        choice = min(choices, key=lambda c: _risk(problem, c))
        if not (risk := _risk(problem, choice)) < least:
            break
        best, least = choice, risk
    run = None if best is None else _run(problem, best)
    if run is None:
        return []
    theorem = "Theorem E.6, on split records" if problem.population else "Theorem D.3"
    return [
        Draft(
            ALGORITHM,
            run,
            partial(_terms, problem),
            f"Ganesh, Thakurta, Upadhyay, Algorithm 3, {theorem}, with constants: {DOCS}",
            quantile=None if problem.population else partial(_quantile, problem),
        )
    ]


def _budgets(problem: Problem, rounds: int) -> list[tuple[float, ...]]:
    """Ways to divide ε, pure in every round.

    Where every set is smaller than the one before, the last diameter is a product of powers
    ε_i^(−2^(i−k)), so that ε_i ∝ 2^(i−k) is the best split of a sum. With split records the last round is
    apart: two data sets that differ in one record differ in one part only. How that is accounted decides
    whether its ε is free of the others' or best equal to the one before.
    """
    epsilon = problem.epsilon
    if not problem.population:
        return [_shares(epsilon, [2.0 ** (i + 1 - rounds) for i in range(rounds)])]
    apart = (*_shares(epsilon, [2.0 ** (i + 2 - rounds) for i in range(rounds - 1)]), epsilon)
    tied = [2.0 ** (i + 2 - rounds) for i in range(rounds - 2)]
    *before, last = _shares(epsilon, [*tied, 3.0])
    return [_accounted(problem, epsilons) for epsilons in (apart, (*before, last, last))]


def _shares(epsilon: float, weights: list[float]) -> tuple[float, ...]:
    whole = sum(weights)
    return tuple(epsilon * w / whole for w in weights)


def _accounted(problem: Problem, epsilons: tuple[float, ...]) -> tuple[float, ...]:
    """`epsilons`, all lowered in proportion where their guarantee is not ε yet."""
    run = _run(problem, _Choice(epsilons, 0.01, problem.n // 2))
    if run is None:
        return epsilons
    together = spent(run, 0.0)
    if together <= problem.epsilon:
        return epsilons
    return tuple(e * problem.epsilon / together * _BELOW for e in epsilons)


def _best(problem: Problem, epsilons: tuple[float, ...]) -> _Choice:
    """The best γ and, for the population, the best number of records for the rounds but the last."""

    def failure(split: int | None) -> float:
        return least_argument(
            lambda f: _risk(problem, _Choice(epsilons, f, split)), 1e-14, 0.5, points=25
        )

    def records(share: float) -> int:
        return max(1, min(problem.n - 1, round(problem.n / share)))

    if not problem.population:
        return _Choice(epsilons, failure(None), None)
    gamma, split = 1e-3 / math.sqrt(problem.n), problem.n // 2
    for _ in range(2):

        def of_share(share: float, gamma: float = gamma) -> float:
            return _risk(problem, _Choice(epsilons, gamma, records(share)))

        split = records(least_argument(of_share, 1.01, 1e4, points=25))
        gamma = failure(split)
    return _Choice(epsilons, gamma, split)


def _risk(problem: Problem, choice: _Choice) -> float:
    """The bound of `_terms`, in plain floating point: the radii are those of the mechanism's rounds."""
    from scipy.special import chdtri

    m, p, scale = problem.m, problem.dimension, problem.lipschitz
    assert m is not None
    split, k = choice.split, len(choice.epsilons)
    share = choice.failure / (k - 1 + (split is not None))
    root, extra = math.sqrt(float(chdtri(p, share)) / m), 0.0
    if split is not None:
        extra = scale / (m * math.sqrt(split)) * (1.0 + math.sqrt(-2.0 * math.log(share)))
    diameter = problem.diameter
    gap = problem.gap * (1.0 if split is None else problem.n / split)
    for epsilon in choice.epsilons[:-1]:
        diameter = min(diameter, 2.0 * (root * math.sqrt(gap * diameter / epsilon) + extra))
    left = problem.n if split is None else problem.n - split
    kappa = choice.epsilons[-1] / (problem.gap * problem.n / left * diameter)
    if not 0.0 < kappa < math.inf:
        return math.inf
    stability = 0.0 if split is None else 2.0 * scale * scale / (m * left)
    empirical = gibbs_convex(p, kappa * scale * diameter) / kappa
    return empirical + stability + choice.failure * scale * problem.diameter


def _run(problem: Problem, choice: _Choice) -> IteratedExponentialMechanism | None:
    try:
        return IteratedExponentialMechanism(
            problem.loss,
            problem.n,
            problem.dimension,
            problem.diameter,
            choice.epsilons,
            choice.failure,
            adjacency=problem.adjacency,
            split=choice.split,
        )
    except (InvalidInput, ZeroDivisionError, OverflowError):
        return None  # a set so small, or a temperature so cold, that it leaves the range of numbers


def _terms(problem: Problem, run: IteratedExponentialMechanism) -> Terms:
    last = run.rounds[-1]
    kappa = last.inverse_temperature
    x = kappa * problem.lipschitz * last.diameter
    terms: Terms = (("empirical", gibbs_convex(problem.dimension, x) / kappa),)
    if problem.population:
        change = uniform_stability(
            "strongly_convex",
            lipschitz=problem.lipschitz,
            n=run.records(len(run.epsilons) - 1),
            strong_convexity=run.strong_convexity,
        )
        terms += (("stability", change),)
    return (*terms, ("failure", run.failure * problem.lipschitz * run.rounds[0].diameter))


def _quantile(problem: Problem, run: IteratedExponentialMechanism, probability: float) -> float:
    """A quantile of the excess empirical risk: all rounds' sets hold the minimiser but for `failure`."""
    if probability >= 1.0 - run.failure:
        return problem.trivial
    from scipy.stats import gamma

    tail = (1.0 - probability) - run.failure
    excess = float(gamma.isf(tail, problem.dimension)) / run.rounds[-1].inverse_temperature
    return min(excess * MARGIN, problem.trivial)
