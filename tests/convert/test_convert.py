"""The named conversions: against 60-digit truth, against each other, against dp_accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import dp_accounting
import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import convert
from pabi.convert.gdp import gdp_epsilon_bounds
from pabi.convert.mixtures import mixture_epsilon_bounds
from pabi.numbers.errors import InvalidInput

MUS = [1e-6, 1e-4, 0.01, 0.1, 0.7, 1.0, 3.0, 20.0, 100.0]
DELTAS = [0.5, 0.1, 1e-3, 1e-5, 1e-10, 1e-50, 1e-150, 1e-300]


def normal_cdf(x: mp.mpf) -> mp.mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def true_delta(mu: float, epsilon: float) -> mp.mpf:
    """δ of G(μ) at ε, 60 digits after all cancellation."""
    with mp.workdps(160):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return normal_cdf(m / 2 - e / m) - mp.exp(e) * normal_cdf(-m / 2 - e / m)


def true_mixture_delta(mus: list[float], weights: list[float], epsilon: float) -> mp.mpf:
    with mp.workdps(160):
        terms = (mp.mpf(w) * true_delta(m, epsilon) for m, w in zip(mus, weights, strict=True))
        return mp.fsum(terms)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gdp_epsilon_is_the_least_sound_one(mu: float, delta: float) -> None:
    epsilon = convert.gdp_to_epsilon(mu, delta)
    assert true_delta(mu, epsilon) <= delta
    lower, upper = gdp_epsilon_bounds(mu, delta)
    assert upper == epsilon
    if epsilon == 0.0:
        assert lower == 0.0
    else:
        assert true_delta(mu, epsilon * (1 - 1e-13)) > delta
        assert true_delta(mu, lower) > delta
        assert (upper - lower) <= 1e-14 * upper


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (0.1, 1e-3, 0.19753397323971028),
        (0.1, 1e-5, 0.3406693646843212),
        (0.1, 1e-10, 0.5746403075263131),
        (0.5, 1e-3, 1.3522762448025525),
        (0.5, 1e-5, 1.993091404415117),
        (0.5, 1e-10, 3.0994303302431643),
        (1.0, 1e-3, 3.138670548582939),
        (1.0, 1e-5, 4.3771780956812245),
        (1.0, 1e-10, 6.547924066864956),
        (3.0, 1e-3, 13.088179164628261),
        (3.0, 1e-5, 16.675494402828168),
        (3.0, 1e-10, 23.04872846200616),
        (10.0, 1e-3, 80.03252609415051),
        (10.0, 1e-5, 91.81728962466377),
        (10.0, 1e-10, 112.84032670423225),
    ],
)
def test_gdp_epsilon_reference_values(mu: float, delta: float, epsilon: float) -> None:
    assert convert.gdp_to_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("mu", MUS)
def test_gdp_delta_is_the_next_double_above_the_truth(mu: float) -> None:
    top = convert.gdp_to_epsilon(mu, 1e-300)
    for epsilon in [0.0, 1e-300, *(top * x for x in (1e-9, 1e-3, 0.1, 0.3, 0.6, 0.9, 1.0))]:
        for signed in (epsilon, -epsilon):
            value, truth = convert.gdp_to_delta(mu, signed), true_delta(mu, signed)
            assert truth <= value
            assert value <= 1.0
            if value > 1e-307 and truth < 1:
                assert value - truth <= 2.3e-16 * truth


def test_gdp_far_outside() -> None:
    inf = math.inf
    assert convert.gdp_to_delta(0.0, 0.0) == 0.0
    assert convert.gdp_to_delta(0.0, 1.0) == 0.0
    assert convert.gdp_to_delta(0.0, -1.0) == pytest.approx(-math.expm1(-1.0), rel=1e-15)
    assert convert.gdp_to_delta(inf, 3.0) == 1.0
    assert convert.gdp_to_delta(1.0, 1e6) == 5e-324  # positive, never silently 0
    assert convert.gdp_to_delta(1.0, -1e6) == 1.0
    assert 0.4999 < convert.gdp_to_delta(1e10, 5e19) < 0.5
    assert convert.gdp_to_epsilon(0.0, 0.0) == 0.0
    assert convert.gdp_to_epsilon(1.0, 0.0) == inf
    assert convert.gdp_to_epsilon(1.0, 1.0) == 0.0
    assert convert.gdp_to_epsilon(inf, 0.5) == inf
    assert convert.gdp_to_epsilon(inf, 1.0) == 0.0
    assert convert.gdp_to_epsilon(1e200, 0.1) == inf
    assert convert.gdp_to_epsilon(1e150, 0.1) == pytest.approx(5e299, rel=1e-14)
    for mu, delta in [(3.0, 5e-324), (1e-300, 1e-305), (0.2, 0.0796556745540579), (50.0, 0.9999)]:
        lower, upper = gdp_epsilon_bounds(mu, delta)
        assert 0 < lower < upper
        with mp.workdps(700):
            assert true_delta_at(mu, upper, 700) <= delta < true_delta_at(mu, lower, 700)


def true_delta_at(mu: float, epsilon: float, digits: int) -> mp.mpf:
    with mp.workdps(digits):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return normal_cdf(m / 2 - e / m) - mp.exp(e) * normal_cdf(-m / 2 - e / m)


def test_vectorised_delta_against_truth() -> None:
    mus, epsilons = [], []
    for mu in [1e-8, 1e-5, 1e-3, 0.05, 0.4, 0.99999999, 1.0, 1.3, 4.0, 30.0, 200.0]:
        top = convert.gdp_to_epsilon(mu, 1e-300)
        grid = [0.0, 1e-300, *(top * x for x in (1e-12, 1e-6, 1e-3, 0.05, 0.2, 0.4, 0.7, 0.95, 1))]
        grid += [mu * mu / 2, mu * mu / 2 * (1 + 1e-12), mu * mu / 2 + 3 * mu]
        epsilons += grid
        mus += [mu] * len(grid)
    values = convert.gaussian_delta(np.array(mus), np.array(epsilons))
    assert isinstance(values, np.ndarray)
    for mu, epsilon, value in zip(mus, epsilons, values.tolist(), strict=True):
        truth = true_delta(mu, epsilon)
        assert truth <= value
        assert value <= min(mp.mpf(1), truth * (1 + mp.mpf("2e-13"))) + mp.mpf("2e-321")


def test_vectorised_delta_shapes_and_corners() -> None:
    mus, epsilons = np.array([[0.0], [1.0], [math.inf]]), np.array([-1.0, 0.0, 2.0])
    values = convert.gaussian_delta(mus, epsilons)
    assert isinstance(values, np.ndarray)
    assert values.shape == (3, 3)
    for j, k in itertools.product(range(3), range(3)):
        exact = convert.gdp_to_delta(float(mus[j, 0]), float(epsilons[k]))
        assert exact <= values[j, k] <= exact * (1 + 2e-13)
    assert isinstance(convert.gaussian_delta(1.0, 1.0), float)
    for mu, epsilon in [(5e-324, 0.0), (1e-310, 1e-310), (1e160, 1e300), (1e10, 5e19), (1.0, 1e9)]:
        exact = convert.gdp_to_delta(mu, epsilon)
        value = convert.gaussian_delta(mu, epsilon)
        assert exact <= value <= exact * (1 + 2e-13) + 2e-321


@settings(deadline=None)
@given(st.floats(1e-6, 100.0), st.floats(-300, -0.31))
def test_gdp_round_trip(mu: float, log_delta: float) -> None:
    delta = 10.0**log_delta
    epsilon = convert.gdp_to_epsilon(mu, delta)
    back = convert.gdp_to_delta(mu, epsilon)
    assert back <= delta
    if epsilon > 0.0:
        assert convert.gdp_to_delta(mu, epsilon * (1 - 1e-13)) > delta


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-4, 30.0), st.floats(0.01, 1.0)), min_size=1, max_size=6),
    st.floats(-300, -1),
)
def test_mixture_epsilon_is_the_least_sound_one(
    parts: list[tuple[float, float]], log_delta: float
) -> None:
    total = math.fsum(w for _, w in parts)
    mus, weights = [m for m, _ in parts], [w / total for _, w in parts]
    delta = 10.0**log_delta
    epsilon = convert.mixture_to_epsilon(mus, weights, delta)
    assert true_mixture_delta(mus, weights, epsilon) <= delta
    if epsilon > 0.0:
        assert true_mixture_delta(mus, weights, epsilon * (1 - 1e-12)) > delta
    value = convert.mixture_to_delta(mus, weights, epsilon)
    truth = true_mixture_delta(mus, weights, epsilon)
    assert truth <= value <= truth * (1 + mp.mpf("3e-16")) + mp.mpf("5e-324")
    assert epsilon <= convert.gdp_to_epsilon(max(mus), delta) * (1 + 1e-12)


def test_mixture_of_one_part_is_that_part() -> None:
    for mu, delta in itertools.product(MUS, DELTAS):
        alone = convert.gdp_to_epsilon(mu, delta)
        assert convert.mixture_to_epsilon([mu, mu], [0.25, 0.75], delta) == pytest.approx(
            alone, rel=1e-15, abs=0.0
        )


def test_mixture_corners() -> None:
    inf = math.inf
    assert convert.mixture_to_epsilon([1.0, inf], [0.9, 0.1], 0.05) == inf
    assert convert.mixture_to_epsilon([1.0, inf], [0.9, 0.1], 0.1) == inf
    assert 0 < convert.mixture_to_epsilon([1.0, inf], [0.9, 0.1], 0.2) < 10
    assert convert.mixture_to_epsilon([0.0, inf], [0.9, 0.1], 0.1) == 0.0
    assert convert.mixture_to_epsilon([0.0], [1.0], 0.0) == 0.0
    assert convert.mixture_to_epsilon([1.0], [1.0], 0.0) == inf
    assert convert.mixture_to_epsilon([1.0], [1.0], 1.0) == 0.0
    assert convert.mixture_to_delta([1.0, inf], [0.5, 0.5], 1e9) >= 0.5
    # A rare large part decides, a million times smaller than the rest.
    lower, upper = mixture_epsilon_bounds([1e-5, 30.0], [1 - 1e-6, 1e-6], 1e-7)
    truths = [true_mixture_delta([1e-5, 30.0], [1 - 1e-6, 1e-6], e) for e in (lower, upper)]
    assert truths[0] > 1e-7 >= truths[1]
    # Below the range of doubles.
    lower, upper = mixture_epsilon_bounds([1.0, 3.0], [0.5, 0.5], 5e-324)
    truths = [true_mixture_delta([1.0, 3.0], [0.5, 0.5], e) for e in (lower, upper)]
    assert truths[0] > 5e-324 >= truths[1]
    assert upper - lower <= 1e-12 * upper


def test_mixture_of_two_thousand_parts() -> None:
    mus = np.linspace(0.01, 2.0, 2000).tolist()
    weights = [1 / 2000] * 2000
    epsilon = convert.mixture_to_epsilon(mus, weights, 1e-6)
    doubles = float(np.mean(convert.gaussian_delta(np.array(mus), epsilon)))
    assert doubles == pytest.approx(1e-6, rel=1e-11)


@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 17.0, 1000.0, 1e5])
def test_mixture_rdp_against_truth(order: float) -> None:
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
    assert convert.mixture_to_rdp([math.inf, 1.0], [0.5, 0.5], order) == math.inf


@given(st.floats(0, 1e10), st.floats(1.0000001, 1e10))
def test_gdp_rdp_and_zcdp_round_up(mu: float, order: float) -> None:
    with mp.workdps(60):
        rdp, rho = mp.mpf(order) * mp.mpf(mu) ** 2 / 2, mp.mpf(mu) ** 2 / 2
        assert rdp <= convert.gdp_to_rdp(mu, order) <= rdp * (1 + mp.mpf("1e-15")) + 1e-322
        assert rho <= convert.gdp_to_zcdp(mu) <= rho * (1 + mp.mpf("1e-15")) + 1e-322


# --- Rényi ---------------------------------------------------------------------------------------


def minimum_over_orders(formula: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
    """Least value over a fine geometric grid of α - 1, refined by golden section."""
    logs = [mp.mpf(k) / 4 for k in range(-80, 160)]
    best = min(range(len(logs)), key=lambda k: formula(1 + mp.exp(logs[k])))
    low, high = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    golden = (mp.sqrt(5) - 1) / 2
    for _ in range(60):
        x, y = high - golden * (high - low), low + golden * (high - low)
        if formula(1 + mp.exp(x)) <= formula(1 + mp.exp(y)):
            high = y
        else:
            low = x
    return formula(1 + mp.exp((low + high) / 2))


def mironov(rho: float, delta: float) -> mp.mpf:
    return mp.mpf(rho) + 2 * mp.sqrt(mp.mpf(rho) * mp.log(1 / mp.mpf(delta)))


def balle(rho: float, delta: float) -> mp.mpf:
    def formula(a: mp.mpf) -> mp.mpf:
        return rho * a + mp.log((a - 1) / a) - (mp.log(delta) + mp.log(a)) / (a - 1)

    return max(mp.mpf(0), minimum_over_orders(formula))


def bun_steinke_delta(rho: float, epsilon: float) -> mp.mpf:
    """Lemma 3.6 of Bun and Steinke 2016 with all four factors."""
    r, e = mp.mpf(rho), mp.mpf(epsilon)
    x1 = 1 + (e - r) / (2 * r)
    factors = [1, mp.sqrt(mp.pi * r), 1 / x1, 2 / (x1 + mp.sqrt(x1 * x1 + 4 / (mp.pi * r)))]
    return mp.exp(-((e - r) ** 2) / (4 * r)) * min(factors)


RHOS = [1e-6, 1e-3, 0.1, 0.5, 5.0, 1e3]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-50, 1e-300])
def test_rho_conversions_against_their_formulas(rho: float, delta: float) -> None:
    def ours(method: str) -> float:
        return convert.rdp_to_epsilon(delta=delta, rho=rho, method=method)

    with mp.workdps(40):
        for method, truth in [("mironov", mironov(rho, delta)), ("balle", balle(rho, delta))]:
            assert ours(method) <= truth * (1 + mp.mpf("1e-10")) + mp.mpf("1e-25")
            assert ours(method) >= truth * (1 - mp.mpf("1e-20"))
        epsilon = ours("bun_steinke")
        assert bun_steinke_delta(rho, epsilon) <= delta
        assert epsilon <= rho * (1 + 1e-14) or bun_steinke_delta(rho, epsilon * (1 - 1e-10)) > delta


@pytest.mark.parametrize(
    ("rho", "delta"),
    [(1e-310, 1e-160), (7e-309, 1e-158), (1e-308, 1e-158), (5e-324, 1e-163), (1e-300, 1e-300)],
)
def test_conversions_of_the_least_rho_cover_the_gaussian(rho: float, delta: float) -> None:
    """That of this ρ, μ = √(2ρ), rounded down."""
    mu = math.sqrt(2.0) * math.sqrt(rho) * (1.0 - 1e-15)
    least, _ = gdp_epsilon_bounds(mu, delta)
    for method in ("best", "mironov", "bun_steinke", "balle", "asoodeh"):
        assert convert.rdp_to_epsilon(delta=delta, rho=rho, method=method) >= least > 1e-170


def test_products_that_underflow_are_not_taken_for_nothing() -> None:
    """Of order α ε is about R/(αδ) where that is small."""
    value = convert.rdp_to_epsilon(delta=1e-10, orders=[1.0 + 1e-10], rdp=[1e-320])
    assert value >= 0.99e-310


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12, 1e-100, 1e-300])
def test_every_rdp_conversion_covers_the_exact_gaussian(mu: float, delta: float) -> None:
    exact = convert.gdp_to_epsilon(mu, delta)
    rho = convert.gdp_to_zcdp(mu)
    methods = ["mironov", "bun_steinke", "balle", "asoodeh"]
    values = {m: convert.rdp_to_epsilon(delta=delta, rho=rho, method=m) for m in methods}
    assert all(value >= exact for value in values.values())
    assert convert.rdp_to_epsilon(delta=delta, rho=rho) == min(values.values())
    assert values["asoodeh"] <= values["balle"] <= values["mironov"] * (1 + 1e-12)
    orders = np.concatenate([1 + np.geomspace(1e-3, 1e4, 60)])
    rdp = convert.gdp_to_rdp(mu, orders)
    methods.remove("bun_steinke")
    by_order = {
        m: convert.rdp_to_epsilon(delta=delta, orders=orders, rdp=rdp, method=m) for m in methods
    }
    assert all(by_order[m] >= values[m] * (1 - 1e-10) for m in methods)
    assert all(by_order[m] >= exact for m in methods)
    best = convert.rdp_to_epsilon(delta=delta, orders=orders, rdp=rdp)
    assert best == min(by_order.values())


@pytest.mark.parametrize(
    ("order", "rdp", "delta"), [(2.0, 0.01, 0.1), (1.5, 3.0, 1e-5), (40, 1, 0.9)]
)
def test_asoodeh_second_expression(order: float, rdp: float, delta: float) -> None:
    value = convert.rdp_to_epsilon(delta=delta, orders=[order], rdp=[rdp], method="asoodeh")
    first = convert.rdp_to_epsilon(delta=delta, orders=[order], rdp=[rdp], method="balle")
    second = math.log1p(math.expm1((order - 1) * rdp) / (order * delta)) / (order - 1)
    assert value == pytest.approx(min(first, second), rel=1e-13)


def test_asoodeh_second_expression_matters_somewhere() -> None:
    arguments = {"delta": 0.1, "orders": [2.0], "rdp": [0.01]}
    assert convert.rdp_to_epsilon(method="asoodeh", **arguments) < convert.rdp_to_epsilon(
        method="balle", **arguments
    )


@pytest.mark.parametrize(("order", "rdp"), [(1.5, 0.2), (2.0, 0.01), (8.0, 1.0), (64.0, 3.0)])
def test_rdp_conversions_cover_two_point_pairs(order: float, rdp: float) -> None:
    """Pairs of distributions on two points with exactly this Rényi divergence: δ never above."""
    for q in (0.5, 0.2, 1e-2, 1e-4, 1e-8):
        # p > q with log(p^α q^(1-α) + …)/(α-1) = rdp, from below by bisection.
        def divergence(p: float, q: float = q) -> float:
            one = order * math.log(p) + (1 - order) * math.log(q)
            other = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
            return float(np.logaddexp(one, other)) / (order - 1)

        low, high = q, 1 - 1e-12
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if divergence(middle) <= rdp else (low, middle)
        for delta in (1e-12, 1e-6, 1e-3, 0.05):
            for method in ("mironov", "balle", "asoodeh"):
                epsilon = convert.rdp_to_epsilon(
                    delta=delta, orders=[order], rdp=[rdp], method=method
                )
                assert low - math.exp(epsilon) * q <= delta * (1 + 1e-9)


def test_rdp_against_dp_accounting() -> None:
    orders = [1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0]
    for mu, delta in itertools.product([0.1, 0.5, 1.0, 3.0], [1e-3, 1e-5, 1e-8]):
        rdp = [a * mu * mu / 2 for a in orders]
        theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, rdp, delta)
        ours = convert.rdp_to_epsilon(delta=delta, orders=orders, rdp=rdp, method="balle")
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_gaussian_against_dp_accounting() -> None:
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


def test_rdp_limits() -> None:
    assert convert.rdp_to_epsilon(delta=1e-5, rho=0.0) == 0.0
    assert convert.rdp_to_epsilon(delta=1e-5, rho=math.inf) == math.inf
    assert convert.rdp_to_epsilon(delta=1e-5, orders=[2.0], rdp=[math.inf]) == math.inf
    assert convert.rdp_to_epsilon(delta=1e-5, orders=[2.0, 3.0], rdp=[math.inf, 1.0]) < 10
    assert convert.rdp_to_epsilon(delta=0.9, orders=[2.0], rdp=[0.0]) == 0.0
    assert convert.rdp_to_epsilon(delta=1e-5, rho=1e300) >= 1e300


# --- plain callables -----------------------------------------------------------------------------


def gaussian_tradeoff(mu: float) -> Callable[[float], float]:
    from scipy.special import ndtr, ndtri

    return lambda alpha: float(ndtr(-ndtri(alpha) - mu))


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_tradeoff_to_delta_finds_the_gaussian(mu: float, epsilon: float) -> None:
    truth = convert.gdp_to_delta(mu, epsilon)
    for symmetric in (True, False):
        value = convert.tradeoff_to_delta(gaussian_tradeoff(mu), epsilon, symmetric=symmetric)
        assert value == pytest.approx(truth, abs=2e-15)
    negative = convert.tradeoff_to_delta(gaussian_tradeoff(mu), -epsilon)
    assert negative == pytest.approx(convert.gdp_to_delta(mu, -epsilon), abs=2e-15)


def test_tradeoff_to_delta_takes_the_worse_side() -> None:
    def one_sided(alpha: float) -> float:
        """f = max(0, 1 - 4α) mixed with 1 - α: its inverse is a different function."""
        return 0.5 * max(0.0, 1.0 - 4.0 * alpha) + 0.5 * (1.0 - alpha)

    # 1 - αe^ε - f is piecewise linear: the kink α = 1/4 has f = 0.375.
    expected = max(0.0, 1.0 - 0.25 * 2.0 - 0.375)
    inverse = max(0.0, 1.0 - 0.25 - 2.0 * 0.375)
    forward = convert.tradeoff_to_delta(one_sided, math.log(2.0))
    both = convert.tradeoff_to_delta(one_sided, math.log(2.0), symmetric=False)
    assert forward == pytest.approx(expected, abs=1e-8)
    assert both == pytest.approx(max(expected, inverse), abs=1e-8)
    flipped = convert.tradeoff_to_delta(
        lambda a: 1.0 - 2.5 * a if a <= 0.25 else max(0.0, 0.5 - 0.5 * a),
        math.log(1.5),
        symmetric=False,
    )
    assert flipped == pytest.approx(max(1 - 0.25 * 1.5 - 0.375, 1 - 0.25 - 1.5 * 0.375), abs=1e-8)


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(st.floats(0.05, 5.0), st.floats(1e-12, 1 - 1e-6))
def test_delta_to_tradeoff_to_gaussian(mu: float, alpha: float) -> None:
    def delta(epsilon: float) -> float:
        return convert.gdp_to_delta(mu, epsilon)

    value = convert.delta_to_tradeoff(delta, alpha)
    with mp.workdps(40):
        quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(alpha))
        truth = normal_cdf(-quantile - mp.mpf(mu))
        assert value <= truth * (1 + mp.mpf("1e-25"))
        assert value >= truth - 1e-14


def test_clt_mu() -> None:
    with mp.workdps(60):
        for mu in (1e-7, 1e-3, 0.5, 2.0, 10.0):
            m = mp.mpf(mu)
            v = mp.exp(m * m) * normal_cdf(1.5 * m) + 3 * normal_cdf(-0.5 * m) - 2
            truth = mp.mpf(0.01) * mp.sqrt(2 * 5000) * mp.sqrt(v)
            assert convert.clt_mu(0.01, mu, 5000) == pytest.approx(float(truth), rel=2e-9)
    assert convert.clt_mu(0.0, 1.0, 10) == 0.0
    assert convert.clt_mu(0.5, 1e3, 10) == math.inf


# --- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: convert.gdp_to_delta(-1.0, 0.0), "mu"),
        (lambda: convert.gdp_to_delta(math.nan, 0.0), "mu"),
        (lambda: convert.gdp_to_delta(1.0, math.nan), "epsilon"),
        (lambda: convert.gdp_to_epsilon(1.0, -1e-9), "delta"),
        (lambda: convert.gdp_to_epsilon(1.0, "x"), "delta"),  # type: ignore[arg-type]
        (lambda: convert.gdp_to_rdp(1.0, 1.0), "order"),
        (lambda: convert.gaussian_delta(np.array([-1.0]), 0.0), "mu"),
        (lambda: convert.gaussian_delta(1.0, np.array([math.nan])), "epsilon"),
        (lambda: convert.mixture_to_delta([1.0], [0.5], 0.0), "weights"),
        (lambda: convert.mixture_to_delta([1.0, 2.0], [1.0], 0.0), "weights"),
        (lambda: convert.mixture_to_delta([1.0, 2.0], [1.5, -0.5], 0.0), "weights"),
        (lambda: convert.mixture_to_delta([], [], 0.0), "mus"),
        (lambda: convert.rdp_to_epsilon(delta=0.0, rho=1.0), "delta"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, rho=-1.0), "rho"),
        (lambda: convert.rdp_to_epsilon(delta=0.1), "rho"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, rho=1.0, orders=[2.0], rdp=[1.0]), "rho"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, orders=[1.0], rdp=[1.0]), "orders"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, orders=[math.inf], rdp=[1.0]), "orders"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, orders=[2.0], rdp=[-1.0]), "rdp"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, orders=[2.0, 3.0], rdp=[1.0]), "rdp"),
        (lambda: convert.rdp_to_epsilon(delta=0.1, rho=1.0, method="other"), "method"),
        (
            lambda: convert.rdp_to_epsilon(
                delta=0.1, orders=[2.0], rdp=[1.0], method="bun_steinke"
            ),
            "method",
        ),
        (lambda: convert.delta_to_tradeoff(lambda e: 0.0, 1.5), "alpha"),
        (lambda: convert.tradeoff_to_delta(lambda a: 1 - a, -1.0, symmetric=False), "epsilon"),
        (lambda: convert.clt_mu(2.0, 1.0, 10), "probability"),
    ],
)
def test_bad_input_names_the_field(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field
