"""`pabi predict`: what the model in the file says of every row, or one line that says what is wrong."""

import csv
import io
import pickle
import zipfile
from collections import UserList
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pabi
from pabi import learn
from pabi.cli import predicting, tables
from support.every_case import every
from support.tables import SCHEMA, assert_one_line, files, people, run, train

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
skops = pytest.importorskip("skops.io", reason="needs skops: pip install '.[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")

REGRESSION = SCHEMA.replace('levels = ["no", "yes"]', "range = [0, 1200]", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with models of pabi train, their schemas and a new table without the target."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("trained")
        patch.chdir(home)
        people().to_csv("people.csv", index=False)
        people(100).drop(columns=["rich", "id"]).to_csv("new.csv", index=False)
        Path("schema.toml").write_text(SCHEMA, "utf-8")
        Path("id.toml").write_text(REGRESSION, "utf-8")
        assert train("people.csv").status == 0
        more = {"out": "svc.skops", "guarantee": "svc.json"}
        assert train("people.csv", model="svc", **more).status == 0
        more = {"out": "kernel.skops", "guarantee": "kernel.json"}
        assert train("people.csv", model="kernel", **more).status == 0
        more = {"out": "id.skops", "guarantee": "id.json", "schema": "id.toml", "target": "id"}
        assert train("people.csv", model="linear", **more).status == 0
        yield home


@pytest.fixture
def folder(trained, monkeypatch):
    monkeypatch.chdir(trained)
    yield trained
    Path("p.csv").unlink(missing_ok=True)


def load(name):
    return skops.load(name, trusted=skops.get_untrusted_types(file=name))


def table_in(text):
    return list(csv.reader(io.StringIO(text)))


@every("model", ["model.skops", "svc.skops", "kernel.skops", "id.skops"])
def test_predictions_are_those_of_the_model(folder, model, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 7)
    result = run("predict", model, "new.csv", "--out", "p.csv", "--force")
    assert (result.status, result.err) == (0, "")
    assert result.out == "predictions  100 rows in p.csv\n"
    names, *rows = table_in(Path("p.csv").read_text("utf-8"))
    assert names == ["prediction"]
    expected = load(model).predict(pandas.read_csv("new.csv")).tolist()
    assert [row[0] for row in rows] == [str(value) for value in expected]


def test_probabilities_of_the_classes_and_a_threshold_in_place_of_one_half(folder):
    out = run("predict", "model.skops", "new.csv", "--proba", "--out", "-").out
    names, *rows = table_in(out)
    assert names == ["prediction", "probability=no", "probability=yes"]
    shares = np.array([row[1:] for row in rows], dtype=float)
    assert np.array_equal(shares, load("model.skops").predict_proba(pandas.read_csv("new.csv")))
    assert [row[0] for row in rows] == [["no", "yes"][i] for i in shares.argmax(axis=1)]
    likely = load("model.skops").predict_proba(pandas.read_csv("new.csv"))[:, 1]
    for threshold in (0.0, 0.2, float(likely[3]), 1.0):
        words = ("model.skops", "new.csv", "--threshold", repr(threshold), "--out", "-")
        rows = table_in(run("predict", *words).out)[1:]
        assert [row[0] == "yes" for row in rows] == (likely >= threshold).tolist()
        both = table_in(run("predict", *words, "--proba").out)[1:]
        assert [row[0] for row in both] == [row[0] for row in rows]


def test_an_id_is_copied_as_it_stands(folder, tmp_path):
    frame = pandas.read_csv("new.csv").assign(key=[f"00{i}" for i in range(99)] + [""])
    frame.to_csv(tmp_path / "a.csv", sep=";", index=False, encoding="latin-1")
    words = ("predict", "model.skops", f"{tmp_path}/a.csv", "--encoding", "latin-1", "--out", "-")
    names, *rows = table_in(run(*words, "--id", "key", "--proba").out)
    assert names[:2] == ["key", "prediction"]
    assert [row[0] for row in rows] == frame["key"].tolist()
    assert [row[1:] for row in rows] == table_in(run(*words, "--proba").out)[1:]
    assert_one_line(run(*words, "--id", "age"), "--id", "no feature")
    assert_one_line(run(*words, "--id", "keys"), "'keys'", "did you mean 'key'")
    # Of a pipeline without a schema as well, whose columns pandas reads.
    pipeline = make_pipeline(
        learn.SchemaEncoder({"age": {"kind": "numeric", "range": [20, 60]}}),
        learn.PrivateScaler(1.0, 1e-4, feature_ranges=(-1, 1)),
        learn.PrivateLogisticRegression(1.0, 1e-4, feature_ranges=(-3, 3), classes=["no", "yes"]),
    )
    table = people(300)
    pipeline.fit(table[["age"]], table["rich"])
    skops.dump(pipeline, tmp_path / "p.skops")
    said = run("predict", f"{tmp_path}/p.skops", *words[2:], "--id", "key")
    assert [row[0] for row in table_in(said.out)[1:]] == frame["key"].tolist()
    table.assign(id=pandas.array([None, *range(1, 300)], "Int64")).to_parquet(
        tmp_path / "b.parquet"
    )
    said = run("predict", "model.skops", f"{tmp_path}/b.parquet", "--id", "id", "--out", "-")
    assert [row[0] for row in table_in(said.out)[1:]][:3] == ["", "1", "2"]


def test_every_kind_of_table_and_standard_input(folder, tmp_path):
    frame = pandas.read_csv("new.csv")
    expected = run("predict", "model.skops", "new.csv", "--out", "-").out
    frame.to_feather(tmp_path / "new.feather")
    frame[:40].to_csv(tmp_path / "1.csv.gz", index=False)
    frame[40:].to_parquet(tmp_path / "2.parquet")
    for data in (f"{tmp_path}/new.feather", f"{tmp_path}/[12].*"):
        assert run("predict", "model.skops", data, "--out", "-").out == expected
    text = Path("new.csv").read_bytes()
    assert run("predict", "model.skops", "-", "--out", "-", stdin=text).out == expected


def test_missing_cells_are_the_middle_and_columns_may_be_more_and_in_any_order(folder, tmp_path):
    table = tmp_path / "odd.csv"
    table.write_text("rich,job,extra,age,citizen\n,smith,1,,\n,smith,1,40,nan\n,,2,40,?\n", "utf-8")
    rows = table_in(run("predict", "model.skops", str(table), "--proba", "--out", "-").out)
    # 40 is the middle of the declared range.
    assert rows[1] == rows[2]
    features = np.zeros((1, 4))
    assert float(rows[3][2]) == load("model.skops")[-1].predict_proba(features)[0, 1]


def test_files_are_not_overwritten_unless_asked(folder):
    words = ("predict", "model.skops", "new.csv", "--out", "p.csv")
    assert run(*words).status == 0
    before = Path("p.csv").read_text("utf-8")
    assert_one_line(run(*words), "p.csv", "exists already")
    assert run(*words, "--proba", "--force").status == 0
    assert Path("p.csv").read_text("utf-8") != before
    assert_one_line(run(*words[:-1], "new.csv", "--force"), "files of their own")


def test_a_schema_that_is_not_the_models_is_refused(folder, tmp_path):
    words = ("predict", "model.skops", "new.csv", "--out", "-", "--schema")
    assert run(*words, "schema.toml").status == 0
    assert run(*words, "id.toml").status == 0  # the same columns
    other = tmp_path / "other.toml"
    other.write_text(SCHEMA.replace("[20, 60]", "[20, 61]"), "utf-8")
    assert_one_line(run(*words, str(other)), "other.toml", "columns.age", "[20, 60]")
    other.write_text(SCHEMA.replace("columns.age", "columns.Age"), "utf-8")
    assert_one_line(run(*words, str(other)), "columns.age")
    assert_one_line(run(*words, "none.toml"), "none.toml", "expected a schema file")


def test_bad_arguments(folder):
    before = files()
    for words, *mentions in [
        ("none.skops new.csv --out p.csv", "none.skops", "no such file"),
        ("new.csv new.csv --out p.csv", "new.csv", "expected a model that pabi train wrote"),
        ("model.skops none.csv --out p.csv", "none.csv", "no such file"),
        ("model.skops g.json --out p.csv", "g.json", "this is a guarantee"),
        ("model.skops --out p.csv", "DATA: missing"),
        ("svc.skops new.csv --proba --out p.csv", "--proba", "logistic", "PrivateLinearSVC"),
        ("id.skops new.csv --proba --out p.csv", "--proba", "PrivateLinearRegression"),
        ("id.skops new.csv --threshold .2 --out p.csv", "--threshold", "PrivateLinearRegression"),
        ("model.skops new.csv --out p.json", "p.json", ".csv"),
        ("model.skops new.csv", "Missing option"),
    ]:
        assert_one_line(run("predict", *words.split()), *mentions)
    assert files() == before


@every(
    "text, mentions",
    [
        ("age,job\n30,smith\n", ["'citizen'", "it has none"]),
        ("ages,job,citizen\n30,smith,no\n", ["'age'", "did you mean 'ages'"]),
        ("age,job,citizen\n", ["at least one row"]),
        ("age,job,citizen\nsecret-7,smith,no\n", ["age", "numeric column"]),
        ("age,job,citizen\n30,smith,no,secret-7\n", ["expected a CSV table"]),
    ],
)
def test_bad_tables(folder, tmp_path, text, mentions):
    (tmp_path / "bad.csv").write_text(text, "utf-8")
    before = files()
    for out in ("-", "p.csv"):
        result = run("predict", "model.skops", f"{tmp_path}/bad.csv", "--out", out)
        assert_one_line(result, *mentions)
        assert "secret-7" not in result.err
    assert files() == before


# Pipelines that prepare tables with private transformers.


def raw(rows, seed=0):
    rng = np.random.default_rng(seed)
    age, codes = rng.normal(40, 10, rows), rng.choice(["01", "1", "b,c"], rows)
    age[::9] = np.nan
    return pandas.DataFrame({"age": age, "code": codes, "paid": rng.integers(0, 9, rows)})


def prepared(*steps):
    """A pipeline of columns side by side, fitted to a raw frame, its first step in front."""
    aged = make_pipeline(learn.PrivateImputer(4.0, 1e-5), learn.PrivateScaler(4.0, 1e-5))
    both = FeatureUnion(
        [("ranges", learn.PrivateRanges(4.0, 1e-5)), ("scaled", learn.PrivateScaler(4.0, 1e-5))]
    )
    codes = learn.PrivateCategories(4.0, 1e-5)
    columns = ColumnTransformer(
        [("aged", aged, ["age"]), ("code", codes, ["code"]), ("paid", both, ["paid"])]
    )
    table = raw(3000)
    labels = np.where(table["paid"] > 4, "yes", "no")
    return make_pipeline(columns, *steps).fit(table, labels)


LOGISTIC = learn.PrivateLogisticRegression(4.0, 1e-5, classes=["no", "yes"])
ENDS = {
    "whitened": (learn.PrivateWhitener(4.0, 1e-5, 4.0), LOGISTIC),
    "ridge": (learn.PrivateRidgeClassifier(4.0, 1e-5, classes=["no", "yes"]),),
}


@pytest.mark.parametrize("name", ENDS)
def test_pipelines_of_private_transformers_predict_raw_tables(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tables, "ROWS", 7)
    model, path = prepared(*ENDS[name]), tmp_path / "model.skops"
    skops.dump(model, path)
    new = raw(50, seed=1).assign(extra="secret-7")[["extra", "paid", "code", "age"]]
    csv_file, parquet = str(tmp_path / "new.csv"), str(tmp_path / "new.parquet")
    new.to_csv(csv_file, index=False)
    new.to_parquet(parquet)
    # The last bit of a number of a CSV is as pandas reads it, exact or not.
    for file, frame in ((csv_file, pandas.read_csv(csv_file)), (parquet, new)):
        names, *rows = table_in(run("predict", str(path), file, "--proba", "--out", "-").out)
        assert names == ["prediction", "probability=no", "probability=yes"]
        assert [row[0] for row in rows] == model.predict(frame).tolist()
        shares = np.array([row[1:] for row in rows], float)
        assert np.array_equal(shares, model.predict_proba(frame))


def test_tables_and_schemas_that_a_pipeline_was_not_fitted_to(folder, tmp_path):
    path, file = tmp_path / "model.skops", tmp_path / "new.csv"
    skops.dump(prepared(LOGISTIC), path)

    def predicted(table, *more):
        table.to_csv(file, index=False)
        return run("predict", str(path), str(file), "--out", "-", *more)

    assert_one_line(predicted(raw(20).drop(columns="paid")), "'paid'", "it has none")
    result = predicted(raw(20).assign(paid="secret-7"))
    assert result.status != 0
    assert "secret-7" not in result.out + result.err
    assert_one_line(predicted(raw(0)), "at least one row")
    assert_one_line(predicted(raw(20), "--schema", "schema.toml"), "--schema", "without a schema")


# Models from elsewhere.


class Reader:
    """Loading it would run code of whoever wrote the file."""

    def __reduce__(self):
        return exec, ("raise SystemExit('was run')",)


def fitted_on(X, y, **more):
    stated = {"classes": [0, 1], "feature_norm": 2.0} | more
    return learn.PrivateLogisticRegression(1.0, 1e-3, **stated).fit(X, y)


ENCODER = learn.SchemaEncoder({"age": {"kind": "numeric", "range": [20, 60]}})


def strangers():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 1)), rng.integers(0, 2, 300)
    plain, private = LogisticRegression().fit(X, y), fitted_on(X, y)
    private.note = Reader  # a class of this file
    regression = learn.PrivateLinearRegression(1.0, 1e-3, target_range=(0, 1))
    return {
        "public model": make_pipeline(ENCODER, plain),
        "no encoder": make_pipeline(fitted_on(X, y)),
        "no names": make_pipeline(learn.PrivateRanges(1.0, 1e-3), fitted_on(X, y)).fit(X, y),
        "public last": make_pipeline(learn.PrivateRanges(1.0, 1e-3), plain).fit(X, y),
        "foreign step": make_pipeline(FunctionTransformer(Reader), fitted_on(X, y)),
        "no pipeline": fitted_on(X, y),
        "not fitted": make_pipeline(ENCODER, regression),
        "foreign type": make_pipeline(ENCODER, private),
        "no model": {"coef_": X},
    }


