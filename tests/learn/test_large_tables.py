"""Estimators on tables that do not fit into memory: the models and numbers of the same table in memory."""

import os

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.execute import batches, layouts, sources
from pabi.execute.large_tables import APART
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused
from support.large import NAMES, features, frame_of, labels, package, table_in, write_parts

N = 9_500
X = features(N)
Y = labels(X)
WORDS = np.where(Y == 1, "yes", "no")
CLASSES = np.digitize(X[:, 0], [-0.2, 0.2])
SETTINGS = {"batches": pabi.ShuffleOnce(500), "random_state": 1, "delta": 1e-6}
GIVEN = SETTINGS | {"epsilon": 4.0, "epochs": 1}


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Parts of one block of rows, of which the table has three; buckets smaller than these."""
    monkeypatch.setattr(batches, "BUCKET", 900)
    monkeypatch.setattr(layouts, "BUCKET", 900)
    monkeypatch.setattr(sources, "_HELD", 4096 * 6)
    monkeypatch.setattr(sources, "_TOGETHER", 1000)


def assert_same_model(one, other):
    scale = max(np.max(np.abs(other.coef_)), np.max(np.abs(other.intercept_)))
    assert np.max(np.abs(one.coef_ - other.coef_)) <= 1e-12 * scale
    assert np.max(np.abs(one.intercept_ - other.intercept_)) <= 1e-12 * scale
    assert one.n_features_in_ == other.n_features_in_
    assert one.run_ == other.run_
    assert one.guarantee_.assumptions == other.guarantee_.assumptions


NUMBERS, HALVES = {"target_range": (-2, 2)}, {"class_weight": {"no": 1, "yes": 0.5}}
MODELS = {
    "logistic": (learn.PrivateLogisticRegression(**GIVEN, feature_ranges=(-1, 1)), WORDS),
    "one against the rest": (learn.PrivateLogisticRegression(**GIVEN, multi_class="ovr"), CLASSES),
    "weighted classes": (learn.PrivateLinearSVC(**GIVEN, classes=["no", "yes"], **HALVES), WORDS),
    "ridge, three": (learn.PrivateRidgeClassifier(**GIVEN, precondition=None), CLASSES),
    "several targets": (learn.PrivateLinearRegression(**GIVEN, **NUMBERS), X[:, 1:3]),
    "huber": (learn.PrivateHuberRegressor(**GIVEN, threshold=0.3), X[:, 1]),
    "poisson": (learn.PrivatePoissonRegressor(**GIVEN, target_range=(0, 3)), CLASSES),
}


def fitted(name, table, y):
    """No clone, whose second fit would say so."""
    model = MODELS[name][0]
    return type(model)(**model.get_params()).fit(table, y)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_fitted_and_predicts_the_same(tmp_path, name):
    y, table = MODELS[name][1], table_in("npy", X, tmp_path, scratch=tmp_path)
    own, large = fitted(name, X, y), fitted(name, table, y)
    assert_same_model(large, own)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(own, method):
            here, there = getattr(own, method)(X), getattr(own, method)(table)
            assert there.dtype == here.dtype
            if here.dtype.kind == "f":
                assert np.max(np.abs(there - here)) <= 1e-12 * np.max(np.abs(here))
            else:
                assert np.array_equal(there, here)
    assert abs(own.score(table, y) - own.score(X, y)) <= 1e-12
    assert [path.name for path in tmp_path.iterdir()] == ["X.npy"]


def test_mapped_arrays_and_those_of_dask_as_they_are(tmp_path):
    array, frame = package("dask.array"), package("dask.dataframe")
    np.save(tmp_path / "X.npy", X)
    own = fitted("logistic", X, WORDS)
    chunks, words = array.from_array(X, chunks=(1500, 3)), array.from_array(WORDS, chunks=1100)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for table in (mapped, chunks):
        assert_same_model(fitted("logistic", table, WORDS), own)
        assert np.array_equal(own.predict(table), own.predict(X))
    table = frame.from_pandas(frame_of(X, y=WORDS), npartitions=3)
    for X_, y in ((table, "y"), (table[NAMES], table["y"]), (chunks, words)):
        model = fitted("logistic", X_, y)
        assert np.array_equal(model.coef_, own.coef_)
        assert {*model.guarantee_.assumptions} - {*own.guarantee_.assumptions} == {APART}


def test_what_dask_computes_apart_is_assumed_to_be_of_one_state():
    """Targets and users are those of other records where a source changes between two computations."""
    n, batches = 1_000, pabi.FullBatch()
    columns = {"y": Y[:n], "w": 1.0, "who": np.arange(n) % 400}
    table = package("dask.dataframe").from_pandas(frame_of(X[:n], **columns), npartitions=2)
    whole, some = learn.LargeTable(table), learn.LargeTable(table, columns=NAMES)
    given = {"noise_std": 5.0, "batches": batches, "epochs": 1, "random_state": 1}
    model = learn.PrivateLogisticRegression(8.0, classes=[0, 1], max_sample_weight=1.0, **given)
    search = learn.PrivateSearchCV(
        learn.PrivateLogisticRegression(8.0, classes=[0, 1], batches=batches, precondition=None),
        {"epochs": [1]},
        epsilon=8.0,
        delta=1e-5,
        mean_trials=2.0,
    )
    scaler, whitener = learn.PrivateScaler(8.0), learn.PrivateWhitener(8.0)
    loss = pabi.Loss.logistic(1.0)
    run = pabi.NoisySGD(loss, n, batches, 1, step_size=0.5, noise_std=1.0)

    def trained(y):
        return learn.train(run, learn.LogisticGradients(some, y), np.zeros(5), 1)

    guarantees = [
        model.fit(whole, "y", groups="who").guarantee_,
        model.fit(some, Y[:n], sample_weight=table["w"]).guarantee_,
        scaler.fit(whole, groups="who").guarantee_,
        whitener.fit(whole, groups="who").guarantee_,
        search.fit(some, "y", X_public=X[:50], y_public=Y[:50]).guarantee_,
        trained("y").guarantee,
    ]
    assert all(APART in guarantee.assumptions for guarantee in guarantees)
    assert APART not in trained(Y[:n]).guarantee.assumptions
    assert APART not in model.fit(some, Y[:n]).guarantee_.assumptions


def test_columns_are_found_by_their_names(tmp_path):
    frame, weights = frame_of(X, y=WORDS, w=1.0), np.linspace(0.0, 1.0, N)
    parts = write_parts(tmp_path / "parts", frame[["y", "w", *NAMES[::-1]]])
    large = fitted("logistic", learn.LargeTable(parts, columns=NAMES), "y")
    own = fitted("logistic", frame[NAMES], WORDS)
    assert large.feature_names_in_.tolist() == NAMES
    assert np.array_equal(large.coef_, own.coef_)
    assert np.array_equal(own.predict(learn.LargeTable(parts)), own.predict(frame[NAMES]))
    expected = own.score(frame[NAMES], WORDS, sample_weight=weights)
    assert own.score(learn.LargeTable(parts), "y", sample_weight=weights) == expected


@pytest.mark.parametrize("named", [False, True])
def test_users_and_weights(tmp_path, named):
    weights, users = np.linspace(0.0, 2.0, N), np.arange(N) % 400
    settings = SETTINGS | {"batches": pabi.ShuffleOnce(50), "max_sample_weight": 1.0}
    model = learn.PrivateLogisticRegression(8.0, users=400, epochs=2, **settings)
    coef = model.fit(X, Y, groups=users, sample_weight=weights).coef_
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y, w=weights, who=users))
    if named:
        table = learn.LargeTable(parts, columns=[*NAMES, "who"])
        one, other = (learn.PrivateScaler(8.0, 1e-6, random_state=1) for _ in range(2))
        one.fit(table, groups="who")
        assert one.feature_names_in_.tolist() == NAMES
        assert one.releases_ == other.fit(frame_of(X), groups=users).releases_
        assert np.array_equal(one.mean_, other.mean_)
        large = model.fit(learn.LargeTable(parts), "y", groups="who", sample_weight="w")
    else:
        table = learn.LargeTable(parts, columns=NAMES)
        large = model.fit(table, Y, groups=users, sample_weight=weights)
    assert large.run_.n == 400
    assert np.max(np.abs(large.coef_ - coef)) <= 1e-12 * np.max(np.abs(coef))


LAST = np.arange(N) == N - 1
GAP = np.where(LAST[:, None], np.nan, X)
BAD = [
    (GAP, Y, {}, "X: expected finite numbers up to 2\\^250, got NaN or larger"),
    (X, Y[:-1], {}, "y: expected as many rows as X has"),
    (X, np.where(LAST, np.nan, Y), {}, "y: .*expected one label a row, in every row"),
    (X, np.zeros(N, int), {}, "y: expected at least two classes"),
    (X, "y", {}, "y: expected cells, got 'y': X is an array, without names"),
    (
        X,
        np.where(LAST, "maybe", WORDS),
        {"classes": ["no", "yes"]},
        "y: it holds a label that is not",
    ),
]


@pytest.mark.parametrize(("table", "y", "changes", "message"), BAD)
def test_bad_input_costs_nothing(tmp_path, table, y, changes, message):
    ledger = pabi.Ledger(tmp_path / "ledger", epsilon=10.0, delta=1e-5)
    before = ledger.remaining()
    model = learn.PrivateLogisticRegression(1.0, ledger=ledger, epochs=2, delta=1e-6, **changes)
    with pytest.raises(InvalidInput, match=message):
        model.fit(table_in("npy", table, tmp_path), y)
    assert ledger.remaining() == before
    assert not hasattr(model, "coef_")


def test_bad_columns(tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X, y=np.where(LAST, None, WORDS)))
    for y, message in (
        ("z", "expected the name of one column of X, got 'z'"),
        ("y", ".* one label"),
    ):
        with pytest.raises(InvalidInput, match=f"^y: {message}"):
            fitted("logistic", learn.LargeTable(parts, columns=NAMES), y)
    os.link(parts / "part-0.parquet", parts / "part-9.parquet")
    assert "expected every file once" in refused("X", learn.LargeTable, parts)


@every(
    ("data", "message"),
    [
        ("nowhere/*.parquet", "X: expected a folder, a pattern .* there is nothing at 'nowhere/"),
        (3.0, "X: expected a folder, a pattern .*, got a float"),
        (np.zeros(3), r"X: expected shape \(n, d\), got \(3,\)"),
        (np.array([["a"]]), "X: expected real numbers, got dtype"),
    ],
)
def test_what_is_no_table(data, message):
    package("pyarrow")
    with pytest.raises(InvalidInput, match=message):
        learn.LargeTable(data).features()
