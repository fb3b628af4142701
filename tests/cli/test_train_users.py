"""`pabi train --groups`: a column that says whose a row is, and the declared number of users."""

import json
import os

import numpy as np
import pytest

import pabi
from pabi.cli import schema_file
from pabi.cli.schema_file import ids_of
from pabi.execute.cells import joined
from support.tables import assert_one_line, files, run, train

SCHEMA = """
[columns.x]
kind = "numeric"
range = [0, 10]

[target]
levels = ["a", "b"]
"""
USERS = ("--groups", "person", "--users", "120")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 11},{'ab'[k % 2]},p{k % 90}" for k in range(400)]
    (tmp_path / "data.csv").write_text("\n".join(["x,label,person", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def trained(*more):
    return train("data.csv", more=more, target="label", epsilon="2")


def test_users_are_protected_and_counted_as_declared(folder):
    status, out, _ = trained(*USERS)
    assert status == 0
    data = json.loads((folder / "g.json").read_text())
    assert data["unit"] == "user"
    assert pabi.verify(data).ok
    assert "users        120" in out
    assert "400" not in out  # how many rows there are is the users' own
    assert "1 columns, 1 features" in out


def test_what_is_refused(folder):
    for more, named in [
        ("--users 5", "--groups"),
        ("--groups x", "--groups"),
        ("--groups label", "--groups"),
        ("--groups person --users 5", "groups"),
        ("--one-row-each --groups person", "--one-row-each"),
    ]:
        assert_one_line(trained(*more.split()), f"error: {named}: ")
    for blank in ("", "  "):  # not taken for a user whom all those without an id would be
        with (folder / "data.csv").open("a") as file:
            file.write(f"3,a,{blank}\n")
        assert_one_line(trained(*USERS), "error: groups: expected an id in every row")
    assert "model.skops" not in files()


def test_users_and_rows_are_of_one_table(folder, monkeypatch):
    """A file is written again once it is known whose its rows were."""

    def and_then(cells):
        os.utime("data.csv", ns=(1, 1))
        return ids_of(cells)

    monkeypatch.setattr(schema_file, "ids_of", and_then)
    assert_one_line(trained(*USERS, "--scratch", "."), "error: X: it changed while it was read")
    assert "model.skops" not in files()


def test_a_budget_for_users_is_opened_and_spent_from_the_shell(folder):
    opened = ("users.ledger", "--epsilon", "3", "--delta", "1e-4", "--unit", "user")
    assert run("ledger", *opened).status == 0
    assert trained(*USERS, "--ledger", "users.ledger").status == 0
    report = pabi.Ledger("users.ledger", 3.0, 1e-4, unit="user").report()
    assert (report.unit, len(report.entries)) == ("user", 1)
    assert "protects   user" in run("ledger", "users.ledger").out


def test_units_of_ledger_and_training_do_not_mix(folder):
    (folder / "data.csv").unlink()  # it is not looked at
    for unit, users in (("record", USERS), ("user", ())):
        pabi.Ledger(f"{unit}.ledger", 3.0, 1e-4, unit=unit)
        said = trained(*users, "--ledger", f"{unit}.ledger")
        assert_one_line(said, f"ledger: expected a release that protects a {unit}")


def test_ids_of_several_files_are_of_the_same_users():
    """Text in one, numbers in another: what an id is follows from it alone."""
    texts, numbers = np.array(["7", " 8 ", "a"], dtype=object), np.array([7, 8, 9])
    assert ids_of(joined([texts, numbers])).tolist() == ["7", "8", "a", "7", "8", "9"]
    assert ids_of(numbers) is numbers
    assert ids_of(texts).tolist() == ["7", "8", "a"]
    gaps = np.array([2**60 + 1, None], dtype=object)
    assert ids_of(gaps).tolist() == [str(2**60 + 1), None]
    assert ids_of(np.array(["07 ", " "])).tolist() == ["7", None]
    for last in (5, "5", 5.0):
        alike = ids_of(np.array(["01", "1", "1.0", "2", last], dtype=object))
        assert alike.tolist() == ["1", "1", "1", "2", "5"]


def test_a_column_that_looks_like_an_id_is_asked_about_on_standard_error(folder):
    stated = ("--schema", "schema.toml", "--out", "m.skops", "--guarantee", "m.json")
    target = ("--target", "label", "--epsilon", "2", "--delta", "1e-4")
    status, out, err = run("train", "data.csv", *stated, *target)
    assert status == 0
    assert err.count("question: has anybody several rows? person looks like an id") == 1
    assert "--groups person" in err
    assert "question" not in out
    for answer in (("--one-row-each",), USERS):
        assert "question" not in trained("--force", *answer).err


def test_a_plan_asks_of_the_columns_of_its_schema(folder):
    (folder / "ids.toml").write_text(SCHEMA.replace("columns.x", "columns.patient_id"))
    target, rows = ("--epsilon", "2", "--delta", "1e-4"), ("--rows", "400")
    asked = run("plan", "--schema", "ids.toml", *target, *rows)
    assert (asked.status, asked.err.count("patient_id looks like an id")) == (0, 1)
    for schema, more in [
        ("schema.toml", rows),
        ("ids.toml", (*rows, "--one-row-each")),
        ("ids.toml", ("--users", "90")),
    ]:
        told = run("plan", "--schema", schema, *target, *more)
        assert (told.status, told.err) == (0, "")
