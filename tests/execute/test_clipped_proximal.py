"""Cyclic noisy SGD with clipped gradients and proximal steps on weakly convex losses (Kong and Ribero)."""

import math

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisyIteration, NoisySGD, prox
from pabi.account.best import outcomes

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5
LOSS = Loss.weakly_convex(0.25, 1.0)


def accounted(loss=LOSS):
    given = {"epochs": 30, "step_size": 0.02, "noise_std": 1.0, "clip_norm": 0.25}
    return NoisySGD(loss, 40, Cyclic(4), **given, prox=prox.l1(0.3))


def by_method(run, name):
    return {o.name: o.guarantee for o in outcomes(run, DELTA)}[name]


def test_the_guarantee_rests_on_the_slope_of_clipped_steps():
    run = accounted()
    eta, m, big = 0.02, 0.25, 1.0
    q = np.linspace(0.0, 1.0, 100_001)
    x = 1 + eta * m - eta * (big + m) * q
    total = x * x + (eta * (big + m)) ** 2 * q * (1 - q) + 1
    slope = math.sqrt(float(np.max(total + np.sqrt(np.maximum(total**2 - 4 * x * x, 0)))) / 2)
    uses = np.where(np.arange(run.steps) % 10 == 9, eta * 2 * 0.25 / 4, 0.0)

    def by_slope(c):
        return NoisyIteration(c, uses, eta * 1.0, steps=run.steps).guarantee(DELTA).mu

    shifted = by_method(run, "shifted interpolation")
    # The grid of q is 10⁻⁵ fine around a smooth maximum; the slope acts for 300 steps.
    assert shifted.mu == pytest.approx(by_slope(slope), rel=1e-6)
    assert shifted.mu > by_slope(1.0 + eta * m) * 1.0001 > by_slope(1.0)
    best = run.guarantee(DELTA)
    assert by_slope(1.0) < best.mu <= shifted.mu
    assert best.mu < by_method(run, "composition").mu
    # Were clipping harmless, less would do: it is not for these losses.
    glm = accounted(Loss.weakly_convex(0.25, 1.0, glm=True)).guarantee(DELTA)
    convex = accounted(Loss.convex(1.0, glm=True)).guarantee(DELTA)
    assert best.mu > glm.mu > convex.mu
    assert convex.mu == pytest.approx(by_slope(1.0), rel=1e-9)
