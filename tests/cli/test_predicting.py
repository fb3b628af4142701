"""`pabi predict`: what the model in the file says of every row, or one line that says what is wrong."""

from __future__ import annotations

import csv
import io
import pickle
import zipfile
from collections import UserList
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pabi
from pabi.cli import models, tables
from pabi.learn import (
    PrivateCategories,
    PrivateImputer,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateRidgeClassifier,
    PrivateScaler,
    PrivateWhitener,
    SchemaEncoder,
)
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


@pytest.mark.parametrize("model", ["model.skops", "svc.skops", "id.skops"])
def test_predictions_are_those_of_the_model(folder, model, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 7)
    result = run("predict", model, "new.csv", "--out", "p.csv")
    assert (result.status, result.err) == (0, "")
    assert result.out == "predictions  100 rows in p.csv\n"
    names, *rows = table_in(Path("p.csv").read_text("utf-8"))
    assert names == ["prediction"]
    expected = load(model).predict(pandas.read_csv("new.csv")).tolist()
    assert [row[0] for row in rows] == [str(value) for value in expected]


def test_probabilities_of_the_classes(folder):
    out = run("predict", "model.skops", "new.csv", "--proba", "--out", "-").out
    names, *rows = table_in(out)
    assert names == ["prediction", "probability=no", "probability=yes"]
    shares = np.array([row[1:] for row in rows], dtype=float)
    assert np.array_equal(shares, load("model.skops").predict_proba(pandas.read_csv("new.csv")))
    assert [row[0] for row in rows] == [["no", "yes"][i] for i in shares.argmax(axis=1)]


def test_every_kind_of_table_and_standard_input(folder, tmp_path, monkeypatch):
    frame = pandas.read_csv("new.csv")
    expected = run("predict", "model.skops", "new.csv", "--out", "-").out
    frame.to_feather(tmp_path / "new.feather")
    frame[:40].to_csv(tmp_path / "1.csv.gz", index=False)
    frame[40:].to_parquet(tmp_path / "2.parquet")
    assert run("predict", "model.skops", f"{tmp_path}/new.feather", "--out", "-").out == expected
    assert run("predict", "model.skops", f"{tmp_path}/[12].*", "--out", "-").out == expected
    stream = io.BytesIO(Path("new.csv").read_bytes())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
    assert run("predict", "model.skops", "-", "--out", "-").out == expected


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


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (["none.skops", "new.csv"], ["none.skops", "no such file"]),
        (["new.csv", "new.csv"], ["new.csv", "expected a model that pabi train wrote"]),
        (["model.skops", "none.csv"], ["none.csv", "no such file"]),
        (["model.skops", "g.json"], ["g.json", "this is a guarantee"]),
        (["model.skops"], ["Missing argument"]),
        (["svc.skops", "new.csv", "--proba"], ["--proba", "logistic", "PrivateLinearSVC"]),
        (["id.skops", "new.csv", "--proba"], ["--proba", "PrivateLinearRegression"]),
    ],
)
def test_bad_arguments(folder, words, mentions):
    before = files()
    assert_one_line(run("predict", *words, "--out", "p.csv"), *mentions)
    assert_one_line(run("predict", "model.skops", "new.csv", "--out", "p.json"), "p.json", ".csv")
    assert_one_line(run("predict", "model.skops", "new.csv"), "Missing option")
    assert files() == before


@pytest.mark.parametrize("out", ["-", "p.csv"])
@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("age,job\n30,smith\n", ["'citizen'", "it has none"]),
        ("ages,job,citizen\n30,smith,no\n", ["'age'", "did you mean 'ages'"]),
        ("age,job,citizen\n", ["at least one row"]),
        ("30,smith,no\n31,clerk,yes\n", ["the first line looks like data"]),
        ("age,job,citizen\nsecret-7,smith,no\n", ["age", "numeric column"]),
        ("age,job,citizen\n30,smith,no,secret-7\n", ["expected a CSV table"]),
        ("", ["expected a CSV table"]),
    ],
)
def test_bad_tables(folder, tmp_path, text, mentions, out):
    (tmp_path / "bad.csv").write_text(text, "utf-8")
    before = files()
    result = run("predict", "model.skops", f"{tmp_path}/bad.csv", "--out", out)
    assert_one_line(result, *mentions)
    assert "secret-7" not in result.err
    assert files() == before


# Pipelines that prepare tables with private transformers.


def raw(rows, seed=0):
    rng = np.random.default_rng(seed)
    age, codes = rng.normal(40, 10, rows), rng.choice(["01", "1", "b,c"], rows)
    age[::9] = np.nan
    paid = rng.integers(0, 9, rows)
    return pandas.DataFrame({"age": age, "code": codes, "paid": paid})


def prepared(*steps):
    """A pipeline of columns side by side, fitted to a raw frame, its first step in front."""
    aged = make_pipeline(PrivateImputer(4.0, 1e-5), PrivateScaler(4.0, 1e-5))
    both = FeatureUnion(
        [("ranges", PrivateRanges(4.0, 1e-5)), ("scaled", PrivateScaler(4.0, 1e-5))]
    )
    columns = ColumnTransformer(
        [
            ("aged", aged, ["age"]),
            ("code", PrivateCategories(4.0, 1e-5), ["code"]),
            ("paid", both, ["paid"]),
        ]
    )
    table = raw(3000)
    labels = np.where(table["paid"] > 4, "yes", "no")
    return make_pipeline(columns, *steps).fit(table, labels)


