"""The estimators are scikit-learn's in manner, release what they account, and keep the rest to themselves."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.base import clone

import pabi
from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.execute import engine as engine_module
from pabi.execute.records import Records
from pabi.execute.sums import Limit
from pabi.guarantees.releases import MODELS
from pabi.learn import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
    parameters_hash,
)
from pabi.learn import estimators as estimators_module
from pabi.numbers.errors import InvalidInput, PrivacyWarning, TargetUnreachable
from support.estimators import ALL, CLASSIFIERS, REGRESSORS, each_estimator
from support.in_turn import in_turn

# A schedule that needs no search: what these tests are about does not depend on it.
QUICK = {"batches": FullBatch(), "epochs": 3, "step_size": 0.5, "l2": 0.01}


@pytest.fixture(autouse=True)
def quiet():
    """Rows of these tests may be long, targets as they are, and their δ large for a few records."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some rows exceed feature_norm")
        warnings.filterwarnings("ignore", "targets are fitted with")
        warnings.filterwarnings("ignore", "delta = ", PrivacyWarning)
        yield


def problem(kind, n=60, d=3, classes=2, seed=0):
    """(X, y) with rows on both sides of the norm 1, and targets of the kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.6
    signal = X @ np.array([1.5, -1.0, 0.5] + [0.0] * (d - 3)) + 0.3 * rng.normal(size=n)
    if kind in CLASSIFIERS:
        cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
        return X, np.searchsorted(cuts, signal)
    if kind is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(np.clip(signal, -2, 2))).astype(float)
    return X, signal


def within(X, norm=1.0):
    """The rows of X, scaled down to the norm."""
    lengths = np.linalg.norm(X, axis=1)
    return X * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None]


# scikit-learn's own checks. Noise is given here; the nightly ones calibrate it, as users do. One classifier
# and one regressor stand for all of them by day.


def scores(estimator, X):
    """The linear predictor through the public methods."""
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(X)
    predicted = estimator.predict(X)
    return np.log(predicted) if isinstance(estimator, PrivatePoissonRegressor) else predicted


def formula(estimator, X):
    return np.squeeze(X @ np.atleast_2d(estimator.coef_).T + estimator.intercept_)


RANGES = np.array([[-2.0, -3.0, -1.0], [2.0, 3.0, 1.0]])
SHIFTED = np.array([[0.0, -3.0, 5.0], [2.0, 1.0, 9.0]])


def in_ranges(ranges, n, feature_norm, seed=3):
    """Rows inside the ranges whose mapped images are inside the norm."""
    rng = np.random.default_rng(seed)
    inside = within(rng.uniform(-1, 1, size=(n, 3)), feature_norm * 0.999)
    if ranges is None:
        return inside
    low, high = np.asarray(ranges, dtype=float)
    return (low + high) / 2 + inside * (high - low) / 2


@in_turn("kind", ALL)
@in_turn("ranges", [None, RANGES, SHIFTED])
@in_turn("form", ["dense", "float32", "csr", "frame"])
@in_turn("intercept", [True, False])
def test_predictors_are_linear_in_rows_within_bounds(kind, ranges, form, intercept):
    """X @ coef_.T + intercept_, in the units of X. With ranges off centre coef_ and intercept_ are large
    against the result, so that roundings count by their sizes."""
    if form == "csr" and ranges is SHIFTED:
        pytest.skip("sparse data need symmetric ranges, which another test refuses")
    _, y = problem(kind)
    X = in_ranges(ranges, len(y), 1.0)
    if form == "float32":
        X = X.astype(np.float32).astype(np.float64)
    data = {
        "dense": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: sparse.csr_matrix(X),
        "frame": lambda: pd.DataFrame(X, columns=list("abc")),
    }[form]()
    given = ranges if form != "frame" or ranges is None else dict(zip("abc", ranges.T, strict=True))
    estimator = kind(
        **QUICK, noise_std=0.5, feature_ranges=given, fit_intercept=intercept, intercept_scaling=0.7
    ).fit(data, y)
    size = np.max(np.abs(X) @ np.abs(np.atleast_2d(estimator.coef_)).T)
    size += 4 * np.max(np.abs(estimator.intercept_)) + 1.0
    assert np.max(np.abs(scores(estimator, data) - formula(estimator, X))) < 64 * 2.0**-53 * size
    if not intercept and ranges is None:
        assert np.all(estimator.intercept_ == 0.0)


@in_turn("kind", ALL)
@in_turn("stored", ["dense", "csr"])
def test_rows_beyond_the_norm_count_as_scaled_down(kind, stored):
    X, y = problem(kind)
    estimator = kind(**QUICK, noise_std=0.1).fit(X, y)
    long = np.random.default_rng(1).normal(size=(40, 3)) * 50.0
    data = long if stored == "dense" else sparse.csr_matrix(long)
    assert scores(estimator, data) == pytest.approx(formula(estimator, within(long)), rel=1e-12)
    # And they differ from what they would be otherwise.
    assert np.max(np.abs(scores(estimator, data) - formula(estimator, long))) > 1e-3


@in_turn("kind", ALL)
def test_features_beyond_their_range_count_as_clipped(kind):
    X, y = problem(kind)
    estimator = kind(**QUICK, noise_std=0.1, feature_norm=9.0, feature_ranges=RANGES).fit(X, y)
    wild = np.random.default_rng(1).normal(size=(40, 3)) * 5.0
    clipped = np.clip(wild, *RANGES)
    assert not np.array_equal(wild, clipped)
    assert scores(estimator, wild) == pytest.approx(formula(estimator, clipped), rel=1e-12)


@in_turn("kind", ALL)
def test_training_sees_rows_scaled_down(kind):
    """Fitting long rows is fitting what they are scaled down to: the same seed, the same model, up to
    the grid on which the last step is released."""
    X, y = problem(kind)
    X = 4.0 * X
    models = []
    for data in (X, within(X)):
        with pytest.warns(PrivacyWarning):
            models.append(kind(**QUICK, noise_std=0.1, random_state=0).fit(data, y))
    grid = 2.0**-19 * 0.1 * 0.5
    assert np.max(np.abs(models[0].coef_ - models[1].coef_)) <= grid


def test_multiclass_predictors_and_labels():
    X, y = problem(PrivateLogisticRegression, classes=3)
    names = np.array(["red", "green", "blue"])
    for kind in (
        PrivateLogisticRegression(**QUICK, noise_std=0.1),
        PrivateLogisticRegression(**QUICK, noise_std=0.1, multi_class="ovr"),
        PrivateLinearSVC(**QUICK, noise_std=0.1),
        PrivateRidgeClassifier(**QUICK, noise_std=0.1),
    ):
        model = kind.fit(X, names[y])
        assert model.classes_.tolist() == ["blue", "green", "red"]
        assert model.coef_.shape == (3, 3)
        assert model.intercept_.shape == (3,)
        inside = within(X) * 0.999
        expected = inside @ model.coef_.T + model.intercept_
        assert model.decision_function(inside) == pytest.approx(expected, rel=1e-12, abs=1e-14)
        assert np.array_equal(
            model.predict(X), model.classes_[model.decision_function(X).argmax(1)]
        )


def test_shapes_are_scikit_learns():
    X, y = problem(PrivateLogisticRegression)
    for kind in CLASSIFIERS:
        model = kind(**QUICK, noise_std=0.1).fit(X, y)
        assert (model.coef_.shape, model.intercept_.shape) == ((1, 3), (1,))
        assert model.decision_function(X).shape == (60,)
    for kind in REGRESSORS:
        model = kind(**QUICK, noise_std=0.1).fit(*problem(kind))
        assert (model.coef_.shape, np.ndim(model.intercept_)) == ((3,), 0)
        assert model.predict(X).shape == (60,)


def test_ranges_by_column_name_follow_the_frame():
    X, y = problem(PrivateLinearRegression)
    frame = pd.DataFrame(X, columns=["c", "a", "b"])
    ranges = {"a": (-3, 3), "b": (-1, 1), "c": (-2, 2)}
    with pytest.warns(PrivacyWarning):
        named = PrivateLinearRegression(
            **QUICK, noise_std=0.1, random_state=1, feature_ranges=ranges
        ).fit(frame, y)
    with pytest.warns(PrivacyWarning):
        numbered = PrivateLinearRegression(
            **QUICK, noise_std=0.1, random_state=1, feature_ranges=RANGES
        ).fit(X, y)
    assert np.array_equal(named.coef_, numbered.coef_)
    assert named.feature_names_in_.tolist() == ["c", "a", "b"]
    for wrong in ({"a": (-3, 3), "b": (-1, 1)}, {**ranges, "z": (0, 1)}):
        with pytest.raises(InvalidInput, match="^feature_ranges: "):
            PrivateLinearRegression(**QUICK, feature_ranges=wrong).fit(frame, y)


SENTENCES = (
    "preprocessing used no private data, or through releases that are counted here alone",
    "every release is one fit; what other searches and refits cost has to be added",
)
PUBLIC_LABELS = "the label set is public"


@in_turn("kind", ALL)
@in_turn("adjacency", ["replace_one", "zero_out"])
@in_turn(("epsilon", "delta"), [(0.3, 1e-3), (2.0, 1e-6)])
@in_turn("batches", [FullBatch(), ShuffleOnce(20)])
def test_the_noise_is_calibrated_to_the_target(kind, adjacency, epsilon, delta, batches):
    X, y = problem(kind)
    arguments = {**QUICK, "batches": batches, "step_size": 0.1}
    model = kind(epsilon, delta, adjacency=adjacency, **arguments).fit(X, y)
    g = model.guarantee_
    assert 0.999 * epsilon < g.epsilon(delta) <= epsilon
    assert g.adjacency == adjacency == model.run_.adjacency
    assert g.tuned_at == delta


@in_turn("kind", ALL)
@in_turn("batches", [FullBatch(), Cyclic(25), ShuffleOnce(25)])
def test_the_certificate_verifies_and_the_guarantee_survives_json(kind, batches):
    X, y = problem(kind)
    model = kind(delta=1e-3, **{**QUICK, "batches": batches, "step_size": 0.1}).fit(X, y)
    g = model.guarantee_
    verdict = pabi.verify(g.certificate)
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"
    assert g.verified
    again = pabi.Guarantee.from_json(g.to_json())
    assert not again.verified
    assert again.epsilon(1e-3) == g.epsilon(1e-3)
    assert again.assumptions == g.assumptions
    assert pabi.verify(again.certificate).ok


@in_turn("kind", ALL)
def test_assumptions_say_what_the_user_must_stand_behind(kind):
    X, y = problem(kind)
    inferred = kind(**QUICK).fit(X, y).guarantee_.assumptions
    assert set(SENTENCES) <= set(inferred)
    if kind in REGRESSORS:
        assert PUBLIC_LABELS not in inferred
    else:
        assert PUBLIC_LABELS in inferred
        declared = kind(**QUICK, classes=[1, 0]).fit(X, y).guarantee_.assumptions
        assert set(SENTENCES) <= set(declared)
        assert PUBLIC_LABELS not in declared


@each_estimator
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"noise_std": 0.3},
        {"batches": Reshuffle(20), "epochs": 2.5, "cooldown_epochs": 0.5, "noise_std": 0.3},
        {
            "fit_intercept": False,
            "adjacency": "zero_out",
            "feature_norm": 0.5,
            "precondition": None,  # so that the run is the whole release
        },
    ],
    ids=["calibrated", "noise", "schedule", "no intercept"],
)
def test_the_run_executed_is_the_run_accounted(monkeypatch, kind, changes):
    """One call of the trainer, whose run is `run_`, is what the guarantee is computed from, and holds what
    the arguments say."""
    calls = []

    def recorded(keep, run, gradients, x0, random_state=None, **others):
        assert keep is None
        calls.append((run, gradients, x0, random_state))
        return engine_module.train_and_keep(keep, run, gradients, x0, random_state, **others)

    monkeypatch.setattr(estimators_module, "train_and_keep", recorded)
    X, y = problem(kind)
    arguments = {**QUICK, **changes}
    model = kind(**arguments).fit(X, y)
    ((run, gradients, x0, random_state),) = calls
    assert run is model.run_
    assert random_state is None
    assert np.all(x0 == 0.0)
    assert model.guarantee_.epsilon(1e-5) == run.guarantee(1e-5).epsilon(1e-5)
    assert (run.n, run.loss.l2, run.batches) == (len(y), 0.01, arguments["batches"])
    assert run.step_size == 0.5
    assert run.epochs == arguments["epochs"]
    assert model.n_iter_ == run.steps
    if "noise_std" in changes:
        assert run.noise_std == 0.3
    if "cooldown_epochs" in changes:
        assert run.cooldown_steps == 2  # half of three batches, rounded up
        assert run.data_steps == 8  # two and a half epochs of three
    # The loss speaks of the norm that the model sees, intercept included, and of no less.
    norm = arguments.get("feature_norm", 1.0)
    seen = norm if arguments.get("fit_intercept") is False else math.hypot(norm, 1.0)
    assert dict(run.loss.parameters)["feature_norm"] == pytest.approx(seen, rel=1e-15)
    assert dict(run.loss.parameters)["feature_norm"] >= seen
    rows = gradients.records.dense(slice(0, run.n))
    assert np.max(np.linalg.norm(rows, axis=1)) <= seen * (1 + 2.0**-50)


def test_more_classes_are_accounted_together():
    """Softmax, or one loss a class side by side: K outputs never cost as little as one, unless clipped."""
    X, y = problem(PrivateLogisticRegression, classes=4)
    whole = {**QUICK, "noise_std": 0.3, "clip_norm": None}
    soft = PrivateLogisticRegression(**whole).fit(X, y)
    assert soft.run_.loss.kind == "softmax"
    for model in (
        PrivateLogisticRegression(**whole, multi_class="ovr").fit(X, y),
        PrivateLinearSVC(**whole).fit(X, y),
    ):
        assert not model.run_.loss.glm  # clipped together, they are no scalar function of a row
        assert model.run_.record_gradient_bound >= 2.0 * math.sqrt(2.0)  # √K·√(R² + 1)


@in_turn("kind", ALL)
def test_noise_in_place_of_epsilon(kind):
    """Twice the noise, less ε, whatever `epsilon` says."""
    X, y = problem(kind)
    cost = [
        kind(**QUICK, epsilon=target, noise_std=noise).fit(X, y).guarantee_.epsilon(1e-5)
        for target, noise in ((1.0, 0.3), (9.0, 0.3), (1.0, 0.6))
    ]
    assert cost[0] == cost[1] > cost[2] > 0.0


@in_turn("kind", ALL)
def test_seeds_are_for_testing(kind):
    X, y = problem(kind)
    models = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="testing only"):
            models.append(kind(**QUICK, random_state=7).fit(X, y))
    assert np.array_equal(models[0].coef_, models[1].coef_)
    g = models[0].guarantee_
    assert g.certificate is None
    assert g.assumptions[0] == "noise reproducible: testing only"
    assert set(SENTENCES) <= set(g.assumptions)
    fresh = [kind(**QUICK).fit(X, y).coef_ for _ in range(2)]
    assert not np.array_equal(*fresh)


SECRET = 6172.25


def shows(error):
    """Whether a message shows the number, in whatever notation."""
    return any(digits in str(error) for digits in ("617", "6.17"))


def bad_inputs():
    X = np.column_stack([np.linspace(-1, 1, 20), np.full(20, SECRET)])
    y = np.arange(20) % 2
    hole = X.copy()
    hole[3, 1] = np.nan
    pole = X.copy()
    pole[3, 1] = np.inf
    text = X.astype(object)
    text[2, 1] = "x6172"
    return {
        "NaN": (hole, y, None),
        "infinity": (pole, y, None),
        "text": (text, y, None),
        "overflow": (np.where(X == SECRET, 6.172e200, X), y, "X"),
        "lengths": (X, y[:-1], None),
        "one-dimensional": (X[:, 1], y, None),
        "one number": (SECRET, y, None),
        "three-dimensional": (X[:, :, None], y, None),
        "complex": (X * 1j, y, None),
        "y three-dimensional": (X, np.tile(y[:, None, None], (1, 2, 2)), None),
        "sparse NaN": (sparse.csr_matrix(hole), y, None),
    }


@in_turn("kind", ALL)
@in_turn("case", bad_inputs())
def test_bad_data_is_refused_without_showing_it(kind, case):
    X, y, field = bad_inputs()[case]
    with pytest.raises(ValueError) as caught:
        kind(**QUICK).fit(X, y)
    assert not shows(caught.value)
    if field is not None:
        assert caught.value.field == field


@in_turn("kind", CLASSIFIERS)
@in_turn(
    ("y", "declared"),
    [
        (np.full(20, 6172), None),
        (np.full(20, 6172), [6172]),
        (np.arange(20) % 2 + 6171, [0, 1]),
        (np.arange(20) % 2 + 6171, [6171, 7000]),
        (np.array(["x6172", "b"] * 10), [0, 1]),
        (np.array(["x6172", "b"] * 10), ["b", "c"]),
        (np.linspace(0.1, SECRET, 20), None),
        (np.where(np.arange(20) == 3, np.nan, 1.0), None),
        (np.where(np.arange(20) == 3, np.nan, np.arange(20) % 2), [0, 1]),
        (np.array([6172, "b"] * 10, dtype=object), None),
        (np.array([None, 6172] * 10, dtype=object), None),
    ],
)
def test_bad_labels_are_refused_without_showing_them(kind, y, declared):
    with pytest.raises(ValueError) as caught:
        kind(**QUICK, classes=declared).fit(np.linspace(-1, 1, 40).reshape(20, 2), y)
    assert not shows(caught.value)


def fit_with_one_target(kind, value):
    y = np.ones(20, dtype=object)
    y[5] = value
    X = np.linspace(-1, 1, 40).reshape(20, 2)
    return kind(**QUICK).fit(X, y if isinstance(value, str) else y.astype(float))


@in_turn(
    ("kind", "value"),
    [
        *((kind, value) for kind in REGRESSORS for value in (math.nan, math.inf, "x6172")),
        (PrivatePoissonRegressor, -6172.0),
    ],
)
def test_bad_targets_are_refused_without_showing_them(kind, value):
    with pytest.raises(ValueError) as caught:
        fit_with_one_target(kind, value)
    assert not shows(caught.value)


@in_turn("kind", [PrivateLinearRegression, PrivateHuberRegressor])
def test_targets_that_are_no_counts_may_be_negative(kind):
    assert np.all(np.isfinite(fit_with_one_target(kind, -6172.0).coef_))


@in_turn("kind", ALL)
@in_turn(
    ("changes", "field"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"feature_norm": 0.0}, "feature_norm"),
        ({"feature_norm": math.inf}, "feature_norm"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"feature_ranges": (1.0, -1.0)}, "feature_ranges"),
        ({"feature_ranges": [[0, 0], [1, 1]]}, "feature_ranges"),
        ({"l2": -0.1}, "l2"),
        ({"l2": "automatic"}, "l2"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 1e30}, "epochs"),
        ({"step_size": 0.0}, "step_size"),
        ({"cooldown_epochs": -1}, "cooldown_epochs"),
        ({"batches": ShuffleOnce(100)}, "size"),
        ({"batches": 32}, "batches"),
        ({"batches": "full"}, "batches"),
        ({"noise_std": 0.0}, "noise_std"),
        ({"noise_std": math.nan}, "noise_std"),
        ({"adjacency": "add_or_remove_one"}, "adjacency"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_arguments_are_refused_by_name(kind, changes, field):
    X, y = problem(kind)
    with pytest.raises(InvalidInput) as caught:
        kind(**{**QUICK, **changes}).fit(X, y)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


@in_turn(
    ("kind", "name", "value"),
    [
        (PrivateLinearRegression, "residual_bound", 0.0),
        (PrivateLinearRegression, "residual_bound", math.nan),
        (PrivateHuberRegressor, "threshold", -1.0),
        (PrivateLinearSVC, "smoothing", 0.0),
        (PrivateRidgeClassifier, "threshold", 0.0),
        (PrivateRidgeClassifier, "threshold", "half"),
        (PrivateLogisticRegression, "clipping", "coordinates"),
        (PrivateLogisticRegression, "clipping", "residuals"),
        (PrivatePoissonRegressor, "predictor_bound", math.nan),
        (PrivatePoissonRegressor, "predictor_bound", 1e4),
        (PrivatePoissonRegressor, "count_bound", 0.0),
        (PrivateLogisticRegression, "multi_class", "crammer"),
        (PrivateLogisticRegression, "clip_norm", -1.0),
        (PrivateLogisticRegression, "clip_norm", "half"),
        (PrivateLogisticRegression, "classes", [[1, 2], [3]]),
        (PrivateLogisticRegression, "classes", [0.5, 1.7]),
    ],
)
def test_bad_arguments_of_one_kind_are_refused_by_name(kind, name, value):
    with pytest.raises(InvalidInput) as caught:
        kind(**QUICK, **{name: value}).fit(*problem(kind))
    assert caught.value.field == name


@in_turn("kind", ALL)
def test_a_target_near_the_least_doubles_is_met(kind):
    X, y = problem(kind)
    model = kind(epsilon=1e-12, delta=1e-300, **QUICK).fit(X, y)
    assert 0.0 < model.guarantee_.epsilon(1e-300) <= 1e-12


@each_estimator
@pytest.mark.one_in(6)
def test_a_target_that_no_noise_meets_is_refused(kind):
    """ε and δ below what doubles resolve: an error, never a guarantee that misses."""
    X, y = problem(kind)
    with pytest.raises(TargetUnreachable):
        kind(epsilon=1e-300, delta=1e-300, **QUICK).fit(X, y)


@in_turn("kind", ALL)
def test_data_seen_when_predicting_is_checked_and_never_shown(kind):
    X, y = problem(kind)
    model = kind(**QUICK).fit(X, y)
    for wrong in ([[SECRET, math.nan, 0.0]], [["x6172", 0, 0]], [[SECRET]], [SECRET] * 3, SECRET):
        with pytest.raises(ValueError) as caught:
            model.predict(wrong)
        assert not shows(caught.value)


def attributes(model):
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


@in_turn("kind", ALL)
def test_a_fitted_model_holds_what_it_releases_and_nothing_else(kind):
    """Whether a row was scaled down is a fact about the data, of which no trace stays."""
    X, y = problem(kind)
    held = {"coef_", "intercept_", "guarantee_", "run_", "n_iter_", "n_features_in_"}
    held |= {"moments_", "preconditioner_"}
    if kind in CLASSIFIERS:
        held.add("classes_")
    states = []
    for data in (within(X) * 0.99, 100.0 * X):
        model = kind(**QUICK, noise_std=0.5)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit(data, y)
        told = [str(w.message) for w in seen if "scaled down" in str(w.message)]
        assert len(told) == (np.max(np.linalg.norm(data, axis=1)) > 1.0)
        assert attributes(model) == held
        assert set(vars(model)) == held | set(model.get_params()) | {"_turn"}  # which fit it was
        (release,) = model.guarantee_.notes["releases"]
        assert release["parameters_sha256"] == parameters_hash(model)  # of what is released
        model.guarantee_ = model.guarantee_.noting({"releases": [], MODELS: []})
        states.append(model)
    short, long = (model.__getstate__() for model in states)
    for name in short:
        if name in ("coef_", "intercept_", "_turn"):
            continue
        assert pickle.dumps(short[name]) == pickle.dumps(long[name]), name


def test_the_warning_of_scaled_rows_is_one_bit():
    """One long row or all of them, long by a little or a lot: the same words."""
    X, y = problem(PrivateLogisticRegression)
    words = set()
    for data in (X * 1e6, np.vstack([within(X[1:]) * 0.9, [[0.0, 0.0, 1.001]]])):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            PrivateLogisticRegression(**QUICK, noise_std=0.5).fit(data, y)
        words |= {str(w.message) for w in seen if "scaled" in str(w.message)}
        assert all(w.category is UserWarning for w in seen if "scaled" in str(w.message))
    assert len(words) == 1
    assert not any(character.isdigit() for character in words.pop())


def numbers_in(data):
    """All float64 that could be read from the bytes, whatever their alignment."""
    found = set()
    for offset in range(8):
        whole = (len(data) - offset) // 8
        found |= set(np.frombuffer(data, dtype="<f8", count=whole, offset=offset).tolist())
        found |= set(np.frombuffer(data, dtype=">f8", count=whole, offset=offset).tolist())
    return found


@each_estimator
def test_round_trips_keep_the_model_and_hold_no_data(tmp_path, kind):
    """pickle, joblib and skops; in the pickle no number of the data, of a row as it was scaled, or of an
    iterate on the way, which a recording trainer notes."""
    X, y = problem(kind)
    y = y if kind in CLASSIFIERS else y * 1.2345678
    path = []
    model = kind(**QUICK, noise_std=0.5)
    with pytest.MonkeyPatch.context() as patch:
        execute = engine_module._Aftermath.__call__

        def note(self, state):
            path.append(state.x.copy())
            return execute(self, state)

        patch.setattr(engine_module._Aftermath, "__call__", note)
        model.fit(X, y)
    assert len(path) == 3
    plain = pickle.dumps(model)
    held = numbers_in(plain)
    # The yardstick works: what is released is found.
    assert set(np.ravel(model.coef_).tolist()) <= held
    hidden = [*np.ravel(X), *np.ravel(within(X)), *np.ravel(path[:-1])]
    if kind in (PrivateLinearRegression, PrivateHuberRegressor):
        hidden += y.tolist()
    assert not held & {float(v) for v in hidden if v != 0.0}

    joblib.dump(model, tmp_path / "model.joblib")
    written = skops.io.dumps(model)
    # skops loads what it is told to trust: nothing beyond this package.
    wanted = skops.io.get_untrusted_types(data=written)
    assert all(name.startswith("pabi.") for name in wanted)
    for again in (
        pickle.loads(plain),
        joblib.load(tmp_path / "model.joblib"),
        skops.io.loads(written, trusted=wanted),
    ):
        assert np.array_equal(again.predict(X), model.predict(X))
        assert again.run_ == model.run_
        assert again.guarantee_.epsilon(1e-5) == model.guarantee_.epsilon(1e-5)
        assert again.guarantee_.assumptions == model.guarantee_.assumptions
        assert pabi.verify(again.guarantee_.certificate).ok
        assert again.get_params() == model.get_params()


def test_nothing_is_printed(capfd):
    X, y = problem(PrivateLogisticRegression)
    PrivateLogisticRegression(**QUICK).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_verbose_shows_steps_on_standard_error(capfd):
    X, y = problem(PrivateLogisticRegression)
    PrivateLogisticRegression(**QUICK, verbose=True).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "3/3" in err


# The optimum. With hardly any noise, gradient descent ends at the minimiser of the objective that the
# documentation states; scipy minimises it independently.

L2, NOISE = 0.05, 1e-6
LONG = {"batches": FullBatch(), "l2": L2, "noise_std": NOISE}


def converged(kind, step_size, **changes):
    """Enough steps to forget the start: (1 − ηλ)^steps below 10⁻⁹ of it."""
    steps = math.ceil(math.log(1e-9) / math.log1p(-step_size * L2))
    return kind(**LONG, step_size=step_size, epochs=steps, **changes)


def tolerance(step_size, d=4):
    """Ten standard deviations of the last iterate about the optimum, at most ης/√(1 − (1 − ηλ)²) a
    coordinate, and what is left of the start and of scipy's gradient tolerance."""
    kept = 1.0 - step_size * L2
    return 10.0 * step_size * NOISE / math.sqrt(1.0 - kept**2) * math.sqrt(d) + 1e-6


