"""What a ledger charges and grants, and adversaries who choose each release from the outputs before it.

The whole interaction of such an adversary is computed: by quadrature where releases are Gaussian, by going
through all outputs where they are few. It never reveals more than the budget.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from pabi.budget.filters import (
    GaussianFilter,
    RenyiFilter,
    filter_of,
    read_filter,
    root_of_fraction_down,
)
from pabi.convert import gdp_to_delta, gdp_to_epsilon
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import ApproxDP, Gaussian, Mixture, PoissonSubsampled, Product
from pabi.tradeoff.gaussian_below import gaussian_below

EPSILON, DELTA = 1.0, 1e-5
EPSILONS = (-0.5, 0.0, 0.2, 0.7, 1.5, 3.0)


# Budgets.


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-5), (0.01, 1e-9), (8.0, 1e-3), (30.0, 0.5)]
)
def test_the_budget_is_the_largest_that_meets_the_target(epsilon, delta):
    mu = GaussianFilter.of(epsilon, delta).mu

    def exact(m):
        m, e = mpmath.mpf(m), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)

    with mpmath.workdps(40):
        assert exact(mu) <= mpmath.mpf(delta)
        assert exact(mu * (1 + 1e-12)) > mpmath.mpf(delta)


@pytest.mark.parametrize("order", [8.0, 20.0, 50.0])
def test_the_budget_of_an_order_by_an_independent_conversion(order):
    """Mironov's conversion gives less; the exact least of two-point laws gives no more."""
    rho = RenyiFilter.of(EPSILON, DELTA, order).rho
    assert rho > EPSILON + math.log(DELTA) / (order - 1.0)
    # A Gaussian with that divergence keeps the target.
    assert gdp_to_delta(math.sqrt(2.0 * rho / order), EPSILON) <= DELTA


def test_sums_are_exact_and_roundings_grant_nothing():
    one = GaussianFilter.of(EPSILON, DELTA)
    assert one.size(0.1) == Fraction(0.1) ** 2
    left = one.left(Fraction(0.2) ** 2)
    assert Fraction(left) ** 2 + Fraction(0.2) ** 2 <= one.limit
    assert Fraction(math.nextafter(left, 1.0)) ** 2 + Fraction(0.2) ** 2 > one.limit
    assert one.left(2 * one.limit) == 0.0
    assert root_of_fraction_down(Fraction(2)) ** 2 < 2.0
    assert root_of_fraction_down(Fraction(9, 4)) == 1.5


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_what_is_left_is_rounded_down(share):
    for one in (GaussianFilter.of(EPSILON, DELTA), RenyiFilter.of(EPSILON, DELTA, 20.0)):
        spent = one.limit * Fraction(share)
        epsilon = one.epsilon_left(spent, DELTA)
        assert (epsilon == 0.0) == (share == 1.0)
        mu = GaussianFilter.of(epsilon, DELTA).mu if epsilon else 0.0
        assert spent + one.size(one.charge(Gaussian(mu))) <= one.limit * (1 + Fraction(1, 10**12))
        assert one.epsilon(spent, DELTA) <= EPSILON
        assert (one.epsilon(spent, DELTA) == 0.0) == (share == 0.0)


def test_charges():
    gaussian, renyi = filter_of(EPSILON, DELTA, None), filter_of(EPSILON, DELTA, 20.0)
    mixture = Mixture([Gaussian(0.05), Gaussian(0.2)], [0.9, 0.1])
    assert gaussian.charge(mixture) == 0.2
    # log Σ w·exp(α(α−1)μ²/2)/(α−1)
    moment = 0.9 * math.exp(190 * 0.05**2) + 0.1 * math.exp(190 * 0.2**2)
    assert renyi.charge(mixture) == pytest.approx(math.log(moment) / 19.0, rel=1e-9)
    assert renyi.charge(Gaussian(0.2)) == pytest.approx(20.0 * 0.02, rel=1e-12)
    for one in (gaussian, renyi):
        assert one.charge(ApproxDP(0.1, 1e-9)) == math.inf
        assert read_filter(one.to_dict()) == one


