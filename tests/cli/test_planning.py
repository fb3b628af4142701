"""`pabi plan`: the plan of the estimator that `pabi train` would fit, without any data."""

from pathlib import Path

import pytest

import pabi
from pabi.cli.reading import describe
from pabi.learn import PrivateLogisticRegression
from support.tables import SCHEMA, assert_one_line, files, run

TARGET = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA, "utf-8")


def plan(*more):
    return run("plan", "--schema", "schema.toml", *TARGET, *more)


def test_it_is_the_plan_of_the_estimator():
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


def test_users_are_planned_for():
    result = plan("--users", "5000", "--out", "run.toml")
    assert result.out.startswith("table            5000 users")
    assert (describe("run.toml").unit, describe("run.toml").n) == ("user", 5000)


def test_what_is_refused():
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
