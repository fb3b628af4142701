"""Certificates of forgetting: honest ones are accepted, altered ones refused."""

from __future__ import annotations

import json
from functools import cache

import pytest

import pabi

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

SCHEMES = {
    "full": pabi.FullBatch(),
    "cyclic": pabi.Cyclic(10),
    "once": pabi.ShuffleOnce(10),
    "every epoch": pabi.Reshuffle(10),
    "bins": pabi.BallsInBins(10),
    "fixed": pabi.FixedSize(10),
    "poisson": pabi.Poisson(10, cap=30),
}


def run_with(name, **changes):
    settings = {
        "n": 103,
        "batches": SCHEMES[name],
        "epochs": 4,
        "step_size": 0.5,
        "noise_std": 0.3,
        "adjacency": "zero_out",
    } | changes
    loss = settings.pop("loss", pabi.Loss.logistic(1.0, l2=0.05))
    return pabi.NoisySGD(loss, **settings)


BENT = pabi.Loss.weakly_smooth([(0.9, 1.0)], l2=0.5, gradient_bound=1.0)


@cache
def guarantees():
    given = {"loss": pabi.Loss.lipschitz(1.0, l2=0.5), "diameter": 0.5}
    one_by_one = {"requests": [(1, 1), (1, 2)]}
    return {
        **{name: run_with(name).unlearning(1e-4, steps=15, records=2) for name in SCHEMES},
        "requests": run_with("cyclic").unlearning(1e-4, **one_by_one),
        "secret requests": run_with("every epoch").unlearning(1e-4, **one_by_one),
        "given": run_with("poisson", diameter=2.0).unlearning(1e-4, steps=15, published=True),
        "bent": run_with("full", n=4, loss=BENT).unlearning(1e-4, steps=20),
        "bent, several": run_with("full", n=4, loss=BENT).unlearning(1e-4, steps=20, records=2),
        "bent, given": run_with("cyclic", **given).unlearning(1e-4, steps=60, published=True),
        "varying": run_with("cyclic", step_size=lambda k: 0.5 / (1 + k)).unlearning(1e-4, epochs=1),
    }


def file_of(name):
    return json.loads(guarantees()[name].to_json())


def altered(name, change):
    data = file_of(name)
    change(data, data["certificate"])
    return data


def other_adjacency(data, certificate):
    data["adjacency"] = certificate["adjacency"] = "zero_out"


CHANGES = {
    "more records": lambda data, c: c["run"]["requests"][-1].__setitem__(1, 30),
    "fewer steps": lambda data, c: c["run"]["requests"][-1].__setitem__(0, 1),
    "less noise": lambda data, c: c["run"]["run"].update(noise_std=0.1),
    "another adjacency": other_adjacency,
    "the other data": lambda data, c: c["run"]["run"].update(adjacency="replace_one"),
    "published": lambda data, c: c["run"].update(published=not c["run"].get("published", False)),
    "no l2": lambda data, c: c["run"]["run"]["loss"].update(l2=1e-9),
}


@pytest.mark.parametrize("part", range(4))
def test_honest_files_are_accepted_and_altered_ones_are_not(part):
    for name in [*guarantees()][part::4]:
        verdict = pabi.verify(file_of(name))
        assert verdict.ok, (name, verdict.reason)
        assert (verdict.adjacency, verdict.scope) == ("retrained", "run")
        assert set(verdict.assumptions) == set(guarantees()[name].assumptions)
        for how, change in CHANGES.items():
            # Composition knows of no loss but its bound on gradients.
            if how != "no l2" or guarantees()[name].method != "unlearning, composition":
                assert not pabi.verify(altered(name, change)).ok, (name, how)


def test_a_smaller_claim_is_refused():
    def smaller(data, certificate):
        claim, tradeoff = certificate["claim"], data["tradeoff"]
        data["epsilon"] = 0.5 * data["epsilon"]
        if "mu" in claim:
            claim["mu"] = data["mu"] = tradeoff["mu"] = 0.9 * claim["mu"]
        for part in claim.get("mixture", ()):
            part[1] = 0.9 * part[1]
        for case in certificate["cases"]:
            case["mu"] = 0.9 * case["mu"]

    for name in ("full", "cyclic", "once", "every epoch", "bins", "requests"):
        assert not pabi.verify(altered(name, smaller)).ok, name


def test_weights_of_one_record_are_refused_for_two():
    def of_one(data, certificate):
        for case in certificate["cases"]:
            case["weight"] = [1, len(certificate["cases"])]

    for name in ("once", "every epoch", "bins"):
        verdict = pabi.verify(altered(name, of_one))
        assert not verdict.ok, name
        assert "weight" in verdict.reason


def test_later_uses_may_not_be_left_out_where_steps_expand():
    """The last batch stands for all only where moving uses later is worse."""
    run = run_with("cyclic", loss=pabi.Loss.nonconvex(1.0, gradient_bound=1.0))
    data = json.loads(run.unlearning(1e-4, requests=[(1, 1), (1, 1)]).to_json())
    certificate = file_of("requests")["certificate"]
    certificate["run"] = data["certificate"]["run"]
    verdict = pabi.verify(certificate)
    assert not verdict.ok
    assert "earlier use" in verdict.reason


def test_payments_before_a_model_was_handed_out_are_refused():
    def earlier(data, certificate):
        certificate["cases"][0]["tau"] -= 1

    verdict = pabi.verify(altered("given", earlier))
    assert not verdict.ok
    assert "handed out" in verdict.reason


def test_a_certificate_of_records_proves_nothing_of_users():
    users = run_with("cyclic", unit="user").unlearning(1e-4, steps=15, records=2)
    assert pabi.verify(users).unit == "user"

    def of_users(data, certificate):
        data["unit"] = certificate["unit"] = "user"

    assert pabi.verify(altered("cyclic", of_users)).reason.startswith("unit: ")
    silent = json.loads(users.to_json())
    del silent["certificate"]["unit"]
    assert pabi.verify(silent).reason.startswith("unit: ")


def test_the_stated_probability_is_that_of_the_factors():
    """Sums are divided by the same number; only how often any of two records is drawn differs."""
    guarantee = run_with("poisson").unlearning(1e-4, steps=0, records=2)
    certificate = json.loads(guarantee.to_json())["certificate"]
    assert pabi.verify(certificate).ok
    certificate["run"]["run"]["batches"]["probability"] = 0.2  # in place of 10/103
    certificate["reading"] = {"delta": 1e-4, "epsilon": "inf"}
    verdict = pabi.verify(certificate)
    assert not verdict.ok
    assert "p = 0.36" in verdict.reason  # 1 − 0.8²


def test_no_group_is_made_of_forgetting_models():
    run = run_with("cyclic")
    group = json.loads(run.guarantee(1e-4).for_groups(2).to_json())["certificate"]
    assert pabi.verify(group | {"member": file_of("cyclic")["certificate"]}).ok is False
    group |= {"adjacency": "retrained", "member": file_of("cyclic")["certificate"]}
    assert "adjacency" in pabi.verify(group).reason
