"""δ of many Gaussian pairs at once: the slope, and what stands in for tails beyond the doubles.

That δ itself is an upper bound to 10⁻¹² is tested with the conversions.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi.convert.vectorised import delta_and_slope, gaussian_delta


def exact(mu, epsilon):
    """(δ, −dδ/dε), with digits to spare."""
    with mp.workdps(200):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        above = mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2
        below = mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2
        return above - below, below


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-5.0, 2.0), st.floats(-6.0, 20.0)), min_size=1, max_size=6))
def test_the_slope_is_that_of_delta(rows):
    """For all rows at once what each has alone; ε = μ(a + μ/2) ≥ 0."""
    mu = np.array([10.0**x for x, _ in rows])
    epsilon = np.maximum(0.0, mu * (np.array([a for _, a in rows]) + mu / 2))
    delta, slope = delta_and_slope(mu, epsilon)
    for i in range(len(rows)):
        value, steep = exact(mu[i], epsilon[i])
        assert value <= delta[i] <= value * (1 + mp.mpf("2e-13")) + mp.mpf("2e-321")
        assert float(steep) == pytest.approx(slope[i], rel=1e-12)
        alone = delta_and_slope(mu[i : i + 1], epsilon[i : i + 1])
        assert (alone[0][0], alone[1][0]) == pytest.approx((delta[i], slope[i]), rel=1e-15)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        (math.inf, 1.0, 1.0),
        (1000.0, 1.0, 1.0),
        (0.0, 0.0, 0.0),
        (0.0, 3.0, 0.0),
        (1.0, math.inf, 0.0),
    ],
)
def test_far_sides_are_sure(mu, epsilon, delta):
    found, slope = delta_and_slope(np.array([mu]), np.array([epsilon]))
    assert found[0] == delta
    assert slope[0] == 0.0


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 100.0), (0.1, 50.0), (1e-300, 1.0)])
def test_a_tail_beyond_the_doubles_is_not_nothing(mu, epsilon):
    assert 0.0 < gaussian_delta(mu, epsilon) <= 1e-320


@settings(deadline=None)
@given(st.floats(1e-3, 10.0), st.floats(0.0, 20.0))
def test_negative_losses_mirror_positive_ones(mu, epsilon):
    """δ(−ε) = 1 − e^−ε(1 − δ(ε)), from above."""
    with mp.workdps(50):
        value, _ = exact(mu, epsilon)
        mirrored = 1 - mp.exp(-mp.mpf(epsilon)) * (1 - value)
        assert mirrored <= gaussian_delta(mu, -epsilon) <= mirrored * (1 + mp.mpf("1e-12"))
