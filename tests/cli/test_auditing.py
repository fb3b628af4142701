"""`pabi audit`."""

from __future__ import annotations

import json

import pytest

import pabi
from pabi.cli import main
from pabi.guarantees.guarantee import Guarantee
from pabi.tradeoff import Gaussian

RUN = """
kind = "noisy_sgd"
n = 50
steps = 4
step_size = 0.5
noise_std = 0.08
loss = { kind = "convex", smoothness = 1.0, gradient_bound = 1.0 }
batches = { kind = "full_batch" }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN, "utf-8")
    return str(path)


def test_the_table(file, capsys):
    assert main(["audit", file, "--delta", "1e-5", "--trainings", "1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "audit          not refuted"
    assert lines[2] == "trainings      1000, confidence 0.95"
    assert lines[-2].split()[:2] == ["exact", "instance"]


def test_json(file, capsys):
    assert main(["audit", file, "--delta", "1e-5", "--trainings", "1000", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["readings"][0]["delta"] == 1e-5
    assert table["readings"][0]["epsilon_lower"] <= table["readings"][0]["exact"]


LOGISTIC = RUN.replace(
    '{ kind = "convex", smoothness = 1.0, gradient_bound = 1.0 }',
    '{ kind = "logistic", feature_norm = 1.0 }',
)


def test_the_reach_is_said_and_nothing_is_trained(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text(LOGISTIC, "utf-8")
    assert main(["audit", str(path), "--reach", "--trainings", "400"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("400 trainings find, at confidence 0.95")
    assert lines[2].startswith("noise")


def test_a_loss_without_canaries_has_no_reach(file, capsys):
    assert main(["audit", file, "--reach"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_refuted_guarantee_is_a_no(file, capsys, monkeypatch):
    wrong = Guarantee.from_tradeoff(
        Gaussian(0.1), adjacency="replace_one", method="stated", source="a test"
    )
    monkeypatch.setattr(pabi.NoisySGD, "guarantee", lambda self, delta: wrong)
    assert main(["audit", file, "--delta", "1e-5", "--trainings", "1000"]) == 1
    assert capsys.readouterr().out.startswith("audit          REFUTED\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "--delta: missing"),
        (["--delta", "2"], "--delta: expected a number"),
        (["--delta", "1e-5", "--trainings", "7"], "--trainings: expected an integer ≥ 100"),
    ],
)
def test_bad_options_are_one_line(file, capsys, options, problem):
    assert main(["audit", file, *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {problem}")


def test_other_descriptions_are_not_audited(tmp_path, capsys):
    path = tmp_path / "iteration.toml"
    path.write_text('kind = "exponential_mechanism"\nsensitivity = 1.0\nepsilon = 1.0\n', "utf-8")
    assert main(["audit", str(path), "--delta", "1e-5"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
