"""`pabi schema`: names in, a schema to fill in out; no value is read. `pabi plan`: what would be trained."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pabi
from pabi.cli.reading import describe
from pabi.cli.training import _key
from pabi.learn import PrivateLogisticRegression
from support.tables import SCHEMA, assert_one_line, files, people, run, train

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def filled(text, kinds, levels):
    """The skeleton with the lines of these kinds uncommented and filled in, as somebody would do."""
    lines, name, wanted = [], None, {}
    for line in text.splitlines():
        if header := re.fullmatch(r"# \[(?:columns\.)?(.+?)\](  #.*)?", line):
            name = header[1]
            wanted = {"target": {"levels": levels}}.get(name) or kinds.get(name, {})
        key = line.removeprefix("# ").partition(" ")[0]
        if wanted and key.startswith("["):
            lines.append(line.removeprefix("# ").partition("  #")[0])
        elif key in wanted:
            lines.append(f"{key} = {wanted[key]}")
        else:
            lines.append(line)
    return "\n".join(lines)


def test_filled_in_it_trains(folder):
    pytest.importorskip("skops", reason="needs skops: pip install '.[train]'")
    result = run("schema", "people.csv", "--target", "rich")
    assert (result.status, result.err) == (0, "")
    kinds = {
        "age": {"kind": '"numeric"', "range": "[20, 60]", "transform": '"log1p"'},
        "job": {"kind": '"categorical"', "levels": '["clerk", "smith"]', "other": '"level"'},
        "citizen": {"kind": '"boolean"'},
    }
    text = filled(result.out, kinds, '["no", "yes"]')
    Path("schema.toml").write_text(text, "utf-8")
    assert set(tomllib.loads(text)["columns"]) == set(kinds)  # not id, which is left as it is
    trained = train("people.csv")
    assert trained.status == 0
    assert "rich from 3 columns, 5 features" in trained.out


def declared(text):
    """The columns in the comments of a skeleton."""
    return re.findall(r"^# \[columns\.(.*)\]$", text, re.MULTILINE)


def test_as_it_comes_it_declares_nothing(folder):
    out = run("schema", "people.csv").out
    assert tomllib.loads(out) == {}
    assert "Only the names of the columns were read, and no value." in out
    assert declared(out) == list(people(1).columns)
    Path("schema.toml").write_text(out, "utf-8")
    assert_one_line(train("people.csv"), "schema.toml", "columns")
    # The target is no feature.
    out = run("schema", "--columns", "age, job ,rich", "--target", "rich").out
    assert declared(out) == ["age", "job"]
    assert "--target rich" in out


def test_no_value_is_read(folder):
    """Other values, the same skeleton; a file of one line is enough."""
    out, names = run("schema", "people.csv").out, ",".join(people(1).columns)
    people().sample(frac=1.0, random_state=0).assign(age="secret-7").to_csv("o.csv", index=False)
    Path("one.csv").write_text(names, "utf-8")
    Path("bytes.csv").write_bytes(names.encode() + b"\n" + b"\xff\x00" * 9)
    people().to_parquet("a.parquet")
    people().to_feather("a.feather")
    people().to_csv("a.csv.gz", index=False)
    for name in ("o.csv", "one.csv", "bytes.csv", "a.parquet", "a.feather", "a.csv.gz"):
        assert run("schema", name).out == out
    assert run("schema", "--columns", names).out == out


def test_bad_input(folder):
    people().to_csv("data.csv", index=False, header=False)
    Path("twice.csv").write_text("secret-name,secret-name\n1,2\n", "utf-8")
    Path("empty.csv").write_text("", "utf-8")
    Path("latin.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    Path("other.csv").write_text("a,b\n1,2\n", "utf-8")
    Path("bad.parquet").write_bytes(b"nothing like it")
    for words, *mentions in [
        ("", "--columns", "or a table"),
        ("people.csv --columns a,b", "--columns", "one of them"),
        ("--columns ,", "--columns", "got none"),
        ("--columns a,b,a", "--columns", "one name twice"),
        ("--columns a,b --target c", "--target", "'c'"),
        ("none.csv", "none.csv", "no such file"),
        ("people.txt", "people.txt", "named .csv"),
        ("data.csv", "data.csv", "looks like data", "--columns"),
        ("twice.csv", "twice.csv", "one name twice"),
        ("empty.csv", "empty.csv", "got none"),
        ("latin.csv", "latin.csv", "first line in utf-8", "--encoding"),
        ("people.csv other.csv", "other.csv", "expected the columns of 'people.csv'"),
        ("bad.parquet", "bad.parquet", "expected a Parquet table"),
    ]:
        result = run("schema", *words.split())
        assert_one_line(result, *mentions)
        assert "secret-name" not in result.err


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_is_a_key(name):
    assert tomllib.loads(f"[columns.{_key(name)}]\nkind = 1") == {"columns": {name: {"kind": 1}}}


# Plans.


TARGET = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def with_schema(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, "utf-8")


def plan(*more):
    return run("plan", "--schema", "schema.toml", *TARGET, *more)


def test_it_is_the_plan_of_the_estimator(with_schema):
    """Age, two levels of job and one citizen, as a boolean column is: four features, rows within √3."""
    result = plan(
        "--rows", "20000", "--epochs", "7", "--adjacency", "zero_out", "--out", "run.toml"
    )
    settings = {"classes": ["no", "yes"], "feature_norm": 1.733, "epochs": 7}
    estimator = PrivateLogisticRegression(1.0, 1e-6, adjacency="zero_out", **settings)
    own = estimator.plan(20_000, 4)
    assert result.out.rstrip("\n") == str(own)
    written = describe("run.toml")
    assert written == own.run
    assert (written.adjacency, written.n) == ("zero_out", 20_000)
    assert pabi.verify(written.guarantee(1e-6)).ok


def test_users_are_planned_for(with_schema):
    result = plan("--users", "5000", "--out", "run.toml")
    assert result.out.startswith("table            5000 users")
    assert (describe("run.toml").unit, describe("run.toml").n) == ("user", 5000)


def test_plans_that_are_refused(with_schema):
    before = files()
    for more, *mentions in [
        ("", "--rows", "either"),
        ("--rows 9 --users 9", "--rows", "either"),
        ("--rows 9 --model tree", "--model", "logistic"),
        ("--rows 900 --out schema.toml", "schema.toml", "exists"),
        ("--rows 900 --model linear", "target"),
    ]:
        assert_one_line(plan(*more.split()), *mentions)
        assert files() == before
    # Labels have to be declared.
    Path("schema.toml").write_text(SCHEMA.replace('levels = ["no", "yes"]', ""), "utf-8")
    assert_one_line(plan("--rows", "900"), "target")
