"""Random features: their kernel, norms, rows that stay apart, clear refusals; and private models of them."""

import pickle
import re
import traceback
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import pabi
from pabi import learn
from pabi.execute.records import bound_rows
from pabi.features import RandomFeatures
from pabi.learn.random_features import frequencies
from support.every_case import every
from support.large import package

PLAIN = RandomFeatures(n_components=40, linear=False)


@pytest.fixture(scope="module")
def rows():
    """(300, 6), mostly between −3 and 3."""
    return np.random.default_rng(0).normal(size=(300, 6))


def kernels(d, count, distance):
    """Products of the features of two rows at this distance over the length, over seeds."""
    pair = np.zeros((2, d))
    pair[1, 0] = 2.0 * distance
    each = (
        RandomFeatures(None, count, length=2.0, linear=False, seed=seed).fit_transform(pair)
        for seed in range(400)
    )
    return np.array([one.astype(float) @ other.astype(float) for one, other in each])


@pytest.mark.parametrize("distance", [0.3, 1.0, 2.0])
def test_products_average_to_the_gaussian_kernel(distance):
    values = kernels(16, 32, distance)
    error = values.std(ddof=1) / len(values) ** 0.5
    assert abs(values.mean() - np.exp(-0.5 * distance**2)) < 5.0 * error + 1e-6


@pytest.mark.parametrize("distance", [1.0, 1.5])
def test_orthogonal_frequencies_scatter_less_than_independent_ones(distance):
    """Of m independent frequencies the product has variance (1 − k²)²/(2m) (Yu et al. 2016, Lemma 1)."""
    independent = (1.0 - np.exp(-(distance**2))) ** 2 / (2.0 * 16)
    assert kernels(16, 32, distance).var(ddof=1) < 0.8 * independent


@every("count", [1, 2, 5, 40])
def test_features_are_cosines_and_sines(rows, count):
    features = RandomFeatures(None, count, length=3.0, linear=False, seed=2).fit_transform(rows)
    waves = -(-count // 2)
    phases = rows @ frequencies(2, 6, waves) / 3.0
    truth = np.hstack([np.cos(phases), np.sin(phases)])[:, :count] / waves**0.5
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, truth, rtol=0, atol=3e-7)


def test_mapped_columns_stand_before_the_others(rows):
    both = RandomFeatures((-2, 6), 40, length=1.5).fit_transform(rows)
    mapped = np.clip((rows - 2.0) / 4.0, -1.0, 1.0)
    waves = clone(PLAIN).set_params(length=1.5).fit_transform(mapped)
    truth = np.hstack([mapped / 6**0.5, waves]) / 2**0.5
    np.testing.assert_allclose(both, truth, rtol=0, atol=5e-7)
    alone = RandomFeatures(None, 40).fit_transform(rows)[:, :6]
    unit = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_allclose(alone, unit / 2**0.5, rtol=0, atol=3e-7)


def test_the_length_of_the_kernel_is_the_norm_that_rows_may_have(rows):
    for ranges, length in ((None, 1.0), ((-3, 3), 6**0.5)):
        auto = RandomFeatures(ranges, 10).fit_transform(rows)
        assert np.array_equal(auto, RandomFeatures(ranges, 10, length=length).fit_transform(rows))


def test_rows_as_long_as_may_be_are_taken_at_the_least_length():
    """Brought to a norm they are longer by roundings, some of them, and no row decides whether all fail."""
    rng = np.random.default_rng(0)
    long = 100.0 * rng.normal(size=(30, 3))
    for norm in [*rng.uniform(1.0, 2.0, 200), 116.84960198859562]:
        shortest = RandomFeatures(None, 4, feature_norm=norm, length=norm / 1e12)
        assert np.isfinite(shortest.fit_transform(norm * long)).all()


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e11])
@every("linear", [True, False, 0.8])
@every("ranges", [None, (-1, 1), (-0.01, 5)])
@every("norm", [None, "auto", 3.0])
def test_no_row_is_longer_than_one(linear, ranges, size, norm):
    X = size * np.random.default_rng(1).choice([-1.0, 0.5, 1.0], size=(16, 7))
    for count in (0, 1, 7, 256)[not linear :]:
        model = RandomFeatures(ranges, count, linear=linear, feature_norm=norm)
        features = model.fit_transform(X)
        assert features.shape[1] == model._width == len(model.get_feature_names_out())
        for row in features:
            assert sum(Fraction(float(x)) ** 2 for x in row) <= 1
        if not linear and count % 2 == 0:
            assert np.linalg.norm(features.astype(float), axis=1).min() > 1.0 - 3e-7


