"""`pabi train --keep-state` and `pabi forget STATE`: what they write, say and refuse."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

import pabi
from pabi.cli import main
from pabi.cli.predicting import load_model
from pabi.describe.files import to_dict
from pabi.execute.state_files import state_in, write_state
from pabi.learn import StateFile
from support.every_case import every
from support.run_files import sampler
from support.tables import assert_one_line, run

N, KEY = 400, "0123456789abcdef" * 4
SCHEMA = """
[columns.age]
kind = "numeric"
range = [18, 80]
[columns.job]
kind = "categorical"
levels = ["cook", "clerk"]
[target]
levels = ["no", "yes"]
[model]
l2 = 0.05
epochs = 5
"""
TARGET = ["--epsilon", "1", "--delta", "1e-4"]
STATED = ["--schema", "schema.toml", "--target", "rich", "--epsilon", "5", "--delta", "1e-4"]
OUT = ["--out", "new.skops", "--guarantee", "new.json"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which a model was trained, and its state kept."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    age, job = rng.integers(18, 80, N), rng.choice(["cook", "clerk"], N)
    rich = np.where(age + 20 * (job == "clerk") > 60, "yes", "no")
    pd.DataFrame({"age": age, "job": job, "rich": rich}).to_csv(folder / "people.csv", index=False)
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "key").write_text(f"{KEY}\n")
    (folder / "rows").write_text("3\n17\n")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    keep = ["--keep-state", "state", "--key-file", "key", "--no-progress"]
    files = ["--out", "old.skops", "--guarantee", "old.json"]
    assert main(["train", "people.csv", *STATED, *files, *keep]) == 0
    patch.undo()
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state():
    return StateFile("state", bytes.fromhex(KEY))


def forget(*more, data=("people.csv",), rows=("--rows", "rows"), target=TARGET, out=OUT):
    return main(["forget", "state", *data, *rows, "--key-file", "key", *target, *out, *more])


def test_a_state_is_kept_beside_the_model(made):
    assert stat.S_IMODE((made / "state").stat().st_mode) == 0o600
    run = state_in(StateFile(made / "state", bytes.fromhex(KEY))).run
    assert (run.n, run.cooldown_steps) == (N, 0)
    assert load_model(str(made / "old.skops")).last.moments_ is None


def test_rows_are_forgotten(folder, capsys):
    assert forget() == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"forgotten    2 of {N} records, 2 in all"
    assert float(second.split()[1]) <= 1.0
    proven = pabi.Guarantee.from_json(Path("new.json").read_text())
    assert (proven.adjacency, proven.epsilon(1e-4) <= 1.0) == ("retrained", True)
    assert main(["verify", "new.json", "--model", "new.skops", *TARGET]) == 0
    assert main(["predict", "new.skops", "people.csv", "--out", "predicted.csv"]) == 0
    [line] = state().requests()
    assert line.rows == (3, 17)


def test_a_table_may_have_lost_them(folder, capsys):
    lines = Path("people.csv").read_text().splitlines()
    lines[4] = ",,"
    Path("people.csv").write_text("\n".join(lines) + "\n")
    assert forget() == 0
    Path("rows").write_text("9\n")
    assert forget("--force") == 0
    assert f"1 of {N} records, 3 in all" in capsys.readouterr().out


def test_a_plan_changes_nothing(folder, capsys):
    before = Path("state").read_bytes()
    assert forget("--plan", data=(), out=()) == 0
    planned = capsys.readouterr().out.splitlines()[:2]
    assert forget("--plan", "--json", data=(), out=()) == 0
    epochs = json.loads(capsys.readouterr().out)["notes"]["epochs"]
    assert planned[0] == f"epochs       {epochs} after the request, to forget 2 of {N} records"
    assert Path("state").read_bytes() == before
    assert forget() == 0
    assert state().requests()[0].steps == epochs * state_in(state()).run.steps_per_epoch
    assert planned[1] == capsys.readouterr().out.splitlines()[1]


def test_the_model_of_a_state_is_written_again(folder, capsys):
    assert forget() == 0
    first = load_model("new.skops").last
    again = ["--out", "again.skops", "--guarantee", "again.json"]
    assert forget(data=(), rows=(), target=(), out=again) == 0
    assert "written again: 2 rows forgotten" in capsys.readouterr().out
    assert np.array_equal(first.coef_, load_model("again.skops").last.coef_)
    assert main(["verify", "again.json", "--model", "new.skops"]) == 0


USUAL = SCHEMA[: SCHEMA.index("[model]")]  # without an l2: the defaults, and retraining


def test_users_of_a_table_are_forgotten_by_their_ids(folder, capsys):
    """With the defaults of the estimators, of text and of numbers, in a table that lost them later."""
    table = pd.read_csv("people.csv").assign(who=np.arange(N) % 100)
    table.to_csv("visits.csv", index=False)
    Path("usual.toml").write_text(USUAL)
    Path("ids").write_text(" 07 \n\n31\n")
    keep = ["--keep-state", "who", "--key-file", "key", "--groups", "who", "--no-progress"]
    files = ["--out", "old.skops", "--guarantee", "old.json", "--force"]
    stated = ["--schema", "usual.toml", *STATED[2:]]
    assert main(["train", "visits.csv", *stated, *files, *keep]) == 0
    last = load_model("old.skops").last
    assert (last.run_.n, last.run_.cooldown_steps > 0) == (100, True)
    assert last.moments_ is not None
    capsys.readouterr()

    def asked(*more, data=("visits.csv",), by=("--users", "ids")):
        target = [] if "--retrain" in more else TARGET
        status = main(["forget", "who", *data, *by, "--key-file", "key", *target, *more])
        return status, capsys.readouterr()

    status, said = asked("--plan", data=())
    assert status == 0
    assert "retraining: 20.5 epochs" in said.out
    assert asked(*OUT)[0] == 1  # no epochs are enough
    status, said = asked(*OUT, "--retrain")
    assert status == 0
    assert "forgotten    2 of 100 users, 2 in all, exactly" in said.out
    kept = StateFile("who", bytes.fromhex(KEY))
    [line] = kept.requests()
    assert (line.users, line.retrained, len(line.rows)) == (2, True, 8)
    assert {row % 100 for row in line.rows} == {7, 31}
    assert main(["verify", "new.json", "--model", "new.skops", *STATED[4:]]) == 0
    capsys.readouterr()
    table.loc[list(line.rows), ["age", "job", "who"]] = None
    table.to_csv("visits.csv", index=False)
    Path("rows").write_text("3\n103\n203\n")
    for by, mention in [
        (("--users", "ids"), "--users: expected ids that have rows in the table"),
        (("--users", "ids", "--rows", "rows"), "--users: expected none"),
        (("--rows", "rows"), "rows: expected all rows of every user"),
    ]:
        status, said = asked(*OUT, "--force", "--retrain", by=by)
        assert (status, said.err.count(mention)) == (2, 1)
    Path("ids").write_text("99\n")
    assert asked(*OUT, "--force", "--retrain")[0] == 0
    assert [line.users for line in kept.requests()] == [2, 1]


@every(
    "change, arguments, mention",
    [
        ({"rows": "400\n"}, {}, "rows: expected an integer in 0..399"),
        ({"rows": "-1\n"}, {}, "rows: expected an integer"),
        ({"rows": ""}, {}, "rows: expected positions"),
        ({"key": "f" * 64}, {}, "key: it does not open state"),
        ({"key": "short"}, {}, "--key-file: expected 64 hexadecimal digits"),
        ({"people.csv": "age,job,rich\n20,cook,no\n"}, {}, "DATA: expected 400 rows"),
        ({"state": "a"}, {}, "state: state is not a state of pabi"),
        ({}, {"data": ()}, "DATA: missing"),
        ({}, {"out": OUT[:2]}, "--guarantee: missing"),
        ({}, {"out": OUT[2:]}, "--out: missing"),
        ({}, {"rows": ("--users", "rows")}, "--users: expected --rows: this training had no --g"),
        ({}, {"target": ["--epsilon", "1"]}, "--delta: missing"),
        ({}, {"target": [*TARGET, "--epochs", "3"]}, "--epochs: expected none"),
        ({}, {"target": [*TARGET, "--records", "3"]}, "--records: expected none"),
        ({}, {"out": ["--out", "state", "--guarantee", "new.json"]}, "state: exists already"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(folder, capsys, change, arguments, mention):
    before = {name: Path(name).read_bytes() for name in {"state", *change}}
    for name, text in change.items():
        Path(name).write_text(text)
    expected = Path("state").read_bytes()
    assert forget(**arguments) == 2
    complaint = capsys.readouterr().err
    assert mention in complaint
    assert complaint.count("\n") == 1
    assert Path("state").read_bytes() == expected
    assert not Path("new.skops").exists()
    for name, raw in before.items():
        Path(name).write_bytes(raw)


def test_changed_rows_are_refused(folder, capsys):
    lines = Path("people.csv").read_text().splitlines()
    lines[100] = "18,cook,yes"
    Path("people.csv").write_text("\n".join(lines) + "\n")
    assert forget() == 2
    assert "X: expected the table of the fit" in capsys.readouterr().err


def test_states_that_cannot_be_kept(folder, capsys):
    undeclared = SCHEMA.replace('levels = ["no", "yes"]', "")
    for schema, options, mention in [
        (SCHEMA, "--keep-state other", "--key-file: missing"),
        (SCHEMA, "--key-file key", "--keep-state: missing"),
        (SCHEMA, "--keep-state state --key-file key", "keep_state: state exists"),
        (undeclared, "--keep-state other --key-file key", "target.levels: missing"),
    ]:
        Path("schema.toml").write_text(schema)
        assert main(["train", "people.csv", *STATED, *OUT, *options.split(), "--no-progress"]) == 2
        assert mention in capsys.readouterr().err


def test_a_state_of_a_program_is_for_that_program(folder, capsys):
    held = state_in(state())
    write_state(state(), type(held)(**vars(held) | {"facts": dict(held.facts) | {"note": ""}}))
    assert forget() == 2
    assert "expected a state that pabi train kept" in capsys.readouterr().err
    assert main(["account", "state", "--delta", "1e-5"]) == 2
    assert "this is a secret state: use pabi forget --key-file" in capsys.readouterr().err


# Plans of runs, without a state.


RUN = pabi.NoisySGD(
    pabi.Loss.logistic(1.0, l2=0.02),
    n=2000,
    batches=pabi.Cyclic(100),
    epochs=5,
    step_size=0.5,
    noise_std=0.02,
    adjacency="zero_out",
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(tomli_w.dumps(to_dict(RUN)))
    return str(path)


def test_epochs_have_an_epsilon_and_a_target_has_epochs(file):
    words = ("--plan", "--epochs", "2", "--delta", "1e-5", "--json")
    table = json.loads(run("forget", file, *words).out)
    assert table["epsilon"] == RUN.unlearning(1e-5, epochs=2).epsilon(1e-5)
    assert table["adjacency"] == "retrained"
    assert pabi.verify(json.dumps(table)).ok
    options = ("--epsilon", "0.3", "--delta", "1e-5", "--records", "3")
    epochs = RUN.epochs_to_forget(0.3, 1e-5, 3)
    first, second, *rest = run("forget", file, "--plan", *options).out.splitlines()
    assert first == f"epochs       {epochs} after the request, to forget 3 of 2000 records"
    assert float(second.split()[1]) <= 0.3
    assert "adjacency    retrained" in rest


def test_what_is_wrong_is_named(file):
    for options, said in [
        ("--epochs 1 --delta 1e-5", "--plan"),
        ("--plan --epochs 1", "--delta"),
        ("--plan --delta 1e-5", "--epochs"),
        ("--plan --epochs 1 --epsilon 1 --delta 1e-5", "--epochs"),
        ("--plan --epochs 1.5 --delta 1e-5", "--epochs"),
        ("--plan --epsilon 0 --delta 1e-5", "--epsilon"),
        ("--plan --epochs 1 --delta 1e-5 --records 0", "--records"),
        ("--plan --epochs 1 --delta 1e-5 --records 2001", "requests"),
    ]:
        assert_one_line(run("forget", file, *options.split()), f"error: {said}: ")
    moments = sampler("noisy_second_moments")
    options = ("--plan", "--epochs", "1", "--delta", "1e-5")
    assert_one_line(run("forget", "-", *options, stdin=moments), "noisy_sgd")


def test_a_run_of_users_forgets_users_and_forgetting_has_a_run_file():
    users = tomli_w.dumps(to_dict(replace(RUN, unit="user")))
    options = ("--plan", "--epochs", "2", "--delta", "1e-5", "--records", "3")
    status, out, _ = run("forget", "-", *options, stdin=users)
    assert status == 0
    assert out.startswith("epochs       2 after the request, to forget 3 of 2000 users")
    table = json.loads(run("forget", "-", *options, "--json", stdin=users).out)
    assert table["unit"] == "user"
    assert pabi.verify(json.dumps(table)).unit == "user"
    text = tomli_w.dumps(to_dict(pabi.Unlearning(RUN, [(40, 1)])))
    status, out, _ = run("account", "-", "--delta", "1e-5", stdin=text)
    assert status == 0
    assert "adjacency    retrained" in out
    assert_one_line(run("verify", "-", stdin=text), "this is a run file")
