"""The chains have the laws they should, known exactly or by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import pabi
from pabi.sampling import langevin
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
    start, walk = np.array([2.0, 0.0, -1.0]), {"inverse_temperature": 3.0, "step_size": 0.05}
    x = draw(lambda x: precision * (x - centre), start, steps=steps, **walk)
    mean, variance = gaussian_law(precision, centre, start, 0.05, 3.0, steps)
    z = (x - mean) / np.sqrt(variance)
    for column in z.T:
        assert kstest(column, "norm").pvalue > LEVEL
    # All coordinates together: a sum of squares of independent standard normals.
    assert kstest(np.sum(z**2, axis=1), chi2(3).cdf).pvalue > LEVEL
    # A noise that is off by three per cent would be noticed.
    assert kstest(1.03 * z.ravel(), "norm").pvalue < LEVEL


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
    walk = {"inverse_temperature": beta, "step_size": eta, "prox": pabi.prox.ball(radius)}
    x = draw(gradient, np.array([0.3]), steps=steps, **walk)[:, 0]
    edge = np.abs(x) > radius * (1 - 1e-12)  # the ball is smaller by a rounding margin
    x = np.where(edge, np.sign(x) * radius, x)
    assert law.accepts(x)
    # Steps without a gradient, and points near the edge taken for points on it, would be noticed.
    if steps > 1:
        free = IntervalLaw(0.0, gradient, np.sqrt(2 * eta), radius, 0.3, steps)
        assert not free.accepts(x)
    assert not law.accepts(np.where(np.abs(x) > 0.97 * radius, np.sign(x) * radius, x))
