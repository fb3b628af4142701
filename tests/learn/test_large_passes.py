"""Predictions and private transformers on tables that are read in passes: the numbers of those in memory."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pabi
from pabi import learn
from pabi.execute import sources
from pabi.execute.sources import Parts
from pabi.features import RandomFeatures
from pabi.learn import estimators
from pabi.numbers.errors import InvalidInput
from support.every_case import refused
from support.large import NAMES, features, frame_of, labels, package, table_in, write_parts

N = 9_500
X = features(N)
Y = labels(X)
SETTINGS = {"epochs": 1, "batches": pabi.ShuffleOnce(500), "random_state": 1, "delta": 1e-6}
MODEL = learn.PrivateLogisticRegression(4.0, **SETTINGS)
SCALER = learn.PrivateScaler(4.0, feature_ranges=(-3, 3), random_state=1)


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Parts of one block of rows, of which the table has three."""
    monkeypatch.setattr(sources, "_HELD", 4096 * 6)
    monkeypatch.setattr(sources, "_TOGETHER", 1000)


TRANSFORMERS = {
    "scaler": SCALER,
    "scaler that buys ranges": learn.PrivateScaler(8.0, random_state=1),
    "ranges": learn.PrivateRanges(8.0, random_state=1),
    "ranges within bounds": learn.PrivateRanges(4.0, bounds=(-3, 3), scaled=False, random_state=1),
    "means": learn.PrivateImputer(4.0, feature_ranges=(-3, 3), random_state=1),
    "medians": learn.PrivateImputer(8.0, strategy="median", add_indicator=True, random_state=1),
    "constants": learn.PrivateImputer(strategy="constant", fill_value=0.5),
}


def rows_of(table):
    return table.features().together()


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("form", ["npy", "parquet", "dask frame"])
def test_every_transformer_learns_the_same(tmp_path, name, form):
    """Exactly: counts and sums of rounded cells are whole numbers, and the noise comes in one order."""
    # No clones, whose second fit would say so.
    one, other = (type(TRANSFORMERS[name])(**TRANSFORMERS[name].get_params()) for _ in range(2))
    gaps = np.random.default_rng(1).random(X.shape) < 0.1
    cells = np.where(gaps, np.nan, X.astype(np.float64))
    own, table = one.fit(cells).transform(cells), table_in(form, cells, tmp_path)
    large = rows_of(other.fit(table).transform(table))
    assert np.array_equal(large.astype(np.float64), own.astype(np.float64), equal_nan=True)
    assert other.releases_ == one.releases_
    if one.guarantee_ is not None:
        assert other.guarantee_.assumptions == one.guarantee_.assumptions
        assert other.guarantee_.epsilon(1e-5) == one.guarantee_.epsilon(1e-5)


def test_rows_that_were_made_stay_what_they_are_and_are_no_frame(tmp_path):
    """Also where the transformer is fitted again before they are read."""
    scaler, table = SCALER.fit(X), table_in("npy", X, tmp_path)
    own, large = scaler.transform(X), scaler.transform(table)
    scaler.fit(2.0 * X)
    assert np.array_equal(rows_of(large), own)
    with pytest.raises(InvalidInput, match='set_output: expected "default" for a large table'):
        clone(scaler).set_output(transform="pandas").fit(table).transform(table)


@pytest.mark.parametrize("equal", [False, True])
def test_whitened_rows_are_the_same(tmp_path, equal):
    one, other = (learn.PrivateWhitener(8.0, random_state=1, equal_norms=equal) for _ in range(2))
    own, table = one.fit(X).transform(X), table_in("npy", X, tmp_path)
    # Both maps are of the same moments to 1e-12, and rows are mapped in single precision.
    assert np.max(np.abs(rows_of(other.fit(table).transform(table)) - own)) <= 2.0**-20
    assert other.guarantee_.epsilon(1e-5) == one.guarantee_.epsilon(1e-5)


def test_levels_are_the_same(tmp_path):
    rng = np.random.default_rng(3)
    towns = rng.choice(["a", "b", "c"], N, p=[0.6, 0.399, 0.001])
    table = {"town": np.where(np.arange(N) % 9, towns, None), "rooms": rng.integers(1, 4, N)}
    frame = package("pandas").DataFrame(table)
    parts = learn.LargeTable(write_parts(tmp_path / "parts", frame))
    one, other = (learn.PrivateCategories(4.0, random_state=1) for _ in range(2))
    own, large = one.fit(frame).transform(frame), other.fit(parts).transform(parts)
    assert other.categories_ == one.categories_
    assert np.array_equal(rows_of(large), own)
    assert large.names == tuple(one.get_feature_names_out())
    one = learn.PrivateImputer(4.0, strategy="most_frequent", random_state=1)
    filled = one.fit(frame).transform(frame)
    large = clone(one).fit(parts).transform(parts)
    assert np.array_equal(large.cells().together(), filled)