def minimiser(loss, X, y, outputs=1, scaling=1.0):
    """θ of least mean loss plus ℓ2 on bounded rows with the constant feature."""
    rows = np.column_stack([within(X), np.full(len(X), scaling)])

    def objective(flat):
        theta = flat.reshape(rows.shape[1], outputs)
        return np.mean(loss(rows @ theta, y)) + 0.5 * L2 * np.sum(flat**2)

    def gradient(flat):
        h = 1e-6
        steps = np.eye(len(flat)) * h
        return np.array([(objective(flat + e) - objective(flat - e)) / (2 * h) for e in steps])

    start = np.zeros(rows.shape[1] * outputs)
    # An error g of the gradient moves a λ-strongly convex minimiser by g/λ: 10⁻⁸/λ is below 10⁻⁶.
    found = minimize(objective, start, jac=gradient, method="BFGS", options={"gtol": 1e-8})
    assert np.max(np.abs(gradient(found.x))) < 2e-8
    return found.x.reshape(rows.shape[1], outputs)


def binary(z, y):
    return np.logaddexp(0.0, -np.where(y == 1, 1, -1) * z[:, 0])


def multinomial(z, y):
    return -log_softmax(z, axis=1)[np.arange(len(y)), y]


def one_against_rest(z, y):
    return np.logaddexp(0.0, -np.where(y[:, None] == np.arange(z.shape[1]), 1, -1) * z).sum(axis=1)