def test_a_share_of_the_norm_is_that_of_the_columns(rows):
    whole = RandomFeatures((-2, 6), 0).fit_transform(rows)
    waves = RandomFeatures((-2, 6), 40, linear=False).fit_transform(rows)
    for linear, share in ((True, 0.5), (0.8, 0.8)):
        both = RandomFeatures((-2, 6), 40, linear=linear).fit_transform(rows)
        truth = np.hstack([share**0.5 * whole, (1.0 - share) ** 0.5 * waves])
        np.testing.assert_allclose(both, truth, rtol=0, atol=3e-7)


@every(("ranges", "scale"), [(None, 1.0), ((-4.0, 4.0), 0.25)])
@every("form", [np.asarray, csr_matrix, np.asfortranarray])
def test_rows_are_scaled_down_to_a_stated_norm_each_by_itself(rows, ranges, scale, form):
    """A row of any size, also one whose square overflows, leaves the others as they are to the last bit."""
    stated = RandomFeatures(ranges, 30, feature_norm=0.5, linear=0.8)
    short = bound_rows(np.clip(rows * scale, -1, 1) if ranges else rows, 0.5)
    truth = RandomFeatures(None, 30, feature_norm=0.5, linear=0.8).fit_transform(short)
    plain = stated.fit_transform(form(rows))
    np.testing.assert_allclose(plain, truth, rtol=0, atol=1e-6)
    for size in (1e60, 2.0**-1074, -0.0):
        changed = rows.copy()
        changed[3] = size
        features = stated.transform(form(changed))
        assert np.array_equal(np.delete(features, 3, 0), np.delete(plain, 3, 0))
        assert np.linalg.norm(features[3].astype(float)) <= 1.0


def test_every_form_of_ranges_is_the_same_map(rows):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    ends = np.array([[-1.0] * 6, [2.0] * 6])
    truth = RandomFeatures((-1, 2), 20).fit_transform(rows)
    assert np.array_equal(RandomFeatures(ends, 20).fit_transform(rows), truth)
    named = RandomFeatures(dict.fromkeys("fedcba", (-1, 2)), 20)
    assert np.array_equal(named.fit_transform(frame), truth)
    numbered = RandomFeatures(dict.fromkeys(range(6), (-1, 2)), 20)
    assert np.array_equal(numbered.fit_transform(rows), truth)
    inside = np.clip(rows, -1, 2)
    assert np.array_equal(RandomFeatures((-1, 2), 20).fit_transform(inside), truth)


def test_sparse_rows_have_the_features_of_dense_ones(rows):
    holes = np.where(rows > 0.3, rows, 0.0)
    holes[7] = 0.0
    twice = coo_matrix((np.full(2, 0.4), ([0, 0], [1, 1])), (1, 6))
    for ranges in (None, (-1, 1)):
        for linear in (True, False):
            model = RandomFeatures(ranges, 30, linear=linear).fit(holes)
            truth = model.transform(holes)
            np.testing.assert_allclose(model.transform(csr_matrix(holes)), truth, rtol=0, atol=1e-6)
            one = model.transform([[0.0, 0.8, 0.0, 0.0, 0.0, 0.0]])
            np.testing.assert_allclose(model.transform(twice), one, rtol=0, atol=1e-6)


def test_repeated_entries_of_a_sparse_row_are_added_before_they_are_clipped():
    repeated = csr_matrix((np.full(2, 0.8), [1, 1], [0, 2]), (1, 3))
    model = RandomFeatures((-1, 1), 10).fit(np.zeros((2, 3)))
    np.testing.assert_allclose(model.transform(repeated), model.transform([[0, 1, 0]]), atol=1e-6)
    assert repeated.nnz == 2  # the caller's matrix is as it was


def test_every_kind_of_input_has_the_same_features(rows):
    whole = np.round(10 * rows)
    truth = RandomFeatures((-20, 20), 30).fit_transform(whole)
    for same in (
        whole.astype(np.int8),
        whole.astype(np.float32),
        whole.tolist(),
        pd.DataFrame(whole),
    ):
        assert np.array_equal(RandomFeatures((-20, 20), 30).fit_transform(same), truth)


