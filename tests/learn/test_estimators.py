"""The estimators are scikit-learn's in manner, release what they account, and keep the rest to themselves."""

import itertools
import math
import pickle
import warnings
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.base import clone

import pabi
from pabi import learn
from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.execute import engine as engine_module
from pabi.learn import estimators as estimators_module
from pabi.learn import plans as whitening_module
from pabi.learn.plans import TOO_NOISY
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from pabi.tradeoff.certificate import MODELS
from support.estimators import (
    ALL,
    CLASSIFIERS,
    LINEAR,
    LOG_LINKS,
    QUICK,
    REGRESSORS,
    each_estimator,
    each_linear,
    problem,
    targets_of,
    within,
)
from support.every_case import every, refuses


def scores(estimator, X):
    """(m, K): the linear predictor through the public methods."""
    if hasattr(estimator, "decision_function"):
        found = estimator.decision_function(X)
    else:
        found = estimator.predict(X)
        found = np.log(found) if isinstance(estimator, LOG_LINKS) else found
    return found[:, None] if found.ndim == 1 else found


def formula(estimator, X):
    """(m, K): the linear predictor of rows that are not mapped."""
    return X @ np.atleast_2d(estimator.coef_).T + estimator.intercept_


RANGES = np.array([[-2.0, -3.0, -1.0], [2.0, 3.0, 1.0]])
SHIFTED = np.array([[0.0, -3.0, 5.0], [2.0, 1.0, 9.0]])
FORMS = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": sparse.csr_matrix,
    "frame": lambda X: pd.DataFrame(X, columns=list("abc")),
}
# Sparse data need symmetric ranges.
BOUNDS = [(ranges, form) for ranges in (None, RANGES, SHIFTED) for form in FORMS]
BOUNDS = [case for case in BOUNDS if case[0] is not SHIFTED or case[1] != "csr"]


@every("kind", LINEAR)
def test_rows_beyond_the_norm_and_features_beyond_their_range_count_as_cut(kind):
    X, y = problem(kind)
    estimator = kind(**QUICK, noise_std=0.1).fit(X, y)
    long = np.random.default_rng(1).normal(size=(40, 3)) * 50.0
    for data in (long, sparse.csr_matrix(long)):
        assert scores(estimator, data) == pytest.approx(formula(estimator, within(long)), rel=1e-12)
    assert np.max(np.abs(scores(estimator, long) - formula(estimator, long))) > 1e-3
    estimator = kind(**QUICK, noise_std=0.1, feature_norm=9.0, feature_ranges=RANGES).fit(X, y)
    clipped = np.clip(long / 10.0, *RANGES)
    assert scores(estimator, long / 10.0) == pytest.approx(formula(estimator, clipped), rel=1e-12)


@every("kind", ALL)
def test_training_sees_rows_scaled_down(kind):
    """The same seed, the same model, up to the grid on which the last step is released."""
    X, y = problem(kind)
    models = []
    for data in (4.0 * X, within(4.0 * X)):
        with pytest.warns(PrivacyWarning):
            models.append(kind(**QUICK, noise_std=0.1, random_state=0).fit(data, y))
    assert np.max(np.abs(models[0].coef_ - models[1].coef_)) <= 2.0**-19 * 0.1 * 0.5


def test_ranges_by_column_name_follow_the_frame():
    X, y = problem(learn.PrivateLinearRegression)
    frame = pd.DataFrame(X, columns=["c", "a", "b"])
    ranges = {"a": (-3, 3), "b": (-1, 1), "c": (-2, 2)}
    stated = QUICK | {"noise_std": 0.1, "random_state": 1}
    with pytest.warns(PrivacyWarning):
        named = learn.PrivateLinearRegression(**stated, feature_ranges=ranges).fit(frame, y)
    with pytest.warns(PrivacyWarning):
        numbered = learn.PrivateLinearRegression(**stated, feature_ranges=RANGES).fit(X, y)
    assert np.array_equal(named.coef_, numbered.coef_)
    assert named.feature_names_in_.tolist() == ["c", "a", "b"]
    for wrong in ({"a": (-3, 3), "b": (-1, 1)}, {**ranges, "z": (0, 1)}):
        with pytest.raises(InvalidInput, match="^feature_ranges: "):
            learn.PrivateLinearRegression(**QUICK, feature_ranges=wrong).fit(frame, y)


