"""Regression with several targets a record: the vector Huber loss, fitted together and accounted once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pabi
from pabi.learn import PrivateHuberRegressor, PrivateLinearRegression, PrivatePoissonRegressor
from pabi.numbers.errors import PrivacyWarning

KINDS = [PrivateLinearRegression, PrivateHuberRegressor]
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
WEIGHTS = np.array([[1.0, -0.5, 0.0], [0.3, 0.2, -0.8]])


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    return X, X @ WEIGHTS.T + np.array([0.5, -0.25]) + 0.05 * rng.normal(size=(n, 2))


@each
@pytest.mark.parametrize("share", [None, 0.1])
def test_all_targets_are_fitted_in_their_own_units(kind, share):
    X, Y = table()
    model = kind(
        4.0, 1e-6, feature_ranges=(-1, 1), target_range=(-3, 3), precondition=share, random_state=0
    ).fit(X, Y)
    assert model.coef_.shape == (2, 3)
    assert model.intercept_.shape == (2,)
    assert model.predict(X[:7]).shape == (7, 2)
    assert model.coef_ == pytest.approx(WEIGHTS, abs=0.15)
    assert model.intercept_ == pytest.approx([0.5, -0.25], abs=0.15)
    assert model.score(X, Y) > 0.9
    assert model.run_.loss.kind == "vector_huber"
    assert model.guarantee_.epsilon(1e-6) <= 4.0


@each
def test_one_column_is_one_target(kind):
    X, Y = table(400)
    settings = {"noise_std": 1e-3, "feature_ranges": (-1, 1), "target_range": (-3, 3)}
    flat = kind(**settings, random_state=0).fit(X, Y[:, 0])
    with pytest.warns(UserWarning, match="column-vector"):
        column = kind(**settings, random_state=0).fit(X, Y[:, :1])
    assert flat.coef_.shape == column.coef_.shape == (3,)
    assert np.array_equal(flat.coef_, column.coef_)


@each
def test_what_it_costs_is_verified(kind):
    X, Y = table(500)
    model = kind(1.0, 1e-6, feature_ranges=(-1, 1), target_range=(-3, 3), precondition=0.2).fit(
        X, Y
    )
    assert pabi.verify(model.guarantee_.to_json()).ok


def test_counts_come_one_a_record():
    X, _ = table(30)
    with pytest.raises(ValueError, match="y"):
        PrivatePoissonRegressor().fit(X, np.ones((30, 2)))