@pytest.mark.parametrize("step", [SCALER, learn.PrivateWhitener(8.0, random_state=1)])
def test_a_pipeline(tmp_path, step):
    """Fitted, scored and predicted with on files, with targets and users that are columns of them."""
    parts = write_parts(tmp_path / "parts", frame_of(X, y=Y))
    model = make_pipeline(step, clone(MODEL))
    own = model.fit(frame_of(X), Y)
    coef, predicted, score = own[-1].coef_, own.predict(frame_of(X)), own.score(frame_of(X), Y)
    table = learn.LargeTable(parts, scratch=tmp_path)
    model.fit(table, "y")
    assert model[0].feature_names_in_.tolist() == NAMES
    assert np.max(np.abs(model[-1].coef_ - coef)) <= 1e-5 * np.max(np.abs(coef))
    assert np.mean(model.predict(table) == predicted) > 0.999
    assert abs(model.score(table, "y") - score) < 1e-3
    assert pabi.learn.guarantee_of(model).epsilon(1e-5) > 0.0


def test_the_last_row_is_read_and_costs_nothing(tmp_path):
    model = MODEL.fit(frame_of(X), Y)
    for value in (np.nan, np.inf):
        table = np.where(X[-1, -1] == X, value, X)
        with pytest.raises(InvalidInput, match="X: expected finite numbers, got NaN or infinity"):
            model.predict(table_in("npy", table, tmp_path))
    parts = write_parts(tmp_path / "parts", frame_of(X).drop(columns="x3"))
    with pytest.raises(InvalidInput, match="X: expected a column 'x3', it has none"):
        model.predict(learn.LargeTable(parts))
    with pytest.raises(InvalidInput, match="X: expected 5 columns, got 4"):
        model.predict(table_in("npy", X[:, :4], tmp_path))
    ledger = pabi.Ledger(tmp_path / "ledger", epsilon=10.0, delta=1e-5)
    scaler = learn.PrivateScaler(1.0, delta=1e-6, feature_ranges=(-3, 3), ledger=ledger)
    before, table = ledger.remaining(), np.where(X[-1, -1] == X, np.inf, X)
    with pytest.raises(InvalidInput, match="X: expected finite numbers, or NaN .* got infinity"):
        scaler.fit(table_in("npy", table, tmp_path))
    assert ledger.remaining() == before
    assert not hasattr(scaler, "mean_")


def test_files_that_change_are_refused(tmp_path):
    """Between the pass that counts the rows and the next one, nothing is released."""
    table = table_in("npy", X, tmp_path)
    scaler = learn.PrivateScaler(8.0, random_state=1)
    reading = scaler._read

    def and_then(*arguments, **options):
        read = reading(*arguments, **options).counted()
        np.save(tmp_path / "X.npy", X[:-1])
        return read

    scaler._read = and_then
    with pytest.raises(InvalidInput, match="X: it changed while it was read.*nothing was released"):
        scaler.fit(table)
    assert not hasattr(scaler, "mean_")


@pytest.mark.parametrize("chosen", [None, ["x0", "x1"]])
def test_users_and_rows_are_of_one_table(tmp_path, monkeypatch, chosen):
    """A file is written again, its rows in another order, once it is known whose they were: one user would
    have the rows of many."""
    frame = frame_of(X).assign(y=np.arange(len(X)) % 2, who=np.arange(len(X)) // 2)
    file = tmp_path / "rows.parquet"

    def write(rows):
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), file)
        os.utime(file, ns=(len(rows), int(rows["who"].iloc[0])))

    write(frame)
    model = learn.PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], epochs=1)
    table, reading = learn.LargeTable(file, columns=chosen), estimators.in_memory

    def and_then(*arguments):
        read = reading(*arguments)
        write(frame.iloc[::-1])
        return read

    monkeypatch.setattr(estimators, "in_memory", and_then)
    with pytest.raises(InvalidInput, match="it changed while it was read.*nothing was released"):
        model.fit(table, "y", groups="who")