def test_random_batches_are_cheaper_by_their_divergence():
    run = Product([(PoissonSubsampled(0.5, 0.01), 500)])
    gaussian, renyi = filter_of(2.0, DELTA, None), filter_of(2.0, DELTA, 10.0)
    assert gaussian.charge(run) > gaussian.mu
    assert renyi.charge(run) < renyi.rho


@pytest.mark.parametrize(
    "data",
    [None, {}, {"kind": "laplace"}, {"kind": ["gaussian"]}, {"kind": "gaussian"},
     {"kind": "gaussian", "mu": -1.0}, {"kind": "gaussian", "mu": 1.0, "more": 1}],
)  # fmt: skip
def test_filters_from_elsewhere_are_refused(data):
    with pytest.raises(InvalidInput):
        read_filter(data)


# Adversaries with Gaussian releases, by quadrature.

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def quadrature(breaks, low=-12.0, high=12.0):
    """Nodes and weights of an integral over the line, smooth between the breaks and cells of length 1."""
    inner = [b for b in breaks if low < b < high]
    ends = np.unique([*np.arange(low, high + 1.0), *inner])
    half = np.diff(ends)[:, None] / 2.0
    nodes = (ends[:-1, None] + half) + half * NODES
    return nodes.ravel(), (half * WEIGHTS).ravel()


def delta_of(mu, epsilon):
    """δ of G(μ) at arrays, both orders of the data sets alike; written anew."""
    mu, epsilon = np.broadcast_arrays(np.asarray(mu, float), np.asarray(epsilon, float))
    safe = np.where(mu > 0.0, mu, 1.0)
    value = ndtr(-epsilon / safe + safe / 2.0) - np.exp(epsilon) * ndtr(
        -epsilon / safe - safe / 2.0
    )
    return np.where(mu > 0.0, value, np.maximum(0.0, 1.0 - np.exp(epsilon)))


def interaction(first, follow_ups, epsilon):
    """δ at `epsilon` of a release N(±μ, 1) and of what is chosen by its output: [(until, follow-up)].

    A follow-up is μ of a last release, or the same again: (first, follow_ups).
    """
    breaks = [until for until, _ in follow_ups]
    y, weights = quadrature(breaks)
    loss = first * y - first * first / 2.0
    total = 0.0
    for i, (until, follow_up) in enumerate(follow_ups):
        before = -math.inf if i == 0 else breaks[i - 1]
        part = (y > before) & (y <= until)
        if isinstance(follow_up, tuple):
            values = np.array([interaction(*follow_up, epsilon - x) for x in loss[part]])
        else:
            values = delta_of(follow_up, epsilon - loss[part])
        density = np.exp(-0.5 * (y[part] - first) ** 2) / math.sqrt(2.0 * math.pi)
        total += float(np.sum(weights[part] * density * values))
    return total


BUDGET = 1.0


def left_after(*mus):
    return math.sqrt(BUDGET**2 - sum(mu * mu for mu in mus))