def huber(bound):
    def loss(z, y):
        r = np.abs(z[:, 0] - y)
        return np.where(r <= bound, r**2 / 2, bound * r - bound**2 / 2)

    return loss


def indicators(bound):
    """The vector Huber loss of z − e_y, or of z − (±1/2) for two classes."""

    def loss(z, y):
        target = y[:, None] - 0.5 if z.shape[1] == 1 else np.eye(z.shape[1])[y]
        r = np.linalg.norm(z - target, axis=1)
        return np.where(r <= bound, r**2 / 2, bound * r - bound**2 / 2)

    return loss


def hinge(gamma):
    def loss(z, y):
        sign = np.where(y == 1, 1, -1)[:, None] if z.shape[1] == 1 else None
        if sign is None:
            sign = np.where(y[:, None] == np.arange(z.shape[1]), 1, -1)
        short = np.maximum(0.0, 1.0 - sign * z)
        return np.where(short <= gamma, short**2 / (2 * gamma), short - gamma / 2).sum(axis=1)

    return loss


def poisson(most, cap):
    def loss(z, y):
        z, y = z[:, 0], np.minimum(y, cap)
        low = np.minimum(z, most)
        return np.exp(low) * (1 + np.maximum(0.0, z - most)) - y * z

    return loss


OPTIMA = {
    "logistic": (PrivateLogisticRegression, {"clip_norm": None}, binary, 2, 1.5),
    "softmax": (PrivateLogisticRegression, {"clip_norm": None}, multinomial, 3, 0.8),
    "ovr": (
        PrivateLogisticRegression,
        {"clip_norm": None, "multi_class": "ovr"},
        one_against_rest,
        3,
        1.5,
    ),
    "svc": (PrivateLinearSVC, {"smoothing": 0.5}, hinge(0.5), 2, 0.2),
    "svc, classes": (PrivateLinearSVC, {"smoothing": 0.5}, hinge(0.5), 3, 0.2),
    "ridge": (PrivateRidgeClassifier, {"threshold": 0.4}, indicators(0.4), 2, 0.4),
    "ridge, classes": (PrivateRidgeClassifier, {}, indicators(0.5), 3, 0.4),
    "least squares": (PrivateLinearRegression, {"residual_bound": 20.0}, huber(20.0), 2, 0.4),
    "residuals clipped": (PrivateLinearRegression, {"residual_bound": 0.4}, huber(0.4), 2, 0.4),
    "huber": (PrivateHuberRegressor, {"threshold": 0.3}, huber(0.3), 2, 0.4),
    "poisson": (
        PrivatePoissonRegressor,
        {"predictor_bound": 0.5, "count_bound": 3.0},
        poisson(0.5, 3.0),
        2,
        0.3,
    ),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_little_noise_ends_at_the_optimum(name):
    kind, changes, loss, classes, step_size = OPTIMA[name]
    X, y = problem(kind, classes=classes)
    outputs = classes if classes > 2 else 1
    theta = minimiser(loss, X, y, outputs)
    model = converged(kind, step_size, **changes).fit(X, y)
    found = np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)])
    assert np.linalg.norm(found - theta) < tolerance(step_size, theta.size)
    assert np.linalg.norm(theta) > 0.1


