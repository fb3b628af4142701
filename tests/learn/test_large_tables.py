"""Estimators on tables that do not fit into memory: the model of the same table in memory."""

from __future__ import annotations

import os

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.execute import batches, layouts
from pabi.numbers.errors import InvalidInput
from support.every_case import every
from support.large import FORMS, NAMES, features, frame_of, labels, package, table_in, write_parts

pytestmark = [
    pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
N = 4_000
X = features(N)
Y = labels(X)
WORDS = np.where(Y == 1, "yes", "no")
CLASSES = np.digitize(X[:, 0], [-0.2, 0.2])
SETTINGS = {"epochs": 2, "batches": pabi.ShuffleOnce(500), "random_state": 1, "delta": 1e-6}


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    monkeypatch.setattr(batches, "BUCKET", 900)
    monkeypatch.setattr(layouts, "BUCKET", 900)


def assert_same_model(one, other):
    scale = max(np.max(np.abs(other.coef_)), np.max(np.abs(other.intercept_)))
    assert np.max(np.abs(one.coef_ - other.coef_)) <= 1e-12 * scale
    assert np.max(np.abs(one.intercept_ - other.intercept_)) <= 1e-12 * scale
    assert one.n_features_in_ == other.n_features_in_
    assert one.run_ == other.run_
    assert one.guarantee_.assumptions == other.guarantee_.assumptions
    assert np.array_equal(one.predict(X[:50]), other.predict(X[:50]))


MODELS = {
    "logistic": (learn.PrivateLogisticRegression(4.0, **SETTINGS), WORDS),
    "ranges": (learn.PrivateLogisticRegression(4.0, feature_ranges=(-1, 1), **SETTINGS), Y),
    "one against the rest": (
        learn.PrivateLogisticRegression(4.0, multi_class="ovr", classes=[0, 1, 2], **SETTINGS),
        CLASSES,
    ),
    "weighted classes": (
        learn.PrivateLinearSVC(
            4.0, classes=["no", "yes"], class_weight={"no": 1, "yes": 0.5}, **SETTINGS
        ),
        WORDS,
    ),
    "ridge, two": (learn.PrivateRidgeClassifier(4.0, **SETTINGS), Y),
    "ridge, three": (learn.PrivateRidgeClassifier(4.0, precondition=None, **SETTINGS), CLASSES),
    "linear": (learn.PrivateLinearRegression(4.0, target_range=(-2, 2), **SETTINGS), X[:, 1]),
    "several targets": (
        learn.PrivateLinearRegression(4.0, target_range=(-2, 2), **SETTINGS),
        X[:, 1:3],
    ),
    "huber": (learn.PrivateHuberRegressor(4.0, threshold=0.3, **SETTINGS), X[:, 1]),
    "poisson": (learn.PrivatePoissonRegressor(4.0, target_range=(0, 3), **SETTINGS), CLASSES),
}


def fitted(name, table, y, **beside):
    model, _ = MODELS[name]
    return type(model)(**model.get_params()).fit(table, y, **beside)


@pytest.mark.parametrize("name", MODELS)
def test_every_model(tmp_path, name):
    y = MODELS[name][1]
    large = fitted(name, table_in("npy", X, tmp_path, scratch=tmp_path), y)
    assert_same_model(large, fitted(name, X, y))
    assert [path.name for path in tmp_path.iterdir()] == ["X.npy"]


@pytest.mark.parametrize("form", FORMS)
def test_every_source(tmp_path, form):
    large = fitted("logistic", table_in(form, X, tmp_path), WORDS)
    assert_same_model(large, fitted("logistic", X, WORDS))


def test_a_mapped_array_as_it_is(tmp_path):
    np.save(tmp_path / "X.npy", X)
    large = fitted("logistic", np.load(tmp_path / "X.npy", mmap_mode="r"), WORDS)
    assert_same_model(large, fitted("logistic", X, WORDS))


def test_names_of_columns(tmp_path):
    frame = frame_of(X, y=WORDS, w=np.linspace(0.0, 1.0, N), who=np.arange(N) % 300)
    parts = write_parts(tmp_path / "parts", frame)
    large = fitted("logistic", learn.LargeTable(parts, columns=NAMES), "y")
    own = fitted("logistic", frame[NAMES], WORDS)
    assert large.feature_names_in_.tolist() == NAMES
    assert np.array_equal(large.coef_, own.coef_)


@pytest.mark.parametrize("named", [False, True])
def test_users_and_weights(tmp_path, named):
    weights, users = np.linspace(0.0, 2.0, N), np.arange(N) % 400
    settings = SETTINGS | {"batches": pabi.ShuffleOnce(50)}
    model = learn.PrivateLogisticRegression(8.0, users=400, max_sample_weight=1.0, **settings)
    own = model.fit(X, Y, groups=users, sample_weight=weights)
    coef = own.coef_
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y, w=weights, who=users))
    beside = {"groups": "who", "sample_weight": "w"}
    if named:
        large = model.fit(learn.LargeTable(parts), "y", **beside)
    else:
        table = learn.LargeTable(parts, columns=NAMES)
        large = model.fit(table, Y, groups=users, sample_weight=weights)
    assert large.run_.n == 400
    assert np.max(np.abs(large.coef_ - coef)) <= 1e-12 * np.max(np.abs(coef))