def test_a_row_depends_on_itself_alone_to_the_last_bit(rows, monkeypatch):
    order = np.random.default_rng(1).permutation(300)
    for model in (RandomFeatures((-2, 2), 30).fit(rows), clone(PLAIN).fit(rows)):
        truth = model.transform(rows)
        assert np.array_equal(model.transform(rows[order]), truth[order])
        for part in (slice(5, 6), slice(1, 34), slice(7, 300)):
            assert np.array_equal(model.transform(rows[part]), truth[part])
        changed = rows.copy()
        changed[3] = 50.0
        assert np.array_equal(np.delete(model.transform(changed), 3, 0), np.delete(truth, 3, 0))
        with monkeypatch.context() as patch:
            patch.setattr("pabi.execute.records.MOST_ROWS", 100)
            assert np.array_equal(model.transform(rows), truth)


def test_nothing_is_learnt(rows):
    model, other = RandomFeatures().fit(rows), RandomFeatures().fit(1e-3 * rows[::-1][:9])
    assert set(vars(model)) - set(model.get_params()) == {"n_features_in_"}
    assert np.array_equal(model.transform(rows), other.transform(rows))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(rows), model.transform(rows))
    assert not np.array_equal(RandomFeatures(seed=1).fit_transform(rows), model.transform(rows))


def test_names_say_column_or_wave(rows):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model = RandomFeatures(None, 5).set_output(transform="pandas").fit(frame)
    names = [*"abcdef", "cos0", "cos1", "cos2", "sin0", "sin1"]
    assert model.transform(frame).columns.tolist() == names
    assert clone(PLAIN).fit(rows).get_feature_names_out()[[0, 20, 39]].tolist() == [
        "cos0",
        "sin0",
        "sin19",
    ]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"a": "z"}))


@every(
    ("settings", "message"),
    [
        ({"n_components": 0, "linear": False}, "n_components: expected an integer ≥ 1, got 0"),
        ({"n_components": -1}, "n_components: expected an integer ≥ 0, got -1"),
        ({"feature_norm": "R"}, "feature_norm: expected \"auto\" or a number, got 'R'"),
        ({"feature_norm": 0}, "feature_norm: expected a finite number > 0, got 0"),
        ({"n_components": 2.5}, "n_components: expected an integer ≥ 0, got 2.5"),
        ({"length": "scale"}, "length: expected \"auto\" or a number, got 'scale'"),
        ({"length": 0}, "length: expected a finite number ≥ 1e-12 and ≤ 1000000000000, got 0"),
        ({"linear": 1.5}, "linear: expected a finite number > 0 and < 1, got 1.5"),
        ({"seed": None}, "seed: expected an integer in 0..4294967295, got None"),
        ({"seed": -1}, "seed: expected an integer in 0..4294967295, got -1"),
        (
            {"feature_ranges": (1, 0)},
            "feature_ranges: expected finite low < high for every feature",
        ),
        ({"feature_ranges": {0: (0, 1)}}, "feature_ranges: missing: a range for column 1"),
    ],
)
def test_settings_are_refused_in_one_line(settings, message, rows):
    model = RandomFeatures().fit(rows)
    for use in (clone(model).set_params(**settings).fit, model.set_params(**settings).transform):
        with pytest.raises(pabi.InvalidInput, match="^" + re.escape(message) + "$"):
            use(rows)


def test_sparse_rows_need_ranges_that_keep_zeros(rows):
    with pytest.raises(pabi.InvalidInput, match="for a sparse X, which keeps its zeros"):
        RandomFeatures((0, 1)).fit(csr_matrix(rows))


def test_tables_are_refused_without_showing_them(rows):
    model = RandomFeatures(None, 10).fit(rows)
    huge = rows.copy()
    huge[5, 2] = 4.321e15
    for X in (huge, csr_matrix(huge), [["secret"] * 6], huge[0]):
        with pytest.raises(pabi.InvalidInput, match=r"^X: ") as refusal:
            model.transform(X)
        shown = "".join(traceback.format_exception_only(refusal.value))
        assert "4.32" not in shown
        assert "secret" not in shown
    assert np.isfinite(clone(model).set_params(feature_ranges=(-1, 1)).fit_transform(huge)).all()
    with pytest.raises(NotFittedError):
        RandomFeatures().transform(rows)


@pytest.mark.parametrize("linear", [True, False])
def test_scikit_learn_checks(linear):
    results = check_estimator(RandomFeatures(n_components=20, linear=linear), on_fail=None)
    assert sum(result["status"] == "passed" for result in results) >= 40
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []


