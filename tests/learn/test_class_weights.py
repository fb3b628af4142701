"""Public weights of classes: what they do to gradients, to what is learnt, and to the guarantee."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import pabi
from pabi import learn
from pabi.describe.batches import FullBatch
from pabi.execute.sums import Limit
from pabi.learn.schema import class_weights
from support.estimators import CLASSIFIERS
from support.every_case import every, refused


def problem(n=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return 0.9 * X / np.linalg.norm(X, axis=1, keepdims=True), rng.integers(0, classes, n)


@every("classes", [2, 4])
@every("limit", [Limit(None, 1.0), Limit(0.3, 1.0), Limit(None, 1.0, residual=0.3)])
def test_a_weighted_sum_is_the_sum_of_weighted_gradients(classes, limit):
    X, y = problem(classes=classes)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.0, 1.0, len(y))
    records = learn.Records(X, 1.0, 0.5)
    gradients = (
        learn.LogisticGradients(records, y)
        if classes == 2
        else learn.SoftmaxGradients(records, y, classes)
    )
    theta = rng.normal(size=gradients.shape)
    rows = rng.permutation(len(y))[:100]
    each = [gradients.clipped_sum(theta, np.array([i]), limit) for i in rows]
    expected = sum(w * g for w, g in zip(weights[rows], each, strict=True))
    if limit.clip is not None:  # weights come before that clip, which then changes less
        raw = weights[rows, *(None,) * theta.ndim] * gradients(theta, rows)
        norms = np.linalg.norm(raw.reshape(len(rows), -1), axis=1)
        factor = np.minimum(1.0, limit.clip / norms)
        expected = np.tensordot(factor, raw, 1)
    weighted = gradients.weighted(weights)
    assert weighted.clipped_sum(theta, rows, limit) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    plain = weights[rows, *(None,) * theta.ndim] * gradients(theta, rows)
    assert weighted(theta, rows) == pytest.approx(plain, rel=1e-12)
    assert gradients.clipped_sum(theta, rows, limit) == pytest.approx(sum(each), rel=1e-9)


@every(
    "bad",
    [
        *(np.full(299, 0.5), np.full((300, 1), 0.5), np.full(300, 1.0 + 1e-15), 0.5, None),
        *(np.full(300, -1e-300), np.full(300, np.nan), np.full(300, "one")),
    ],
)
def test_other_weights_are_refused(bad):
    X, y = problem(classes=2)
    refused("weights", learn.LogisticGradients(X, y).weighted, bad)


def test_losses_whose_curvature_weights_would_lessen_are_refused_and_the_largest_is_one():
    """A strongly convex loss times 1/2 is half as strongly convex: the proof would be of another loss."""
    X, y = problem(classes=2)
    gradients = learn.LinearGradients(learn.Records(X, 1.0), y, lambda p, t: p - t)
    loss = pabi.Loss.strongly_convex(0.1, 1.0, gradient_bound=1.0)
    run = pabi.NoisySGD(loss, n=300, batches=FullBatch(), steps=3, step_size=0.1, noise_std=1.0)
    refused("loss", learn.train, run, gradients.weighted(np.full(300, 0.5)), np.zeros(4))
    assert class_weights({"b": 3, "a": 6}, np.array(["a", "b"])).tolist() == [1.0, 0.5]
    tiny = class_weights({0: 1e-300, 1: 1e300}, np.array([0, 1]))
    assert 0.0 < tiny[0] < 1e-200
    assert tiny[1] == 1.0


@every(
    "bad",
    [
        "balanced",
        [1.0, 2.0],
        {0: 1.0},
        {0: 1.0, 1: 1.0, 2: 1.0},
        *({0: 1.0, 1: weight} for weight in (0.0, np.inf, "2")),
    ],
)
@every("kind", CLASSIFIERS)
def test_other_class_weights_are_refused(kind, bad):
    refused("class_weight", kind(class_weight=bad).fit, *problem(classes=2))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@every("classes", [2, 3])
def test_weights_cost_nothing_and_are_assumed_to_be_public(kind, classes):
    X, y = problem(classes=classes)
    without = kind(random_state=0).fit(X, y)
    alike = kind(random_state=0, class_weight=dict.fromkeys(range(classes), 7)).fit(X, y)
    assert np.array_equal(alike.coef_, without.coef_)
    model = kind(random_state=0, class_weight={k: 1.0 + k for k in range(classes)}).fit(X, y)
    assert model.run_ == without.run_
    assert model.guarantee_.epsilon(1e-5) == without.guarantee_.epsilon(1e-5)
    more = set(model.guarantee_.assumptions) - set(without.guarantee_.assumptions)
    assert more == {"class_weight is public"}


def test_little_noise_ends_at_the_weighted_optimum():
    """scikit-learn's, of C·Σ w·loss + ½‖θ‖². With weights over the largest, l2 is divided by it too."""
    X, y = problem(classes=2)
    l2, common = 0.05, {"fit_intercept": False, "class_weight": {0: 1.0, 1: 4.0}}
    noiseless = {"noise_std": 1e-7, "clip_norm": None, "batches": FullBatch(), "epochs": 3000}
    model = learn.PrivateLogisticRegression(
        step_size=1.0, l2=l2 / 4.0, random_state=0, **noiseless, **common
    )
    truth = LogisticRegression(C=1.0 / (l2 * len(y)), tol=1e-10, max_iter=1000, **common).fit(X, y)
    assert model.fit(X, y).coef_ == pytest.approx(truth.coef_, abs=1e-5)
