"""Estimators that precondition: what they release, what they cost, and how they predict."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import pabi
from pabi import learn
from pabi.describe.batches import Cyclic, FullBatch, ShuffleOnce
from pabi.execute import engine as engine_module
from pabi.learn import estimators as estimators_module
from pabi.learn import plans as whitening_module
from pabi.learn.plans import TOO_NOISY
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from support.estimators import (
    ALL,
    CLASSIFIERS,
    LOG_LINKS,
    REGRESSORS,
    each_estimator,
    each_linear,
)
from support.every_case import every, refuses
from support.linear_problems import QUIET, within

batch_schemes = pytest.mark.parametrize(
    "batches", [FullBatch(), ShuffleOnce(100), Cyclic(100)], ids=lambda b: type(b).__name__
)

EPSILON, DELTA, SHARE = 6.0, 1e-4, 0.3
QUICK = {"batches": FullBatch(), "epochs": 3, "step_size": 0.2, "l2": 0.01, "precondition": SHARE}


pytestmark = QUIET[:2]


def problem(kind, n=400, d=3, classes=2, seed=0):
    """(X, y): rows on both sides of the norm 1, columns of different sizes, and targets of the kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.8, 0.1, d) + 0.1
    signal = X @ np.linspace(1.0, 5.0, d) + 0.1 * rng.normal(size=n)
    if kind in CLASSIFIERS:
        cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
        return X, np.searchsorted(cuts, signal)
    if kind in LOG_LINKS:
        return X, rng.poisson(np.exp(np.clip(signal, -2, 2))).astype(float)
    return X, signal


def fitted(kind, X=None, y=None, **changes):
    data = problem(kind)
    X, y = data[0] if X is None else X, data[1] if y is None else y
    return kind(**{"epsilon": EPSILON, "delta": DELTA, **QUICK, **changes}).fit(X, y)


def scores(model, X):
    """(m, K): the linear predictor through the public methods."""
    if hasattr(model, "decision_function"):
        found = model.decision_function(X)
    else:
        found = model.predict(X)
        found = np.log(found) if isinstance(model, LOG_LINKS) else found
    return found[:, None] if found.ndim == 1 else found


def formula(model, X):
    """(m, K): the linear predictor of rows that are not mapped."""
    return X @ np.atleast_2d(model.coef_).T + model.intercept_


@each_estimator
@batch_schemes
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_both_releases_meet_the_target_together(kind, batches, adjacency):
    """ε is that of the composition, to a millionth: noise is not drawn for nothing."""
    model = fitted(kind, batches=batches, adjacency=adjacency)
    assert model.moments_ is not None
    whole = model.guarantee_
    parts = model.moments_.guarantee(DELTA), model.run_.guarantee(DELTA)
    assert whole.epsilon(DELTA) == pabi.compose(*parts).epsilon(DELTA)
    assert EPSILON * (1.0 - 1e-6) <= whole.epsilon(DELTA) <= EPSILON
    assert all(part.epsilon(DELTA) < EPSILON for part in parts)
    assert whole.adjacency == adjacency == model.moments_.adjacency == model.run_.adjacency
    assert pabi.verify(whole).ok
    assert {said for part in parts for said in part.assumptions} <= set(whole.assumptions)


@every("kind", ALL)
def test_noise_of_the_training_may_be_stated(kind):
    """ "auto" then spends nothing on moments; a stated share is spent beside it."""
    assert fitted(kind, precondition="auto", noise_std=0.5).moments_ is None
    model = fitted(kind, noise_std=0.5)
    both = pabi.compose(model.moments_.guarantee(DELTA), model.run_.guarantee(DELTA))
    assert model.guarantee_.epsilon(DELTA) == both.epsilon(DELTA)
    assert model.run_.noise_std == 0.5


@each_estimator
@pytest.mark.parametrize("share", [SHARE, "auto"])
def test_what_noise_would_hide_is_not_released(monkeypatch, kind, share):
    """And nothing is spent on it: the run alone meets the target."""
    monkeypatch.setattr(whitening_module, "noisy_moments", lambda *a, **k: pytest.fail("released"))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = fitted(kind, epsilon=0.05, precondition=share)
    words = [w for w in seen if str(w.message) == TOO_NOISY]
    assert [w.filename for w in words] == ([__file__] if share == SHARE else [])
    assert (model.moments_, model.preconditioner_) == (None, None)
    assert 0.05 * (1.0 - 1e-6) <= model.guarantee_.epsilon(DELTA) <= 0.05
    assert model.guarantee_.epsilon(DELTA) == model.run_.guarantee(DELTA).epsilon(DELTA)


