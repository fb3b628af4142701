"""Products of trade-off functions: what one of them that may fail reads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi.tradeoff import FixedSizeSubsampled, Gaussian, Mixture, PoissonSubsampled, Product
from pabi.tradeoff.numerical import ComposedLoss
from pabi.verification.products import Sampled, epsilon_bound
from support.every_case import every


class TestOneFactorThatMayFail:
    """δ of f with an event of probability p under which nothing is claimed is δ of f, and p on top."""

    @pytest.mark.parametrize(
        "curve", [Gaussian(0.7), Mixture([Gaussian(0.2), Gaussian(1.5)], [0.75, 0.25])], ids=repr
    )
    @pytest.mark.parametrize("failure", [1e-12, 1e-6, 0.01])
    def test_its_readings_are_those_of_the_factor(self, curve, failure):
        product = Product([(curve, 1)], failure)
        for epsilon in (0.0, 0.5, 2.0, 8.0):
            exact = Fraction(curve.delta(epsilon)) + Fraction(failure)
            assert exact <= Fraction(product.delta(epsilon)) <= exact * Fraction(1 + 1e-14)
        for delta in (2 * failure, 0.3):
            left = delta - failure
            low, high = product.epsilon_bounds(delta)
            assert curve.epsilon(left) <= high <= curve.epsilon(left) * (1 + 1e-12) + 1e-15
            assert low <= high == product.epsilon(delta)
        assert product.epsilon(0.999 * failure) == math.inf
        grid = np.array([0.0, 1.0, 3.0])
        assert np.all(product.delta(grid) >= curve.delta(grid) + failure)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize("failure", [0.0, 1e-4])
def test_what_epsilon_is_not_below_is_at_most_epsilon(delta, count, failure):
    """Of rare and of frequent draws, of a Gaussian beside them, before and after a rough reading."""
    told = 0
    for mu, p, beside in ((3.0, 1e-3, 0.0), (3.0, 0.5, 0.0), (0.1, 0.1, 2.0), (20.0, 0.1, 0.5)):
        for one in (PoissonSubsampled(mu, p), FixedSizeSubsampled(mu, 0.5 * mu, 0.6 * mu, p)):
            curve = Product([(one, count), (Gaussian(beside), 1)], failure)
            epsilon = curve.epsilon(delta)
            before = curve._underestimate(delta)
            assert before <= epsilon
            told += before > 0.1 * epsilon > 0.0
            if delta > failure:
                curve.roughly(delta)
                assert curve._underestimate(delta) <= epsilon
    assert told > 0 or failure > delta


def test_where_epsilon_is_far_below_delta_it_is_read_as_well_as_delta(monkeypatch):
    """δ(0) is just above δ, so that any ε between is tiny: grids down to its size would take minutes."""
    grids, read = [], ComposedLoss._epsilon_at

    def counted(loss, grid, power, delta, pessimist):
        grids.append(grid.step)
        return read(loss, grid, power, delta, pessimist)

    monkeypatch.setattr(ComposedLoss, "_epsilon_at", counted)
    curve = Product([(PoissonSubsampled(0.0021771626848877527, 19 / 33), 4)])
    low, high = curve.epsilon_bounds(1e-3)
    assert 0.0 < low <= high <= 1e-6
    assert high - low <= 1e-3 * 0.01 * 1e-3
    assert min(grids) > 1e-7


@every("mu", [1e-6, 1e-5, 9e-4, 1.1e-3])
@every("p", [0.01, 0.846])
def test_faint_factors_are_read_from_both_sides(mu, p):
    """Their losses are within 40μ of 0, and the least one that is possible, log(1 − p), is far away."""
    delta = 0.3 * p * mu / math.sqrt(2.0 * math.pi)
    low, high = Product([(PoissonSubsampled(mu, p), 4)]).epsilon_bounds(delta)
    assert 0.0 < low <= high <= low * (1.0 + 1e-3)
    anew = epsilon_bound([], [Sampled("poisson_subsampled", p, mu, 4)], delta)
    assert low <= anew <= high * 1.003
