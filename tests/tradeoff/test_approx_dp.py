"""(ε, δ)-DP as a trade-off function, against the pair that attains it."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import convert
from pabi.tradeoff import ApproxDP, Product
from support.every_case import every


def pair(epsilon, delta):
    """The four-point pair whose trade-off function is f_{ε,δ}."""
    e, d = mp.mpf(epsilon), mp.mpf(delta)
    p = (1 - d) / (1 + mp.exp(-e))
    return [d, p, 1 - d - p, mp.mpf(0)], [mp.mpf(0), 1 - d - p, p, d]


def true_delta(epsilon, delta, at):
    first, second = pair(epsilon, delta)
    return mp.fsum(max(mp.mpf(0), a - mp.exp(at) * b) for a, b in zip(first, second, strict=True))


EPSILONS = st.floats(0.0, 30.0)
DELTAS = st.one_of(st.just(0.0), st.floats(1e-300, 0.9))


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.floats(-35.0, 35.0))
def test_delta_against_the_pair(epsilon, delta, at):
    value = ApproxDP(epsilon, delta).delta(at)
    with mp.workdps(700):
        truth = true_delta(epsilon, delta, at)
        assert truth - mp.mpf("1e-650") <= value <= truth * (1 + mp.mpf("3e-16")) + mp.mpf("5e-324")
    assert ApproxDP(epsilon, delta).delta(np.array([at]))[0] == value


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.floats(1e-12, 0.99))
def test_epsilon_is_the_least(epsilon, delta, target):
    f = ApproxDP(epsilon, delta)
    value = f.epsilon(target)
    if target < delta:
        assert value == math.inf
    else:
        assert 0.0 <= value <= epsilon
        with mp.workdps(700):
            assert true_delta(epsilon, delta, value) <= target + mp.mpf("1e-50")
            lower, upper = f.epsilon_bounds(target)
            assert upper == value
            assert lower >= value - 1e-14 * (1 + epsilon)
            if lower > 0.0:
                assert true_delta(epsilon, delta, math.nextafter(lower, 0.0)) > target


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.floats(0.0, 1.0))
def test_tradeoff_value_is_a_tight_lower_bound(epsilon, delta, alpha):
    value = ApproxDP(epsilon, delta)(alpha)
    with mp.workdps(60):
        e, d, a = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(alpha)
        truth = max(mp.mpf(0), 1 - d - mp.exp(e) * a, mp.exp(-e) * (1 - d - a))
        assert value <= truth
        assert value >= truth - mp.mpf("3e-15")


def test_end_points_and_limits():
    assert ApproxDP(1.0)(0.0) == 1.0
    assert ApproxDP(1.0)(1.0) == 0.0
    assert 0.9 - 1e-15 <= ApproxDP(1.0, 0.1)(0.0) <= 0.9
    assert ApproxDP(0.0).advantage == 0.0
    assert ApproxDP(math.inf)([0.0, 0.5]).tolist() == [0.0, 0.0]
    assert ApproxDP(math.inf).epsilon(0.5) == math.inf
    assert ApproxDP(math.inf).delta(100.0) == 1.0
    assert ApproxDP(1e4).delta(0.0) == 1.0
    assert ApproxDP(1e4, 0.0)(0.5) == 0.0
    assert ApproxDP(2.0, 1e-6).epsilon(0.0) == math.inf
    assert ApproxDP(2.0).epsilon(0.0) == 2.0
    assert ApproxDP(2.0, 0.3).epsilon(1.0) == 0.0
    # advantage of randomised response: tanh(ε/2)
    assert ApproxDP(2.0).advantage == pytest.approx(math.tanh(1.0), rel=1e-15)


@every("epsilon", [1e-3, 0.5, 3.0, 50.0])
@every("order", [1.001, 2.0, 30.0, 1e5])
def test_rdp_against_the_pair(epsilon, order):
    f = ApproxDP(epsilon)
    with mp.workdps(60):
        e, a = mp.mpf(epsilon), mp.mpf(order)
        p = 1 / (1 + mp.exp(-e))
        q = 1 - p
        truth = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        assert truth <= f.rdp(order) <= truth * (1 + mp.mpf("1e-15")) + mp.mpf("1e-40")
        assert truth <= f.zcdp * a
    # The Rényi curve converts back to no less than the pure ε at tiny δ, no more than ε anywhere.
    assert convert.rdp_to_epsilon(delta=1e-9, orders=[order], rdp=[f.rdp(order)]) >= f.epsilon(1e-9)
    assert ApproxDP(epsilon, 1e-9).rdp(order) == math.inf
    assert ApproxDP(epsilon, 1e-9).zcdp == math.inf


def test_composition():
    assert ApproxDP(0.0, 0.5).compose(ApproxDP(1.0, 0.5)) == ApproxDP(1.0, 0.75)
    assert ApproxDP(2.0).compose(ApproxDP(0.0)) == ApproxDP(2.0)
    assert ApproxDP(0.0, 0.5).self_compose(3) == ApproxDP(0.0, 0.875)
    twice = Product([(ApproxDP(1.0), 2)])  # no closed form
    assert ApproxDP(1.0).compose(ApproxDP(1.0)) == ApproxDP(1.0).self_compose(2) == twice