LOGISTIC = PrivateLogisticRegression(4.0, 1e-5, classes=["no", "yes"])
ENDS = {
    "whitened": (PrivateWhitener(4.0, 1e-5, 4.0), LOGISTIC),
    "ridge": (PrivateRidgeClassifier(4.0, 1e-5, classes=["no", "yes"]),),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_pipelines_of_private_transformers_predict_raw_tables(tmp_path, monkeypatch, name, kind):
    monkeypatch.setattr(tables, "ROWS", 7)
    model, path = prepared(*ENDS[name]), tmp_path / "model.skops"
    skops.dump(model, path)
    new = raw(50, seed=1).assign(extra="secret-7")[["extra", "paid", "code", "age"]]
    file = str(tmp_path / f"new.{kind}")
    new.to_csv(file, index=False) if kind == "csv" else new.to_parquet(file)
    out = run("predict", str(path), file, "--proba", "--out", "-").out
    names, *rows = table_in(out)
    assert names == ["prediction", "probability=no", "probability=yes"]
    if kind == "csv":  # the last bit of a number is as pandas reads it, exact or not
        new = pandas.read_csv(file)
    assert [row[0] for row in rows] == model.predict(new).tolist()
    assert np.array_equal(np.array([row[1:] for row in rows], float), model.predict_proba(new))


def test_tables_and_schemas_that_a_pipeline_was_not_fitted_to(folder, tmp_path):
    path, file = tmp_path / "model.skops", tmp_path / "new.csv"
    skops.dump(prepared(LOGISTIC), path)
    raw(20).drop(columns="paid").to_csv(file, index=False)
    assert_one_line(run("predict", str(path), str(file), "--out", "-"), "'paid'", "it has none")
    raw(20).assign(paid="secret-7").to_csv(file, index=False)
    result = run("predict", str(path), str(file), "--out", "-")
    assert result.status != 0
    assert "secret-7" not in result.out + result.err
    raw(0).to_csv(file, index=False)
    assert_one_line(run("predict", str(path), str(file), "--out", "-"), "at least one row")
    raw(20).to_csv(file, index=False)
    words = ("predict", str(path), str(file), "--out", "-", "--schema", "schema.toml")
    assert_one_line(run(*words), "--schema", "without a schema")


# Models from elsewhere.


class Reader:
    """Loading it would run code of whoever wrote the file."""

    def __reduce__(self):
        return exec, ("raise SystemExit('was run')",)


def fitted_on(X, y):
    return PrivateLogisticRegression(1.0, 1e-3, classes=[0, 1], feature_norm=2.0).fit(X, y)


ENCODER = SchemaEncoder({"age": {"kind": "numeric", "range": [20, 60]}})


def strangers():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 1)), rng.integers(0, 2, 300)
    plain, private = LogisticRegression().fit(X, y), fitted_on(X, y)
    private.note = Reader  # a class of this file
    regression = PrivateLinearRegression(1.0, 1e-3, target_range=(0, 1))
    return {
        "public model": make_pipeline(ENCODER, plain),
        "no encoder": make_pipeline(fitted_on(X, y)),
        "no names": make_pipeline(PrivateRanges(1.0, 1e-3), fitted_on(X, y)).fit(X, y),
        "public last": make_pipeline(PrivateRanges(1.0, 1e-3), plain).fit(X, y),
        "foreign step": make_pipeline(FunctionTransformer(Reader), fitted_on(X, y)),
        "no pipeline": fitted_on(X, y),
        "not fitted": make_pipeline(ENCODER, regression),
        "foreign type": make_pipeline(ENCODER, private),
        "no model": {"coef_": X},
    }


@pytest.mark.parametrize("name", strangers())
def test_models_of_strangers_are_not_used(folder, tmp_path, name):
    path = tmp_path / "stranger.skops"
    skops.dump(strangers()[name], path)
    result = run("predict", str(path), "new.csv", "--out", "-")
    assert_one_line(result, "stranger.skops", "expected a model that pabi train wrote")
    assert ("not loaded" in result.err) == name.startswith("foreign")


def test_nothing_is_unpickled(folder, tmp_path):
    path = tmp_path / "stranger.skops"
    path.write_bytes(pickle.dumps(Reader()))
    assert_one_line(run("predict", str(path), "new.csv", "--out", "-"), "expected a model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", '{"__class__": "exec", "__module__": "builtins"}')
    assert_one_line(run("predict", str(path), "new.csv", "--out", "-"), "expected a model")


def test_what_is_trusted_is_what_models_consist_of():
    """Classes of pabi, each of them there, and no function: skops calls what a file names."""
    for name in models.TYPES:
        module, _, kind = name.rpartition(".")
        assert module.startswith("pabi.")
        cls = getattr(__import__(module, fromlist=[kind]), kind)
        assert isinstance(cls, type)
        assert cls.__module__ == module
    for name in models.TRUSTED - models.TYPES:
        module, _, kind = name.rpartition(".")
        cls = getattr(
            __import__(module, fromlist=[kind]), kind, UserList
        )  # later releases have none
        assert issubclass(cls, UserList)


BATCHES = [
    pabi.FullBatch(),
    pabi.Cyclic(50),
    pabi.ShuffleOnce(50),
    pabi.Reshuffle(50),
    pabi.Poisson(50),
    pabi.FixedSize(50),
    pabi.BallsInBins(50, cap=100),
]


@pytest.mark.parametrize("batches", BATCHES, ids=lambda batches: batches.kind)
def test_models_of_every_batch_scheme_are_trusted(folder, tmp_path, batches):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 1)), rng.integers(0, 2, 300)
    model = PrivateLogisticRegression(
        4.0, 1e-3, classes=[0, 1], feature_norm=2.0, batches=batches, noise_std=1.0
    )
    path = tmp_path / "model.skops"
    skops.dump(make_pipeline(ENCODER, model.fit(X, y)), path)
    assert run("predict", str(path), "new.csv", "--out", "-").status == 0