def test_models_of_strangers_are_not_used(folder, tmp_path):
    path = tmp_path / "stranger.skops"
    for name, model in strangers().items():
        skops.dump(model, path)
        result = run("predict", str(path), "new.csv", "--out", "-")
        assert_one_line(result, "stranger.skops", "expected a model that pabi train wrote")
        assert ("not loaded" in result.err) == name.startswith("foreign"), name
    path.write_bytes(pickle.dumps(Reader()))
    assert_one_line(run("predict", str(path), "new.csv", "--out", "-"), "expected a model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", '{"__class__": "exec", "__module__": "builtins"}')
    assert_one_line(run("predict", str(path), "new.csv", "--out", "-"), "expected a model")


def test_what_is_trusted_is_what_models_consist_of():
    """Classes of pabi, each of them there, and no function: skops calls what a file names."""
    for name in predicting.TRUSTED:
        module, _, kind = name.rpartition(".")
        # Of those that are not pabi's, later releases of their packages have some no more.
        cls = getattr(import_module(module), kind, UserList)
        if name in predicting.TYPES:
            assert module.startswith("pabi.")
            assert isinstance(cls, type)
            assert cls.__module__ == module
        else:
            assert issubclass(cls, UserList)


@every(
    "batches",
    [
        pabi.FullBatch(),
        *(kind(50) for kind in (pabi.Cyclic, pabi.ShuffleOnce, pabi.Reshuffle)),
        *(kind(50) for kind in (pabi.Poisson, pabi.FixedSize)),
        pabi.BallsInBins(50, cap=100),
    ],
)
def test_models_of_every_batch_scheme_are_trusted(folder, tmp_path, batches):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 1)), rng.integers(0, 2, 300)
    model, path = fitted_on(X, y, batches=batches, noise_std=1.0), tmp_path / "model.skops"
    skops.dump(make_pipeline(ENCODER, model), path)
    assert run("predict", str(path), "new.csv", "--out", "-").status == 0
