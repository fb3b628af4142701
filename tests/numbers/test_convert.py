"""The named conversions of Gaussians and mixtures: against 60-digit truth and dp_accounting."""

import itertools
import math

import dp_accounting
import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from pabi import convert
from pabi.numbers.gaussian import gdp_epsilon_bounds
from pabi.numbers.mixtures import mixture_epsilon_bounds
from support.every_case import every, refused
from support.normal_mixtures import gaussian_delta

INF = math.inf
MUS = [1e-6, 1e-4, 0.01, 0.1, 0.7, 1.0, 3.0, 20.0, 100.0]
DELTAS = [0.5, 0.1, 1e-3, 1e-5, 1e-10, 1e-50, 1e-150, 1e-300]
RARE = settings(max_examples=settings().max_examples // 4, deadline=None)


def normal_cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def true_delta(mu, epsilon, digits=160):
    """δ of G(μ) at ε, at least 60 digits after all cancellation."""
    return gaussian_delta(mu, epsilon, digits)


def true_mixture_delta(mus, weights, epsilon):
    with mp.workdps(160):
        terms = (mp.mpf(w) * true_delta(m, epsilon) for m, w in zip(mus, weights, strict=True))
        return mp.fsum(terms)


@settings(deadline=None)
@given(st.floats(1e-6, 100.0), st.floats(-300, -0.31))
@example(1e-6, -0.31)
@example(100.0, -300.0)
@example(20.0, -0.31)
def test_gdp_epsilon_is_the_least_sound_one(mu, log_delta):
    delta = 10.0**log_delta
    epsilon = convert.gdp_to_epsilon(mu, delta)
    assert true_delta(mu, epsilon) <= convert.gdp_to_delta(mu, epsilon) <= delta
    lower, upper = gdp_epsilon_bounds(mu, delta)
    assert upper == epsilon
    if epsilon == 0.0:
        assert lower == 0.0
    else:
        assert true_delta(mu, epsilon * (1 - 1e-13)) > delta
        assert true_delta(mu, lower) > delta
        assert (upper - lower) <= 1e-14 * upper


@every("mu", MUS)
def test_gdp_delta_is_the_next_double_above_the_truth(mu):
    top = convert.gdp_to_epsilon(mu, 1e-300)
    for epsilon in [0.0, 1e-300, *(top * x for x in (1e-9, 1e-3, 0.1, 0.3, 0.6, 0.9, 1.0))]:
        for signed in (epsilon, -epsilon):
            value, truth = convert.gdp_to_delta(mu, signed), true_delta(mu, signed)
            assert truth <= value <= 1.0
            if value > 1e-307 and truth < 1:
                assert value - truth <= 2.3e-16 * truth


def test_gdp_far_outside():
    assert convert.gdp_to_delta(0.0, 0.0) == convert.gdp_to_delta(0.0, 1.0) == 0.0
    assert convert.gdp_to_delta(0.0, -1.0) == pytest.approx(-math.expm1(-1.0), rel=1e-15)
    assert convert.gdp_to_delta(INF, 3.0) == 1.0
    assert convert.gdp_to_delta(1.0, 1e6) == 5e-324  # positive, never silently 0
    assert convert.gdp_to_delta(1.0, -1e6) == 1.0
    assert 0.4999 < convert.gdp_to_delta(1e10, 5e19) < 0.5
    for mu, delta, epsilon in [(0, 0, 0), (1, 0, INF), (1, 1, 0), (INF, 0.5, INF), (INF, 1, 0)]:
        assert convert.gdp_to_epsilon(mu, delta) == epsilon
    assert convert.gdp_to_epsilon(1e200, 0.1) == INF
    assert convert.gdp_to_epsilon(1e150, 0.1) == pytest.approx(5e299, rel=1e-14)
    for mu, delta in [(3.0, 5e-324), (1e-300, 1e-305), (0.2, 0.0796556745540579), (50.0, 0.9999)]:
        lower, upper = gdp_epsilon_bounds(mu, delta)
        assert 0 < lower < upper
        assert true_delta(mu, upper, 700) <= delta < true_delta(mu, lower, 700)


def test_vectorised_delta_shapes_and_corners():
    mus, epsilons = np.array([[0.0], [1.0], [INF]]), np.array([-1.0, 0.0, 2.0])
    values = convert.gaussian_delta(mus, epsilons)
    assert isinstance(values, np.ndarray)
    assert values.shape == (3, 3)
    for j, k in itertools.product(range(3), range(3)):
        exact = convert.gdp_to_delta(float(mus[j, 0]), float(epsilons[k]))
        assert exact <= values[j, k] <= exact * (1 + 2e-13)
    assert isinstance(convert.gaussian_delta(1.0, 1.0), float)
    for mu, epsilon in [(5e-324, 0.0), (1e-310, 1e-310), (1e160, 1e300), (1e10, 5e19), (1.0, 1e9)]:
        exact = convert.gdp_to_delta(mu, epsilon)
        assert exact <= convert.gaussian_delta(mu, epsilon) <= exact * (1 + 2e-13) + 2e-321


def test_gaussian_against_dp_accounting():
    for mu, epsilon in itertools.product([0.2, 1.0], [0.1, 1.0, 3.0]):
        delta = convert.gdp_to_delta(mu, epsilon)
        accountant = dp_accounting.pld.PLDAccountant()
        accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
        # Theirs is pessimistic by its grid of 1e-4 in ε: between δ(ε) and δ(ε - 1e-4).
        theirs = accountant.get_delta(epsilon)
        assert delta * (1 - 1e-9) <= theirs <= convert.gdp_to_delta(mu, epsilon - 1e-4) + 1e-9
        if 1e-12 < delta < 0.5:
            sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
            assert sigma == pytest.approx(1 / mu, rel=1e-6)


# Mixtures.


@RARE
@given(
    st.lists(st.tuples(st.floats(1e-4, 30.0), st.floats(0.01, 1.0)), min_size=1, max_size=6),
    st.floats(-300, -1),
)
def test_mixture_epsilon_is_the_least_sound_one(parts, log_delta):
    total = math.fsum(w for _, w in parts)
    mus, weights = [m for m, _ in parts], [w / total for _, w in parts]
    delta = 10.0**log_delta
    epsilon = convert.mixture_to_epsilon(mus, weights, delta)
    truth = true_mixture_delta(mus, weights, epsilon)
    assert truth <= delta
    if epsilon > 0.0:
        assert true_mixture_delta(mus, weights, epsilon * (1 - 1e-12)) > delta
    value = convert.mixture_to_delta(mus, weights, epsilon)
    assert truth <= value <= truth * (1 + mp.mpf("3e-16")) + mp.mpf("5e-324")
    assert epsilon <= convert.gdp_to_epsilon(max(mus), delta) * (1 + 1e-12)


@every("mu, delta", list(itertools.product(MUS, DELTAS)))
def test_mixture_of_one_part_is_that_part(mu, delta):
    alone = pytest.approx(convert.gdp_to_epsilon(mu, delta), rel=1e-15, abs=0.0)
    assert convert.mixture_to_epsilon([mu, mu], [0.25, 0.75], delta) == alone


def test_mixture_corners():
    for mus, weights, delta, epsilon in [
        ([1.0, INF], [0.9, 0.1], 0.05, INF),
        ([1.0, INF], [0.9, 0.1], 0.1, INF),
        ([0.0, INF], [0.9, 0.1], 0.1, 0.0),
        ([0.0], [1.0], 0.0, 0.0),
        ([1.0], [1.0], 0.0, INF),
        ([1.0], [1.0], 1.0, 0.0),
    ]:
        assert convert.mixture_to_epsilon(mus, weights, delta) == epsilon
    assert 0 < convert.mixture_to_epsilon([1.0, INF], [0.9, 0.1], 0.2) < 10
    assert convert.mixture_to_delta([1.0, INF], [0.5, 0.5], 1e9) >= 0.5
    for mus, weights, delta in [
        # A rare large part decides, a million times smaller than the rest.
        ([1e-5, 30.0], [1 - 1e-6, 1e-6], 1e-7),
        # Below the range of doubles.
        ([1.0, 3.0], [0.5, 0.5], 5e-324),
    ]:
        lower, upper = mixture_epsilon_bounds(mus, weights, delta)
        above, below = (true_mixture_delta(mus, weights, e) for e in (lower, upper))
        assert above > delta >= below
    assert upper - lower <= 1e-12 * upper


def test_mixture_of_two_thousand_parts():
    mus = np.linspace(0.01, 2.0, 2000).tolist()
    epsilon = convert.mixture_to_epsilon(mus, [1 / 2000] * 2000, 1e-6)
    doubles = float(np.mean(convert.gaussian_delta(np.array(mus), epsilon)))
    assert doubles == pytest.approx(1e-6, rel=1e-11)


@every("order", [1.0001, 1.5, 2.0, 17.0, 1000.0, 1e5])
def test_mixture_rdp_against_truth(order):
    for mus, weights in [
        ([0.1, 0.2], [0.5, 0.5]),
        ([1e-6, 1e-5, 3.0], [0.5, 0.499, 0.001]),
        ([0.0, 5.0], [1 - 1e-9, 1e-9]),
        ([2.0], [1.0]),
    ]:
        with mp.workdps(60):
            a = mp.mpf(order)
            powers = [mp.exp(a * (a - 1) * mp.mpf(m) ** 2 / 2) for m in mus]
            mean = mp.fsum(mp.mpf(w) * x for w, x in zip(weights, powers, strict=True))
            truth = mp.log(mean) / (a - 1)
            value = convert.mixture_to_rdp(mus, weights, order)
            assert truth <= value
            # The weights 0.5 + 0.499 + 0.001 may miss 1 by 1e-16; that is divided by α - 1.
            assert value <= truth * (1 + mp.mpf("1e-11")) + mp.mpf("3e-16") / (a - 1)
    grid = convert.mixture_to_rdp([0.3, 1.0], [0.5, 0.5], np.array([order, 2 * order]))
    assert grid[0] == convert.mixture_to_rdp([0.3, 1.0], [0.5, 0.5], order)
    assert convert.mixture_to_rdp([INF, 1.0], [0.5, 0.5], order) == INF


# Plain callables.


@every("mu, epsilon", list(itertools.product([0.1, 1.0, 3.0], [0.0, 0.3, 1.0, 4.0])))
def test_tradeoff_to_delta_finds_the_gaussian(mu, epsilon):
    def gaussian(alpha):
        return float(ndtr(-ndtri(alpha) - mu))

    for signed, more in (
        (epsilon, {"symmetric": True}),
        (epsilon, {"symmetric": False}),
        (-epsilon, {}),
    ):
        found = convert.tradeoff_to_delta(gaussian, signed, **more)
        assert found == pytest.approx(convert.gdp_to_delta(mu, signed), abs=2e-15)


def test_tradeoff_to_delta_takes_the_worse_side():
    def one_sided(alpha):
        """f = max(0, 1 - 4α) mixed with 1 - α: its inverse is a different function."""
        return 0.5 * max(0.0, 1.0 - 4.0 * alpha) + 0.5 * (1.0 - alpha)

    def inverse(alpha):
        return 1.0 - 2.5 * alpha if alpha <= 0.25 else max(0.0, 0.5 - 0.5 * alpha)

    # 1 - αe^ε - f is piecewise linear: the kink α = 1/4 has f = 0.375.
    one, other = max(0.0, 1.0 - 0.25 * 2.0 - 0.375), max(0.0, 1.0 - 0.25 - 2.0 * 0.375)
    flipped = max(1 - 0.25 * 1.5 - 0.375, 1 - 0.25 - 1.5 * 0.375)
    for f, power, more, expected in [
        (one_sided, 2.0, {}, one),
        (one_sided, 2.0, {"symmetric": False}, max(one, other)),
        (inverse, 1.5, {"symmetric": False}, flipped),
    ]:
        found = convert.tradeoff_to_delta(f, math.log(power), **more)
        assert found == pytest.approx(expected, abs=1e-8)


@RARE
@given(st.floats(0.05, 5.0), st.floats(1e-12, 1 - 1e-6))
def test_delta_to_tradeoff_to_gaussian(mu, alpha):
    value = convert.delta_to_tradeoff(lambda epsilon: convert.gdp_to_delta(mu, epsilon), alpha)
    with mp.workdps(40):
        quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(alpha))
        truth = normal_cdf(-quantile - mp.mpf(mu))
        assert truth - 1e-14 <= value <= truth * (1 + mp.mpf("1e-25"))


