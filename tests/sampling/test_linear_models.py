"""Mean losses and gradients of linear models: right, bounded, and of the records asked for."""

import itertools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.describe.vector_losses import executable
from pabi.execute.linear_gradients import LossGradients
from pabi.learn import (
    LogisticGradients,
    PoissonGradients,
    Records,
    SmoothedHingeGradients,
    SquaredGradients,
)
from pabi.sampling import gibbs_rejection, langevin, mean_gradient, mean_loss
from pabi.sampling.linear_models import _predictors
from support.every_case import every, refused

rng = np.random.default_rng(2)
N, D = 300, 4
X = rng.normal(size=(N, D))
UNIT = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
LABELS = rng.integers(0, 2, N)
TARGETS = rng.normal(size=N)
COUNTS = rng.poisson(2.0, N)
POINTS = rng.normal(size=(70, D)) * 2


def gamma(X, y):
    return LossGradients(executable("gamma", residual_bound=2.0), X, y.astype(float))


MODELS = {
    "logistic": (pabi.Loss.logistic(1.0, l2=0.3), LABELS, LogisticGradients, ()),
    "squared": (pabi.Loss.squared(1.0, 0.5, l2=0.3), TARGETS, SquaredGradients, (0.5,)),
    "huber": (pabi.Loss.huber(1.0, 0.2), TARGETS, SquaredGradients, (0.2,)),
    "smoothed_hinge": (pabi.Loss.smoothed_hinge(1.0, 0.4), LABELS, SmoothedHingeGradients, (0.4,)),
    "poisson": (pabi.Loss.poisson(1.0, 1.5, 3.0), COUNTS, PoissonGradients, (1.5, 3.0)),
    "gamma": (pabi.Loss.gamma(1.0, 2.0, l2=0.3), COUNTS, gamma, ()),
}


