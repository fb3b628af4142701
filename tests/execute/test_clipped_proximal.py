"""Cyclic noisy SGD with clipped gradients and proximal steps on weakly convex losses (Kong and Ribero)."""

import math

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisyIteration, NoisySGD, prox
from pabi.account.best import outcomes
from pabi.learn import train

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5
LOSS = Loss.weakly_convex(0.25, 1.0)


def run_of(**changes):
    given = {"loss": LOSS, "n": 11, "batches": Cyclic(4), "epochs": 3, "step_size": 0.4}
    given |= {"noise_std": 0.3, "clip_norm": 0.25, "prox": prox.l1(0.3)}
    return NoisySGD(**{**given, **changes})


def accounted(**changes):
    return run_of(**{"n": 40, "epochs": 30, "step_size": 0.02, "noise_std": 1.0} | changes)


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
    glm = accounted(loss=Loss.weakly_convex(0.25, 1.0, glm=True)).guarantee(DELTA)
    convex = accounted(loss=Loss.convex(1.0, glm=True)).guarantee(DELTA)
    assert best.mu > glm.mu > convex.mu
    assert convex.mu == pytest.approx(by_slope(1.0), rel=1e-9)


def test_records_of_any_size_move_a_step_by_no_more_than_their_bound():
    """Adversarial gradients, among them alternating and largest doubles, through the trainer itself."""
    run = run_of(clipping="coordinates", prox=None, epochs=1, noise_std=1e-9, step_size=1.0)
    for scale in (1e-160, 1e-3, 1.0, 1e5, 1e160, 1.7e308):

        def gradients(x, rows, scale=scale):
            signs = np.where((rows[:, None] + np.arange(5)) % 2 == 0, 1.0, -1.0)
            return scale * signs * np.where(rows == 2, 1.0, 0.0)[:, None]

        out = train(run, gradients, np.zeros(5), np.random.default_rng(0)).x
        # Three steps of noise 10⁻⁹ in five coordinates stay below 10⁻⁷.
        assert np.linalg.norm(out) <= 0.25 / 4.0 + 1e-7
        if scale >= 1.0:
            assert np.abs(out) == pytest.approx(np.full(5, 0.25 / 4.0 / math.sqrt(5.0)), abs=1e-7)


def test_a_promised_bound_does_not_clip_harder():
    """Coordinates are clipped to clip_norm/√d, as the description says, whatever else bounds the norm: a
    gradient of one coordinate that keeps its promise is left alone."""
    loss = Loss.convex(1.0, gradient_bound=1.0, separable=True)
    run = run_of(
        loss=loss, clip_norm=4.0, clipping="coordinates", prox=None, epochs=1, noise_std=1e-9
    )

    def gradients(x, rows):
        return np.where(rows == 0, -0.9, 0.0)[:, None] * np.eye(1, 16)

    out = train(run, gradients, np.zeros(16), np.random.default_rng(0)).x
    assert out[0] == pytest.approx(0.4 * 0.9 / 4.0, abs=1e-7)