def test_intercept_scaling_weakens_its_regularisation():
    """A constant κ lets the intercept be κθ: it is penalised by 1/κ², as in scikit-learn's liblinear."""
    X, y = problem(PrivateLogisticRegression)
    theta = minimiser(binary, X, y, scaling=2.0)
    model = converged(PrivateLogisticRegression, 0.5, clip_norm=None, intercept_scaling=2.0).fit(
        X, y
    )
    found = np.array([*model.coef_[0], model.intercept_[0] / 2.0])
    assert np.linalg.norm(found - theta[:, 0]) < tolerance(0.5)


def clipped_loss(c):
    """The function of z that falls with slope min(σ(−z), c): what clipping residuals to c minimises."""
    knee = math.log((1 - c) / c) if c < 1 else -math.inf  # where σ(−z) = c

    def loss(z):
        z = np.asarray(z, dtype=float)
        at = np.maximum(z, knee)
        return np.logaddexp(0.0, -at) + np.where(z < knee, c * (knee - z), 0.0)

    return loss


@in_turn("share", [0.15, 0.3, 0.6, 2.0])
def test_clipped_training_ends_at_the_clipped_optimum(share):
    """Gradients clipped to `share` of their bound: the sum of the clipped losses is minimised."""
    X, y = problem(PrivateLogisticRegression)
    bound = math.sqrt(2.0)
    rows = np.column_stack([within(X), np.ones(len(X))])
    caps = share * bound / np.linalg.norm(rows, axis=1)

    def loss(z, labels):
        margins = np.where(labels == 1, 1, -1) * z[:, 0]
        each = zip(caps, margins, strict=True)
        return np.array([clipped_loss(min(c, 1.0))(m) for c, m in each])

    theta = minimiser(loss, X, y)
    model = converged(PrivateLogisticRegression, 1.5, clip_norm=share * bound).fit(X, y)
    assert (model.run_.clip_norm is not None) == (share < 1.0)
    found = np.array([*model.coef_[0], *model.intercept_])
    assert np.linalg.norm(found - theta[:, 0]) < tolerance(1.5)


