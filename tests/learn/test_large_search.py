"""Searches, random features and forgetting on tables that are read in passes."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pabi
from pabi import learn
from pabi.features import RandomFeatures
from pabi.learn.search import fit_on
from pabi.numbers.errors import InvalidInput
from support.every_case import refused
from support.large import NAMES, features, frame_of, labels, package, table_in, write_parts

N = 5_000
X = features(N)
Y = labels(X)
PUBLIC = {"X_public": features(300, 7), "y_public": labels(features(300, 7))}
PUBLIC_FRAME = PUBLIC | {"X_public": frame_of(PUBLIC["X_public"])}
MODEL = learn.PrivateLogisticRegression(
    adjacency="zero_out", batches=pabi.ShuffleOnce(500), epochs=1, classes=[0, 1]
)
FEATURES = RandomFeatures((-2, 2), 20, seed=3)


@pytest.fixture
def parts(tmp_path):
    """Features and labels in some files; a column of users beside them."""
    return write_parts(tmp_path / "parts", frame_of(X, y=Y, user=np.arange(N) % 900))


def search(estimator=MODEL, **fields):
    settings = {"clip_norm": [0.2, 0.6], "precondition": [None]}
    if hasattr(estimator, "steps"):
        settings = {f"privatelogisticregression__{name}": x for name, x in settings.items()}
    stated = {"epsilon": 4.0, "delta": 1e-6, "mean_trials": 3.0, "random_state": 5} | fields
    return learn.PrivateSearchCV(estimator, settings, **stated)


def model_with(**fields):
    return learn.PrivateLogisticRegression(**MODEL.get_params() | fields)


def coefficients(model):
    return getattr(model, "steps", [("", model)])[-1][1].coef_


def assert_same(one, other):
    """The best models, and what they cost."""
    assert one.best_params_ == other.best_params_
    assert one.plan_.epsilon == other.plan_.epsilon
    assert one.guarantee_.epsilon(1e-6) == other.guarantee_.epsilon(1e-6)
    own, theirs = (coefficients(search.best_estimator_) for search in (one, other))
    assert np.max(np.abs(own - theirs)) <= 1e-12 * np.max(np.abs(theirs))


def test_a_search_on_files_finds_the_model_of_the_table_in_memory(parts):
    found = search().fit(learn.LargeTable(parts, columns=NAMES), "y", **PUBLIC)
    assert_same(found, search().fit(frame_of(X), Y, **PUBLIC))
    table = learn.LargeTable(parts, columns=NAMES)
    assert found.predict(table).shape == (N,)
    for scoring in (None, "accuracy", "neg_log_loss"):
        found.set_params(scoring=scoring)
        assert found.score(table, "y") == pytest.approx(found.score(frame_of(X), Y), rel=1e-12)


@pytest.mark.parametrize("form", ["npy", "dask array"])
def test_a_search_beside_targets_in_memory(tmp_path, form):
    """Undeclared classes are collected in one pass."""
    undeclared = model_with(classes=None)
    found = search(undeclared).fit(table_in(form, X, tmp_path), Y, **PUBLIC)
    assert_same(found, search(undeclared).fit(X, Y, **PUBLIC))


def test_users_of_a_search(parts):
    model = model_with(users=1000, batches=pabi.ShuffleOnce(50))
    table, users = learn.LargeTable(parts, columns=NAMES), np.arange(N) % 900
    assert_same(
        search(model).fit(table, "y", groups="user", **PUBLIC),
        search(model).fit(frame_of(X), Y, groups=users, **PUBLIC),
    )


@pytest.mark.parametrize(
    "step",
    [
        learn.PrivateScaler(
            2.0, 1e-7, feature_ranges=(-3, 3), adjacency="zero_out", random_state=2
        ),
        FEATURES,
    ],
)
def test_a_search_over_a_pipeline(parts, step):
    found = search(make_pipeline(step, MODEL), epsilon=8.0)
    own = search(make_pipeline(step, MODEL), epsilon=8.0)
    assert_same(
        found.fit(learn.LargeTable(parts, columns=NAMES), "y", **PUBLIC_FRAME),
        own.fit(frame_of(X), Y, **PUBLIC_FRAME),
    )


class Whole(FunctionTransformer):
    """Makes an array of files."""

    def transform(self, table):
        return X


def test_what_a_search_cannot_do_with_a_large_table_costs_nothing(parts, tmp_path):
    """Private records do not score, other machines have no files, and steps make no arrays of them."""
    ledger = pabi.Ledger(tmp_path / "ledger.json", epsilon=8.0, delta=1e-5, order=20.0)
    untouched, table = ledger.remaining(), learn.LargeTable(parts, columns=NAMES)
    public = "validation_share: expected X_public and y_public for a table that is"
    with pytest.raises(InvalidInput, match=public):
        search(validation_share=0.2, ledger=ledger).fit(table, "y")
    assert ledger.remaining() == untouched
    with pytest.raises(InvalidInput, match="X: expected a table in memory on other machines"):
        fit_on(object(), search(), table, "y", **PUBLIC)
    asked = search(make_pipeline(Whole(), MODEL))
    with pytest.raises(InvalidInput, match="estimator: expected steps of this library for a large"):
        asked.fit(table, "y", **PUBLIC_FRAME)


def rows_of(table):
    return table.features().together()


def test_random_features_that_were_made_stay_what_they_are(parts):
    table = learn.LargeTable(parts, columns=[*NAMES, "y"])
    made = RandomFeatures((-2, 2), 20).fit(table, "y").transform(table)
    assert made.names[:6] == (*NAMES, "cos0")
    assert np.array_equal(made.column("y").together(), Y)
    fitted = RandomFeatures((-2, 2), 20).fit(learn.LargeTable(parts, columns=NAMES))
    made = fitted.transform(learn.LargeTable(parts, columns=NAMES))
    before, turned = rows_of(made), learn.LargeTable(parts, columns=NAMES[::-1])
    assert np.array_equal(rows_of(fitted.transform(turned)), fitted.transform(frame_of(X)))
    fitted.set_params(seed=9)
    assert np.array_equal(rows_of(made), before)


@pytest.mark.parametrize("form", ["dask array", "dask frame", "zarr", "dataset"])
def test_collections_are_not_read_into_memory(tmp_path, form):
    collection = table_in(form, X, tmp_path).data
    for use in (RandomFeatures().fit, RandomFeatures().fit(X).transform):
        assert "expected pabi.learn.LargeTable(X) for a" in refused("X", use, collection)


def test_random_features_have_no_gaps(tmp_path):
    table = table_in("npy", np.where(X[-1, -1] == X, np.nan, X), tmp_path)
    fitted = RandomFeatures().fit(table)
    assert "expected finite numbers, got NaN" in refused("X", rows_of, fitted.transform(table))
    assert "expected 5 columns, got 4" in refused("X", fitted.transform, learn.LargeTable(X[:, :4]))


def test_a_table_in_passes_is_not_forgotten(parts, tmp_path):
    package("cryptography")
    model = model_with(epsilon=4.0, precondition=None, cooldown_epochs=0, random_state=1)
    state = learn.StateFile(tmp_path / "state", learn.StateFile.new_key())
    with pytest.raises(InvalidInput, match="keep_state: expected None for a table that is read in"):
        model.fit(learn.LargeTable(parts, columns=NAMES), "y", keep_state=state)
    assert not (tmp_path / "state").exists()
    model.fit(frame_of(X), Y, keep_state=state)
    before = (tmp_path / "state").read_bytes()
    with pytest.raises(InvalidInput, match="X: expected the table of the fit in memory"):
        model.forget(learn.LargeTable(parts, columns=NAMES), "y", [3], 4.0, 1e-6, state=state)
    assert (tmp_path / "state").read_bytes() == before
