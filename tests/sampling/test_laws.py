"""The chains have the laws they should, known exactly or by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import pabi
from pabi.sampling import diffusion, langevin
from support.every_case import every

from .laws import LEVEL, IntervalLaw

CHAINS = 100_000


def draw(gradient, x0, seed=1, chains=CHAINS, **fields):
    loss = fields.pop("loss", pabi.Loss.unknown(gradient_bound=1.0))
    chain = pabi.LangevinChain(loss, n=100, chains=chains, **fields)
    return langevin(chain, gradient, x0, random_state=seed, delta=1e-3).values[:, 0]


def gaussian_law(precision, centre, start, step, beta, steps):
    """(mean, variance) of an unadjusted chain on a quadratic, coordinate by coordinate."""
    h = step * beta
    shrink = 1.0 - h * precision
    mean = centre + shrink**steps * (start - centre)
    variance = 2 * step * sum(shrink ** (2 * k) for k in range(steps))
    return mean, variance


@pytest.mark.parametrize("steps", [1, 2, 7, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_gaussian_target_gives_the_chains_own_gaussian(steps):
    precision, centre = np.array([1.0, 4.0, 0.25]), np.array([0.5, -1.0, 3.0])
    x = draw(
        lambda x: precision * (x - centre),
        np.array([2.0, 0.0, -1.0]),
        inverse_temperature=3.0,
        step_size=0.05,
        steps=steps,
    )
    mean, variance = gaussian_law(precision, centre, [2.0, 0.0, -1.0], 0.05, 3.0, steps)
    z = (x - mean) / np.sqrt(variance)
    for column in z.T:
        assert kstest(column, "norm").pvalue > LEVEL
    # All coordinates together: a sum of squares of independent standard normals.
    assert kstest(np.sum(z**2, axis=1), chi2(3).cdf).pvalue > LEVEL
    # A noise that is off by three per cent would be noticed.
    assert kstest(1.03 * z.ravel(), "norm").pvalue < LEVEL


def test_the_law_is_the_chains_own_and_not_the_targets():
    x = draw(lambda x: x, 0.0, inverse_temperature=1.0, step_size=0.5, steps=60)
    own = 1.0 / (1.0 - 0.25)
    assert kstest(x / np.sqrt(own), "norm").pvalue > LEVEL
    assert kstest(x, "norm").pvalue < LEVEL


POTENTIALS = {
    "gaussian": lambda x: x - 0.4,
    "laplace": np.sign,
    "power 1.5": lambda x: 1.5 * np.sqrt(np.abs(x)) * np.sign(x),
    "power 1.2": lambda x: 1.2 * np.abs(x) ** 0.2 * np.sign(x),
}


@every("potential", POTENTIALS)
@pytest.mark.parametrize("steps", [1, 5, pytest.param(40, marks=pytest.mark.nightly)])
def test_projected_chains_on_an_interval(potential, steps):
    gradient = POTENTIALS[potential]
    beta, eta, radius = 2.0, 0.02, 0.8
    law = IntervalLaw(beta * eta, gradient, np.sqrt(2 * eta), radius, 0.3, steps)
    assert law.low + law.high + law.w @ law.density == pytest.approx(1.0, abs=1e-7)
    x = draw(
        gradient,
        np.array([0.3]),
        inverse_temperature=beta,
        step_size=eta,
        steps=steps,
        prox=pabi.prox.ball(radius),
    )[:, 0]
    edge = np.abs(x) > radius * (1 - 1e-12)  # the ball is smaller by a rounding margin
    x = np.where(edge, np.sign(x) * radius, x)
    assert law.accepts(x)
    # Steps without a gradient, and points near the edge taken for points on it, would be noticed.
    if steps > 1:
        free = IntervalLaw(0.0, gradient, np.sqrt(2 * eta), radius, 0.3, steps)
        assert not free.accepts(x)
    assert not law.accepts(np.where(np.abs(x) > 0.97 * radius, np.sign(x) * radius, x))


def test_a_box_acts_on_each_coordinate():
    x = draw(
        np.sign,
        np.array([0.0, 0.2]),
        inverse_temperature=1.0,
        step_size=0.05,
        steps=10,
        prox=pabi.prox.box([-0.5, -1.0], [0.5, 1.0]),
    )
    for column, start, radius in ((x[:, 0], 0.0, 0.5), (x[:, 1], 0.2, 1.0)):
        assert IntervalLaw(0.05, np.sign, np.sqrt(0.1), radius, start, 10).accepts(column)


def test_soft_thresholding_leaves_its_atom():
    """After one step from 0 with g = s·|x| the chain is the soft-thresholded noise."""
    x = draw(
        lambda x: 0.0 * x,
        np.zeros(1),
        inverse_temperature=4.0,
        step_size=0.1,
        steps=1,
        prox=pabi.prox.l1(1.5),
    )[:, 0]
    threshold, std = 0.4 * 1.5, np.sqrt(0.2)
    unfolded = x[x != 0.0] + threshold * np.sign(x[x != 0.0])
    beyond = 2 * chi_tail(threshold / std)
    assert abs(np.count_nonzero(x) - beyond * x.size) < 5 * np.sqrt(x.size * beyond * (1 - beyond))
    tail = np.abs(unfolded) / std
    assert kstest((1 - 2 * chi_tail(tail) - (1 - beyond)) / beyond, "uniform").pvalue > LEVEL


def chi_tail(z):
    from scipy.special import ndtr

    return ndtr(-np.asarray(z))


def test_stochastic_gradients_in_cyclic_order():
    """Quadratics ½(x − a_i)²: every batch pulls to its own mean, the short one by its share."""
    centres = np.array([1.0, -2.0, 4.0, 0.5, -1.0])
    chain = pabi.LangevinChain(
        pabi.Loss.unknown(gradient_bound=10.0),
        n=5,
        batches=pabi.Cyclic(2),
        inverse_temperature=2.0,
        step_size=0.1,
        steps=7,
        chains=CHAINS,
    )

    def gradient(x, rows):
        return np.sum(x[..., None] - centres[rows], axis=-1) / 2

    x = langevin(chain, gradient, 0.0, random_state=3, delta=0.1).values[:, 0]
    mean = variance = 0.0
    for k in range(7):
        rows = [(0, 1), (2, 3), (4,)][k % 3]
        shrink = 1 - 0.2 * len(rows) / 2
        mean = shrink * mean + 0.2 * sum(centres[i] for i in rows) / 2
        variance = shrink**2 * variance + 0.2
    assert kstest((x - mean) / np.sqrt(variance), "norm").pvalue > LEVEL


def test_a_diffusion_of_varying_temperature_on_a_quadratic():
    """β_t = t at the middle of each of its steps: a Gaussian whose mean and variance are sums."""
    described = pabi.LangevinDiffusion(
        pabi.Loss.unknown(gradient_bound=10.0),
        n=100,
        inverse_temperature=lambda t: 4.0 * t,
        time=2.0,
    )
    draws = diffusion(
        described, lambda x: x - 1.0, 3.0, steps=50, chains=CHAINS, random_state=5, delta=1e-3
    )
    mean, variance, eta = 3.0, 0.0, 2.0 / 50
    for k in range(50):
        shrink = 1 - eta * 4.0 * (k + 0.5) * eta
        mean, variance = 1 + shrink * (mean - 1), shrink**2 * variance + 2 * eta
    assert kstest((draws.values[:, 0] - mean) / np.sqrt(variance), "norm").pvalue > LEVEL


@pytest.mark.nightly
@pytest.mark.parametrize("potential", POTENTIALS)
@pytest.mark.parametrize("radius", [0.3, 1.5])
@pytest.mark.parametrize("seed", [11, 12])
def test_projected_chains_with_many_more_draws(potential, radius, seed):
    gradient = POTENTIALS[potential]
    law = IntervalLaw(0.06, gradient, np.sqrt(0.04), radius, -0.1, 150, panels=60)
    x = draw(
        gradient,
        np.array([-0.1]),
        seed,
        chains=2_000_000,
        inverse_temperature=3.0,
        step_size=0.02,
        steps=150,
        prox=pabi.prox.box([-radius], [radius]),
    )[:, 0]
    assert law.accepts(x)