def test_clt_mu():
    with mp.workdps(60):
        for mu in (1e-7, 1e-3, 0.5, 2.0, 10.0):
            m = mp.mpf(mu)
            v = mp.exp(m * m) * normal_cdf(1.5 * m) + 3 * normal_cdf(-0.5 * m) - 2
            truth = mp.mpf(0.01) * mp.sqrt(2 * 5000) * mp.sqrt(v)
            assert convert.clt_mu(0.01, mu, 5000) == pytest.approx(float(truth), rel=2e-9)
    assert convert.clt_mu(0.0, 1.0, 10) == 0.0
    assert convert.clt_mu(0.5, 1e3, 10) == INF


def test_bad_input_names_the_field():
    one, nan = np.array([-1.0]), np.array([math.nan])
    for field, make, *arguments in (
        ("mu", convert.gdp_to_delta, -1.0, 0.0),
        ("mu", convert.gdp_to_delta, math.nan, 0.0),
        ("epsilon", convert.gdp_to_delta, 1.0, math.nan),
        ("delta", convert.gdp_to_epsilon, 1.0, -1e-9),
        ("delta", convert.gdp_to_epsilon, 1.0, "x"),
        ("order", convert.gdp_to_rdp, 1.0, 1.0),
        ("mu", convert.gaussian_delta, one, 0.0),
        ("epsilon", convert.gaussian_delta, 1.0, nan),
        ("weights", convert.mixture_to_delta, [1.0], [0.5], 0.0),
        ("weights", convert.mixture_to_delta, [1.0, 2.0], [1.0], 0.0),
        ("weights", convert.mixture_to_delta, [1.0, 2.0], [1.5, -0.5], 0.0),
        ("mus", convert.mixture_to_delta, [], [], 0.0),
        ("alpha", convert.delta_to_tradeoff, lambda e: 0.0, 1.5),
        ("probability", convert.clt_mu, 2.0, 1.0, 10),
    ):
        refused(field, make, *arguments)
    # Both sides of a trade-off function are read at positive losses.
    refused("epsilon", convert.tradeoff_to_delta, lambda a: 1 - a, -1.0, symmetric=False)