STRATEGIES = {
    "all of it, whatever comes": (0.6, [(math.inf, left_after(0.6))]),
    "more after a high output": (0.6, [(0.5, 0.0), (math.inf, left_after(0.6))]),
    "more after a low output": (0.6, [(0.5, left_after(0.6)), (math.inf, 0.0)]),
    "more in the middle": (0.5, [(-1.0, 0.1), (1.0, left_after(0.5)), (math.inf, 0.4)]),
    "much first": (0.99, [(1.0, 0.0), (math.inf, left_after(0.99))]),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_gaussian_releases(name, epsilon):
    first, follow_ups = STRATEGIES[name]
    delta = interaction(first, follow_ups, epsilon)
    bound = gdp_to_delta(BUDGET, epsilon)
    assert delta <= bound * (1.0 + 1e-9) + 1e-13
    if name == "all of it, whatever comes":
        assert delta == pytest.approx(bound, rel=1e-8)  # so that the quadrature is right


@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_three_gaussian_releases(epsilon):
    second = (0.5, [(0.3, 0.0), (math.inf, left_after(0.6, 0.5))])
    other = (0.3, [(-0.2, left_after(0.6, 0.3)), (math.inf, 0.2)])
    delta = interaction(0.6, [(0.0, other), (math.inf, second)], epsilon)
    bound = gdp_to_delta(BUDGET, epsilon)
    assert 0.5 * bound < delta < bound


def test_a_filter_that_grants_more_would_be_noticed():
    """Sums of μ instead of μ², or one percent more: the same adversaries exceed the budget."""
    for wrong in (left_after(0.6) * 1.01, 1.0):
        assert interaction(0.6, [(math.inf, wrong)], 1.5) > gdp_to_delta(BUDGET, 1.5) * 1.005


def test_what_was_spent_when_it_ends_is_no_guarantee():
    """Who stops after a low output has then spent 0.6. No data set pair is that far apart there alone, and
    the whole, in which they may go on, is worse than G(0.6)."""
    delta = interaction(0.6, [(0.5, 0.0), (math.inf, left_after(0.6))], 1.5)
    assert delta > 1.3 * gdp_to_delta(0.6, 1.5)


# Adversaries with randomised response, by going through all outputs.


def losses_of(choose, steps, flip=False):
    """(P, Q) over all sequences of `steps` outputs, each ε-DP randomised response, ε = choose(outputs)."""
    for outputs in itertools.product((0, 1), repeat=steps):
        p = q = mpmath.mpf(1)
        for k in range(steps):
            truth = 1 / (1 + mpmath.exp(-mpmath.mpf(choose(outputs[:k]))))
            p *= truth if outputs[k] else 1 - truth
            q *= 1 - truth if outputs[k] else truth
        yield (q, p) if flip else (p, q)


def greedy(filters, prefer):
    """An adversary that asks for an ε by what came before, as far as the filter grants it."""

    def choose(outputs):
        spent, epsilon = Fraction(0), 0.0
        for k in range(len(outputs) + 1):
            epsilon = prefer(outputs[:k])
            size = filters.size(filters.charge(ApproxDP(epsilon, 0.0)))
            while epsilon > 0.0 and spent + size > filters.limit:
                epsilon = epsilon / 2.0 if epsilon > 1e-3 else 0.0
                size = filters.size(filters.charge(ApproxDP(epsilon, 0.0)))
            spent += size
        return epsilon

    return choose


PREFERENCES = {
    "the same": lambda outputs: 0.4,
    "more after ones": lambda outputs: 0.2 + 0.3 * sum(outputs),
    "more after zeros": lambda outputs: 0.2 + 0.3 * outputs.count(0),
    "stops when it is lucky": lambda outputs: 0.0 if sum(outputs) > 1 else 0.5,
    "all at once": lambda outputs: 5.0,
}


@pytest.mark.parametrize("name", PREFERENCES)
@pytest.mark.parametrize("filters", [GaussianFilter(0.8), RenyiFilter.of(2.0, 1e-2, 5.0)], ids=str)
def test_randomised_responses(name, filters):
    choose = greedy(filters, PREFERENCES[name])
    with mpmath.workdps(30):
        for flip in (False, True):
            law = list(losses_of(choose, 7, flip))
            assert sum(p for p, _ in law) == pytest.approx(1.0)
            assert any(p != q for p, q in law)
            if isinstance(filters, RenyiFilter):
                order = mpmath.mpf(filters.order)
                moment = sum(p**order * q ** (1 - order) for p, q in law)
                assert mpmath.log(moment) / (order - 1) <= filters.rho
                excess = sum(max(p - mpmath.exp(2) * q, 0) for p, q in law)
                assert excess <= mpmath.mpf("1e-2")
                continue
            for epsilon in EPSILONS:
                excess = sum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in law)
                assert excess <= gdp_to_delta(filters.mu, epsilon)


def test_readings_are_those_of_the_conversions():
    one = GaussianFilter(0.5)
    assert one.epsilon(Fraction(0.3) ** 2, DELTA) == gdp_to_epsilon(0.3, DELTA)
    assert gaussian_below(Gaussian(0.3)) == one.charge(Gaussian(0.3))
