"""Falling step sizes: the formulas of the docs' theory, section 15, and that accounting agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gamma, gammainc

import pabi
from pabi.account.shifts.isotonic import solve
from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn.plans import budget
from support.every_case import every

# In units in which S = 1 and C/n = 1; x stands for λS.
POWERS = (0.0, 1.0 / 3.0, 0.5, 2.0 / 3.0, 0.8)
CELLS = 4000


def constant(x: float) -> float:
    """μ² times the variance under constant noise."""
    return -math.expm1(-2.0 * x) / (2.0 * x)


def power(p: float, x: float) -> float:
    """μ² times the variance where v is what is left of the path to the power p."""
    return float(gamma(1.0 + p) * gammainc(1.0 + p, 2.0 * x) / ((1.0 - p) * (2.0 * x) ** (1.0 + p)))


def exponential(decades: float, x: float) -> float:
    """μ² times the variance, by quadrature, where v is what is left of the path and a constant."""
    log = decades * math.log(10.0)
    offset = 1.0 / math.expm1(log)
    return log * quad(lambda u: (u + offset) * math.exp(-2.0 * x * u), 0.0, 1.0)[0]


def price(v: np.ndarray) -> float:
    """μ² by the solver, for noises of the cells of a path of length 1 that uses the record throughout."""
    cell = 1.0 / v.size
    return solve(np.ones(v.size), np.full(v.size, cell), v * cell).energy


@every("p", POWERS)
def test_a_falling_noise_costs_what_composition_does(p):
    """The solver finds nothing better than a = 1, and that is ∫ 1/v = 1/(1 − p), by cells of equal noise."""
    edges = np.linspace(1.0, 0.0, CELLS + 1)
    means = -np.diff(edges ** (1.0 - p)) / (1.0 - p) * CELLS  # of 1/v
    assert price(1.0 / means) == pytest.approx(1.0 / (1.0 - p), rel=1e-9)


@every("rise", [0.5, 1.0, 4.0])
def test_a_rising_noise_costs_what_its_mean_does(rise):
    v = np.linspace(1.0, 1.0 + rise, CELLS)
    assert price(v) == pytest.approx(1.0 / v.mean(), rel=1e-9)


@every(("p", "even"), [(1 / 3, 0.767), (0.5, 1.301), (2 / 3, 2.115)])
def test_where_a_power_breaks_even(p, even):
    """The figures of the page, to the digits that it has."""
    assert brentq(lambda x: power(p, x) - constant(x), 0.1, 10.0) == pytest.approx(even, abs=6e-4)


STEPS = 2000
T = (np.arange(STEPS) + 0.5) / STEPS


@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        (np.ones(STEPS), constant),
        (1.0 - T, lambda x: power(0.5, x)),
        (10.0**-T, lambda x: exponential(1.0, x)),
    ],
    ids=["constant", "linear", "exponential"],
)
def test_calibrated_runs_have_the_noise_of_the_limit(sizes, limit):
    """Full batches, 2000 steps: the exact recursion of the variance, within 3 % of the continuous path."""
    n, epsilon, delta = 10_000, 1.0, 1e-5
    loss = Loss.convex(smoothness=1.0, gradient_bound=1.0)
    run = NoisySGD(
        loss, n=n, batches=FullBatch(), epochs=STEPS, step_size=0.5 * sizes, adjacency="zero_out"
    )
    noise = pabi.calibrate(run, epsilon, delta).noise_std
    mu = budget(epsilon, delta)
    path = run.step_size.sum()
    for x in (1e-3, 1.0, 10.0):
        factors = 1.0 - run.step_size * x / path
        after = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)  # of the steps after each
        measured = float(np.sum((run.step_size * noise * after) ** 2))
        assert measured == pytest.approx((path / (n * mu)) ** 2 * limit(x), rel=0.03)


@every("left", [1, 5, 40])
def test_the_last_use_costs_up_to_three_times_as_much_on_a_straight_line(left):
    """Used last r steps before the end: 6r/((r + 1)(2r + 1)), where constant steps have 1/r."""
    sizes = np.arange(left, 0, -1.0)
    used = np.zeros(left)
    used[0] = left
    cost = solve(np.ones(left), used, sizes**2).energy
    assert cost == pytest.approx(6.0 * left / ((left + 1.0) * (2.0 * left + 1.0)), rel=1e-9)
    constant_steps = solve(np.ones(left), np.eye(left)[0], np.ones(left)).energy
    assert constant_steps == pytest.approx(1.0 / left, rel=1e-9)
