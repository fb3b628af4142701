"""The softmax loss whose residuals are capped: a convex, smooth loss, whose gradient is the scaled one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.describe.vector_losses import Softmax
from pabi.description import from_dict, to_dict
from pabi.learn import SoftmaxGradients, bound_rows, train
from support.every_case import every

CAPS = [0.05, 0.25, 0.5, 0.8, 1.0]
# (z, y, a, gradient, probabilities), computed elsewhere.


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


@every("cap", CAPS[:-1])
def test_the_loss_is_the_conjugate_of_entropy_on_capped_residuals(cap):
    """sup over distributions π with π_y ≥ 1 − a of ⟨π − e_y, z⟩ − Σ π log π, by a general solver."""
    rng, loss = np.random.default_rng(1), Softmax(cap)
    for _ in range(10):
        z, y = points(rng, 1, 3)[0], int(rng.integers(3))

        def negative(pi, z=z, y=y):
            entropy = float(np.sum(pi * np.log(np.maximum(pi, 1e-300))))
            return -(float(pi @ z) - z[y] - entropy)

        bounds = [(1.0 - cap if k == y else 0.0, 1.0) for k in range(3)]
        start = np.full(3, cap / 2.0)
        start[y] = 1.0 - cap
        best = minimize(
            negative,
            start,
            bounds=bounds,
            constraints={"type": "eq", "fun": lambda pi: pi.sum() - 1.0},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        value = float(loss.value(z[None], np.array([y]))[0])
        assert value == pytest.approx(-best.fun, abs=1e-6 * (1.0 + abs(value)))


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


@every("cap", [0.0, -1.0, 1.5, math.nan, "half"])
def test_other_caps_are_refused(cap):
    with pytest.raises(InvalidInput, match="^residual_cap"):
        Loss.softmax(1.0, residual_cap=cap)
    with pytest.raises(InvalidInput, match="^residual_cap"):
        SoftmaxGradients(np.zeros((4, 2)), [0, 1, 0, 1], 2, residual_cap=cap)


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


def test_a_file_with_another_cap_is_refused():
    payload = a_run(0.25, Cyclic(50), step_size=4.0).guarantee(1e-5).certificate.payload
    for cap in (0.5, 1.0):  # steps of 4 expand there
        loss = {**payload["run"]["loss"], "residual_cap": cap}
        assert not pabi.verify({**payload, "run": {**payload["run"], "loss": loss}}).ok
