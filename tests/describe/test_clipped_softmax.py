"""The softmax loss whose residuals are capped, or clipped by their norm: gradients of a convex loss each."""

import math

import mpmath
import numpy as np
import pytest

from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Poisson, ShuffleOnce
from pabi.describe.scalar_losses import Logistic
from pabi.describe.vector_losses import BallSoftmax, OneVsRest, Softmax, VectorHuber
from pabi.description import from_dict, to_dict
from pabi.learn import SoftmaxGradients, bound_rows, train
from support.every_case import every, refused

ULP = 2.0**-53
CAPS = [0.05, 0.25, 0.5, 0.8, 1.0]
BALL = BallSoftmax()


def derivative(loss, z, y, most=None):
    out = np.array(z, dtype=np.float64)
    most = None if most is None else np.broadcast_to(most, len(out))
    with np.errstate(all="ignore"):
        loss.differentiate(out, np.asarray(y), most)
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


@every("norm", [1e-12, 1e-3, 0.3, 1.0])
@every("scale", [0.5, 5.0, 60.0, 300.0])
def test_the_root_is_met_to_a_few_units_in_the_last_place(norm, scale):
    """p solves log q_k + λp_k = z_k + c with Σ p = 0 and ‖p‖ = B: in 60 digits, from what is returned."""
    rng = np.random.default_rng(int(scale))
    z, y = rng.normal(size=(40, 5)) * scale, rng.integers(5, size=40)
    g, plain = derivative(BALL, z, y, norm), derivative(BALL, z, y, 2.0)
    room = 40.0 * ULP * (4.0 + np.abs(z).max(axis=1))
    assert np.all(np.abs(g.sum(axis=1)) <= norm * room)
    clipped = np.linalg.norm(plain, axis=1) > norm
    assert np.all(np.abs(np.linalg.norm(g[clipped], axis=1) / norm - 1.0) <= 8 * ULP)
    for i in np.flatnonzero(clipped & (g[np.arange(40), y] > -0.999)):
        others = [k for k in range(5) if k != y[i] and g[i, k] > 1e-280]
        p = [mpmath.mpf(float(g[i, k])) for k in range(5)]
        own = -sum(p[k] for k in others)
        lhs = [mpmath.log(p[k]) - mpmath.mpf(float(z[i, k])) for k in others]
        first = mpmath.log1p(own) - mpmath.mpf(float(z[i, y[i]]))
        # λ from the largest of the others; what is left of the equations is rounding of λp and of log q.
        top = max(range(len(others)), key=lambda j: p[others[j]])
        multiplier = (first - lhs[top]) / (p[others[top]] - own)
        assert multiplier > -1e-9
        for j, k in enumerate(others):
            gap = abs(lhs[j] + multiplier * p[k] - first - multiplier * own)
            assert gap <= 1_000.0 * room[i]


def test_two_classes_are_clipped_as_by_their_cap():
    rng = np.random.default_rng(6)
    z, y = points(rng, 500, 2), rng.integers(2, size=500)
    most = rng.uniform(0.05, 1.4, size=500)
    capped = derivative(Softmax(), z, y, most)
    assert derivative(BALL, z, y, most) == pytest.approx(capped, rel=1e-9)


@every(
    "loss, norm, off",
    [(Softmax(cap), None, 1e-14) for cap in CAPS]
    + [(BALL, b, 1e-11 * b) for b in (0.05, 0.3, 1.0)],
)
def test_the_inverse_link_makes_the_expected_gradient_vanish(loss, norm, off):
    z = points(np.random.default_rng(7), 300, 5, 1.5)
    mean = loss.mean(z) if norm is None else loss.mean(z, np.full((300, 1), norm))
    expected = sum(mean[:, [k]] * derivative(loss, z, np.full(300, k), norm) for k in range(5))
    assert mean.sum(axis=1) == pytest.approx(1.0, rel=1e-12)
    assert np.abs(expected).max() < off
    assert mean[np.arange(300), z.argmax(axis=1)] == pytest.approx(mean.max(axis=1), rel=1e-9)


