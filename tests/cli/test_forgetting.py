"""`pabi forget --plan`: what it says, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import tomli_w

import pabi
from pabi.describe.files import to_dict
from support.run_files import sampler
from support.tables import assert_one_line, run

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