def test_probabilities_without_clipping_are_the_logistic_model():
    X, y = problem(PrivateLogisticRegression)
    model = PrivateLogisticRegression(**QUICK, clip_norm=None).fit(X, y)
    assert model.predict_proba(X)[:, 1] == pytest.approx(
        expit(model.decision_function(X)), rel=1e-14
    )
    X, y = problem(PrivateLogisticRegression, classes=3)
    soft = PrivateLogisticRegression(**QUICK, clip_norm=None).fit(X, y)
    assert soft.predict_proba(X) == pytest.approx(
        np.exp(log_softmax(soft.decision_function(X), axis=1)), rel=1e-13
    )
    ovr = PrivateLogisticRegression(**QUICK, clip_norm=None, multi_class="ovr").fit(X, y)
    each = expit(ovr.decision_function(X))
    assert ovr.predict_proba(X) == pytest.approx(each / each.sum(axis=1, keepdims=True), rel=1e-13)


PROBABILISTIC = {
    "logistic": (PrivateLogisticRegression, {}),
    "ovr": (PrivateLogisticRegression, {"multi_class": "ovr"}),
    "ridge": (PrivateRidgeClassifier, {}),
}


@in_turn("classes", [2, 3, 4])
@in_turn(
    "changes",
    [
        {},
        {"clip_norm": None},
        {"clip_norm": 0.2},
        {"clip_norm": 0.2, "clipping": "residual"},
        {"clip_norm": 0.2, "clipping": "norm"},
    ],
)
@in_turn("size", [1.0, 1e3])
@in_turn("name", PROBABILISTIC)
def test_probabilities_sum_to_one_and_agree_with_predictions(name, classes, changes, size):
    """The predicted class has the largest probability; where predictors say nothing several may."""
    kind, own = PROBABILISTIC[name]
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, **changes, **own).fit(X, y)
    model.coef_ = model.coef_ * size
    probabilities, predicted = model.predict_proba(X), model.predict(X)
    assert probabilities.shape == (60, classes)
    assert np.all(probabilities >= 0.0)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(60), rel=1e-14)
    largest = probabilities.max(axis=1)
    assert np.array_equal(probabilities[np.arange(60), predicted], largest)
    informed = np.sum(probabilities == largest[:, None], axis=1) == 1
    assert np.array_equal(probabilities.argmax(axis=1)[informed], predicted[informed])
    assert np.any(informed)
    # Weakly, clipping keeps the order of all classes. Those of a ball are sums of products with 1 − q, which
    # is rounded to the spacing of doubles at 1; the others have no such sums.
    rounding = 16.0 * np.finfo(float).eps if model.run_.clipping == "ball" else 0.0
    scores = model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if classes == 2 else scores
    for i, j in itertools.permutations(range(classes), 2):
        above = scores[:, i] >= scores[:, j]
        assert np.all(probabilities[above, i] >= probabilities[above, j] * (1.0 - 1e-13) - rounding)