def a_run(batches=None, cap=None, **changes):
    settings = {"epochs": 3, "step_size": 2.0, "noise_multiplier": 2.0, "adjacency": "zero_out"}
    loss = Loss.softmax(1.0, l2=1e-3, residual_cap=cap)
    return NoisySGD(loss, n=600, batches=batches or ShuffleOnce(50), **settings | changes)


CLIPPED = {"clip_norm": 0.4, "clipping": "ball"}


@every("cap", [0.1, 0.25, 0.5, 0.75])
def test_a_cap_bounds_gradients_and_curvature(cap):
    loss = a_run(cap=cap).loss
    assert loss.gradient_bound == pytest.approx(cap * math.sqrt(2.0), rel=1e-12)
    assert loss.curvature == (0.0, pytest.approx(2.0 * min(cap, 0.5) * (1.0 - min(cap, 0.5))))


@every("batches", [Cyclic(50), ShuffleOnce(50), Poisson(50)])
def test_clipped_runs_cost_what_those_of_a_residual_do(batches):
    run = a_run(batches, **CLIPPED)
    guarantee = run.guarantee(1e-5)
    other = a_run(batches, **CLIPPED | {"clipping": "residual"}).guarantee(1e-5)
    assert guarantee.epsilon(1e-5) == other.epsilon(1e-5)
    assert any("by the norm of its residuals" in sentence for sentence in guarantee.assumptions)
    assert from_dict(to_dict(run)) == run


def test_a_cap_of_one_is_the_loss_itself():
    assert a_run(cap=1.0).loss.curvature == a_run().loss.curvature
    assert "residual_cap" not in str(to_dict(a_run()))
    assert from_dict(to_dict(a_run(cap=0.25))) == a_run(cap=0.25)


def test_other_caps_are_refused():
    data = np.zeros((4, 2)), [0, 1, 0, 1], 2
    for cap in (0.0, -1.0, 1.5, math.nan, "half"):
        refused("residual_cap", Loss.softmax, 1.0, residual_cap=cap)
        refused("residual_cap", SoftmaxGradients, *data, residual_cap=cap)
    said = refused("clipping", a_run, cap=0.3, **CLIPPED)
    assert said.startswith('clipping: expected "residual"')
    for loss in (Logistic(), OneVsRest(3), VectorHuber(1.0)):  # which have one convex clipping
        assert loss.in_ball() is loss


def test_only_gradients_of_the_loss_train_it():
    """Scaling plain gradients to the same norm can make steps expand, so that they are another run's."""
    rng = np.random.default_rng(4)
    X, y = bound_rows(rng.normal(size=(600, 4)), 1.0), rng.integers(3, size=600)
    x0, run = np.zeros((4, 3)), a_run(cap=0.25)
    for cap in (0.25, 0.1):
        train(run, SoftmaxGradients(X, y, 3, residual_cap=cap), x0)
    plain = SoftmaxGradients(X, y, 3)
    others = plain, SoftmaxGradients(X, y, 3, residual_cap=0.3), lambda x, rows: plain(x, rows)
    for gradients in others:
        with pytest.raises(InvalidInput, match=r"^residual_cap: expected the gradients of pabi"):
            train(run, gradients, x0)
    with pytest.raises(InvalidInput, match="^residual_cap"):
        train(run, None, x0, clipped_gradient_sum=lambda x, rows: np.zeros((4, 3)))
    with pytest.raises(InvalidInput, match="^clipping"):
        train(a_run(**CLIPPED), lambda x, rows: plain(x, rows), x0)


def test_steps_are_those_of_the_maximisers():
    """One noiseless-to-rounding step from 0 on one batch: the sum of x⊗p over the records, B = C/‖x‖."""
    rng = np.random.default_rng(8)
    X, y = bound_rows(rng.normal(size=(600, 4)), 1.0), rng.integers(3, size=600)
    changes = {"epochs": 1, "noise_multiplier": 1e-4, "step_size": 1.0, **CLIPPED}
    run = a_run(Cyclic(600), **changes)
    x = train(run, SoftmaxGradients(X, y, 3), np.zeros((4, 3)), random_state=0).x
    p = derivative(BALL, np.zeros((600, 3)), y, 0.4 / np.linalg.norm(X, axis=1))
    noise = 5.0 * 1e-4 * 0.4 / 600 * 4.0
    assert x == pytest.approx(-(X.T @ p) / 600, abs=noise)
