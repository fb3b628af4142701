"""A Poisson batch above the cap may be replaced by an empty one, never be cut.

One step on linear losses, zeroed-out record, everything in one dimension: all other records pull by
`pull`, the record in question by 1, and the noise on the sum is N(0, (1/μ)²). What the batch holds is a
finite mixture, so that δ(ε) is an integral over where one Gaussian mixture exceeds another. The Gaussian
sampled with probability p, O_p(μ) = T(p·N(μ, 1) + (1 − p)·N(0, 1), N(0, 1)), is what is claimed of such
a step.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm


def sampled(n, p, cap, rule):
    """{(whether the record is summed, how many others are): probability}."""
    found: dict[tuple[int, int], float] = {}

    def add(present, others, probability):
        found[present, others] = found.get((present, others), 0.0) + probability

    for others in range(n):
        weight = float(binom.pmf(others, n - 1, p))
        for drawn, probability in ((0, weight * (1.0 - p)), (1, weight * p)):
            size = others + drawn
            if size <= cap:
                add(drawn, others, probability)
            elif rule == "empty":
                add(0, 0, probability)
            else:  # a uniformly random part of it
                kept = drawn * cap / size
                add(1, cap - 1, probability * kept)
                add(0, cap, probability * (1.0 - kept))
    return found


def hockey_stick(p, q, epsilon):
    """∫ (Σ p_m N(m, 1) − e^ε Σ q_m N(m, 1))₊ for two mixtures {mean: weight}: the ends of where the
    integrand is positive, found from a grid on, and normal probabilities between them."""
    means = np.array([*p, *q])
    weights = np.array([*p.values(), *(-math.exp(epsilon) * w for w in q.values())])

    def excess(x):
        return float(weights @ np.exp(-0.5 * (x - means) ** 2))

    grid = np.arange(np.min(means) - 10.0, np.max(means) + 10.0, 0.02)
    values = np.exp(-0.5 * (grid[:, None] - means) ** 2) @ weights
    turns = np.flatnonzero(np.sign(values[1:]) * np.sign(values[:-1]) < 0.0)
    edges = [-np.inf, *(brentq(excess, grid[i], grid[i + 1]) for i in turns), np.inf]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        middle = np.clip(0.5 * (max(low, grid[0]) + min(high, grid[-1])), grid[0], grid[-1])
        if excess(middle) > 0.0:
            total += float(weights @ (ndtr(high - means) - ndtr(low - means)))
    return total


def exact_delta(batches, pull, mu, epsilon):
    """The larger δ of the two directions, record present against record zeroed."""
    with_it: dict[float, float] = {}
    without: dict[float, float] = {}
    for (present, others), weight in batches.items():
        for law, own in ((with_it, 1.0), (without, 0.0)):
            total = present * own + others * pull
            law[mu * total] = law.get(mu * total, 0.0) + weight
    return max(hockey_stick(with_it, without, epsilon), hockey_stick(without, with_it, epsilon))


def claimed_delta(p, mu, epsilon):
    """δ of O_p(μ) and of its inverse, in closed form."""
    e = math.exp(epsilon)
    at = math.log((e - 1.0 + p) / p) / mu + mu / 2.0  # where the likelihood ratio is e^ε
    forward = p * norm.sf(at - mu) + (1.0 - p) * norm.sf(at) - e * norm.sf(at)
    if 1.0 / e <= 1.0 - p:
        return forward
    at = math.log((1.0 / e - 1.0 + p) / p) / mu + mu / 2.0
    return max(forward, norm.cdf(at) - e * (p * norm.cdf(at - mu) + (1.0 - p) * norm.cdf(at)))


def test_a_batch_cut_to_the_cap_costs_more_than_is_claimed():
    """With one record in fifty expected and at most one kept, it is seen to be there from the others
    not being there: δ(0.2) = 2.27e-4 instead of 1.29e-4."""
    truth = exact_delta(sampled(50, 0.02, 1, "cut"), -1.0, 1.0, 0.2)
    claim = claimed_delta(0.02, 1.0, 0.2)
    assert truth == pytest.approx(2.27e-4, rel=2e-3)
    assert claim == pytest.approx(1.29e-4, rel=2e-3)


def test_the_same_batch_replaced_by_an_empty_one_does_not():
    truth = exact_delta(sampled(50, 0.02, 1, "empty"), -1.0, 1.0, 0.2)
    assert 0.0 < truth < claimed_delta(0.02, 1.0, 0.2)


@pytest.mark.parametrize("cap", [1, 2, 3, 50])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_empty_batches_never_cost_more_than_is_claimed(cap, mu):
    """Whichever way the others pull, and at every ε. Rounding of 10⁻¹⁴ is allowed for."""
    batches = sampled(50, 0.02, cap, "empty")
    for epsilon in (0.0, 0.01, 0.2, 1.0):
        claim = claimed_delta(0.02, mu, epsilon)
        for pull in (-1.0, -0.4, 0.0, 0.3, 1.0):
            assert exact_delta(batches, pull, mu, epsilon) <= claim + 1e-14


def test_without_others_in_the_way_the_claim_is_met():
    """Others that pull nowhere leave the sampled Gaussian itself: the two computations agree."""
    batches = sampled(50, 0.02, 50, "empty")
    for mu in (0.3, 1.0, 2.5):
        for epsilon in (0.0, 0.01, 0.2, 1.0):
            truth = exact_delta(batches, 0.0, mu, epsilon)
            assert truth == pytest.approx(claimed_delta(0.02, mu, epsilon), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("rule", ["empty", "cut"])
def test_why(rule):
    """Given the other records that are summed, the record is summed with probability at most p under
    the rule of empty batches; under truncation it is likelier where the others are few."""
    batches = sampled(50, 0.02, 2, rule)
    assert sum(batches.values()) == pytest.approx(1.0, rel=1e-12)
    odds = []
    for others in range(3):
        there, away = (batches.get((present, others), 0.0) for present in (1, 0))
        odds.append(there / (there + away))
    assert (max(odds) <= 0.02 * (1.0 + 1e-12)) == (rule == "empty")