SENTENCES = {
    "preprocessing used no private data, or through releases that are counted here alone",
    "every release is one fit; what other searches and refits cost has to be added",
}
PUBLIC_LABELS = "the label set is public"


@every("kind", ALL)
def test_assumptions_say_what_the_user_must_stand_behind(kind):
    X, y = problem(kind)
    inferred = set(kind(**QUICK).fit(X, y).guarantee_.assumptions)
    assert inferred >= SENTENCES
    assert (PUBLIC_LABELS in inferred) == (kind in CLASSIFIERS)
    if kind in CLASSIFIERS:
        declared = set(kind(**QUICK, classes=[1, 0]).fit(X, y).guarantee_.assumptions)
        assert declared >= SENTENCES
        assert PUBLIC_LABELS not in declared


NARROW = {"fit_intercept": False, "adjacency": "zero_out", "feature_norm": 0.5}
NARROW |= {"precondition": None}  # so that the run is the whole release
HALVES = {"batches": Reshuffle(20), "epochs": 2.5, "cooldown_epochs": 0.5, "noise_std": 0.3}


CHANGES = [{}, {"noise_std": 0.3}, HALVES, NARROW]


@every(("kind", "changes"), [*zip(ALL, itertools.cycle(CHANGES))])
def test_the_run_executed_is_the_run_accounted(kind, changes):
    """One call of the trainer, whose run is that of the guarantee, and holds what the arguments say."""
    calls = []

    def recorded(keep, run, gradients, x0, options):
        assert keep is None
        calls.append((run, gradients, x0, options.random_state))
        return engine_module.train_and_keep(keep, run, gradients, x0, options)

    X, y = problem(kind)
    arguments = {**QUICK, **changes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimators_module, "train_and_keep", recorded)
        model = kind(**arguments).fit(X, y)
    ((run, gradients, x0, random_state),) = calls
    assert run is model.run_
    assert random_state is None
    assert np.all(x0 == 0.0)
    assert model.guarantee_.epsilon(1e-5) == run.guarantee(1e-5).epsilon(1e-5)
    assert (run.n, run.loss.l2, run.batches) == (len(y), 0.01, arguments["batches"])
    assert (run.step_size, run.epochs) == (0.5, arguments["epochs"])
    assert model.n_iter_ == run.steps
    if "noise_std" in changes:
        assert run.noise_std == 0.3
    if changes is HALVES:  # of three batches an epoch, rounded up
        assert (run.cooldown_steps, run.data_steps) == (2, 8)
    # The loss speaks of the norm that the model sees, intercept included, and of no less.
    norm = arguments.get("feature_norm", 1.0) if kind in LINEAR else 1.0  # that of features
    seen = norm if changes is NARROW else math.hypot(norm, model.intercept_scaling)
    assert seen <= dict(run.loss.parameters)["feature_norm"] <= seen * (1 + 1e-15)
    rows = gradients.records.dense(slice(0, run.n))
    assert np.max(np.linalg.norm(rows, axis=1)) <= seen * (1 + 2.0**-50)


def test_more_classes_are_accounted_together():
    """Softmax, or one loss a class side by side: K outputs never cost as little as one, unless clipped."""
    X, y = problem(learn.PrivateLogisticRegression, classes=4)
    whole = {**QUICK, "noise_std": 0.3, "clip_norm": None}
    assert learn.PrivateLogisticRegression(**whole).fit(X, y).run_.loss.kind == "softmax"
    for model in (
        learn.PrivateLogisticRegression(**whole, multi_class="ovr"),
        learn.PrivateLinearSVC(**whole),
    ):
        run = model.fit(X, y).run_
        assert not run.loss.glm  # clipped together, they are no scalar function of a row
        assert run.record_gradient_bound >= 2.0 * math.sqrt(2.0)  # √K·√(R² + 1)


