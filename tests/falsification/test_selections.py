"""Attacks on private selection: exact laws of the best run never reveal more than is proven."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from tests.support.falsification.selections import (
    best_of,
    delta,
    generating,
    log_ratio,
    masses,
    mean,
)

from pabi.tradeoff import Gaussian, PrivacyLossDistribution, Selected, selected

EPSILONS = np.linspace(-1.0, 8.0, 181)
SHAPES = (-0.5, 0.0, 0.5, 1.0, 3.0)
ROUNDING = 1e-12


def case(seed):
    """(P, Q, how good each output is, γ, η) of a random mechanism with few outputs, ties included."""
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(2, 7))
    p, q = rng.dirichlet(np.full(outputs, 0.7), size=2)
    p, q = (0.98 * law + 0.02 / outputs for law in (p, q))
    cells = rng.integers(0, outputs, size=outputs)
    gamma = float(rng.choice([0.5, 0.2, 0.05, 0.01]))
    return p, q, cells, gamma, float(rng.choice(SHAPES))


def proven(p, q, *, gamma, shape, swapped=True, factor=1.0, exponent=None):
    """The bound on δ(P‖Q) of the best run. `swapped`: R of T(P, Q), as the proof has it, and else of T(Q, P).
    `factor`: of E[K]; `exponent`: of R, else η + 1."""
    root = log_ratio(*((p, q) if swapped else (q, p)), gamma)
    shifted = EPSILONS - (exponent or shape + 1.0) * root
    return np.minimum(1.0, factor * mean(gamma, shape) * delta(p, q, shifted))


def beaten(bound, seed):
    p, q, cells, gamma, shape = case(seed)
    one, other = (best_of(law, cells, gamma, shape) for law in (p, q))
    return any(
        (delta(a, b, EPSILONS) > bound(c, d, gamma=gamma, shape=shape) + ROUNDING).any()
        for a, b, c, d in ((one, other, p, q), (other, one, q, p))
    )


def test_the_generating_function_is_that_of_the_masses():
    x = np.array([0.0, 0.3, 0.9])
    for shape in SHAPES:
        weights = masses(0.05, shape, 4000)
        powers = x[:, None] ** np.arange(1.0, 4001.0)
        assert generating(x, 0.05, shape) == pytest.approx(powers @ weights, abs=1e-12)
        assert mean(0.05, shape) == pytest.approx(weights @ np.arange(1.0, 4001.0), rel=1e-10)


def test_no_exact_case_beats_the_bound():
    """10³ mechanisms, both orders of the data sets, every ε of a grid."""
    assert not [seed for seed in range(1000) if beaten(proven, seed)]


def test_wrong_bounds_are_refuted():
    """R of T(Q, P) in place of T(P, Q); less than E[K]; log R in place of (η + 1)·log R."""
    wrongs = {"swapped": False}, {"factor": 0.9}, {"exponent": 1.0}
    for wrong in wrongs:
        bound = partial(proven, **wrong)
        assert any(beaten(bound, seed) for seed in range(1000)), wrong


def test_the_library_is_never_beaten():
    """Its curve is for both orders at once."""
    for seed in range(25):
        p, q, cells, gamma, shape = case(seed)
        curve = selected(PrivacyLossDistribution(p, q), max(1.01, mean(gamma, shape)), shape)
        one, other = (best_of(law, cells, gamma, shape) for law in (p, q))
        bound = curve.delta(EPSILONS) + ROUNDING
        assert (delta(one, other, EPSILONS) <= bound).all(), seed
        assert (delta(other, one, EPSILONS) <= bound).all(), seed


def gaussian_delta(mu, gamma, shape, epsilon, sign):
    """δ of the best of K draws from N(0, 1), against N(sign·μ, 1), the larger the better."""

    def density(y, centre):
        inner = 1.0 - (1.0 - gamma) * norm.cdf(y - centre)
        return (
            norm.pdf(y - centre) * mean(gamma, shape) * gamma ** (shape + 1) * inner ** (-shape - 1)
        )

    def excess(y):
        return max(0.0, density(y, 0.0) - math.exp(epsilon) * density(y, sign * mu))

    return quad(excess, -12.0, 12.0, limit=400)[0]


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_gaussian_runs_by_quadrature(shape, sign):
    gamma, mu = 0.05, 0.8
    curve = selected(Gaussian(mu), mean(gamma, shape) * (1.0 + 1e-12), shape)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0):
        truth = gaussian_delta(mu, gamma, shape, epsilon, sign)
        assert truth <= curve.delta(epsilon) + 1e-9


def test_a_run_alone_is_refuted():
    """Charging for one run only: the best of several reveals more."""
    alone = Selected(Gaussian(0.8), 1.0, 0.0)
    assert gaussian_delta(0.8, 0.05, 1.0, 2.0, -1.0) > alone.delta(2.0)