def test_logarithms_of_probabilities_are_theirs():
    X, y = problem(PrivateLogisticRegression, classes=3)
    model = PrivateLogisticRegression(**QUICK).fit(X, y)
    with np.errstate(divide="ignore"):
        assert np.array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))


@in_turn("name", PROBABILISTIC)
@in_turn("classes", [2, 3])
def test_a_row_of_zeros_has_probabilities(name, classes):
    """Its gradient is 0, so that nothing of it is clipped."""
    kind, own = PROBABILISTIC[name]
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, clip_norm=0.2, fit_intercept=False, **own).fit(X, y)
    probabilities = model.predict_proba(np.zeros((1, 3)))
    assert probabilities[0] == pytest.approx(np.full(classes, 1.0 / classes), abs=1e-8)


@in_turn("clipping", ["residual", "ball"])
@in_turn("clip_norm", [0.1, 0.3, 0.6])
@in_turn("classes", [2, 3, 5])
@in_turn("kind", [PrivateLogisticRegression, PrivateRidgeClassifier])
def test_at_the_probabilities_the_expected_gradient_vanishes(kind, classes, clip_norm, clipping):
    """Of a record whose label is drawn from them, as the trainer computes it, clipping included: the model
    is then where training on such labels would stop."""
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, clip_norm=clip_norm, clipping=clipping, fit_intercept=False).fit(X, y)
    rng = np.random.default_rng(3)
    rows = within(X)[:12]
    if kind is PrivateRidgeClassifier:
        # Predictors on the simplex, as probabilities are; two classes have one, the second less a half.
        shares = rng.dirichlet(np.ones(classes), len(rows))
        scores = shares[:, 1:] - 0.5 if classes == 2 else shares
    else:
        scores = rng.normal(size=(len(rows), 1 if classes == 2 else classes)) * 1.5
    for row, score in zip(rows, scores, strict=True):
        theta = np.outer(row / (row @ row), score)  # whose predictor at the row it is
        model.coef_ = theta.T
        probabilities = model.predict_proba(row[None])[0]
        records = Records(np.tile(row, (classes, 1)), 1.0)
        gradients = model._gradients(records, np.arange(classes), model.run_.loss)
        limit = Limit(None, 1.0, residual=clip_norm, in_ball=clipping == "ball")
        at = theta if classes > 2 else theta[:, 0]
        each = [gradients.clipped_sum(at, slice(k, k + 1), limit) for k in range(classes)]
        expected = sum(p * g for p, g in zip(probabilities, each, strict=True))
        # Up to the 10⁻⁹ of the unclipped probabilities that keeps ties apart.
        assert np.linalg.norm(expected) <= 3e-9
        assert max(map(np.linalg.norm, each)) <= clip_norm * (1.0 + 1e-12)


