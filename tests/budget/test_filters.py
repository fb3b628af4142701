"""What a ledger charges and grants."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pabi.budget.filters import (
    GaussianFilter,
    RenyiFilter,
    filter_of,
    read_filter,
    root_of_fraction_down,
)
from pabi.convert import gdp_to_delta, gdp_to_epsilon
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import (
    ApproxDP,
    BoundedRange,
    Gaussian,
    Mixture,
    PoissonSubsampled,
    Product,
    RandomAllocation,
)
from pabi.tradeoff.gaussian_below import gaussian_below
from support.every_case import every

EPSILON, DELTA = 1.0, 1e-5


# Budgets.


@every(("epsilon", "delta"), [(1.0, 1e-5), (0.01, 1e-9), (8.0, 1e-3), (30.0, 0.5)])
def test_the_budget_is_the_largest_that_meets_the_target(epsilon, delta):
    mu = GaussianFilter.of(epsilon, delta).mu

    def exact(m):
        m, e = mpmath.mpf(m), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)

    with mpmath.workdps(40):
        assert exact(mu) <= mpmath.mpf(delta)
        assert exact(mu * (1 + 1e-12)) > mpmath.mpf(delta)


@every("order", [8.0, 20.0, 50.0])
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


@every("share", [0.0, 0.3, 1.0])
def test_what_is_left_is_rounded_down(share):
    for one in (GaussianFilter.of(EPSILON, DELTA), RenyiFilter.of(EPSILON, DELTA, 20.0)):
        spent = one.limit * Fraction(share)
        epsilon = one.epsilon_left(spent, DELTA)
        assert (epsilon == 0.0) == (share == 1.0)
        mu = GaussianFilter.of(epsilon, DELTA).mu if epsilon else 0.0
        assert spent + one.size(one.charge(Gaussian(mu))) <= one.limit * (1 + Fraction(1, 10**12))
        assert one.epsilon(spent, DELTA) <= EPSILON
        assert (one.epsilon(spent, DELTA) == 0.0) == (share == 0.0)


def test_charges_and_readings():
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
    one = GaussianFilter(0.5)
    assert one.epsilon(Fraction(0.3) ** 2, DELTA) == gdp_to_epsilon(0.3, DELTA)
    assert gaussian_below(Gaussian(0.3)) == one.charge(Gaussian(0.3))
    for pure in (BoundedRange(0.4), ApproxDP(0.4, 0.0)):
        charge = gaussian_below(pure)
        assert all(pure.delta(e) <= gdp_to_delta(charge, e) for e in np.linspace(0.0, 0.5, 20))
    run = Product([(PoissonSubsampled(0.5, 0.01), 500)])
    gaussian, renyi = filter_of(2.0, DELTA, None), filter_of(2.0, DELTA, 10.0)
    assert gaussian.charge(run) > gaussian.mu
    assert renyi.charge(run) < renyi.rho


@pytest.mark.parametrize(("opposite", "mu"), [(False, 0.5), (True, 1.0)])
def test_a_secret_batch_is_charged_as_if_it_were_seen(opposite, mu):
    """The last one, the hub, may move the outputs most."""
    curve = RandomAllocation([0.5, 0.4], [0.2, 0.3], [4, 2], opposite, displaces=True, hub=0.5)
    charge = filter_of(EPSILON, DELTA, None).charge(curve)
    assert charge == pytest.approx(mu, rel=1e-12)
    for epsilon in (0.0, 0.5, 2.0):
        assert gdp_to_delta(charge, epsilon) >= curve.delta(epsilon)


@every(
    "data",
    [None, {}, {"kind": "laplace"}, {"kind": ["gaussian"]}, {"kind": "gaussian"},
     {"kind": "gaussian", "mu": -1.0}, {"kind": "gaussian", "mu": 1.0, "more": 1}],
)  # fmt: skip
def test_filters_from_elsewhere_are_refused(data):
    with pytest.raises(InvalidInput):
        read_filter(data)
