"""The verifier on plans with the law of a distance."""

from __future__ import annotations

import copy
import json

import pytest

import pabi
from pabi.numbers import encoding

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
DELTA = 1e-5


def a_run(batches, **changes):
    settings = {
        "loss": pabi.Loss.logistic(feature_norm=2.0, l2=0.1),
        "n": 500,
        "epochs": 10,
        "step_size": 0.5,
        "noise_multiplier": 1.5,
        "clip_norm": 1.0,
    }
    return pabi.NoisySGD(batches=batches, **settings | changes)


RUNS = {
    "poisson": a_run(pabi.Poisson(50, cap=100), adjacency="zero_out"),
    "poisson, replaced": a_run(pabi.Poisson(50, cap=100)),
    "fixed size": a_run(pabi.FixedSize(50)),
    "fixed size, zeroed, cool-down": a_run(
        pabi.FixedSize(50), adjacency="zero_out", cooldown_steps=3
    ),
    "falling": a_run(pabi.Poisson(50, cap=100), step_size=lambda k: 0.5 / (1.0 + 0.01 * k)),
}


@pytest.fixture(scope="module")
def files():
    return {name: json.loads(run.guarantee(DELTA).to_json()) for name, run in RUNS.items()}


def plan_in(file):
    return file["certificate"]["plan"]


@pytest.mark.parametrize("name", RUNS)
def test_the_law_is_proven_and_helps(files, name):
    assert "drawn" in plan_in(files[name])
    verdict = pabi.verify(files[name])
    assert verdict.ok, verdict.reason
    assert pabi.Guarantee.from_dict(files[name]).method == "one-sided shift"
    assert RUNS[name].guarantee(DELTA).epsilon(DELTA) < RUNS[name].guarantee(
        DELTA
    ).composition.epsilon(DELTA)


def forged(file, change):
    other = copy.deepcopy(file)
    change(plan_in(other)["drawn"], plan_in(other))
    return pabi.verify(other)


def numbers(table, name):
    return encoding.read_floats(name, table[name])


def scaled(name, factor):
    def change(drawn, _):
        drawn[name] = encoding.floats(numbers(drawn, name) * factor)

    return change


def other_value(name, value):
    def change(drawn, _):
        drawn[name] = value

    return change


FORGERIES = {
    "smaller distances": (scaled("distances", 0.99), "factors|mu"),
    "larger tilts": (scaled("tilts", 1.2), "factors|mu"),
    "smaller tilts": (scaled("tilts", 0.8), "factors|mu"),
    "fewer draws": (lambda d, _: d.update(lengths=d["lengths"][1:]), "factors|mu|largest|prove"),
    "no tilts": (other_value("tilts", []), "drawn: expected"),
    "a tilt less": (lambda d, _: d.update(tilts=d["tilts"][1:]), "tilt|malformed|expected"),
    "a negative tilt": (scaled("tilts", -1.0), "tilts and distances > 0"),
    "no finite distance": (scaled("distances", float("inf")), "finite|distances > 0|expected"),
    "no blocks": (other_value("lengths", []), "lengths: "),
    "more blocks than steps": (other_value("lengths", [10**9]), "lengths: "),
    "another key": (other_value("more", 1), "unknown key"),
    "a key less": (lambda d, _: d.pop("tilts"), "tilts"),
    "pulls besides": (lambda _, plan: plan.update(pulls=encoding.floats([0.0])), "drawn: "),
}


def test_forgeries_are_refused(files):
    for name, (change, reason) in FORGERIES.items():
        verdict = forged(files["poisson"], change)
        assert not verdict.ok, name
        assert any(word in verdict.reason for word in reason.split("|")), (name, verdict.reason)


def test_unlike_steps_are_no_block(files):
    verdict = forged(files["falling"], other_value("lengths", [2]))
    assert not verdict.ok
    assert "not alike" in verdict.reason


def test_a_smaller_claim_is_refused(files):
    """The mixture in the claim, with less of its dearest parts."""
    for shrink in (1.0 - 3e-9, 0.9):
        other = copy.deepcopy(files["poisson"])
        for curve in (other["certificate"]["claim"]["product"], other["tradeoff"]):
            mixture = next(f for f in curve["factors"] if f["kind"] == "mixture")
            mixture["mus"] = [mu * shrink for mu in mixture["mus"]]
        assert not pabi.verify(other).ok
