"""Conversions of Rényi divergences: against their formulas, the exact Gaussian and dp_accounting."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from pabi.convert import gdp_to_epsilon, gdp_to_rdp, gdp_to_zcdp, rdp_to_epsilon
from pabi.numbers.gaussian import gdp_epsilon_bounds
from support.every_case import every, refused


@given(st.floats(0, 1e10), st.floats(1.0000001, 1e10))
def test_gdp_rdp_and_zcdp_round_up(mu, order):
    with mp.workdps(60):
        rdp, rho = mp.mpf(order) * mp.mpf(mu) ** 2 / 2, mp.mpf(mu) ** 2 / 2
        assert rdp <= gdp_to_rdp(mu, order) <= rdp * (1 + mp.mpf("1e-15")) + 1e-322
        assert rho <= gdp_to_zcdp(mu) <= rho * (1 + mp.mpf("1e-15")) + 1e-322


def minimum_over_orders(formula):
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


def mironov(rho, delta):
    return mp.mpf(rho) + 2 * mp.sqrt(mp.mpf(rho) * mp.log(1 / mp.mpf(delta)))


def balle(rho, delta):
    def formula(a):
        return rho * a + mp.log((a - 1) / a) - (mp.log(delta) + mp.log(a)) / (a - 1)

    return max(mp.mpf(0), minimum_over_orders(formula))


def bun_steinke_delta(rho, epsilon):
    """Lemma 3.6 of Bun and Steinke 2016 with all four factors."""
    r, e = mp.mpf(rho), mp.mpf(epsilon)
    x1 = 1 + (e - r) / (2 * r)
    factors = [1, mp.sqrt(mp.pi * r), 1 / x1, 2 / (x1 + mp.sqrt(x1 * x1 + 4 / (mp.pi * r)))]
    return mp.exp(-((e - r) ** 2) / (4 * r)) * min(factors)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-50, 1e-300])
@every("rho", [1e-6, 1e-3, 0.1, 0.5, 5.0, 1e3])
def test_rho_conversions_against_their_formulas(rho, delta):
    def ours(method):
        return rdp_to_epsilon(delta=delta, rho=rho, method=method)

    with mp.workdps(40):
        for method, truth in [("mironov", mironov(rho, delta)), ("balle", balle(rho, delta))]:
            assert ours(method) <= truth * (1 + mp.mpf("1e-10")) + mp.mpf("1e-25")
            assert ours(method) >= truth * (1 - mp.mpf("1e-20"))
        epsilon = ours("bun_steinke")
        assert bun_steinke_delta(rho, epsilon) <= delta
        assert epsilon <= rho * (1 + 1e-14) or bun_steinke_delta(rho, epsilon * (1 - 1e-10)) > delta


@every(
    "rho, delta",
    [(1e-310, 1e-160), (7e-309, 1e-158), (1e-308, 1e-158), (5e-324, 1e-163), (1e-300, 1e-300)],
)
def test_conversions_of_the_least_rho_cover_the_gaussian(rho, delta):
    """That of this ρ, μ = √(2ρ), rounded down."""
    mu = math.sqrt(2.0) * math.sqrt(rho) * (1.0 - 1e-15)
    least, _ = gdp_epsilon_bounds(mu, delta)
    for method in ("best", "mironov", "bun_steinke", "balle", "asoodeh"):
        assert rdp_to_epsilon(delta=delta, rho=rho, method=method) >= least > 1e-170


def test_products_that_underflow_are_not_taken_for_nothing():
    """Of order α ε is about R/(αδ) where that is small."""
    assert rdp_to_epsilon(delta=1e-10, orders=[1.0 + 1e-10], rdp=[1e-320]) >= 0.99e-310


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12, 1e-100, 1e-300])
@every("mu", [1e-3, 0.05, 0.3, 1.0, 4.0, 30.0])
def test_every_rdp_conversion_covers_the_exact_gaussian(mu, delta):
    exact, rho = gdp_to_epsilon(mu, delta), gdp_to_zcdp(mu)
    methods = ["mironov", "bun_steinke", "balle", "asoodeh"]
    values = {m: rdp_to_epsilon(delta=delta, rho=rho, method=m) for m in methods}
    assert min(values.values()) >= exact
    assert rdp_to_epsilon(delta=delta, rho=rho) == min(values.values())
    assert values["asoodeh"] <= values["balle"] <= values["mironov"] * (1 + 1e-12)
    orders = 1 + np.geomspace(1e-3, 1e4, 60)
    stated = {"delta": delta, "orders": orders, "rdp": gdp_to_rdp(mu, orders)}
    methods.remove("bun_steinke")
    by_order = {m: rdp_to_epsilon(method=m, **stated) for m in methods}
    assert all(by_order[m] >= values[m] * (1 - 1e-10) for m in methods)
    assert min(by_order.values()) >= exact
    assert rdp_to_epsilon(**stated) == min(by_order.values())


@every("order, rdp, delta", [(2.0, 0.01, 0.1), (1.5, 3.0, 1e-5), (40, 1, 0.9)])
def test_asoodeh_second_expression(order, rdp, delta):
    stated = {"delta": delta, "orders": [order], "rdp": [rdp]}
    value = rdp_to_epsilon(method="asoodeh", **stated)
    first = rdp_to_epsilon(method="balle", **stated)
    second = math.log1p(math.expm1((order - 1) * rdp) / (order * delta)) / (order - 1)
    assert value == pytest.approx(min(first, second), rel=1e-13)
    assert order != 2.0 or value < first


@every("order, rdp", [(1.5, 0.2), (2.0, 0.01), (8.0, 1.0), (64.0, 3.0)])
def test_rdp_conversions_cover_two_point_pairs(order, rdp):
    """Pairs of distributions on two points with exactly this Rényi divergence: δ never above."""
    for q in (0.5, 0.2, 1e-2, 1e-4, 1e-8):
        # p > q with log(p^α q^(1-α) + …)/(α-1) = rdp, from below by bisection.
        def divergence(p, q=q):
            one = order * math.log(p) + (1 - order) * math.log(q)
            other = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
            return float(np.logaddexp(one, other)) / (order - 1)

        low, high = q, 1 - 1e-12
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if divergence(middle) <= rdp else (low, middle)
        for delta in (1e-12, 1e-6, 1e-3, 0.05):
            for method in ("mironov", "balle", "asoodeh"):
                epsilon = rdp_to_epsilon(delta=delta, orders=[order], rdp=[rdp], method=method)
                assert low - math.exp(epsilon) * q <= delta * (1 + 1e-9)


def test_rdp_against_dp_accounting():
    orders = [1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0]
    for mu, delta in itertools.product([0.1, 0.5, 1.0, 3.0], [1e-3, 1e-5, 1e-8]):
        rdp = [a * mu * mu / 2 for a in orders]
        theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, rdp, delta)
        ours = rdp_to_epsilon(delta=delta, orders=orders, rdp=rdp, method="balle")
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_rdp_limits():
    assert rdp_to_epsilon(delta=1e-5, rho=0.0) == 0.0
    assert rdp_to_epsilon(delta=1e-5, rho=math.inf) == math.inf
    assert rdp_to_epsilon(delta=1e-5, orders=[2.0], rdp=[math.inf]) == math.inf
    assert rdp_to_epsilon(delta=1e-5, orders=[2.0, 3.0], rdp=[math.inf, 1.0]) < 10
    assert rdp_to_epsilon(delta=0.9, orders=[2.0], rdp=[0.0]) == 0.0
    assert rdp_to_epsilon(delta=1e-5, rho=1e300) >= 1e300


def test_bad_input_names_the_field():
    for field, given_ in (
        ("delta", {"delta": 0.0, "rho": 1.0}),
        ("rho", {"rho": -1.0}),
        ("rho", {}),
        ("rho", {"rho": 1.0, "orders": [2.0], "rdp": [1.0]}),
        ("orders", {"orders": [1.0], "rdp": [1.0]}),
        ("orders", {"orders": [math.inf], "rdp": [1.0]}),
        ("rdp", {"orders": [2.0], "rdp": [-1.0]}),
        ("rdp", {"orders": [2.0, 3.0], "rdp": [1.0]}),
        ("method", {"rho": 1.0, "method": "other"}),
        ("method", {"orders": [2.0], "rdp": [1.0], "method": "bun_steinke"}),
    ):
        refused(field, rdp_to_epsilon, **{"delta": 0.1} | given_)
