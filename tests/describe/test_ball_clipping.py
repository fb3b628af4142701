"""The softmax loss clipped by the norm of its residuals: maximisers over the ball, gradients of one loss."""

import mpmath
import numpy as np
import pytest

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Poisson, ShuffleOnce
from pabi.describe.scalar_losses import Logistic
from pabi.describe.vector_losses import BallSoftmax, OneVsRest, Softmax, VectorHuber
from pabi.description import from_dict, to_dict
from pabi.learn import SoftmaxGradients, train
from support.every_case import every

ULP = 2.0**-53


def derivative(z, y, most):
    out = np.array(z, dtype=np.float64)
    with np.errstate(all="ignore"):
        BallSoftmax().differentiate(out, np.asarray(y), np.broadcast_to(most, len(out)))
    return out


def points(rng, count, classes, scale=4.0):
    return rng.normal(size=(count, classes)) * rng.exponential(scale, size=(count, 1))


@every("norm", [1e-12, 1e-3, 0.3, 1.0, 1.4])
@every("scale", [0.5, 5.0, 60.0, 300.0])
def test_the_root_is_met_to_a_few_units_in_the_last_place(norm, scale):
    """p solves log q_k + λp_k = z_k + c with Σ p = 0 and ‖p‖ = B: in 60 digits, from what is returned."""
    rng = np.random.default_rng(int(scale))
    z, y = rng.normal(size=(40, 5)) * scale, rng.integers(5, size=40)
    g, plain = derivative(z, y, norm), derivative(z, y, 2.0)
    room = 40.0 * ULP * (4.0 + np.abs(z).max(axis=1))
    assert np.all(np.abs(g.sum(axis=1)) <= norm * room)
    clipped = np.linalg.norm(plain, axis=1) > norm
    assert np.all(np.abs(np.linalg.norm(g[clipped], axis=1) / norm - 1.0) <= 8 * ULP)
    with mpmath.workdps(60):
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
    capped = z.copy()
    Softmax().differentiate(capped, y, most)
    assert derivative(z, y, most) == pytest.approx(capped, rel=1e-9)


@every("norm", [0.05, 0.3, 1.0])
def test_the_inverse_link_makes_the_expected_gradient_vanish(norm):
    rng = np.random.default_rng(7)
    z = points(rng, 300, 5, 1.5)
    mean = BallSoftmax().mean(z, np.full((300, 1), norm))
    expected = sum(mean[:, [k]] * derivative(z, np.full(300, k), norm) for k in range(5))
    assert mean.sum(axis=1) == pytest.approx(1.0, rel=1e-12)
    assert np.abs(expected).max() < 1e-11 * norm
    assert mean[np.arange(300), z.argmax(axis=1)] == pytest.approx(mean.max(axis=1), rel=1e-9)


def a_run(batches=None, **changes):
    settings = {"epochs": 3, "step_size": 2.0, "noise_multiplier": 2.0, "adjacency": "zero_out"}
    settings |= {"clip_norm": 0.4, "clipping": "ball"}
    loss = Loss.softmax(1.0, l2=1e-3)
    return NoisySGD(loss, n=600, batches=batches or ShuffleOnce(50), **settings | changes)


@pytest.mark.parametrize("batches", [Cyclic(50), ShuffleOnce(50), Poisson(50)])
def test_runs_cost_what_those_of_a_residual_do_and_are_verified(batches):
    run = a_run(batches)
    guarantee = run.guarantee(1e-5)
    other = a_run(batches, clipping="residual").guarantee(1e-5)
    assert guarantee.epsilon(1e-5) == other.epsilon(1e-5)
    assert pabi.verify(guarantee.to_json()).ok
    assert any("by the norm of its residuals" in sentence for sentence in guarantee.assumptions)
    assert from_dict(to_dict(run)) == run


def test_beside_a_cap_it_is_refused():
    fields = {"epochs": 1, "step_size": 1.0, "noise_std": 1.0, "clip_norm": 0.2}
    with pytest.raises(InvalidInput, match='^clipping: expected "residual"'):
        NoisySGD(Loss.softmax(1.0, residual_cap=0.3), 600, Cyclic(50), clipping="ball", **fields)
    for loss in (Logistic(), OneVsRest(3), VectorHuber(1.0)):  # which have one convex clipping
        assert loss.in_ball() is loss


def test_steps_are_those_of_the_maximisers():
    """One noiseless-to-rounding step from 0 on one batch: the sum of x⊗p over the records, B = C/‖x‖."""
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(600, 4)), rng.integers(3, size=600)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    run = a_run(Cyclic(600), epochs=1, noise_multiplier=1e-4, step_size=1.0)
    x = train(run, SoftmaxGradients(X, y, 3), np.zeros((4, 3)), random_state=0).x
    p = derivative(np.zeros((600, 3)), y, 0.4 / np.linalg.norm(X, axis=1))
    noise = 5.0 * 1e-4 * 0.4 / 600 * 4.0
    assert x == pytest.approx(-(X.T @ p) / 600, abs=noise)
    plain = SoftmaxGradients(X, y, 3)
    with pytest.raises(InvalidInput, match="^clipping"):
        train(run, lambda x, rows: plain(x, rows), np.zeros((4, 3)))
