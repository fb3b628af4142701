"""A Rényi divergence of one order as a trade-off function: never below an exact mechanism, and near some."""

import math

import mpmath
import numpy as np
import pytest

from pabi.convert import rdp_to_epsilon
from pabi.tradeoff import Gaussian, RenyiDP
from support.every_case import every

ORDERS = (1.2, 2.0, 3.5, 10.0, 64.0)
EPSILONS = np.linspace(-2.0, 6.0, 81)


def divergence(p, q, order):
    """The larger divergence of both orders of the data sets."""
    with np.errstate(over="ignore"):
        both = [np.sum(a**order * b ** (1.0 - order)) for a, b in ((p, q), (q, p))]
    return math.log(max(both)) / (order - 1.0)


def delta(p, q, epsilon):
    return np.maximum(p[None, :] - np.exp(epsilon)[:, None] * q[None, :], 0.0).sum(axis=1)


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.nightly)]
)
def test_no_exact_mechanism_reveals_more(seeds):
    """Laws on two to six outcomes, far apart and near, at a random order."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        outcomes = int(rng.integers(2, 7))
        p, q = rng.dirichlet(np.full(outcomes, rng.choice([0.3, 1.0, 20.0])), size=2)
        p, q = (0.999 * law + 0.001 / outcomes for law in (p, q))
        order = float(rng.choice(ORDERS))
        curve = RenyiDP(order, divergence(p, q, order) * (1.0 + 1e-12))
        assert (delta(p, q, EPSILONS) <= curve.delta(EPSILONS) + 1e-12).all()
        levels = np.cumsum(np.sort(rng.random(6)))[:-1] % 1.0
        ratio = np.argsort(-q / p)  # the best test of p against q rejects where q/p is large
        first, second = np.cumsum(p[ratio]), 1.0 - np.cumsum(q[ratio])
        truth = np.interp(levels, np.append(0.0, first), np.append(1.0, second))
        assert (curve(levels) <= truth + 1e-12).all()


@every("order", ORDERS)
@every("rho", [1e-6, 0.05, 1.0, 20.0])
def test_delta_is_what_the_two_bounds_say(order, rho):
    """The least of Lemma 22a, in many digits; at small ε no more than that."""
    curve = RenyiDP(order, rho)
    for epsilon in (0.0, 0.1, 1.0, 5.0, 30.0):
        a, r, e = (mpmath.mpf(x) for x in (order, rho, epsilon))
        least = mpmath.exp((a - 1) * (r - e)) * (a - 1) ** (a - 1) / a**a
        if epsilon:
            least = min(least, mpmath.expm1((a - 1) * r) / mpmath.expm1((a - 1) * e) / a)
        value = curve.delta(epsilon)
        assert value <= min(float(least) * (1.0 + 1e-15) + 5e-324, 1.0)
        if epsilon > curve.epsilon(0.01):
            assert float(least) <= value


@every("order", ORDERS)
@every("rho", [1e-6, 0.05, 1.0, 20.0])
def test_epsilon_is_no_more_than_what_is_known_of_one_order(order, rho):
    curve = RenyiDP(order, rho)
    for share in (1e-15, 1e-9, 1e-5, 1e-3):
        assert curve.epsilon(share) <= rdp_to_epsilon(orders=[order], rdp=[rho], delta=share)


def test_what_is_known_of_other_orders():
    """A divergence grows with its order."""
    curve = RenyiDP(8.0, 0.25)
    assert [curve.rdp(a) for a in (1.5, 8.0)] == [0.25, 0.25]
    assert curve.rdp(8.5) == curve.zcdp == math.inf
    assert RenyiDP(8.0, 0.0).rdp(99.0) == RenyiDP(8.0, 0.0).zcdp == 0.0


def test_the_ends():
    nothing, all_of_it = RenyiDP(8.0, 0.0), RenyiDP(8.0, math.inf)
    assert (nothing.epsilon(1e-9), all_of_it.epsilon(1e-9)) == (0.0, math.inf)
    assert (nothing.delta(0.0), all_of_it.delta(3.0)) == (0.0, 1.0)
    assert RenyiDP(8.0, 1.0).epsilon(0.0) == math.inf
    some = RenyiDP(2.0, 0.02)
    assert some.epsilon(some.delta(0.0)) == 0.0 < some.epsilon(0.9 * some.delta(0.0))
    assert RenyiDP(8.0, 1.0).delta(-math.inf) == 1.0
    assert RenyiDP(8.0, 1.0).delta(math.inf) == 0.0


def test_composed_it_is_no_less_than_what_composes():
    """Two mechanisms of one divergence, exactly, against the product of what is known of each."""
    order = 6.0
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.35, 0.25])
    curve = RenyiDP(order, divergence(p, q, order) * (1.0 + 1e-12))
    both = curve.self_compose(2)
    truth = delta(np.outer(p, p).ravel(), np.outer(q, q).ravel(), EPSILONS)
    assert (truth <= both.delta(EPSILONS) + 1e-9).all()
    assert (both.delta(EPSILONS[EPSILONS > 0]) >= curve.delta(EPSILONS[EPSILONS > 0]) - 1e-9).all()
    beside = curve.compose(Gaussian(1e-6))
    assert curve.epsilon(1e-5) <= beside.epsilon(1e-5) * 1.001 <= 1.01 * curve.epsilon(1e-5)
