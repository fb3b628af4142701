"""Logistic gradients, and features of bounded norm."""

import math

import numpy as np
import pytest
from scipy import sparse

from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import (
    LogisticGradients,
    OneVsRestGradients,
    PoissonGradients,
    Records,
    SmoothedHingeGradients,
    SoftmaxGradients,
    SquaredGradients,
    VectorHuberGradients,
    bound_rows,
    train,
    with_intercept,
)
from pabi.numbers.errors import InvalidInput
from support.execution import every

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 4))
Y = (RNG.random(30) < 0.4).astype(int)


def test_rows_are_selected_in_the_order_asked():
    gradients, theta = LogisticGradients(X, Y), np.ones(4)
    rows = np.array([5, 0, 29])
    assert np.array_equal(gradients(theta, rows), gradients(theta, np.arange(30))[rows])


@every("labels", [2 * Y - 1, Y.astype(bool), Y.astype(float), (2 * Y - 1).tolist()])
def test_both_codes_of_the_labels_agree(labels):
    theta, rows = np.array([1.0, 2.0, -1.0, 0.5]), np.arange(30)
    assert np.array_equal(
        LogisticGradients(X, labels)(theta, rows), LogisticGradients(X, Y)(theta, rows)
    )


def test_tiny_gradients_keep_their_relative_accuracy():
    g = LogisticGradients([[1.0]], [1])(np.array([40.0]), np.array([0]))
    assert g[0, 0] == pytest.approx(-math.exp(-40.0), rel=1e-14)


SECRET = 6172.25


def logistic(*labels):
    return lambda: LogisticGradients([[SECRET], [1.0]], list(labels))


def records(*args, **options):
    return lambda: Records(*args, **options)


def sparse_records(rows, **options):
    return lambda: Records(sparse.csr_matrix(rows), 1.0, **options)


def squared(target, bound=0.7):
    return lambda: SquaredGradients([[1.0]], [target], bound)


def huber(targets, threshold=0.7):
    return lambda: VectorHuberGradients([[1.0]], targets, threshold)


def poisson(count, *bounds):
    return lambda: PoissonGradients([[1.0]], [count], *bounds)


REFUSED = {
    "y": [
        *(logistic(0), logistic([0], [1]), logistic(0, 2), logistic(0, SECRET)),
        *(logistic(0, math.nan), logistic(-1, 0), logistic("0", "1")),
        lambda: OneVsRestGradients([[SECRET], [1.0]], [0, 3], 3),
        lambda: OneVsRestGradients([[SECRET], [1.0]], [0, -1], 3),
        lambda: SoftmaxGradients([[SECRET], [1.0]], [0.0, SECRET], 3),
        *(squared(math.nan), squared(math.inf), squared("x6172")),
        *(huber([[SECRET, math.nan]]), huber([SECRET]), huber([[SECRET], [1.0]])),
        *(huber([["x6172"]]), huber([[]]), poisson(-SECRET, 1.0, 2.0)),
        lambda: SmoothedHingeGradients([[1.0]], [SECRET], 0.4),
    ],
    "classes": [lambda: SoftmaxGradients([[SECRET], [1.0]], [0, 1], 1)],
    "residual_bound": [squared(1.0, 0.0)],
    "threshold": [huber([[1.0]], 0.0)],
    "smoothing": [lambda: SmoothedHingeGradients([[1.0]], [1], -1.0)],
    "count_bound": [poisson(1.0, 1.0, 0.0)],
    "predictor_bound": [poisson(1.0, math.inf, 1.0)],
    "X": [
        *(records([1.0, 2.0]), records(np.zeros((0, 2))), records([["a"], [SECRET]])),
        *(records([[SECRET], [bad]], 1.0) for bad in (math.nan, math.inf, 1e100, -1e100)),
        *(records([["x6172"]], 1.0), records([[1j * SECRET]], 1.0)),
        sparse_records([[SECRET, math.inf]]),
        lambda: bound_rows([[math.nan, 1.0]], 1.0),
    ],
    "feature_ranges": [
        sparse_records([[1.0, 2.0]], ranges=(0.0, 1.0)),
        *(records([[1.0]], 1.0, ranges=r) for r in ((1.0, 1.0), (0.0, math.inf))),
        records([[1.0]], 1.0, ranges=[[0.0, 0.0], [1.0, 1.0]]),
    ],
    "feature_norm": [
        *(records([[1.0]], bound) for bound in (0.0, 1e-100, 1e100)),
        *(lambda b=b: bound_rows(X, b) for b in (0.0, -1.0, math.nan, math.inf, "1", True)),
    ],
    "intercept_scaling": [records([[1.0]], 1.0, -1.0)],
    "scaling": [lambda: with_intercept(X, 0.0)],
    "theta": [lambda: LogisticGradients(X, Y)(np.zeros(3), np.arange(2))],
}


@every("field", REFUSED)
def test_refusals_name_the_field_and_show_no_data(field):
    for i, build in enumerate(REFUSED[field]):
        with pytest.raises(InvalidInput) as caught:
            build()
        assert caught.value.field == field, i
        assert "6172" not in str(caught.value), i
        assert caught.value.__suppress_context__ or caught.value.__context__ is None, i


def test_intercept_is_the_last_column():
    out = with_intercept(X, 0.5)
    assert np.array_equal(out[:, :-1], X)
    assert np.all(out[:, -1] == 0.5)
    assert np.all(with_intercept(X)[:, -1] == 1.0)


def test_training_with_little_noise_finds_the_regularised_optimum():
    """Gradient descent with c = 1 − ηλ = 0.8 forgets its start by 0.8⁶⁰⁰; scikit-learn agrees to
    its tolerance, up to noise of standard deviation below ης/√(1 − c²) ≈ 3.4e-8."""
    from sklearn.linear_model import LogisticRegression

    features = with_intercept(bound_rows(X, 1.0), 0.5)
    run = NoisySGD(
        Loss.logistic(math.hypot(1.0, 0.5), l2=0.1),
        n=30,
        batches=FullBatch(),
        steps=600,
        step_size=2.0,
        noise_std=1e-8,
    )
    theta = train(run, LogisticGradients(features, Y), np.zeros(5), delta=1e-5).x
    peer = LogisticRegression(C=1.0 / (0.1 * 30), fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert theta == pytest.approx(peer.fit(features, Y).coef_[0], abs=1e-6)
