"""What an epoch costs between two distances, against a general solver."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from pabi.account.shifts.epochs import Rests, _Epoch
from pabi.describe.iteration import Steps
from support.every_case import every

EVERY = slice(None)


def random_steps(rng, t, low=0.8, high=1.3):
    return Steps(rng.uniform(low, high, t), rng.uniform(0.2, 1.5, t), rng.uniform(0.3, 2.0, t))


def dearest(steps, begin, end):
    return float(_Epoch(steps).costs(np.array([begin]), np.array([end]), EVERY)[0, 0])


def least(steps, use, begin, end):
    """The least Σ (a/σ)² that brings `begin` to `end`, with one use, by a general solver."""
    t, own = steps.c.size, np.where(np.arange(steps.c.size) == use, steps.s, 0.0)

    def distances(a):
        z, out = begin, []
        for slope, more, paid in zip(steps.c, own, a, strict=True):
            z = slope * z + more - paid
            out.append(z)
        return np.array(out)

    start = own.copy()
    start[0] += steps.c[0] * begin
    kept = [distances, lambda a: end - distances(a)[-1]]
    found = minimize(
        lambda a: float(np.sum((a / steps.sigma) ** 2)),
        start,
        jac=lambda a: 2.0 * a / steps.sigma**2,
        bounds=[(0.0, None)] * t,
        constraints=[{"type": "ineq", "fun": fun} for fun in kept],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success, found.message
    return float(found.fun)


@every("seed", range(20))
def test_the_dearest_place_costs_what_a_general_solver_finds(seed):
    rng = np.random.default_rng(seed)
    steps = random_steps(rng, 6)
    begin, end = rng.uniform(0.0, 2.0, 2).tolist()
    truth = max(least(steps, use, begin, end) for use in range(6))
    assert dearest(steps, begin, end) == pytest.approx(truth, rel=1e-4, abs=1e-7)


def test_equal_steps_lose_nothing():
    """With slopes of one and equal steps the best distance is s, and an epoch costs s²/(lσ²) everywhere."""
    period, epochs, s, sigma = 10, 6, 0.7, 2.0
    ones = np.ones(period * epochs)
    rests = Rests(Steps(ones, s * ones, sigma * ones), period, epochs)
    level = rests.costing(np.array([s] * (epochs + 1)))
    assert level.cost == pytest.approx(epochs * s * s / (period * sigma * sigma), rel=1e-12)
    assert level.cost >= epochs * s * s / (period * sigma * sigma)


@every("unit", [2.0**-900, 2.0**-400, 2.0**400, 2.0**900])
def test_lengths_have_no_unit(unit):
    steps = random_steps(np.random.default_rng(3), 20)
    r = np.array([0.0, 0.5, 0.7, 0.1, 0.4])
    other = Steps(steps.c, steps.s * unit, steps.sigma * unit)
    plain, scaled = Rests(steps, 5, 4).costing(r), Rests(other, 5, 4).costing(r * unit)
    assert scaled.cost == pytest.approx(plain.cost, rel=1e-12)
    small = Rests(Steps(steps.c, steps.s * 2.0**-700, steps.sigma), 5, 4)
    assert small.costing(np.zeros(5)).cost > 0.0


def test_what_overflows_is_no_bound():
    steps = random_steps(np.random.default_rng(0), 20)
    within = Rests(steps, 5, 4, 2.0)  # nothing is paid to be as far apart as the diameter
    assert within.costing(np.array([0.0, 2.0, 2.5, 2.0, 3.0])).cost == 0.0
    assert within.costing(np.array([0.0, 2.0, 1.9, 2.0, 2.0])).cost > 0.0
    steps = Steps(np.full(4000, 1.5), np.ones(4000), np.ones(4000))
    assert Rests(steps, 2000, 2).costing(np.array([0.0, 1.0, 1.0])).cost == math.inf
    for slope in (1e20, 1e100, 1e300):
        steep = Steps(np.full(12, slope), np.ones(12), np.ones(12))
        assert Rests(steep, 6, 2).costing(np.array([0.0, 1.0, 1.0])).cost >= 1.0
    silent = Steps(np.ones(8), np.ones(8), np.zeros(8))
    assert Rests(silent, 4, 2).costing(np.array([0.0, 0.5, 0.5])).cost == math.inf
    # A slope of 0 forgets the distance, and later uses alone are paid.
    steps = Steps(np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), np.ones(3))
    assert dearest(steps, 5.0, 0.0) == 0.0
    assert dearest(steps._replace(s=np.array([0.0, 0.0, 1.0])), 5.0, 1.0) < 1e-20