@every("kind", ALL)
def test_a_fitted_model_holds_what_it_releases_and_nothing_else(kind):
    """Whether a row was scaled down is a fact about the data, of which no trace stays."""
    X, y = problem(kind)
    held = {"coef_", "intercept_", "guarantee_", "run_", "n_iter_", "n_features_in_"}
    held |= {"moments_", "preconditioner_"} | ({"classes_"} if kind in CLASSIFIERS else set())
    held |= set() if kind in LINEAR else {"features_"}
    states = []
    for data in (within(X) * 0.99, 100.0 * X):
        model = kind(**QUICK, noise_std=0.5)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit(data, y)
        told = [str(w.message) for w in seen if "scaled down" in str(w.message)]
        assert len(told) == (np.max(np.linalg.norm(data, axis=1)) > 1.0)
        assert set(vars(model)) == held | set(model.get_params()) | {"_turn"}  # which fit it was
        (release,) = model.guarantee_.notes["releases"]
        assert release["parameters_sha256"] == learn.parameters_hash(model)  # of what is released
        model.guarantee_ = model.guarantee_.noting({"releases": [], MODELS: []})
        states.append(model.__getstate__())
    for name in states[0].keys() - {"coef_", "intercept_", "_turn"}:
        assert pickle.dumps(states[0][name]) == pickle.dumps(states[1][name]), name


def test_what_is_told_of_a_training_is_a_bit_and_its_steps(capfd):
    """One long row or all of them, long by a little or a lot: the same words."""
    X, y = problem(learn.PrivateLogisticRegression)
    words = set()
    for data in (X * 1e6, np.vstack([within(X[1:]) * 0.9, [[0.0, 0.0, 1.001]]])):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            learn.PrivateLogisticRegression(**QUICK, noise_std=0.5).fit(data, y)
        words |= {(str(w.message), w.category) for w in seen if "scaled" in str(w.message)}
    ((said, category),) = words
    assert category is UserWarning
    assert not any(character.isdigit() for character in said)
    learn.PrivateLogisticRegression(**QUICK).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")
    learn.PrivateLogisticRegression(**QUICK, verbose=True).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "3/3" in err


def numbers_in(data):
    """All float64 that could be read from the bytes, whatever their alignment."""
    found = set()
    for offset in range(8):
        whole = (len(data) - offset) // 8
        for order in "<>":
            read = np.frombuffer(data, dtype=f"{order}f8", count=whole, offset=offset)
            found |= set(read.tolist())
    return found


@each_estimator
def test_round_trips_keep_the_model_and_hold_no_data(tmp_path, kind):
    """In the pickle stands no number of the data, of a row as it was scaled, or of an iterate on the way."""
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
    if kind in (learn.PrivateLinearRegression, learn.PrivateHuberRegressor):
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


@every("kind", CLASSIFIERS)
def test_declared_classes_need_not_all_occur(kind):
    """A class without records keeps its place, so that the set of classes says nothing of the data."""
    X, y = problem(kind)
    model = kind(**QUICK, noise_std=0.1, classes=[2, 0, 1]).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.coef_.shape == (3, 3)
    lonely = kind(**QUICK, noise_std=0.1, classes=["a", "b"]).fit(X, np.full(60, "b"))
    assert lonely.classes_.tolist() == ["a", "b"]


def falling(k):
    return 0.5 / (1 + k)


@every("kind", [learn.PrivateLogisticRegression, learn.PrivateHuberRegressor])
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


# Estimators that precondition: what they release, what they cost, and how they predict.


EPSILON, DELTA, SHARE = 6.0, 1e-4, 0.3
MAPPED = {"batches": FullBatch(), "epochs": 3, "step_size": 0.2, "l2": 0.01, "precondition": SHARE}