def test_dask_as_it_is():
    array, frame = package("dask.array"), package("dask.dataframe")
    own = fitted("logistic", X, WORDS)
    y = array.from_array(WORDS, chunks=1100)
    assert_same_model(fitted("logistic", array.from_array(X, chunks=(1500, 3)), y), own)
    table = frame.from_pandas(frame_of(X, y=WORDS), npartitions=3)
    assert np.array_equal(fitted("logistic", table, "y").coef_, own.coef_)
    assert np.array_equal(fitted("logistic", table[NAMES], table["y"]).coef_, own.coef_)


def missing_at_the_end():
    table = X.copy()
    table[-1, -1] = np.nan
    return table


@pytest.mark.parametrize(
    ("table", "y", "message"),
    [
        (missing_at_the_end(), Y, "X: expected finite numbers up to 2\\^250, got NaN or larger"),
        (X, Y[:-1], "y: expected as many rows as X has"),
        (
            X,
            np.where(np.arange(N) == N - 1, np.nan, Y),
            "y: .*expected one label a row, in every row",
        ),
        (X, np.zeros(N, int), "y: expected at least two classes"),
        (X, "y", "y: expected cells, got 'y': X is an array, without names"),
    ],
)
def test_bad_input_costs_nothing(tmp_path, table, y, message):
    ledger = pabi.Ledger(tmp_path / "ledger", epsilon=10.0, delta=1e-5)
    before = ledger.remaining()
    model = learn.PrivateLogisticRegression(1.0, ledger=ledger, epochs=2, delta=1e-6)
    with pytest.raises(InvalidInput, match=message):
        model.fit(table_in("npy", table, tmp_path), y)
    assert ledger.remaining() == before
    assert not hasattr(model, "coef_")


def test_an_undeclared_label(tmp_path):
    model = learn.PrivateLogisticRegression(1.0, classes=["no", "yes"])
    words = np.where(np.arange(N) == N - 1, "maybe", WORDS)
    with pytest.raises(InvalidInput, match="y: it holds a label that is not among the declared"):
        model.fit(table_in("npy", X, tmp_path), words)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("z", "y: expected the name of one column of X, got 'z'"),
        ("y", "y: .*expected one label a row"),
    ],
)
def test_bad_columns(tmp_path, y, message):
    words = WORDS.astype(object)
    words[-1] = None
    parts = write_parts(tmp_path / "parts", frame_of(X, y=words))
    with pytest.raises(InvalidInput, match=message):
        learn.PrivateLogisticRegression(1.0).fit(learn.LargeTable(parts, columns=NAMES), y)


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


def test_a_file_of_two_names_is_a_file_that_is_read_twice(tmp_path):
    parts = write_parts(tmp_path / "parts", frame_of(X))
    os.link(parts / "part-0.parquet", parts / "part-9.parquet")
    with pytest.raises(InvalidInput, match="X: expected every file once"):
        learn.LargeTable(parts)
