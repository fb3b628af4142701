"""Shifts under moduli of any shape: closed forms, the linear solver, and brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pabi
from pabi.account.analyses import nonlinear_shifts, shifted_interpolation
from pabi.account.facts.step_moduli import shapes
from pabi.account.shifts.nonlinear import _Problem, solve
from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Modulus
from support.certificates import granted
from support.every_case import every

from .closed_forms import least


def test_roots_are_paid_off_as_well_as_in_closed_form():
    """From a distance to the best of all ends; a step without noise cannot pay."""
    rng = np.random.default_rng(34)
    for number in range(20):
        kappa, h, sigma = rng.uniform([[0.5], [0.05], [0.3]], [[1.5], [2.0], [2.0]], (3, 6))
        if number % 2:
            sigma[rng.integers(6)] = 0.0
        moduli = [Modulus.sqrt(k, x) for k, x in zip(kappa, h, strict=True)]
        distance = float(rng.uniform(0.5, 4.0))
        found = solve(shapes(moduli), np.zeros(6), sigma, math.inf, distance)
        best = least(kappa, h, sigma, math.inf, distance)
        assert found.square == pytest.approx(best, rel=1e-9)


def linear_mu(c, s, sigma, diameter, start):
    given = {"step_sensitivity": s, "step_noise_std": sigma, "diameter": diameter, "start": start}
    return shifted_interpolation.of_iteration(NoisyIteration(contraction=c, **given), 1e-5).curve.mu


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_linear_moduli_are_solved_like_linear_ones(seed):
    rng = np.random.default_rng(seed)
    t = int(rng.integers(2, 40))
    c = rng.uniform(0.5, 1.2, t)
    s = np.where(rng.random(t) < 0.3, rng.uniform(0.1, 1.0, t), 0.0)
    sigma = rng.uniform(0.3, 2.0, t)
    diameter = float(rng.choice([math.inf, 2.0]))
    start = float(rng.choice([0.0, 0.5]))
    assume(start > 0.0 or s.any())
    moduli = [Modulus.linear(x) for x in c]
    found = solve(shapes(moduli), s, sigma, diameter, start)
    exact = linear_mu(c, s, sigma, None if math.isinf(diameter) else diameter, start) ** 2
    assert exact * (1.0 - 1e-9) <= found.square <= exact * (1.0 + 1e-9)


def random_moduli(rng, t):
    def one():
        root = Modulus.sqrt(rng.uniform(0.5, 1.2), rng.uniform(0.001, 0.5))
        line = Modulus.linear(rng.uniform(0.5, 1.5))
        jump = Modulus.affine(rng.uniform(0.8, 1.0), rng.uniform(0.001, 0.3))
        return [line, root, jump, Modulus.minimum(line, root)][rng.integers(4)]

    return [one() for _ in range(t)]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_mixed_instances(seed):
    rng = np.random.default_rng(seed)
    t = int(rng.integers(1, 60))
    moduli = random_moduli(rng, t)
    s = np.where(rng.random(t) < 0.4, rng.uniform(0.05, 0.6, t), 0.0)
    sigma = rng.uniform(0.3, 2.0, t)
    diameter = float(rng.choice([math.inf, 1.5]))
    found = solve(shapes(moduli), s, sigma, diameter, 0.0)
    assert found.square <= float(np.sum((s / sigma) ** 2)) * (1.0 + 1e-12)  # composition
    assert found.z[0] == (diameter if found.first else 0.0)


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.nightly)])
def test_against_brute_force(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        moduli = random_moduli(rng, 3)
        s, sigma = rng.uniform(0.0, 0.5, 3), rng.uniform(0.5, 2.0, 3)
        found = solve(shapes(moduli), s, sigma, math.inf, 0.8)
        best = math.inf
        for shares in itertools.product(np.linspace(0.0, 1.0, 61), repeat=2):
            z, cost = 0.8, 0.0
            for k, share in enumerate([*shares, 0.0]):
                owed = moduli[k](float(z)) + s[k]
                z = share * owed
                cost += ((owed - z) / sigma[k]) ** 2
            best = min(best, cost)
        # The grid is that coarse; later starts are no better.
        assert best * 0.9 <= found.square <= best * (1.0 + 1e-9)


def test_functions_are_solved_like_what_they_are():
    rng = np.random.default_rng(5)
    for _ in range(10):
        t = int(rng.integers(2, 30))
        kappa, h = float(rng.uniform(0.8, 1.1)), float(rng.uniform(0.01, 0.3))
        s = np.where(rng.random(t) < 0.3, rng.uniform(0.1, 0.5, t), 0.0)
        sigma, start = rng.uniform(0.5, 2.0, t), 0.7
        root = Modulus.sqrt(kappa, h)
        function = Modulus.from_function(lambda d, kappa=kappa, h=h: math.sqrt(kappa * d * d + h))
        found = solve(shapes([function] * t), s, sigma, math.inf, start)
        best = solve(shapes([root] * t), s, sigma, math.inf, start).square
        assert found.square == pytest.approx(best, rel=1e-3)


def test_an_unknown_modulus_is_passed_at_distance_zero_only():
    moduli = [Modulus.linear(1.0), Modulus.linear(1.0), Modulus.unbounded(), Modulus.linear(1.0)]
    found = solve(shapes(moduli), np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), math.inf, 0.0)
    # The first difference is paid in two steps, the last one by itself.
    assert found.square == pytest.approx(0.5 + 1.0, rel=1e-9)
    assert found.z[2] == 0.0


@every("noise", [1e140, 1e155, 1e161, 1e300])
@every("batches", [pabi.FullBatch(), pabi.ShuffleOnce(20)])
def test_squares_below_doubles_are_not_taken_for_nothing(noise, batches):
    """One use of the record in the last step alone gives G(2/(b·ς)), b records a batch."""
    run = pabi.NoisySGD(
        pabi.Loss.lipschitz(1.0), n=60, batches=batches, epochs=3, step_size=0.5, noise_std=noise
    )
    guarantee = granted(nonlinear_shifts.apply, run, 1e-300)
    assert guarantee.curve.epsilon(0.0) == math.inf
    share = Fraction(run.batch_size, run.n)
    assert guarantee.curve.advantage >= share * Fraction(2.0 / (run.batch_size * noise)) / 3


# Where a path on which a modulus is less than by its slope costs more than the best one for the slopes,
# nothing else is tried.


def bent(steep, slope, jump):
    return Modulus.minimum(Modulus.linear(steep), Modulus.affine(slope, jump))


@every("seed", range(12))
def test_what_is_not_tried_would_not_have_helped(seed, monkeypatch):
    rng = np.random.default_rng(100 + seed)
    t = 40
    s = np.where(np.arange(t) % 10 == rng.integers(10), 1.0, 0.0)
    shape = shapes([bent(rng.uniform(1.0, 1.5), 1.0, rng.uniform(0.1, 8.0))] * t)
    sigma = np.full(t, rng.uniform(0.5, 4.0))
    found = solve(shape, s, sigma, math.inf, 0.0)
    monkeypatch.setattr(_Problem, "_least_beyond", lambda self: 0.0)
    assert found.square <= solve(shape, s, sigma, math.inf, 0.0).square * (1.0 + 1e-9)
