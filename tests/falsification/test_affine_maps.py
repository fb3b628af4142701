"""What the solvers prove is never below what is exactly known, and is met where it can be."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pabi import NoisyIteration
from support.falsification import affine_maps
from support.falsification.affine_maps import FAMILIES, Table, exact_mu, falsify
from support.falsification.walks import Moved, Odd, Step, Walk

COUNTS = {"affine": 1000, "walled": 300, "roots": 600, "jumping": 80}


@pytest.mark.parametrize("scale", [1, pytest.param(40, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_instance_is_less_private_than_proven(family, scale):
    found = falsify(family, scale * COUNTS[family], seed=scale)
    assert found.instances >= scale * COUNTS[family]
    assert found.violations == 0, found
    assert found.worst <= 1.0 + 1e-9
    # The instances come up to the bound, so that the comparison means something.
    assert found.met >= found.instances / 200


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bound_a_millionth_too_small_is_caught(family):
    def short(table: Table, i: int) -> float:
        return table.bound(i) * (1.0 - 1e-6)

    assert falsify(family, COUNTS[family], seed=2, bound=short).violations > 0


def linear_for_root(table: Table, i: int) -> float:
    """The jump of a root forgotten: √(κδ² + h) taken for √κ·δ."""
    return replace(table, kind=np.zeros_like(table.kind)).bound(i)


def test_forgotten_gaps_are_caught():
    assert falsify("roots", 100, seed=3, bound=linear_for_root).violations > 0


def test_half_the_diameter_is_caught():
    def short(table: Table, i: int) -> float:
        return replace(table, diameter=table.diameter / 2).bound(i)

    assert falsify("walled", 50, seed=3, bound=short).violations > 0


def test_a_sensitivity_paid_one_step_too_late_is_caught():
    """Kong and Ribero's Lemma 4.2 takes the runs to be equal after the first use."""

    def late(table: Table, i: int) -> float:
        s = table.s.copy()
        first = int(np.argmax(s[i] > 0.0))
        s[i, first] = 0.0
        return replace(table, s=s, start=np.zeros(len(table))).bound(i)

    assert falsify("affine", 100, seed=4, bound=late).violations > 0


# The truth.


def test_the_recursion_is_that_of_two_runs_with_common_noise():
    rng = np.random.default_rng(1)
    a, d, sigma = rng.uniform(-1.2, 1.2, 30), rng.normal(size=30), rng.uniform(0.1, 1.0, 30)
    mean, other, weights = 0.5, -1.0, np.zeros(30)
    for k in range(30):
        mean, other, weights = a[k] * mean, a[k] * other + d[k], a[k] * weights
        weights[k] = sigma[k]
    wanted = abs(other - mean) / float(np.linalg.norm(weights))
    assert exact_mu(a, d, sigma, -1.5) == pytest.approx(wanted, rel=1e-12)
    assert exact_mu(np.ones(2), np.zeros(2), np.zeros(2)) == 0.0
    assert exact_mu(np.ones(2), np.array([1.0, 0.0]), np.zeros(2)) == math.inf


def test_the_laws_beside_a_jump_are_gaussian():
    """The same maps, integrated. What lies beyond a steeper line is not reached, and is left out."""
    for family in ["jumping", "roots"]:
        table = FAMILIES[family][0](np.random.default_rng(2), 12, 4)
        for i in range(len(table)):
            steps = []
            for k in range(4):
                odd = Odd(((float(table.a[i, k]), float(table.j[i, k])),))
                maps = tuple(Moved(odd, side * table.s[i, k] / 2) for side in (-1, 1))
                steps.append(Step(maps, table.sigma[i, k], odd.kinks, odd.steepest))
            walk = Walk(steps, (-table.start[i] / 2, table.start[i] / 2))
            found, error = walk.delta(np.array([0.0, 1.0]))
            total_variation = math.erf(table.truth[i] / 2 / math.sqrt(2.0))
            assert error <= 1e-7, family
            assert found[0, 0] == pytest.approx(total_variation, abs=error), family


def test_the_front_door():
    """The same through NoisyIteration, whatever analysis answers."""
    for family in FAMILIES:
        table = FAMILIES[family][0](np.random.default_rng(5), 60, 3)
        assert len(table), family
        for i in range(len(table)):
            diameter = float(table.diameter[i])
            iteration = NoisyIteration(
                moduli=table.moduli(i),
                step_sensitivity=table.s[i],
                step_noise_std=table.sigma[i],
                diameter=None if math.isinf(diameter) else diameter,
                start=float(table.start[i]),
            )
            mu = iteration.guarantee(1e-6).mu
            assert mu >= table.truth[i] * (1.0 - affine_maps.tolerance(table)[i]), family
