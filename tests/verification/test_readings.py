"""The ε at δ of a verdict: the stated one where it is proven, the same in Python and on the command line."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import pabi
from pabi.cli import main
from pabi.numbers.showing import shown
from pabi.verification.bounds import JointBound, best_curve
from pabi.verification.refusal import Refused

DELTA = 1e-5
SCHEMES = [
    pabi.FullBatch(),
    pabi.Cyclic(100),
    pabi.ShuffleOnce(100),
    pabi.BallsInBins(100),
    pabi.Poisson(100),
    pabi.FixedSize(100),
]


def a_run(batches, **changed):
    fields = {"epochs": 5, "step_size": 0.5, "noise_std": 0.05}
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
    return pabi.NoisySGD(loss, 2000, batches, **{**fields, **changed})


def command_line(tmp_path, capsys, text, *arguments):
    """The ε that `pabi verify` prints as proven, and its exit status."""
    file = tmp_path / "stated.json"
    file.write_text(text, "utf-8")
    status = main(["verify", str(file), *arguments])
    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if line.startswith("proven"))
    return line.split("; mu")[0].removeprefix("proven").strip(), status


def own_epsilon(verdict, delta, enough):
    """What the checker itself proves."""
    if verdict.product is not None:
        return verdict.product.epsilon(delta, enough)
    return pabi.tradeoff.TradeOff.from_dict(best_curve(verdict.bounds)).epsilon(delta)


@pytest.mark.parametrize("batches", SCHEMES, ids=lambda b: b.kind)
def test_a_verdict_says_what_the_guarantee_states(batches, tmp_path, capsys):
    guarantee = a_run(batches).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    verdict = pabi.verify(guarantee)
    own = own_epsilon(verdict, DELTA, stated)
    assert own <= stated * (1.0 + 1e-6), "the checker's search ends there"
    assert verdict.reading == (max(stated, own), DELTA)
    said = shown(max(stated, own))
    assert verdict.reason.startswith(f"proven: ε = {said} at δ = {DELTA!r} (")
    printed, status = command_line(tmp_path, capsys, guarantee.to_json())
    assert (printed, status) == (f"epsilon {said} at delta {DELTA!r}", 0)


def test_a_calibrated_run_is_said_to_meet_its_target():
    run = pabi.calibrate(a_run(pabi.Poisson(100), noise_std=None), 1.0, DELTA)
    verdict = pabi.verify(run.guarantee(DELTA))
    assert verdict.reading is not None
    assert verdict.reading[0] <= 1.0


@pytest.mark.parametrize("batches", [pabi.Poisson(100), pabi.FixedSize(100)], ids=lambda b: b.kind)
def test_a_bare_certificate_says_its_own_reading(batches, tmp_path, capsys):
    certificate = a_run(batches).guarantee(1e-6).certificate
    verdict = pabi.verify(certificate)
    reading = certificate.payload["reading"]
    assert verdict.reading == (reading["epsilon"], 1e-6)
    assert f"ε = {shown(reading['epsilon'])} at δ = 1e-06" in verdict.reason
    printed, _ = command_line(tmp_path, capsys, certificate.to_json())
    assert printed == f"epsilon {shown(reading['epsilon'])} at delta 1e-06"


@pytest.mark.parametrize("excess", [1.002, 1.01, math.inf])
def test_of_a_stated_epsilon_that_the_checker_cannot_show_it_says_its_own(monkeypatch, excess):
    """The accountant's curve may prove a little more than the finest grid of the checker."""
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    claimed = guarantee.certificate.payload["reading"]["epsilon"]
    whole = JointBound.epsilon

    def coarse(self, delta, enough=0.0):
        found = whole(self, delta, enough)
        return found if enough == claimed else excess * stated

    monkeypatch.setattr(JointBound, "epsilon", coarse)
    verdict = pabi.verify(guarantee)
    assert verdict.ok
    assert verdict.reading == (min(excess * stated, claimed), DELTA)


def test_for_want_of_time_it_says_the_certificates_own(monkeypatch):
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)
    claimed = guarantee.certificate.payload["reading"]["epsilon"]
    whole = JointBound.epsilon

    def slow(self, delta, enough=0.0):
        if enough != claimed:
            raise Refused("time: it takes more than 9 s (seconds)")
        return whole(self, delta, enough)

    monkeypatch.setattr(JointBound, "epsilon", slow)
    verdict = pabi.verify(guarantee)
    assert verdict.ok, verdict.reason
    assert verdict.reading == (claimed, DELTA)


def test_a_smaller_target_is_answered_by_the_checker(tmp_path, capsys):
    """Not by what is stated, which is more."""
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    for factor, status in ((1.0, 0), (0.99, 1)):
        target = ("--epsilon", repr(factor * stated), "--delta", repr(DELTA))
        assert command_line(tmp_path, capsys, guarantee.to_json(), *target)[1] == status


def test_a_smaller_epsilon_than_is_proven_is_refused():
    data = json.loads(a_run(pabi.Poisson(100)).guarantee(DELTA).to_json())
    data["epsilon"] *= 0.99
    verdict = pabi.verify(data)
    assert not verdict.ok
    assert verdict.reading is None


def test_without_a_reading_a_verdict_says_the_curve():
    guarantee = replace(a_run(pabi.Cyclic(100)).guarantee(DELTA), tuned_at=None)
    verdict = pabi.verify(guarantee)
    assert verdict.reading is None
    assert verdict.reason == f"proven: μ = {verdict.mu!r}"