def larger(kind, n=400, d=3, classes=2, seed=0):
    """(X, y): rows on both sides of the norm 1, columns of different sizes, and targets of the kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.8, 0.1, d) + 0.1
    signal = X @ np.linspace(1.0, 5.0, d) + 0.1 * rng.normal(size=n)
    return X, targets_of(kind, signal, classes, rng)


def mapped(kind, X=None, y=None, **changes):
    data = larger(kind)
    X, y = data[0] if X is None else X, data[1] if y is None else y
    return kind(**{"epsilon": EPSILON, "delta": DELTA, **MAPPED, **changes}).fit(X, y)


@each_estimator
@pytest.mark.parametrize("batches", [FullBatch(), ShuffleOnce(100), Cyclic(100)], ids=str)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_both_releases_meet_the_target_together(kind, batches, adjacency):
    """ε is that of the composition, to a millionth: noise is not drawn for nothing."""
    model = mapped(kind, batches=batches, adjacency=adjacency)
    whole, parts = model.guarantee_, [one.guarantee(DELTA) for one in (model.moments_, model.run_)]
    assert whole.epsilon(DELTA) == pabi.compose(*parts).epsilon(DELTA)
    assert EPSILON * (1.0 - 1e-6) <= whole.epsilon(DELTA) <= EPSILON
    assert all(part.epsilon(DELTA) < EPSILON for part in parts)
    blank = replace(model.moments_, noise_std=None)
    alone = pabi.calibrate(blank, EPSILON, DELTA).guarantee(DELTA).mu  # of which the share is spent
    assert parts[0].mu ** 2 == pytest.approx(SHARE * alone**2, rel=1e-9)
    assert whole.tuned_at == DELTA
    assert whole.adjacency == adjacency == model.moments_.adjacency == model.run_.adjacency
    assert pabi.verify(whole).ok
    assert {said for part in parts for said in part.assumptions} <= set(whole.assumptions)


@every("kind", ALL)
def test_noise_of_the_training_may_be_stated(kind):
    """ "auto" then spends nothing on moments; a stated share is spent beside it."""
    assert mapped(kind, precondition="auto", noise_std=0.5).moments_ is None
    model = mapped(kind, noise_std=0.5)
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
        model = mapped(kind, epsilon=0.05, precondition=share)
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
    model = mapped(kind, fit_intercept=intercept, feature_norm=0.8, intercept_scaling=0.5)
    (moments, records), (run, image) = calls
    assert moments is model.moments_
    assert run is model.run_
    seen = math.hypot(0.8, 0.5 * intercept)
    assert seen <= moments.feature_norm <= seen * (1.0 + 2.0**-50)
    assert dict(run.loss.parameters)["feature_norm"] == image.feature_norm == moments.feature_norm
    X, _ = larger(kind)
    rows = within(X, 0.8)
    rows = np.column_stack([rows, np.full(len(X), 0.5)]) if intercept else rows
    np.testing.assert_allclose(records.dense(slice(0, 400)), rows, atol=1e-12)
    trained_on = image.dense(slice(0, 400))
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
        X, y = larger(kind, seed=seed)
        values = 400.0 * (0.1 * np.eye(4) + 0.05)

        def fixed(terms, moments, records, groups, values=values):
            return learn.ReleasedMoments(values, terms.proven)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimators_module, "released_moments", fixed)
            maps.append(mapped(kind, X, y).preconditioner_)
    assert maps[0].matrix.tobytes() == maps[1].matrix.tobytes()
    assert (maps[0].unit, maps[0].norm) == (maps[1].unit, maps[1].norm)


@each_linear
@pytest.mark.parametrize("precondition", [None, SHARE])
@every(("ranges", "form"), BOUNDS)
@every("intercept", [True, False])
def test_predictors_are_those_of_rows_within_bounds(kind, precondition, ranges, form, intercept):
    """Scales, from the matrix of the map, times X @ coef_.T + intercept_, whose sizes roundings count by."""
    inside = within(np.random.default_rng(3).uniform(-1, 1, (400, 3)), 0.999).astype("f4")
    X = inside if ranges is None else ranges.mean(axis=0) + inside * np.diff(ranges, axis=0)[0] / 2
    X = X.astype("f4").astype(float)
    data, stated = FORMS[form](X), ranges
    if ranges is not None:
        inside = 2.0 * (X - ranges.mean(axis=0)) / np.diff(ranges, axis=0)[0]
        stated = dict(zip("abc", ranges.T, strict=True)) if form == "frame" else ranges
    own = {"fit_intercept": intercept, "intercept_scaling": 0.7, "precondition": precondition}
    model = mapped(kind, data, feature_norm=1.0, feature_ranges=stated, **own)
    size = np.max(np.abs(X) @ np.abs(np.atleast_2d(model.coef_)).T)
    size += 4.0 * np.max(np.abs(model.intercept_)) + 1.0
    lengths = np.ones(400)
    if precondition is not None:
        seen = np.column_stack([inside, np.full(400, 0.7)]) if intercept else inside
        lengths = np.linalg.norm(seen @ model.preconditioner_.matrix, axis=1)
        lengths /= model.preconditioner_.unit
    scales = 1.0 / (lengths if kind in CLASSIFIERS else np.maximum(lengths, 1.0))
    differ = np.max(np.abs(scores(model, data) - scales[:, None] * formula(model, X)), axis=1)
    assert np.max(differ) <= (64 * 2.0**-53 if precondition is None else 2e-5) * size
    if precondition is not None and kind in REGRESSORS:
        assert np.sum(lengths < 0.99) > 40
        assert np.max(differ[lengths < 0.99]) <= 1e-12 * size
    if not intercept and ranges is None:
        assert np.all(model.intercept_ == 0.0)


def test_predictions_of_regressors_are_in_units_of_the_target():
    """Scaling concerns what is added to the centre of the range, not the centre."""
    X, y = larger(learn.PrivateLinearRegression)
    model = mapped(learn.PrivateLinearRegression, X, 1000.0 + y, target_range=(990.0, 1010.0))
    inside = within(X)
    factors, _ = model.preconditioner_.scales(model._records(inside))
    expected = 1000.0 + factors * (inside @ model.coef_ + model.intercept_ - 1000.0)
    np.testing.assert_allclose(model.predict(inside), expected, rtol=1e-12)
    assert np.min(factors) < 1.0
    assert abs(model.predict(np.zeros((1, 3)))[0] - 1000.0) < 10.0


@each_estimator
def test_a_wide_table_is_mapped_column_by_column(kind):
    X = sparse.random(600, 4500, 0.002, format="csr", random_state=np.random.default_rng(0))
    model = mapped(kind, X, larger(kind, n=600)[1], epsilon=60.0, epochs=1)
    assert model.moments_.diagonal
    assert model.preconditioner_.diagonal
    dense, own = model.predict(X.toarray()), model.predict(X)
    assert np.mean(own == dense if kind in CLASSIFIERS else np.isclose(own, dense)) > 0.99


@every("kind", ALL)
def test_one_seed_makes_two_independent_noises(kind):
    """The same model twice; and the noise of the release is not that of the training."""
    models = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="testing only") as seen:
            models.append(mapped(kind, random_state=7))
        assert len([w for w in seen if "testing only" in str(w.message)]) == 1
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].preconditioner_.matrix, models[1].preconditioner_.matrix)
    assert models[0].guarantee_.certificate is None
    assert "noise reproducible: testing only" in models[0].guarantee_.assumptions
    fresh = [mapped(kind) for _ in range(2)]
    assert not np.array_equal(fresh[0].preconditioner_.matrix, fresh[1].preconditioner_.matrix)
    assert not np.array_equal(fresh[0].coef_, fresh[1].coef_)


PROBABLE = [
    *((learn.PrivateLogisticRegression, {}), (learn.PrivateLogisticRegression, {"clip_norm": 0.4})),
    (learn.PrivateLogisticRegression, {"clip_norm": 0.4, "clipping": "norm"}),
    (learn.PrivateLogisticRegression, {"multi_class": "ovr"}),
    (learn.PrivateLogisticRegression, {"multi_class": "ovr", "clip_norm": 0.4}),
    *((learn.PrivateRidgeClassifier, {}), (learn.PrivateLinearSVC, {})),
]


@pytest.mark.parametrize("classes", [2, 3])
@every(("kind", "changes"), PROBABLE)
@every("share", [None, SHARE])
def test_labels_and_probabilities_agree_with_decisions(kind, changes, classes, share):
    X, y = larger(kind, classes=classes)
    names = np.array(["red", "green", "blue"])[:classes]
    model = mapped(kind, X, names[y], epsilon=20.0, precondition=share, **changes)
    assert model.classes_.tolist() == sorted(names)
    assert model.coef_.shape == ((1, 3) if classes == 2 else (3, 3))
    assert model.intercept_.shape == ((1,) if classes == 2 else (3,))
    decisions = model.decision_function(X)
    assert decisions.shape == ((400,) if classes == 2 else (400, 3))
    best = (decisions > 0).astype(int) if classes == 2 else decisions.argmax(axis=1)
    if kind is not learn.PrivateLinearSVC:
        probabilities = model.predict_proba(X)
        best = probabilities.argmax(axis=1)
        if kind is learn.PrivateLogisticRegression:
            assert np.array_equal(model.predict_log_proba(X), np.log(probabilities))
    assert np.array_equal(model.predict(X), model.classes_[best])
    if share is None:
        inside = within(X) * 0.999
        found = scores(model, inside)
        np.testing.assert_allclose(found, formula(model, inside), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 3), (40, 100)])
def test_few_records_have_no_map_unless_the_budget_is_large(n, d):
    for kind in (learn.PrivateLinearRegression, learn.PrivateLogisticRegression):
        X, y = larger(kind, n=n, d=d)
        own = {"classes": [0, 1]} if kind in CLASSIFIERS else {}
        y = np.arange(n) % 2 if n <= 2 and own else y
        if n > 1 or not own:
            assert mapped(kind, X, y, precondition="auto", **own).moments_ is None
            model = mapped(kind, X, y, epsilon=2000.0, **own)
            assert model.moments_ is not None
            assert np.all(np.isfinite(scores(model, X)))


def poor_tables():
    X, _ = larger(learn.PrivateLogisticRegression)
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
    model = mapped(kind, X, epsilon=40.0, fit_intercept=intercept)
    assert model.moments_ is not None
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(scores(model, X)))
    assert model.guarantee_.epsilon(DELTA) <= 40.0


@each_estimator
def test_arguments_are_checked_before_anything_is_released(monkeypatch, kind):
    """A release that no model follows would be spent for nothing."""
    monkeypatch.setattr(whitening_module, "noisy_moments", lambda *a, **k: pytest.fail("released"))
    bad = {"batches": [32], "step_size": [0.0], "clipping": ["half"], "noise_std": [-1.0]}
    bad |= {"random_state": ["seed"], "adjacency": ["add_or_remove_one"]}
    bad["precondition"] = [0.0, 1.0, -0.1, 2.0, math.nan, math.inf, "yes", True, [0.1]]
    refuses(lambda **stated: mapped(kind, **stated), bad)
    if kind in CLASSIFIERS:
        with pytest.raises(InvalidInput, match="one class only"):
            mapped(kind, y=np.ones(400))


@every("norm", [1e-20, 1e-3, 1e3, 1e20, 1e60])
def test_norms_of_all_sizes(norm):
    """Features, norm and constant in other units: as good a model."""
    X, y = larger(learn.PrivateLogisticRegression)
    arguments = {"feature_norm": norm, "intercept_scaling": norm, "step_size": "auto", "l2": 0.0}
    model = mapped(learn.PrivateLogisticRegression, X * norm, y, epsilon=20.0, **arguments)
    assert model.score(X * norm, y) > 0.8