def by_gram_and_schmidt(draws):
    """The same orthonormal columns, one at a time and twice over, for the sake of rounding."""
    columns = []
    for v in draws.T:
        for q in (*columns, *columns):
            v = v - (q @ v) * q
        columns.append(v / np.linalg.norm(v))
    return np.stack(columns, axis=1)


@every(("d", "count"), [(1, 3), (3, 3), (4, 10), (30, 7)])
def test_directions_are_draws_made_orthonormal_block_by_block(d, count):
    drawn = np.random.RandomState(5)
    blocks = [
        by_gram_and_schmidt(drawn.standard_normal((d, min(d, count - first))))
        for first in range(0, count, d)
    ]
    truth = np.concatenate(blocks, axis=1) * np.sqrt(drawn.chisquare(d, size=count))
    np.testing.assert_allclose(frequencies(5, d, count), truth, rtol=0, atol=1e-10)


def test_nobody_can_change_what_others_get():
    with pytest.raises(ValueError, match="read-only"):
        frequencies(0, 2, 4)[0, 0] = 1.0


# Private models of random features.


def crossed(n=900):
    """(X, y): four columns within ±2, and whether the first two are of one sign."""
    X = np.random.default_rng(0).uniform(-2.0, 2.0, size=(n, 4))
    return X, (X[:, 0] * X[:, 1] > 0.0).astype(int)


X, Y = crossed(1200)
QUICK = {"epochs": 2, "batches": pabi.ShuffleOnce(600), "adjacency": "zero_out"}
FIT = {"epsilon": 4.0, "delta": 1e-5, "random_state": 3, **QUICK}
# Kinds, what they are told, and the linear estimator behind the features.
KERNELS = {
    "two classes": (learn.PrivateKernelClassifier, {"classes": [0, 1]}, Y),
    "three": (learn.PrivateKernelClassifier, {"classes": [0, 1, 2]}, Y + (X[:, 2] > 1)),
    "targets": (learn.PrivateKernelRegressor, {"target_range": (-4, 4)}, X[:, 0] * X[:, 1]),
    "two targets": (learn.PrivateKernelRegressor, {"target_range": (-4, 4)}, X[:, :2]),
}
LINEAR = {
    learn.PrivateKernelClassifier: learn.PrivateLogisticRegression,
    learn.PrivateKernelRegressor: learn.PrivateLinearRegression,
}
each_kernel = pytest.mark.parametrize(("kind", "facts", "y"), KERNELS.values(), ids=KERNELS)


@each_kernel
@every(
    ("settings", "count", "bounds"),
    [
        ({}, "auto", {"feature_ranges": (-2, 2)}),
        ({"linear_predictor": True}, 31, {"feature_norm": 3.0}),
        ({"precondition": None, "fit_intercept": False}, 0, {}),
    ],
)
def test_a_kernel_model_is_the_linear_one_behind_its_features(
    kind, facts, y, settings, count, bounds, monkeypatch
):
    if count and facts.get("classes") != [0, 1, 2]:  # of features a shorter path is enough
        monkeypatch.setattr(LINEAR[kind], "_ENOUGH", kind._ENOUGH_OF_FEATURES)
    given = FIT | facts | settings
    model = kind(**given, **bounds, n_components=count, seed=5).fit(X, y)
    stated = model.features_.get_params()
    assert stated.items() >= ({"feature_norm": "auto", "seed": 5} | bounds).items()
    plain = make_pipeline(
        RandomFeatures(**stated), LINEAR[kind](**given, intercept_scaling=0.3)
    ).fit(X, y)
    last = plain[-1]
    assert np.array_equal(model.coef_, last.coef_)
    assert np.array_equal(model.intercept_, last.intercept_)
    assert np.array_equal(model.predict(X), plain.predict(X))
    if kind is learn.PrivateKernelClassifier:
        assert np.array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.run_ == last.run_
    assert model.guarantee_.epsilon(1e-5) == last.guarantee_.epsilon(1e-5) <= 4.0
    assert model.guarantee_.assumptions == last.guarantee_.assumptions
    outputs = len(facts["classes"]) if "classes" in facts else y[0].size
    assert model.plan(len(X), 4, outputs).run == model.run_


def test_a_kernel_model_learns_what_columns_mean_together():
    given = {"random_state": 3, "feature_ranges": (-2, 2), "classes": [0, 1]}
    line = learn.PrivateLogisticRegression(8.0, 1e-5, **given).fit(X, Y)
    model = learn.PrivateKernelClassifier(8.0, 1e-5, **given).fit(X, Y)
    assert line.score(X, Y) < 0.65 < 0.8 < model.score(X, Y)