@each_linear
@pytest.mark.parametrize("intercept", [True, False])
def test_what_runs_is_what_is_accounted(monkeypatch, kind, intercept):
    """One release of the records and one training on what the release makes of them, in this order."""
    calls = []
    release, train = whitening_module.noisy_moments, engine_module.train_and_keep

    def released(terms, moments, records, groups):
        calls.append((moments, records))
        return release(terms, moments, records, groups)

    def trained(keep, run, gradients, *others):
        calls.append((run, gradients.records))
        return train(keep, run, gradients, *others)

    monkeypatch.setattr(whitening_module, "noisy_moments", released)
    monkeypatch.setattr(estimators_module, "train_and_keep", trained)
    model = fitted(kind, fit_intercept=intercept, feature_norm=0.8, intercept_scaling=0.5)
    (moments, records), (run, mapped) = calls
    assert moments is model.moments_
    assert run is model.run_
    seen = math.hypot(0.8, 0.5 * intercept)
    assert seen <= moments.feature_norm <= seen * (1.0 + 2.0**-50)
    assert dict(run.loss.parameters)["feature_norm"] == mapped.feature_norm == moments.feature_norm
    X, _ = problem(kind)
    rows = within(X, 0.8)
    rows = np.column_stack([rows, np.full(len(X), 0.5)]) if intercept else rows
    np.testing.assert_allclose(records.dense(slice(0, 400)), rows, atol=1e-12)
    trained_on = mapped.dense(slice(0, 400))
    lengths = np.linalg.norm(trained_on, axis=1)
    assert np.max(lengths) <= moments.feature_norm
    if kind in CLASSIFIERS:
        assert np.min(lengths) >= moments.feature_norm * (1.0 - 2.0**-17)
    assert np.array_equal(trained_on, model.preconditioner_.table(records).astype(np.float64))


@every("kind", ALL)
def test_the_map_sees_the_release_alone(kind):
    """The same released values of other data: the same map, bit by bit."""
    maps = []
    for seed in (0, 1):
        X, y = problem(kind, seed=seed)
        values = 400.0 * (0.1 * np.eye(4) + 0.05)

        def fixed(terms, moments, records, groups, values=values):
            return learn.ReleasedMoments(values, terms.proven)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimators_module, "released_moments", fixed)
            maps.append(fitted(kind, X, y).preconditioner_)
    assert maps[0].matrix.tobytes() == maps[1].matrix.tobytes()
    assert (maps[0].unit, maps[0].norm) == (maps[1].unit, maps[1].norm)


RANGES = np.array([[-2.0, -3.0, -1.0], [2.0, 3.0, 1.0]])
SHIFTED = np.array([[0.0, -3.0, 5.0], [2.0, 1.0, 9.0]])
# Sparse data need symmetric ranges.
BOUNDS = [
    (ranges, form) for ranges in (None, RANGES, SHIFTED) for form in ("dense", "csr", "frame")
]
BOUNDS = [case for case in BOUNDS if case[0] is not SHIFTED or case[1] != "csr"]


@each_linear
@every(("ranges", "form"), BOUNDS)
@every("intercept", [True, False])
def test_predictors_are_those_of_mapped_rows(kind, ranges, form, intercept):
    """Scales times X @ coef_.T + intercept_, for rows within the bounds, the scales of `preconditioner_`
    computed here from its matrix."""
    inside = within(np.random.default_rng(3).uniform(-1, 1, (400, 3)), 0.999)
    X = inside
    if ranges is not None:
        X = (ranges[0] + ranges[1]) / 2 + inside * (ranges[1] - ranges[0]) / 2
    data = {
        "dense": lambda: X,
        "csr": lambda: sparse.csr_matrix(X),
        "frame": lambda: pd.DataFrame(X, columns=list("abc")),
    }[form]()
    named = ranges is not None and form == "frame"
    stated = dict(zip("abc", ranges.T, strict=True)) if named else ranges
    model = fitted(
        kind,
        data,
        feature_norm=1.0,
        feature_ranges=stated,
        fit_intercept=intercept,
        intercept_scaling=0.7,
    )
    seen = np.column_stack([inside, np.full(400, 0.7)]) if intercept else inside
    row_map = model.preconditioner_
    lengths = np.linalg.norm(seen @ row_map.matrix, axis=1) / row_map.unit
    scales = 1.0 / (lengths if kind in CLASSIFIERS else np.maximum(lengths, 1.0))
    expected = scales[:, None] * formula(model, X)
    size = np.max(np.abs(X) @ np.abs(np.atleast_2d(model.coef_)).T) + np.max(
        np.abs(model.intercept_)
    )
    np.testing.assert_allclose(scores(model, data), expected, rtol=0.0, atol=2e-5 * (size + 1.0))
    if kind in REGRESSORS:
        short = lengths < 0.99
        assert np.sum(short) > 40
        np.testing.assert_allclose(
            scores(model, data)[short],
            formula(model, X)[short],
            rtol=0.0,
            atol=1e-12 * (size + 1.0),
        )


