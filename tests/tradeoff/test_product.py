"""Products of trade-off functions: what one of them that may fail reads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi.tradeoff import Gaussian, Mixture, Product


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