@every(
    ("n", "epsilon", "adjacency", "count", "amounts"),
    [
        (300, 50.0, "zero_out", 0, 0),  # a tenth of n would be 30
        (2_000, 0.1, "zero_out", 0, 0),
        (2_000, 50.0, "zero_out", 200, 200),
        (10_000, 0.5, "zero_out", 284, 0),  # a fifth of n·μ, μ = 0.1424
        (10_000, 0.5, "replace_one", 142, 0),
        (40_000, 0.5, "zero_out", 500, 113),  # a fiftieth
    ],
)
def test_the_number_of_features_follows_from_public_numbers(n, epsilon, adjacency, count, amounts):
    quick = {"batches": pabi.FullBatch(), "epochs": 1, "noise_std": 0.01}
    model = learn.PrivateKernelClassifier(epsilon, 1e-5, adjacency=adjacency, **quick)
    assert model.plan(n, 6, 2).size.width == 6 + count + 1
    other = learn.PrivateKernelRegressor(
        epsilon, 1e-5, adjacency=adjacency, target_range=(0, 1), **quick
    )
    assert other.plan(n, 6).size.width == 6 + amounts + 1


def test_features_do_not_depend_on_the_rows_but_on_how_many_protect():
    kind = learn.PrivateKernelClassifier
    other = crossed(2400)[0][:1200] ** 3
    one, two = (kind(**FIT, classes=[0, 1]).fit(rows, Y) for rows in (X, other))
    assert one.features_.get_params() == two.features_.get_params()
    full = FIT | {"batches": pabi.FullBatch()}
    people = kind(**full, classes=[0, 1]).fit(X, Y, groups=np.arange(1200) // 3)
    assert people.run_.n == 400
    assert people.features_.n_components == 0 < one.features_.n_components


def test_a_row_of_any_size_changes_nothing_of_another():
    model = learn.PrivateKernelClassifier(**FIT, classes=[0, 1]).fit(X, Y)
    changed = X.copy()
    changed[3] = 1e70
    assert np.array_equal(
        np.delete(model.predict_proba(changed), 3, 0), np.delete(model.predict_proba(X), 3, 0)
    )
    assert clone(model).fit(changed, Y).features_.n_components == model.features_.n_components


@each_kernel
def test_kernel_models_of_tables_in_passes(kind, facts, y, tmp_path):
    np.save(tmp_path / "X.npy", X)
    given = {**FIT, **facts, "feature_ranges": (-2, 2), "n_components": 9}
    one = kind(**given).fit(learn.LargeTable(tmp_path / "X.npy"), y)
    two = kind(**given).fit(X, y)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=1e-4 * np.abs(two.coef_).max())
    table = learn.LargeTable(tmp_path / "X.npy")
    np.testing.assert_allclose(one.predict(table), one.predict(X), atol=1e-5)


@each_kernel
def test_kernel_models_forget_and_are_stored(kind, facts, y, tmp_path):
    package("cryptography")
    state = learn.StateFile(tmp_path / "state", key=bytes(range(32)))
    plain = {"precondition": None, "cooldown_epochs": 0, "random_state": None}
    model = kind(**FIT | facts | plain, feature_ranges=(-2, 2)).fit(X, y, keep_state=state)
    holes = X.copy()
    holes[5] = np.nan
    after = model.forget(holes, y, [5], 6.0, 1e-4, state=state, accept_loss=True)
    assert after.unlearning_guarantee_.epsilon(1e-4) <= 6.0
    assert not np.array_equal(after.predict(X), model.predict(X))
    for again in (model.restored(state), pickle.loads(pickle.dumps(after))):
        assert np.array_equal(again.predict(X), after.predict(X))
        assert learn.model_hash(again) == learn.model_hash(after)
    anew = after.forget(holes, y, [6], 6.0, 1e-4, state=state, retrain=True)
    assert anew.features_.get_params() == model.features_.get_params()


def test_names_of_coefficients_are_those_of_features():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = learn.PrivateKernelClassifier(**FIT, classes=[0, 1], n_components=3).fit(frame, Y)
    names = [row["column"] for row in model.summary().to_dict()["rows"]]
    assert names == [*"abcd", "cos0", "cos1", "sin0", "intercept"]
