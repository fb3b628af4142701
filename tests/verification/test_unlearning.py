"""Certificates of forgetting: honest ones are accepted, altered ones refused."""

import json
import time
from functools import cache

import pytest

import pabi
from support.certificates import all_refused, forged, refused

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
    settings = {"loss": pabi.Loss.logistic(1.0, l2=0.05), "n": 103, "batches": SCHEMES[name]}
    settings |= {"epochs": 4, "step_size": 0.5, "noise_std": 0.3, "adjacency": "zero_out"}
    return pabi.NoisySGD(**settings | changes)


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


CHANGES = """
certificate.run.requests.-1.1 = 30
certificate.run.requests.-1.0 = 1
certificate.run.run.noise_std = 0.1
adjacency = "zero_out"; certificate.adjacency = "zero_out"
certificate.run.run.adjacency = "replace_one"
certificate.run.run.loss.l2 = 1e-9
""".strip().splitlines()


@pytest.mark.parametrize("part", range(4))
def test_altered_files_are_not_accepted(part):
    for name in [*guarantees()][part::4]:
        guarantee, data = guarantees()[name], file_of(name)
        assert guarantee.adjacency == "retrained"
        published = not data["certificate"]["run"].get("published", False)
        refused(forged(data, f"certificate.run.published = {json.dumps(published)}"))
        # Composition knows of no loss but its bound on gradients.
        hidden = guarantee.method != "unlearning, composition"
        all_refused(data, [(edit, "") for edit in (CHANGES if hidden else CHANGES[:-1])])


def test_a_smaller_claim_is_refused():
    for name in ("full", "cyclic", "once", "every epoch", "bins", "requests"):
        data = file_of(name)
        claim = data["certificate"]["claim"]
        less = "certificate.claim.mu *= 0.9; mu *= 0.9; tradeoff.mu *= 0.9"
        if "mixture" in claim:
            parts = [
                f"certificate.claim.mixture.{i}.1 *= 0.9" for i in range(len(claim["mixture"]))
            ]
            less = "; ".join(parts)
        cases = [
            f"certificate.cases.{i}.mu *= 0.9" for i in range(len(data["certificate"]["cases"]))
        ]
        refused(forged(data, "; ".join(["epsilon *= 0.5", less, *cases])))


def test_weights_of_one_record_are_refused_for_two():
    for name in ("once", "every epoch", "bins"):
        data = file_of(name)
        for case in data["certificate"]["cases"]:
            case["weight"] = [1, len(data["certificate"]["cases"])]
        refused(data, "weight")


def test_later_uses_may_not_be_left_out_where_steps_expand():
    """The last batch stands for all only where moving uses later is worse."""
    run = run_with("cyclic", loss=pabi.Loss.nonconvex(1.0, gradient_bound=1.0))
    data = json.loads(run.unlearning(1e-4, requests=[(1, 1), (1, 1)]).to_json())
    certificate = file_of("requests")["certificate"]
    certificate["run"] = data["certificate"]["run"]
    refused(certificate, "earlier use")


def test_payments_before_a_model_was_handed_out_are_refused():
    refused(forged(file_of("given"), "certificate.cases.0.tau += -1"), "handed out")


def test_something_is_owed_where_no_model_was_handed_out():
    """Until the request the records are in the batches, whatever these are."""
    nothing = {"uses": [0, 0, []], "mu": 0.0, "tau": 0, "distance": 0.0}
    linear = nothing | {"first": 0, "unit": 1.0, "ends": [], "q": []}
    bent = nothing | {"payments": [0.0] * 59}
    for name, cap in (("poisson", 30), ("fixed", 10)):
        certificate = file_of(name)["certificate"] | {"claim": {"mu": 0.0}, "cap": cap}
        del certificate["plan"]
        for theorem, case in (("unlearning", linear), ("unlearning, any modulus", bent)):
            for demands in ("every", "uses", "none"):
                stated = {"theorem": theorem, "cases": [case], "demands": demands}
                refused(certificate | stated, "^(published|demands): ")


def test_probabilities_of_many_records_are_no_work_without_end():
    """Exact ones have as many digits as records are withdrawn."""
    many = f"certificate.run.run.n = {10**18}; certificate.run.requests.0.1 = {10**9}"
    composed = {"theorem": "unlearning, composition", "plan": {}}
    for name in ("poisson", "fixed"):
        certificate = forged(file_of(name), many)["certificate"]
        refused(certificate | composed, "^requests: .* too many")
    many += f"; certificate.run.run.batches.size = {91 * 10**15}"  # eleven batches, as before
    refused(forged(file_of("once"), many), "^requests: .* too many")


def test_many_requests_are_no_work_without_end():
    """Of 40 000 requests every step asks how many came before it."""
    certificate = file_of("requests")["certificate"]
    certificate["run"]["requests"] = [[1, 1]] * 40_000
    certificate["run"]["run"]["n"] = 10**6
    certificate["run"]["run"]["batches"]["size"] = 10**5
    nothing = {"uses": [0, 0, []], "mu": 1.0, "tau": 0, "distance": 0.0}
    case = nothing | {"first": 0, "unit": 1.0, "ends": [], "q": []}
    begin = time.process_time()
    refused(certificate | {"cases": [case], "demands": "every"}, "leave a distance|time: ")
    assert time.process_time() - begin < 20.0


def test_a_certificate_of_records_proves_nothing_of_users():
    users = run_with("cyclic", unit="user").unlearning(1e-4, steps=15, records=2)
    assert pabi.verify(users).unit == "user"
    refused(forged(file_of("cyclic"), 'unit = "user"; certificate.unit = "user"'), "^unit: ")
    refused(forged(json.loads(users.to_json()), "del certificate.unit"), "^unit: ")


def test_the_stated_probability_is_that_of_the_factors():
    """Sums are divided by the same number; only how often any of two records is drawn differs."""
    guarantee = run_with("poisson").unlearning(1e-4, steps=0, records=2)
    certificate = json.loads(guarantee.to_json())["certificate"]
    assert pabi.verify(certificate).ok
    other = forged(certificate, "run.run.batches.probability = 0.2")  # in place of 10/103
    refused(other, "p = 0.36")  # 1 − 0.8²


def test_no_group_is_made_of_forgetting_models():
    run = run_with("cyclic")
    group = json.loads(run.guarantee(1e-4).for_groups(2).to_json())["certificate"]
    group["member"] = file_of("cyclic")["certificate"]
    refused(group)
    refused(group | {"adjacency": "retrained"}, "adjacency")
