"""Certificates of private selections: honest ones are accepted, and each altered number is refused."""

import json
from functools import cache

import pytest

import pabi
from pabi.numbers.errors import InvalidInput
from support.certificates import accepted, all_refused, forged, refused


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
    accepted(honest(name))


def test_the_scope_is_that_of_the_parts():
    assert pabi.verify(honest("one")).scope == "run"
    assert pabi.verify(honest("scored")).scope == "iteration"


BOTH = "{0}{1}; certificate.claim.{0}{1}"  # the claim of the guarantee and that of its certificate
ALTERED = [
    (BOTH.format("tradeoff.mean_trials", " *= 0.5"), "mean_trials: the law"),
    (BOTH.format("tradeoff.mean_trials", " *= 0.999999999999"), "mean_trials: the law"),
    (BOTH.format("tradeoff.mean_trials", " = 0.2"), "mean_trials"),
    (BOTH.format("tradeoff.log_ratio", " *= 0.999999999"), "log_ratio: .* could not"),
    (BOTH.format("tradeoff.log_ratio", " *= 0.0"), "log_ratio: .* could not"),
    (BOTH.format("tradeoff.base.mus", " *= 0.9"), "base: mu"),
    ('certificate.trials.0.adjacency = "zero_out"', ""),
]


def test_altered_files_are_refused():
    data = json.loads(honest("one").to_json())
    all_refused(data, ALTERED)
    unsaid = [a for a in data["assumptions"] if "number of trials is drawn" not in a]
    refused(data | {"assumptions": unsaid}, "assumptions: the guarantee keeps silent")
    more = forged(data, BOTH.format("tradeoff.mean_trials", " *= 2.0") + "; del epsilon; del delta")
    assert pabi.verify(more).ok


def test_a_score_without_its_proof_is_refused():
    data = json.loads(honest("scored").to_json())
    data["certificate"]["scoring"] = None
    assert "keeps silent" not in pabi.verify(data).reason  # fewer assumptions than are listed
    louder = json.loads(honest("one").to_json())
    score = pabi.NoisyIteration(1.0, 0.5, 0.02, steps=1).guarantee(1e-5)
    louder["certificate"]["scoring"] = score.certificate.payload
    refused(louder, "^base: mu")


def test_a_composition_of_selections_cannot_drop_one():
    data = forged(json.loads(honest("composed").to_json()), "del epsilon; del delta")
    factors = data["tradeoff"]["factors"]
    data["tradeoff"]["factors"] = [f for f in factors if f.get("mean_trials") != 10.0]
    refused(data, "^tradeoff: the certificate proves less")


def test_what_has_no_proof_has_no_certificate():
    testing = trained(0.05).for_testing()
    assert pabi.select(testing, 10.0).certificate is None
    with pytest.raises(InvalidInput, match="guarantee: expected at least one"):
        pabi.select([], 10.0)
