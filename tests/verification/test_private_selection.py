"""Certificates of private selections: honest ones are accepted, and each altered number is refused."""

from __future__ import annotations

import copy
import json
import re
from functools import cache

import pytest

import pabi
from pabi.numbers.errors import InvalidInput


def trained(noise_std, batches=None):
    return pabi.NoisySGD(
        pabi.Loss.logistic(1.0),
        n=1000,
        batches=pabi.ShuffleOnce(100) if batches is None else batches,
        epochs=3,
        step_size=0.5,
        noise_std=noise_std,
    ).guarantee(1e-5)


@cache
def honest(name):
    score = pabi.NoisyIteration(1.0, 0.01, 0.02, steps=1)
    return {
        "one": lambda: pabi.select(trained(0.05), 10.0),
        "geometric": lambda: pabi.select(trained(0.05), 10.0, 1.0),
        "several": lambda: pabi.select([trained(0.05), trained(0.06)], 10.0),
        "scored": lambda: pabi.select(trained(0.05), 10.0, scoring=score.guarantee(1e-5)),
        "random": lambda: pabi.select(trained(0.05, pabi.Poisson(100)), 10.0),
        "full": lambda: pabi.select(trained(0.05, pabi.FullBatch()), 10.0, -0.5),
        "composed": lambda: pabi.compose(
            pabi.select(trained(0.05), 10.0), pabi.select(trained(0.05), 4.0), trained(0.06)
        ),
    }[name]()


NAMES = ("one", "geometric", "several", "scored", "random", "full", "composed")


@pytest.mark.parametrize("name", NAMES)
def test_honest_ones_are_accepted(name):
    guarantee = honest(name)
    for form in (guarantee, guarantee.to_json(), pabi.Guarantee.from_json(guarantee.to_json())):
        verdict = pabi.verify(form)
        assert verdict.ok, verdict.reason
        assert set(verdict.assumptions) <= set(guarantee.assumptions)
    assert guarantee.verified
    assert pabi.verify(guarantee.certificate).ok


def test_the_scope_is_that_of_the_parts():
    assert pabi.verify(honest("one")).scope == "run"
    assert pabi.verify(honest("scored")).scope == "iteration"


def both(data, change):
    """Changes the claim of the guarantee and that of its certificate."""
    change(data["tradeoff"])
    change(data["certificate"]["claim"]["tradeoff"])


def scaled(key, factor):
    def change(curve):
        curve[key] *= factor

    return change


def swap_numbers(curve):
    curve["mean_trials"], curve["log_ratio"] = curve["log_ratio"], curve["mean_trials"]


def less_noise(curve):
    for i, mu in enumerate(curve["base"]["mus"]):
        curve["base"]["mus"][i] = 0.9 * mu


def without_law(data):
    data["assumptions"] = [a for a in data["assumptions"] if "number of trials is drawn" not in a]


ALTERED = {
    "half the trials": (lambda d: both(d, scaled("mean_trials", 0.5)), "mean_trials: the law"),
    "a little fewer": (lambda d: both(d, scaled("mean_trials", 1 - 1e-12)), "mean_trials: the law"),
    "a smaller ratio": (
        lambda d: both(d, scaled("log_ratio", 1 - 1e-9)),
        "log_ratio: .* could not",
    ),
    "no ratio": (lambda d: both(d, scaled("log_ratio", 0.0)), "log_ratio: .* could not"),
    "numbers swapped": (lambda d: both(d, swap_numbers), "mean_trials"),
    "a better run": (lambda d: both(d, less_noise), "base: mu"),
    "the law unsaid": (without_law, "assumptions: the guarantee keeps silent"),
}


def test_altered_files_are_refused():
    for how, (alter, why) in ALTERED.items():
        data = json.loads(honest("one").to_json())
        alter(data)
        verdict = pabi.verify(data)
        assert not verdict.ok, how
        assert re.search(why, verdict.reason), (how, verdict.reason)


def test_a_mean_of_more_is_accepted():
    data = json.loads(honest("one").to_json())
    both(data, scaled("mean_trials", 2.0))
    del data["epsilon"], data["delta"]
    assert pabi.verify(data).ok


def test_a_score_without_its_proof_is_refused():
    data = json.loads(honest("scored").to_json())
    data["certificate"]["scoring"] = None
    assert "keeps silent" not in pabi.verify(data).reason  # fewer assumptions than are listed
    louder = json.loads(honest("one").to_json())
    score = pabi.NoisyIteration(1.0, 0.5, 0.02, steps=1).guarantee(1e-5)
    louder["certificate"]["scoring"] = copy.deepcopy(score.certificate.payload)
    assert pabi.verify(louder).reason.startswith("base: mu")


def test_trials_of_another_adjacency_are_refused():
    data = json.loads(honest("one").to_json())
    data["certificate"]["trials"][0]["adjacency"] = "zero_out"
    assert not pabi.verify(data).ok


def test_a_composition_of_selections_cannot_drop_one():
    data = json.loads(honest("composed").to_json())
    factors = data["tradeoff"]["factors"]
    data["tradeoff"]["factors"] = [f for f in factors if f.get("mean_trials") != 10.0]
    data.pop("epsilon", None), data.pop("delta", None)
    assert pabi.verify(data).reason.startswith("tradeoff: the certificate proves less")


def test_what_has_no_proof_has_no_certificate():
    testing = trained(0.05).for_testing()
    assert pabi.select(testing, 10.0).certificate is None
    with pytest.raises(InvalidInput, match="guarantee: expected at least one"):
        pabi.select([], 10.0)