def test_as_many_passes_as_stated(tmp_path):
    """One to check, and for quantiles three: on public thresholds, and twice between two of them."""
    passes = []

    def chunks():
        passes.append(1)
        return iter(np.split(X, 5))

    table = learn.LargeTable(X).with_rows(Parts(chunks, width=5), None)
    learn.PrivateRanges(8.0, random_state=1).fit(table)
    assert len(passes) == 4
    passes.clear()
    learn.PrivateRanges(8.0, bounds=(-3, 3), random_state=1).fit(table)
    assert len(passes) == 2


def people(n=N):
    rng = np.random.default_rng(3)
    table = {"age": rng.normal(size=n), "rooms": rng.integers(0, 9, n), "owns": rng.random(n) > 0.5}
    table |= {"town": rng.choice(["a", "b", None], n), "smokes": rng.integers(0, 2, n)}
    frame = package("pandas").DataFrame(table)
    frame.loc[::7, "age"] = np.nan
    days = rng.integers(18_000, 19_000, n).astype("datetime64[D]")
    frame["since"] = package("pandas").Series(days.astype(object), dtype=object)
    return frame


SCHEMA = {
    "rooms": {"kind": "numeric", "range": [0, 5]},
    "age": {"kind": "numeric", "range": [-2, 2]},
    "owns": {"kind": "boolean"},
    "town": {"kind": "categorical", "levels": ["a"], "other": "level"},
    "since": {"kind": "date", "range": ["2020-01-01", "2021-12-31"], "cycles": ["weekday"]},
}


def polars_frame(frame):
    """Text is a category there, as a column of few levels is."""
    polars = package("polars")
    return polars.from_pandas(frame).with_columns(polars.col("town").cast(polars.Categorical))


STREAMS = {
    "parquet": lambda frame, folder: write_parts(folder / "parts", frame),
    "polars": lambda frame, _: polars_frame(frame),
    "lazy": lambda frame, _: polars_frame(frame).lazy(),
    "arrow": lambda frame, _: package("pyarrow").Table.from_pandas(frame),
    "duckdb": lambda frame, _: package("duckdb").sql("SELECT * FROM frame"),
    "dask": lambda frame, _: package("dask.dataframe").from_pandas(frame, npartitions=3),
}


@pytest.mark.parametrize("form", STREAMS)
def test_a_schema_encodes_the_same(tmp_path, form):
    frame, encoder = people(), learn.SchemaEncoder(SCHEMA)
    own = encoder.fit(frame).transform(frame).toarray()
    table = STREAMS[form](frame, tmp_path)
    table = table if form == "dask" else learn.LargeTable(table, scratch=tmp_path)
    large = encoder.fit(table).transform(table)
    assert np.array_equal(rows_of(large), own)
    assert large.names == tuple(encoder.get_feature_names_out())
    assert np.array_equal(large.column("smokes").together(), frame["smokes"])


def test_frames_of_polars_are_those_of_pandas(tmp_path):
    """In memory; what is lazy, or a stream, is not read twice, and so not by itself."""
    frame, model = people()[["age", "rooms"]].fillna(0.0), clone(MODEL)
    own = model.fit(frame, Y).coef_
    polars = package("polars").from_pandas(frame)
    assert np.array_equal(model.fit(polars, Y).coef_, own)
    assert model.feature_names_in_.tolist() == ["age", "rooms"]
    encoder = learn.SchemaEncoder({"rooms": SCHEMA["rooms"]})
    assert np.array_equal(encoder.fit_transform(polars), encoder.fit_transform(frame))
    reader = package("pyarrow").Table.from_pandas(frame).to_reader()
    for stream in (polars.lazy(), package("duckdb").sql("SELECT 1"), reader):
        for step in (model, encoder, learn.PrivateScaler(1.0)):
            assert "expected pabi.learn.LargeTable(X)" in refused("X", step.fit, stream, Y)


def test_a_stream_that_fails_shows_no_record(tmp_path):
    arrow = package("pyarrow")
    schema = arrow.schema([("age", arrow.int64())])

    def batches():
        yield arrow.record_batch([[1, 2]], schema=schema)
        raise ValueError("secret-7")

    with pytest.raises(InvalidInput, match="X: fails on records .* ArrowInvalid|ValueError") as bad:
        learn.LargeTable(arrow.RecordBatchReader.from_batches(schema, batches()), scratch=tmp_path)
    assert "secret-7" not in str(bad.value)
    with pytest.raises(InvalidInput, match="X: expected a folder.* got a DataFrame"):
        learn.LargeTable(people(3))  # of pandas': the type of a column follows from all its cells
    empty = learn.LargeTable(arrow.RecordBatchReader.from_batches(schema, []))
    with pytest.raises(InvalidInput, match="X: expected at least one row"):
        learn.PrivateScaler(1.0, feature_ranges=(0, 1)).fit(empty)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("odd", ["many", np.nan, np.inf])
