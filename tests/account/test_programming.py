"""Rough paths by dynamic programming, against closed forms where the grid is exact, and within what it loses.

For linear moduli and no sensitivities the cost of what remains is A·z², which a grid that is linear in z²
holds exactly, but for its ends; a distance w_0 then costs (w_0·Πc)²/Σ σ_k²W_k² at best, W_k the product of
later slopes.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import Modulus
from pabi.account.facts.step_moduli import shapes
from pabi.account.shifts.start import _COARSE, _DECADES, roughly
from support.every_case import every


def rough(moduli, s, sigma, diameter=math.inf, start=0.0, top=math.inf):
    """The paths found for these steps, the first of which is said to be the best, and how far apart the runs
    can be before each; on a grid up to there, or up to `top`."""
    shape = shapes(moduli)
    omega, apart, z = shape.evaluators(), [], start
    for evaluate, more in zip(omega, s.tolist(), strict=True):
        apart.append(z)
        z = min(diameter, evaluate(z) + more)
    apart = np.array(apart)
    highest = max(apart.max(), z) if top == math.inf else top
    found = roughly(shape, omega, s, sigma, diameter, apart, highest)
    return found, apart


def replayed(moduli, s, sigma, path, start):
    """The cost of a path, whose distances must be ones that can be had."""
    z, cost = start, 0.0
    assert len(path.aims) == len(s) - path.first
    for k, aim in enumerate(path.aims.tolist(), path.first):
        owed = moduli[k](z) + s[k]
        assert 0.0 <= aim <= owed * (1.0 + 1e-12)
        if k == len(s) - 1:
            aim = 0.0  # what is left is paid at the end
        cost += ((owed - aim) / sigma[k]) ** 2
        z = aim
    return cost


def linear_cost(c, sigma, start):
    later = np.append(np.cumprod(c[::-1])[::-1][1:], 1.0)
    return (start * np.prod(c)) ** 2 / np.sum((sigma * later) ** 2)


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_a_distance_is_paid_off_as_well_as_can_be(t, seed):
    """On a grid whose ends are far from all distances on the way."""
    rng = np.random.default_rng(seed)
    c, sigma = rng.uniform(0.8, 1.2, t), rng.uniform(0.5, 2.0, t)
    start = float(rng.uniform(0.1, 3.0))
    moduli = [Modulus.linear(x) for x in c]
    (path,), _ = rough(moduli, np.zeros(t), sigma, start=start, top=10.0 * start)
    assert path.first == 0
    cost = replayed(moduli, np.zeros(t), sigma, path, start)
    assert cost == pytest.approx(linear_cost(c, sigma, start), rel=1e-12)


@every("pulls", [(1.0, 0.0), (1.0, 0.3), (1.0, 1.0), (0.2, 1.0), (2.0, 0.1)])
@every("noises", [(1.0, 1.0), (0.5, 1.5), (2.0, 0.4)])
@every("slope", [0.6, 1.0, 1.3])
def test_two_uses_in_two_steps(pulls, noises, slope):
    """By hand: (s₁ − z)²/σ₁² + (cz + s₂)²/σ₂² is least at a z that calculus gives.

    Between two distances of the grid, q apart in ratio, z itself is taken for a line in z². That is at least
    2√q/(1 + q) of it, and so is the cost that is minimised.
    """
    (s1, s2), (v1, v2) = pulls, (noises[0] ** 2, noises[1] ** 2)
    z = min(s1, max(0.0, (s1 / v1 - slope * s2 / v2) / (1.0 / v1 + slope**2 / v2)))
    truth = (s1 - z) ** 2 / v1 + (slope * z + s2) ** 2 / v2
    moduli = [Modulus.linear(1.0), Modulus.linear(slope)]
    found, apart = rough(moduli, np.array(pulls), np.array(noises))
    costs = [
        replayed(moduli, np.array(pulls), np.array(noises), path, apart[path.first])
        for path in found
        if path.first == 0
    ]
    q = 10.0 ** (_DECADES / (_COARSE - 1))
    assert truth * (1.0 - 1e-12) <= min(costs) <= truth * (1.0 + q) / (2.0 * math.sqrt(q))


def test_where_nothing_can_be_paid_there_is_no_path():
    moduli = [Modulus.linear(1.0)] * 3
    found, _ = rough(moduli, np.array([1.0, 0.0, 0.0]), np.zeros(3))
    assert found == []
