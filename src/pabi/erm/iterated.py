"""Plans for strongly convex losses that draw in rounds, each from a smaller set around the last draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from pabi.describe.mechanisms import IteratedExponentialMechanism
from pabi.erm.bounds import MARGIN, gibbs_convex, least_argument, spent, uniform_stability
from pabi.erm.planned import Draft, Problem, Terms
from pabi.numbers.errors import InvalidInput

ALGORITHM = "iterated_exponential_mechanism"
_MOST_ROUNDS = 8
_BELOW = 1.0 - 1e-13  # so that roundings do not carry a sum of ε past the target


@dataclass(frozen=True)
class _Choice:
    """ε of every round, γ, and how many records the rounds but the last use (None: all do)."""

    epsilons: tuple[float, ...]
    failure: float
    split: int | None


def drafts(problem: Problem) -> list[Draft]:
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
            f"Ganesh, Thakurta, Upadhyay, Algorithm 3, {theorem}, with constants: "
            'docs, "Private optimisation"',
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
