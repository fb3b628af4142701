"""Logistic gradients, and features of bounded norm."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import LogisticGradients, bound_rows, train, with_intercept
from pabi.numbers.errors import InvalidInput

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 4))
Y = (RNG.random(30) < 0.4).astype(int)


def squared_norm(vector):
    return sum((Fraction(float(v)) ** 2 for v in vector), Fraction(0))


def losses(theta):
    return np.logaddexp(0.0, -np.where(Y == 1, 1.0, -1.0) * (X @ theta))


def test_gradients_are_those_of_the_loss():
    """Central differences of step h are off by h²/6 times a third derivative ≤ ‖x‖³ / 10, and by
    rounding 2⁻⁵³·loss/h."""
    theta, h = np.array([0.3, -1.0, 2.0, 0.1]), 1e-5
    numerical = np.stack(
        [(losses(theta + h * e) - losses(theta - h * e)) / (2 * h) for e in np.eye(4)], axis=1
    )
    rows = np.arange(30)
    assert LogisticGradients(X, Y)(theta, rows) == pytest.approx(numerical, abs=5e-10)


def test_rows_are_selected_in_the_order_asked():
    gradients, theta = LogisticGradients(X, Y), np.ones(4)
    rows = np.array([5, 0, 29])
    assert np.array_equal(gradients(theta, rows), gradients(theta, np.arange(30))[rows])


@pytest.mark.parametrize(
    "labels", [2 * Y - 1, Y.astype(bool), Y.astype(float), (2 * Y - 1).tolist()]
)
def test_both_codes_of_the_labels_agree(labels):
    theta, rows = np.array([1.0, 2.0, -1.0, 0.5]), np.arange(30)
    assert np.array_equal(
        LogisticGradients(X, labels)(theta, rows), LogisticGradients(X, Y)(theta, rows)
    )


def test_extreme_margins_saturate():
    """Right and sure: zero gradient; wrong and sure: the whole row, and nothing overflows."""
    gradients = LogisticGradients([[2.0], [2.0]], [1, 0])
    with np.errstate(all="raise", under="ignore"):
        assert gradients(np.array([1e5]), np.array([0, 1])).tolist() == [[0.0], [2.0]]
        assert gradients(np.array([-1e5]), np.array([0, 1])).tolist() == [[-2.0], [0.0]]


def test_tiny_gradients_keep_their_relative_accuracy():
    g = LogisticGradients([[1.0]], [1])(np.array([40.0]), np.array([0]))
    assert g[0, 0] == pytest.approx(-math.exp(-40.0), rel=1e-14)


def test_no_gradient_is_longer_than_its_row():
    gradients, rows = LogisticGradients(X, Y), np.arange(30)
    for scale in (0.0, 1.0, 10.0, 1e3):
        for g, x in zip(gradients(scale * np.ones(4), rows), X, strict=True):
            assert squared_norm(g) <= squared_norm(x)


SECRET = 6172.25


@pytest.mark.parametrize(
    ("features", "labels", "field"),
    [
        ([1.0, 2.0], [0, 1], "X"),
        (np.zeros((0, 2)), [], "X"),
        ([[SECRET], [math.nan]], [0, 1], "X"),
        ([[SECRET], [math.inf]], [0, 1], "X"),
        ([["a"], [SECRET]], [0, 1], "X"),
        ([[SECRET], [1.0]], [0], "y"),
        ([[SECRET], [1.0]], [[0], [1]], "y"),
        ([[SECRET], [1.0]], [0, 2], "y"),
        ([[SECRET], [1.0]], [0, SECRET], "y"),
        ([[SECRET], [1.0]], [0, math.nan], "y"),
        ([[SECRET], [1.0]], [-1, 0], "y"),
        ([[SECRET], [1.0]], ["0", "1"], "y"),
    ],
)
def test_refusals_name_the_field_and_show_no_data(features, labels, field):
    with pytest.raises(InvalidInput) as caught:
        LogisticGradients(features, labels)
    assert caught.value.field == field
    assert "6172" not in str(caught.value)


def test_refuses_parameters_of_another_shape():
    with pytest.raises(InvalidInput, match="^theta: "):
        LogisticGradients(X, Y)(np.zeros(3), np.arange(2))


def test_rows_are_bounded_and_short_ones_kept():
    """In exact arithmetic no row is above the bound; directions stay, to the last few digits."""
    for bound in (0.1, 1.0, math.sqrt(2.0), 3.0):
        for x, b in zip(X, bound_rows(X, bound), strict=True):
            assert squared_norm(b) <= Fraction(bound) ** 2
            norm = float(np.linalg.norm(x))
            if norm < bound * (1 - 1e-12):
                assert np.array_equal(b, x)
            else:
                assert b == pytest.approx(x * bound / norm, rel=1e-12)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, "1", True])
def test_refuses_feature_norms(bound):
    with pytest.raises(InvalidInput, match="^feature_norm: "):
        bound_rows(X, bound)


def test_refuses_unbounded_features():
    with pytest.raises(InvalidInput, match="^X: "):
        bound_rows([[math.nan, 1.0]], 1.0)


def test_intercept_is_the_last_column():
    out = with_intercept(X, 0.5)
    assert np.array_equal(out[:, :-1], X)
    assert np.all(out[:, -1] == 0.5)
    assert np.all(with_intercept(X)[:, -1] == 1.0)
    with pytest.raises(InvalidInput, match="^scaling: "):
        with_intercept(X, 0.0)


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