@every("kind", MODELS)
def test_gradients_are_those_of_the_trainer(kind):
    loss, y, gradients, more = MODELS[kind]
    records = gradients(Records(X, feature_norm=1.0), y, *more)
    wanted = [records(x, np.arange(N)).mean(axis=0) + loss.l2 * x for x in POINTS]
    ours = mean_gradient(X, y, loss)
    np.testing.assert_allclose(ours(POINTS), wanted, rtol=1e-9, atol=1e-12)
    rows = np.array([3, 17, 5])
    part = mean_gradient(X, y, loss, size=10)
    wanted = [records(x, rows).sum(axis=0) / 10 + loss.l2 * x for x in POINTS]
    np.testing.assert_allclose(part(POINTS, rows), wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(part(POINTS[:1], rows), wanted[:1], rtol=1e-9, atol=1e-12)


@every("kind", [*MODELS, "linear"])
def test_gradients_are_those_of_the_loss(kind):
    """The loss along a line is the integral of its derivative (Gauss–Legendre on 4 000 panels)."""
    loss, y = (kind, TARGETS) if kind == "linear" else MODELS[kind][:2]
    value, gradient = mean_loss(UNIT, y, loss), mean_gradient(UNIT, y, loss)
    a, b = POINTS[0], POINTS[1]
    nodes, weights = np.polynomial.legendre.leggauss(2)
    edges = np.linspace(0.0, 1.0, 4001)
    t = (edges[:-1, None] + np.diff(edges)[:, None] * (1 + nodes) / 2).ravel()
    slopes = gradient(a + t[:, None] * (b - a)) @ (b - a)
    integral = slopes @ np.tile(weights / 2 / 4000, 4000)
    rise = value(b[None]) - value(a[None])
    assert rise[0] == pytest.approx(integral, rel=1e-7)


def test_a_name_and_its_loss_agree_and_single_precision_is_not_summed_in_it():
    by_name = mean_gradient(UNIT, LABELS, "logistic", 0.3)(POINTS)
    described = mean_gradient(UNIT, LABELS, MODELS["logistic"][0])(POINTS)
    np.testing.assert_allclose(by_name, described, rtol=1e-12)
    single = UNIT.astype(np.float32)
    ours = mean_gradient(single, LABELS)(POINTS)
    assert ours.dtype == np.float64
    np.testing.assert_array_equal(ours, mean_gradient(single.astype(np.float64), LABELS)(POINTS))


def test_many_records_and_points_in_blocks():
    many, points = rng.normal(size=(70_000, 2)), rng.normal(size=(3, 2))
    labels = rng.integers(0, 2, 70_000)
    wanted = [LogisticGradients(many, labels)(x, np.arange(70_000)).mean(axis=0) for x in points]
    np.testing.assert_allclose(mean_gradient(many, labels)(points), wanted, rtol=2e-6)
    margins = np.where(labels == 1, 1, -1) * (many @ points.T).T
    np.testing.assert_allclose(
        mean_loss(many, labels)(points), np.logaddexp(0.0, -margins).mean(axis=1), rtol=1e-12
    )
    assert mean_gradient(many, labels)(np.zeros((0, 2))).shape == (0, 2)


@every("kind", MODELS)
def test_one_record_moves_the_gradient_by_no_more_than_promised(kind):
    """Rounding included: records that pull as far as they can, in opposite directions."""
    loss, y, _, _ = MODELS[kind]
    gap, point = 2 * loss.gradient_bound / N, np.array([[1e6, 0.0, 0.0, 0.0]])
    # The ends of what a target may be.
    ends = (0, 1) if y is LABELS else (0, 1000) if y is COUNTS else (-1e6, 1e6)

    def mean(side, target):
        rows, targets = X.copy(), y.copy()
        rows[7], targets[7] = [-0.5, side * 99.0, 0.0, 0.0], target
        return mean_gradient(rows, targets, loss).of_data(point)

    means = [mean(side, target) for side in (1, -1) for target in ends]
    moves = [np.linalg.norm(one - other) for one, other in itertools.combinations(means, 2)]
    assert max(moves) <= gap
    if kind in ("logistic", "squared", "huber", "smoothed_hinge"):
        assert max(moves) > (1 - 1e-4) * gap


def test_in_random_batches_a_records_place_does_not_matter():
    gradient, point = mean_gradient(X, LABELS, MODELS["logistic"][0], size=1), POINTS[:1]

    def last_predictor(rows):
        data, _ = gradient._data(rows)
        return [z[0, -1] for _, _, z in _predictors(point, data, True)][-1]

    for i in (0, 7, 40):
        for others in map(np.arange, (0, 3, 17, 100)):
            assert last_predictor(np.append(others[others != i], i)) == last_predictor([i])


class Flatter(pabi.Loss):
    """What a subclass says of itself need not be what its kind computes."""

    gradient_bound = 1e-9


LOGISTIC = pabi.Loss.logistic(1.0)
OTHER_MODELS = ["probit", pabi.Loss.convex(smoothness=1.0), pabi.Loss.softmax(1.0), None]
REFUSED = {
    "model": [
        *((X, LABELS, model) for model in (*OTHER_MODELS, Flatter.logistic(1.0))),
        (X, TARGETS, "squared"),
    ],
    "predictor_bound": [(X, COUNTS, pabi.Loss.poisson(1.0, 701.0, 3.0))],
    "l2": [(X, LABELS, LOGISTIC, 0.1), (X, LABELS, "logistic", -1.0)],
    "y": [(X, LABELS[:-1]), (X, TARGETS), (X, -COUNTS - 1, pabi.Loss.poisson(1.0, 1.0, 3.0))],
    "X": [(X * np.nan, LABELS), (X[0], LABELS)],
    "feature_norm": [
        *((Records(X, norm), LABELS, LOGISTIC) for norm in (None, 1.5)),
        (Records(X, 1.0, 0.1), LABELS, LOGISTIC),  # with the intercept √1.01
    ],
}


@every("field", REFUSED)
def test_refusals(field):
    for arguments in REFUSED[field]:
        for build in (mean_gradient, mean_loss):
            refused(field, build, *arguments)


def test_records_of_no_longer_rows_than_the_loss_states_are_taken():
    """One long row's gradient is as long as they say where the model is most wrong of it."""
    for norm, scaling in ((1.0, None), (0.5, None), (0.6, 0.7)):
        gradient = mean_gradient(Records(100.0 * X[:1], norm, scaling), [1], LOGISTIC)
        length = np.linalg.norm(gradient(-1e4 * gradient._rows))
        assert np.hypot(norm, scaling or 0.0) * (1.0 - 1e-9) <= length <= 1.0


def test_points_and_rows_are_checked():
    """And the start of a chain, before the data is touched."""
    gradient, walk = mean_gradient(X, LABELS, LOGISTIC), {"step_size": 0.1, "steps": 2}
    chain = pabi.LangevinChain(LOGISTIC, n=N, inverse_temperature=1.0, **walk)
    assert f"expected shape ({D},)" in refused("x0", langevin, chain, gradient, np.zeros(D + 1))
    for bad in (POINTS[0], POINTS[:, :2]):
        refused("x", gradient, bad)
    for rows in ([N], [0.5], [[1]], [-1]):
        refused("rows", gradient, POINTS, rows)


def test_of_a_loss_that_is_described_by_its_facts_what_may_be_more_is_told():
    """Strong convexity no linear model has; longer or steeper gradients a set may keep out."""
    unit, facts = pabi.Loss.logistic(1.0, l2=0.5), {"gradient_bound": 1.0, "l2": 0.5}
    chain = pabi.LangevinChain(
        pabi.Loss.convex(0.25, **facts), n=N, inverse_temperature=1.0, step_size=1e-3, steps=2
    )
    mechanism = pabi.ExponentialMechanism(chain.loss, N, D, 2.0, epsilon=1.0)
    ours, value = mean_gradient(X, LABELS, unit), mean_loss(X, LABELS, unit)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pabi.PrivacyWarning)
        langevin(chain, ours, np.zeros(D))
    flat = replace(chain, loss=pabi.Loss.convex(0.2, **facts))
    with pytest.warns(pabi.PrivacyWarning, match="curvature 0.25, and at most 0.2 is described"):
        langevin(flat, ours, np.zeros(D))
    strong = pabi.Loss.strongly_convex(0.1, 0.25, **facts)
    dissipative = pabi.Loss.dissipative(0.1, 0.1, 0.25, **facts)
    for make in (
        lambda: langevin(replace(chain, loss=strong), ours, np.zeros(D)),
        lambda: langevin(replace(chain, loss=dissipative), ours, np.zeros(D)),
        lambda: gibbs_rejection(replace(mechanism, loss=strong), value),
    ):
        assert "flat in most directions" in refused("loss", make)
    one = mean_gradient(X[:, :1], LABELS, unit)  # whose rows may all be long
    assert langevin(replace(chain, loss=strong), one, np.zeros(1)).values.shape == (1, 1, 1)


def test_what_is_compared_with_a_description_is_what_it_was_made_of():
    """A size that is assigned after the refusal would leave sums that are divided by another."""
    loss = pabi.Loss.logistic(1.0)
    five = mean_gradient(X, LABELS, loss, size=5)
    for name, value in {"size": N, "n": 10 * N, "l2": 1.0, "loss": None, "d": 1}.items():
        assert "a new one" in refused(name, setattr, five, name, value)
    refused("n", setattr, mean_loss(X, LABELS, loss), "n", 10 * N)
    assert np.array_equal(pickle.loads(pickle.dumps(five))(POINTS), five(POINTS))
