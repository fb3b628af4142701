"""Instances of logistic losses in an order that everybody knows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD
from pabi.audits.auditing import worst
from pabi.audits.instances import instances
from pabi.audits.sigmoids import SigmoidDrift, sigmoid_of
from pabi.convert import gdp_to_epsilon
from pabi.learn import LogisticGradients

DELTA = 1e-5
LOSSES = (
    Loss.logistic(2.0, l2=0.05),
    Loss.softmax(1.0, l2=0.05),
    Loss.one_vs_rest(1.5, 3, l2=0.05),
)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)


def run_of(loss, **changes):
    fields = {"n": 70, "epochs": 3, "step_size": 0.8, "noise_multiplier": 1.5, **changes}
    return NoisySGD(loss, batches=pabi.Cyclic(10), **fields)


def drifts_of(run):
    return [i for i in instances(run) if isinstance(i, SigmoidDrift)]


@each_loss
def test_sigmoids_are_those_of_the_loss(loss):
    sigmoid = sigmoid_of(run_of(loss))
    assert sigmoid.size == pytest.approx(loss.gradient_bound)
    assert sigmoid.size * sigmoid.rate / 4.0 == pytest.approx(loss.curvature[1])


def test_a_step_is_one_of_the_logistic_loss():
    """The gradient of a row whose intercept puts the middle of its sigmoid where the iterate is."""
    run = run_of(LOSSES[0])
    drift = drifts_of(run)[0]
    step = next(step for step in drift.steps(drift.other) if step.depth)
    rows = LogisticGradients(np.array([[2.0]]), np.array([1]))  # y = 1 beside …
    rows = LogisticGradients(np.array([[2.0], [2.0]]), np.array([1, 0]))
    for y in (-3.0, -0.2, 0.0, 0.4, 2.0):
        slope = (
            rows(np.array([y]), np.array([0])).item() - rows(np.array([0.0]), np.array([0])).item()
        )
        there = step.means(np.array([step.centre + y])) - step.means(np.array([step.centre]))
        assert there.item() == pytest.approx(y * (1 - 0.8 * 0.05) - 0.8 * slope, abs=1e-12)


@each_loss
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_none_costs_more_than_is_promised(loss, adjacency):
    run = run_of(loss, adjacency=adjacency)
    guarantee, drifts = run.guarantee(DELTA), drifts_of(run)
    assert drifts
    for drift in drifts:
        pair = drift.pair()
        for delta in (1e-5, 1e-2):
            promised = guarantee.epsilon(delta) * (1.0 + 1e-9)
            assert max(pair.epsilon(delta), pair.swapped().epsilon(delta)) <= promised


def test_what_is_trained_has_the_law():
    rng = np.random.default_rng(2)
    for drift in drifts_of(run_of(LOSSES[0])):
        pair = drift.pair()
        for gradient, masses in ((drift.record, pair.one), (drift.other, pair.other)):
            assert masses.sum() == pytest.approx(1.0, abs=1e-10)
            x = drift.trained(gradient, 40_000, rng)
            cells = np.minimum((np.cumsum(masses) * 40).astype(int), 39)
            counts = np.bincount(cells[np.searchsorted(pair.edges, x, side="right")], minlength=40)
            expected = np.bincount(cells, masses, minlength=40) * len(x)
            used = expected > 5.0
            statistic = np.sum(np.square(counts - expected)[used] / expected[used])
            assert statistic < 110.0  # of 39 degrees of freedom: a probability below 1e-8


def test_where_noise_is_small_a_sigmoid_is_straight():
    """Against the Gaussian that slopes 1 − η(λ + R²/4) have, over many records."""
    run = run_of(LOSSES[0], n=700_000, noise_std=None)
    run = NoisySGD(
        run.loss, n=700_000, batches=pabi.Cyclic(100_000), epochs=3, step_size=0.8, noise_std=2e-5
    )
    drift = drifts_of(run)[0]
    slopes = np.full(21, 1.0 - 0.8 * 0.05)
    slopes[20 - drift.curved : 20] -= 0.8 * 1.0
    later = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
    moved = later[6::7].sum() * 0.8 * 4.0 / 100_000
    mu = moved / (0.8 * 2e-5 * math.sqrt(np.square(later).sum()))
    pair = drift.pair()
    assert pair.epsilon(DELTA) == pytest.approx(gdp_to_epsilon(mu, DELTA), rel=5e-3)


def test_they_show_more_than_linear_losses():
    run = run_of(LOSSES[0])
    instance, _ = worst(run, DELTA)
    assert isinstance(instance, SigmoidDrift)
