"""`pabi forget --plan`: what it says, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import tomli_w

import pabi
from pabi.cli import main
from pabi.describe.files import to_dict

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


def test_epochs_have_an_epsilon(file, capsys):
    assert main(["forget", file, "--plan", "--epochs", "2", "--delta", "1e-5", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["epsilon"] == RUN.unlearning(1e-5, epochs=2).epsilon(1e-5)
    assert table["adjacency"] == "retrained"
    assert pabi.verify(json.dumps(table)).ok


def test_a_target_has_epochs(file, capsys):
    options = ["--epsilon", "0.3", "--delta", "1e-5", "--records", "3"]
    assert main(["forget", file, "--plan", *options]) == 0
    epochs = RUN.epochs_to_forget(0.3, 1e-5, 3)
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first == f"epochs       {epochs} after the request, to forget 3 of 2000 records"
    assert float(second.split()[1]) <= 0.3
    assert "adjacency    retrained" in rest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--epochs", "1", "--delta", "1e-5"], "--plan"),
        (["--plan", "--epochs", "1"], "--delta"),
        (["--plan", "--delta", "1e-5"], "--epochs"),
        (["--plan", "--epochs", "1", "--epsilon", "1", "--delta", "1e-5"], "--epochs"),
        (["--plan", "--epochs", "1.5", "--delta", "1e-5"], "--epochs"),
        (["--plan", "--epsilon", "0", "--delta", "1e-5"], "--epsilon"),
        (["--plan", "--epochs", "1", "--delta", "1e-5", "--records", "0"], "--records"),
        (["--plan", "--epochs", "1", "--delta", "1e-5", "--records", "2001"], "requests"),
    ],
)
def test_what_is_wrong_is_named(file, capsys, options, said):
    assert main(["forget", file, *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}: ")


def test_only_noisy_sgd_is_made_to_forget(tmp_path, capsys):
    path = tmp_path / "moments.toml"
    path.write_text(tomli_w.dumps(to_dict(pabi.NoisySecondMoments(9, 2, 1.0, noise_std=1.0))))
    options = ["--plan", "--epochs", "1", "--delta", "1e-5"]
    assert main(["forget", str(path), *options]) == 2
    assert "noisy_sgd" in capsys.readouterr().err


def test_a_run_of_users_forgets_users(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text(tomli_w.dumps(to_dict(replace(RUN, unit="user"))))
    options = ["--plan", "--epochs", "2", "--delta", "1e-5", "--records", "3"]
    assert main(["forget", str(path), *options]) == 0
    assert capsys.readouterr().out.startswith(
        "epochs       2 after the request, to forget 3 of 2000 users"
    )
    assert main(["forget", str(path), *options, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["unit"] == "user"
    assert pabi.verify(json.dumps(table)).unit == "user"


def test_a_description_of_forgetting_is_a_run_file(tmp_path, capsys):
    path = tmp_path / "forgetting.toml"
    path.write_text(tomli_w.dumps(to_dict(pabi.Unlearning(RUN, [(40, 1)]))))
    assert main(["account", str(path), "--delta", "1e-5"]) == 0
    assert "adjacency    retrained" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 2
    assert "this is a run file" in capsys.readouterr().err