def test_predictions_of_regressors_are_in_units_of_the_target():
    """Scaling concerns what is added to the centre of the range, not the centre."""
    X, y = problem(learn.PrivateLinearRegression)
    model = fitted(learn.PrivateLinearRegression, X, 1000.0 + y, target_range=(990.0, 1010.0))
    inside = within(X)
    factors, _ = model.preconditioner_.scales(model._records(inside))
    expected = 1000.0 + factors * (inside @ model.coef_ + model.intercept_ - 1000.0)
    np.testing.assert_allclose(model.predict(inside), expected, rtol=1e-12)
    assert np.min(factors) < 1.0
    blank = model.predict(np.zeros((1, 3)))
    assert abs(blank[0] - 1000.0) < 10.0


@each_estimator
def test_a_wide_table_is_mapped_column_by_column(kind):
    rng = np.random.default_rng(0)
    X = sparse.random(600, 4500, 0.002, format="csr", random_state=rng)
    _, y = problem(kind, n=600)
    model = fitted(kind, X, y, epsilon=60.0, epochs=1)
    assert model.moments_.diagonal
    assert model.preconditioner_.diagonal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        dense = model.predict(X.toarray())
    same = model.predict(X) == dense if kind in CLASSIFIERS else np.isclose(model.predict(X), dense)
    assert np.mean(same) > 0.99


@every("kind", ALL)
def test_one_seed_makes_two_independent_noises(kind):
    """The same model twice; and the noise of the release is not that of the training."""
    models = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="testing only") as seen:
            models.append(fitted(kind, random_state=7))
        assert len([w for w in seen if "testing only" in str(w.message)]) == 1
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].preconditioner_.matrix, models[1].preconditioner_.matrix)
    assert models[0].guarantee_.certificate is None
    assert "noise reproducible: testing only" in models[0].guarantee_.assumptions
    fresh = [fitted(kind) for _ in range(2)]
    assert not np.array_equal(fresh[0].preconditioner_.matrix, fresh[1].preconditioner_.matrix)
    assert not np.array_equal(fresh[0].coef_, fresh[1].coef_)


def poor_tables():
    X, _ = problem(learn.PrivateLogisticRegression)
    return {
        "zeros": np.zeros((400, 3)),
        "constant": np.full((400, 3), 0.3),
        "constant column": np.column_stack([X, np.full(400, 0.5)]),
        "twice the same column": np.column_stack([X, X]),
        "some rows zero": X * (np.arange(400) % 2)[:, None],
        "one column": X[:, :1],
        "tiny": X * 1e-60,
        "huge": X * 1e60,
    }


@each_estimator
@pytest.mark.parametrize("name", poor_tables())
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.one_in(2)
def test_poor_tables_are_fitted_all_the_same(kind, name, intercept):
    X = poor_tables()[name]
    model = fitted(kind, X, epsilon=40.0, fit_intercept=intercept)
    assert model.moments_ is not None
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(scores(model, X)))
    assert model.guarantee_.epsilon(DELTA) <= 40.0


@pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
@every("n", [1, 2])
def test_a_record_or_two(n):
    X, y = problem(learn.PrivateLinearRegression)
    for share in ("auto", SHARE):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "epsilon is too small for preconditioning")
            model = fitted(learn.PrivateLinearRegression, X[:n], y[:n], precondition=share)
        assert model.moments_ is None
    model = fitted(learn.PrivateLinearRegression, X[:n], y[:n], epsilon=2000.0)
    assert model.moments_ is not None
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_is_refused_before_anything_is_released(monkeypatch, kind):
    monkeypatch.setattr(whitening_module, "noisy_moments", lambda *a, **k: pytest.fail("released"))
    with pytest.raises(InvalidInput, match="one class only"):
        fitted(kind, y=np.ones(400))


@each_estimator
def test_arguments_are_checked_before_anything_is_released(monkeypatch, kind):
    """A release that no model follows would be spent for nothing."""
    monkeypatch.setattr(whitening_module, "noisy_moments", lambda *a, **k: pytest.fail("released"))
    bad = {"batches": [32], "step_size": [0.0], "clipping": ["half"], "noise_std": [-1.0]}
    bad |= {"random_state": ["seed"], "adjacency": ["add_or_remove_one"]}
    bad["precondition"] = [0.0, 1.0, -0.1, 2.0, math.nan, math.inf, "yes", True, [0.1]]
    refuses(lambda **stated: fitted(kind, **stated), bad)


@every("norm", [1e-20, 1e-3, 1e3, 1e20, 1e60])
def test_norms_of_all_sizes(norm):
    """Features, norm and constant in other units: as good a model."""
    X, y = problem(learn.PrivateLogisticRegression)
    arguments = {"feature_norm": norm, "intercept_scaling": norm, "step_size": "auto", "l2": 0.0}
    model = fitted(learn.PrivateLogisticRegression, X * norm, y, epsilon=20.0, **arguments)
    assert model.score(X * norm, y) > 0.8
