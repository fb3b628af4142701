"""`pabi train --groups`: a column that says whose a row is, and the declared number of users."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import pabi
from pabi.cli import app, main
from pabi.cli.encoded import ids_of
from pabi.features.cells import joined

SCHEMA = """
[columns.x]
kind = "numeric"
range = [0, 10]

[target]
levels = ["a", "b"]
"""
ARGUMENTS = ["--target", "label", "--epsilon", "2", "--delta", "1e-4"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 11},{'ab'[k % 2]},p{k % 90}" for k in range(400)]
    (tmp_path / "data.csv").write_text("\n".join(["x,label,person", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def trained(*more):
    files = ["--schema", "schema.toml", "--out", "m.skops", "--guarantee", "g.json"]
    return CliRunner().invoke(app, ["train", "data.csv", *files, *ARGUMENTS, *more])


def test_users_are_protected_and_counted_as_declared(folder):
    result = trained("--groups", "person", "--users", "120")
    assert result.exit_code == 0, result.output
    data = json.loads((folder / "g.json").read_text())
    assert data["unit"] == "user"
    assert pabi.verify(data).ok
    assert "users        120" in result.output
    assert "400" not in result.output  # how many rows there are is the users' own
    assert "1 columns, 1 features" in result.output


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--users", "5"), "--groups"),
        (("--groups", "x"), "--groups"),
        (("--groups", "label"), "--groups"),
        (("--groups", "person", "--users", "5"), "groups"),
    ],
)
def test_what_is_refused(folder, more, named):
    result = trained(*more)
    assert result.exit_code != 0
    assert isinstance(result.exception, pabi.InvalidInput)
    assert result.exception.field == named
    assert not (folder / "m.skops").exists()


def test_a_budget_for_users_is_opened_and_spent_from_the_shell(folder):
    opened = ["ledger", "users.ledger", "--epsilon", "3", "--delta", "1e-4", "--unit", "user"]
    assert CliRunner().invoke(app, opened).exit_code == 0
    result = trained("--groups", "person", "--users", "120", "--ledger", "users.ledger")
    assert result.exit_code == 0, result.output
    report = pabi.Ledger("users.ledger", 3.0, 1e-4, unit="user").report()
    assert (report.unit, len(report.entries)) == ("user", 1)
    assert "protects   user" in CliRunner().invoke(app, ["ledger", "users.ledger"]).output


@pytest.mark.parametrize("unit", ["record", "user"])
def test_units_of_ledger_and_training_do_not_mix(folder, unit, capsys):
    pabi.Ledger("a.ledger", 3.0, 1e-4, unit=unit)
    (folder / "data.csv").unlink()  # it is not looked at
    users = ["--groups", "person", "--users", "120"] if unit == "record" else []
    files = ["--schema", "schema.toml", "--out", "m.skops", "--guarantee", "g.json"]
    assert main(["train", "data.csv", *files, *ARGUMENTS, *users, "--ledger", "a.ledger"]) == 2
    assert f"ledger: expected a release that protects a {unit}" in capsys.readouterr().err


def test_a_blank_id_is_refused(folder):
    """Not taken for a user whom all those without an id would be."""
    for blank in ("", "  "):
        with (folder / "data.csv").open("a") as file:
            file.write(f"3,a,{blank}\n")
        result = trained("--groups", "person", "--users", "120")
        assert isinstance(result.exception, pabi.InvalidInput)
        assert str(result.exception).startswith("groups: expected an id in every row")


def test_ids_of_several_files_are_of_the_same_users():
    """Text in one, numbers in another: what an id is follows from it alone."""
    texts, numbers = np.array(["7", " 8 ", "a"], dtype=object), np.array([7, 8, 9])
    both = ids_of(joined([texts, numbers]))
    assert both.tolist() == ["7", "8", "a", "7", "8", "9"]
    assert ids_of(numbers) is numbers
    assert ids_of(texts).tolist() == ["7", "8", "a"]
    gaps = np.array([2**60 + 1, None], dtype=object)
    assert ids_of(gaps).tolist() == [str(2**60 + 1), None]
    assert ids_of(np.array(["07 ", " "])).tolist() == ["7", None]
    for last in (5, "5", 5.0):
        alike = ids_of(np.array(["01", "1", "1.0", "2", last], dtype=object))
        assert alike.tolist() == ["1", "1", "1", "2", "5"]


def test_a_column_that_looks_like_an_id_is_asked_about_on_standard_error(folder):
    result = trained("--force")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("question: has anybody several rows? person looks like an id") == 1
    assert "--groups person" in result.stderr
    assert "question" not in result.stdout
    for answer in (("--one-row-each",), ("--groups", "person", "--users", "120")):
        assert "question" not in trained("--force", *answer).stderr
    both = trained("--force", "--one-row-each", "--groups", "person")
    assert both.exit_code != 0
    assert "--one-row-each" in str(both.exception)


def test_a_plan_asks_of_the_columns_of_its_schema(folder):
    (folder / "ids.toml").write_text(SCHEMA.replace("columns.x", "columns.patient_id"))
    sizes = ["--epsilon", "2", "--delta", "1e-4", "--rows", "400"]
    asked = CliRunner().invoke(app, ["plan", "--schema", "ids.toml", *sizes])
    assert (asked.exit_code, asked.stderr.count("patient_id looks like an id")) == (0, 1)
    for schema, more in [("schema.toml", []), ("ids.toml", ["--one-row-each"])]:
        told = CliRunner().invoke(app, ["plan", "--schema", schema, *sizes, *more])
        assert (told.exit_code, told.stderr) == (0, "")
    users = ["plan", "--schema", "ids.toml", *sizes[:4], "--users", "90"]
    assert CliRunner().invoke(app, users).stderr == ""