@in_turn("kind", ALL)
def test_refitting_forgets_the_first_fit(kind):
    X, y = problem(kind)
    model = kind(**QUICK, noise_std=0.5).fit(X, y)
    first = model.run_
    model.set_params(epochs=2).fit(X[:30], y[:30])
    assert model.run_ != first
    assert (model.run_.n, model.n_iter_) == (30, 2)


@in_turn("kind", CLASSIFIERS)
def test_declared_classes_need_not_all_occur(kind):
    """A class without records keeps its place, so that the set of classes says nothing of the data."""
    X, y = problem(kind)
    model = kind(**QUICK, noise_std=0.1, classes=[2, 0, 1]).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.coef_.shape == (3, 3)
    lonely = kind(**QUICK, noise_std=0.1, classes=["a", "b"]).fit(X, np.full(60, "b"))
    assert lonely.classes_.tolist() == ["a", "b"]


# Step sizes as functions, and keywords of other libraries.


def falling(k):
    return 0.5 / (1 + k)


@in_turn("kind", ALL)
def test_step_sizes_may_be_a_function(kind):
    X, y = problem(kind)
    estimator = clone(kind(**{**QUICK, "step_size": falling}, noise_std=0.5))
    assert estimator.step_size is falling
    model = estimator.fit(X, y)
    assert model.run_.step_size.tolist() == [falling(k) for k in range(3)]
    assert pickle.loads(pickle.dumps(model)).run_ == model.run_
    chosen = kind(step_size=falling, noise_std=0.5).fit(X, y).run_
    assert chosen.step_size.tolist() == [falling(k) for k in range(chosen.steps)]
    with pytest.raises(InvalidInput, match="^step_size: expected a finite number > 0 at k = 1"):
        kind(**{**QUICK, "step_size": lambda k: 1.0 - k}).fit(X, y)


@in_turn("kind", ALL)
@in_turn(
    ("keyword", "mention"),
    [
        ("momentum", "composition"),
        ("weight_decay", "l2=0.5"),
        ("C", "1/(C·n)"),
        ("lr", "step_size=0.5"),
        ("learning_rate", "step_size=0.5"),
        ("batch_size", "batches=pabi.ShuffleOnce(0.5)"),
        ("max_grad_norm", "clip_norm"),
    ],
)
def test_keywords_of_other_libraries_are_answered(kind, keyword, mention):
    with pytest.raises(InvalidInput, match=f"^{keyword}: ") as caught:
        kind(**{keyword: 0.5})
    assert mention in str(caught.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        kind(epoch=3)


@in_turn("kind", CLASSIFIERS)
def test_labels_have_no_range(kind):
    with pytest.raises(InvalidInput, match="^target_range: .*classes"):
        kind(target_range=(0, 1))
