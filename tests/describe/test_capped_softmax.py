"""The softmax loss whose residuals are capped: a convex, smooth loss, whose gradient is the scaled one."""

import math

import numpy as np
import pytest

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.describe.vector_losses import Softmax
from pabi.description import from_dict, to_dict
from pabi.learn import SoftmaxGradients, bound_rows, train
from support.every_case import every, refused

CAPS = [0.05, 0.25, 0.5, 0.8, 1.0]


def derivative(loss, z, y):
    out = np.array(z)
    with np.errstate(all="ignore"):
        loss.differentiate(out, y)
    return out


def points(rng, count, classes, scale=4.0):
    return rng.normal(size=(count, classes)) * rng.exponential(scale, size=(count, 1))


@every("cap", CAPS)
@every("classes", [2, 3, 7])
def test_derivatives_are_those_of_the_loss(cap, classes):
    rng = np.random.default_rng(classes)
    loss, z = Softmax(cap), points(rng, 200, classes)
    y, h = rng.integers(classes, size=200), 1e-5
    slopes = [
        (loss.value(z + h * e, y) - loss.value(z - h * e, y)) / (2.0 * h) for e in np.eye(classes)
    ]
    assert derivative(loss, z, y) == pytest.approx(np.array(slopes).T, abs=1e-8)


@every("cap", CAPS)
def test_the_inverse_link_makes_the_expected_gradient_vanish(cap):
    rng, loss = np.random.default_rng(3), Softmax(cap)
    z = points(rng, 300, 5, 1.5)
    mean = loss.mean(z)
    expected = sum(mean[:, [k]] * derivative(loss, z, np.full(300, k)) for k in range(5))
    assert mean.sum(axis=1) == pytest.approx(1.0, rel=1e-12)
    assert np.abs(expected).max() < 1e-14


def a_run(cap, batches=None, **changes):
    settings = {"epochs": 3, "step_size": 2.0, "noise_multiplier": 2.0, "adjacency": "zero_out"}
    loss = Loss.softmax(1.0, l2=1e-3, residual_cap=cap)
    return NoisySGD(loss, n=600, batches=batches or ShuffleOnce(50), **settings | changes)


@every("cap", [0.1, 0.25, 0.5, 0.75])
@every("batches", [Cyclic(50), ShuffleOnce(50), Reshuffle(50)])
def test_runs_are_accounted_like_any_convex_one_and_verified(cap, batches):
    run = a_run(cap, batches)
    assert run.loss.gradient_bound == pytest.approx(cap * math.sqrt(2.0), rel=1e-12)
    assert run.loss.curvature == (0.0, pytest.approx(2.0 * min(cap, 0.5) * (1.0 - min(cap, 0.5))))
    guarantee = run.guarantee(1e-5)
    assert pabi.verify(guarantee.to_json()).ok
    plain = a_run(None, batches).guarantee(1e-5).epsilon(1e-5)
    assert guarantee.epsilon(1e-5) <= plain * (1.0 + 1e-9)


def test_a_cap_of_one_is_the_loss_itself():
    assert a_run(1.0).loss.curvature == a_run(None).loss.curvature
    assert "residual_cap" not in str(to_dict(a_run(None)))
    assert from_dict(to_dict(a_run(0.25))) == a_run(0.25)


def test_other_caps_are_refused():
    for cap in (0.0, -1.0, 1.5, math.nan, "half"):
        refused("residual_cap", Loss.softmax, 1.0, residual_cap=cap)
        refused(
            "residual_cap", SoftmaxGradients, np.zeros((4, 2)), [0, 1, 0, 1], 2, residual_cap=cap
        )


def test_only_capped_gradients_train_it():
    """Scaling plain gradients to the same norm can make steps expand, so that they are another run's."""
    rng = np.random.default_rng(4)
    X, y = bound_rows(rng.normal(size=(600, 4)), 1.0), rng.integers(3, size=600)
    x0 = np.zeros((4, 3))
    run = a_run(0.25)
    for cap in (0.25, 0.1):
        train(run, SoftmaxGradients(X, y, 3, residual_cap=cap), x0)
    plain = SoftmaxGradients(X, y, 3)
    others = plain, SoftmaxGradients(X, y, 3, residual_cap=0.3), lambda x, rows: plain(x, rows)
    for gradients in others:
        with pytest.raises(InvalidInput, match=r"^residual_cap: expected the gradients of pabi"):
            train(run, gradients, x0)
    with pytest.raises(InvalidInput, match="^residual_cap"):
        train(run, None, x0, clipped_gradient_sum=lambda x, rows: np.zeros((4, 3)))