@pytest.mark.parametrize("large", [False, True])
def test_the_column_of_a_cell_that_is_refused_is_named(tmp_path, odd, large):
    X_ = frame = frame_of(X[:50]).astype({"x3": object if odd == "many" else float})
    frame.loc[49, "x3"] = odd
    if large and odd != "many":
        X_ = learn.LargeTable(write_parts(tmp_path / "parts", frame))
    elif large:
        parts = Parts(lambda: iter([frame.to_numpy(object)]), width=5)
        X_ = learn.LargeTable(X[:50]).with_rows(parts, NAMES)
    assert ", in the column 'x3'" in refused("X", MODEL.fit, X_, Y[:50])


def test_a_schema_names_what_is_wrong_in_a_table_in_passes(tmp_path):
    """A cell of the last part too, although one of the first is outside of the schema."""
    frame = people()
    frame["rooms"] = frame["rooms"].astype(str)
    frame.loc[N - 1, "rooms"] = "many"
    table = learn.LargeTable(write_parts(tmp_path / "parts", frame))
    encoder = learn.SchemaEncoder(SCHEMA)
    assert "expected numbers in every row" in refused("rooms", encoder.fit, table)
    with pytest.raises(InvalidInput, match="X: expected a column 'town', as the schema"):
        encoder.fit(table[:, ["rooms", "age", "owns"]])
    assert "expected columns with names" in refused("X", encoder.fit, table_in("npy", X, tmp_path))


NAMED = [
    pytest.param(
        (["age"], ["town"], ["rooms", "owns"]),
        marks=pytest.mark.skipif(
            int(sklearn.__version__.split(".")[1]) < 9, reason="it asks frames for names"
        ),
    ),
    ([0], [3], slice(1, 3)),
]


@pytest.mark.parametrize("columns", NAMED)
def test_columns_side_by_side(tmp_path, columns):
    """As in memory, whatever stands between the columns of the files."""
    frame, names = people(), ["age", "rooms", "owns", "town"]
    parts = write_parts(tmp_path / "parts", frame[["smokes", *names]])
    steps = (SCALER, learn.PrivateCategories(categories=[["a", "b"]]), "passthrough")
    beside = [(str(j), *one) for j, one in enumerate(zip(steps, columns, strict=True))]
    last = learn.PrivateLogisticRegression(4.0, classes=[0, 1], **SETTINGS)
    gaps = learn.PrivateImputer(strategy="constant")
    own = make_pipeline(ColumnTransformer(beside), gaps, last)
    table, large = learn.LargeTable(parts, columns=names), clone(own).fit
    own, large = own.fit(frame[names], frame["smokes"]), large(table, "smokes")
    assert np.max(np.abs(large[-1].coef_ - own[-1].coef_)) <= 1e-12 * np.max(np.abs(own[-1].coef_))
    assert np.array_equal(large.predict(table), own.predict(frame[names]))
    assert large.score(table, "smokes") == own.score(frame[names], frame["smokes"])
    costs = [learn.guarantee_of(one).epsilon(1e-5) for one in (large, own)]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    "step",
    [
        FeatureUnion([("one", SCALER), ("other", RandomFeatures((-2, 2), 10))]),
        make_column_transformer(
            (make_pipeline(learn.PrivateImputer(strategy="constant"), SCALER), [0, 3]),
            remainder="passthrough",
        ),
    ],
)
def test_steps_within_steps(tmp_path, step):
    own, table = step.fit_transform(X), table_in("npy", X, tmp_path)
    for large in (clone(step).fit_transform(table), step.transform(table)):
        assert np.max(np.abs(rows_of(large) - own)) <= 2.0**-22  # random features are float32
        assert large.shape == own.shape


@pytest.mark.parametrize("step", [StandardScaler(), OneHotEncoder(), SimpleImputer()])
def test_steps_that_read_a_table_into_memory_are_refused(tmp_path, step):
    for table in (table_in("npy", X, tmp_path), table_in("parquet", X, tmp_path)):
        assert "expected steps of this library for a large" in refused("X", step.fit, table)
