"""`pabi audit`."""

from __future__ import annotations

import json

import pytest

import pabi
from pabi.tradeoff import Gaussian
from pabi.tradeoff.guarantee import Guarantee
from support.run_files import sampler, toml
from support.tables import assert_one_line, run

RUN = {
    "n": 50,
    "steps": 4,
    "step_size": 0.5,
    "noise_std": 0.08,
    "loss": {"kind": "convex", "smoothness": 1.0, "gradient_bound": 1.0},
    "batches": {"kind": "full_batch"},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(toml(RUN), "utf-8")
    return str(path)


AUDIT = ("--delta", "1e-5", "--trainings", "1000")


def test_the_table_and_json(file):
    status, out, _ = run("audit", file, *AUDIT)
    lines = out.splitlines()
    assert (status, lines[0]) == (0, "audit          not refuted")
    assert lines[2] == "trainings      1000, confidence 0.95"
    assert lines[-2].split()[:2] == ["exact", "instance"]
    status, out, _ = run("audit", file, *AUDIT, "--json")
    table = json.loads(out)
    assert status == 0
    assert table["readings"][0]["delta"] == 1e-5
    assert table["readings"][0]["epsilon_lower"] <= table["readings"][0]["exact"]


def test_the_reach_is_said_and_nothing_is_trained():
    logistic = toml(RUN, loss={"kind": "logistic", "feature_norm": 1.0})
    status, out, _ = run("audit", "-", "--reach", "--trainings", "400", stdin=logistic)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].startswith("400 trainings find, at confidence 0.95")
    assert lines[2].startswith("noise")


def test_a_refuted_guarantee_is_a_no(file, monkeypatch):
    wrong = Guarantee.from_tradeoff(
        Gaussian(0.1), adjacency="replace_one", method="stated", source="a test"
    )
    monkeypatch.setattr(pabi.NoisySGD, "guarantee", lambda self, delta: wrong)
    status, out, _ = run("audit", file, *AUDIT)
    assert (status, out.splitlines()[0]) == (1, "audit          REFUTED")


def test_what_is_not_audited_is_said_in_one_line(file):
    for options, problem in [
        ("", "--delta: missing"),
        ("--delta 2", "--delta: expected a number"),
        ("--delta 1e-5 --trainings 7", "--trainings: expected an integer ≥ 100"),
        ("--reach", ""),  # a loss without canaries
    ]:
        assert_one_line(run("audit", file, *options.split()), f"error: {problem}")
    other = sampler("exponential_mechanism")
    assert_one_line(run("audit", "-", "--delta", "1e-5", stdin=other), "error: ")
