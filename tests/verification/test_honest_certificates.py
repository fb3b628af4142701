"""What the library proves the checker accepts: certificates of every kind of run, in every form."""

import copy

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Loss, NoisyIteration, NoisySGD
from pabi.tradeoff.certificate import Certificate
from support.certificates import DELTA, guarantee_of, payload_of, sgd

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def test_the_runs_are_what_their_names_say():
    for name in ("diameter", "diameter of a map", "bare, diameter", "bare, diameter, written"):
        assert payload_of(name)["cases"][0]["tau"] > 0
    assert len(payload_of("falling")["cases"]) == 5
    for method, names in {
        "latest uses": ["falling, reshuffle, short"],
        "epoch by epoch": ["falling, reshuffle", "expanding, reshuffle"],
        "shifted interpolation": [
            "softmax, clipped",
            "expansive",
            "falling",
            "poisson",
            "glm, clipped",
        ],
        "composition": ["bare, composition"],
        "secret order": ["reshuffle", "rising, reshuffle", "shuffle once", "falling, shuffle once"],
        "payments in advance": ["logistic, clipped", "multiplier array"],
    }.items():
        assert {guarantee_of(name).method for name in names} == {method}


def test_every_form_of_input():
    g = sgd().guarantee(delta=DELTA)
    forms = [g, g.certificate, g.certificate.payload, g.certificate.to_json(), g.to_json()]
    forms += [g.to_dict(certificate=True), Certificate.from_json(g.certificate.to_json())]
    for form in forms:
        assert pabi.verify(form).ok
    assert g.certificate.verdict.ok


def test_verifying_changes_nothing():
    for name in ("cyclic", "reshuffle", "falling", "bare, written"):
        payload = payload_of(name)
        before = copy.deepcopy(payload)
        pabi.verify(payload)
        assert payload == before


def test_a_larger_claim_is_proven_too():
    payload = payload_of("cyclic")
    payload["claim"]["mu"] *= 1.5
    verdict = pabi.verify(payload)
    assert verdict.ok
    assert verdict.mu == payload["claim"]["mu"]
    payload = payload_of("shuffle once")
    payload["claim"] = {"mu": "inf"}
    assert pabi.verify(payload).ok


def test_shuffled_batches_are_no_worse_than_the_worst_position():
    """The claim {"mu": worst} follows from a mixture."""
    payload = payload_of("shuffle once")
    worst = max(mu for _, mu in payload["claim"]["mixture"])
    payload["claim"] = {"mu": worst}
    assert pabi.verify(payload).mu == worst


# Certificates are short, and long runs are checked in time.


def test_size_of_a_long_constant_run():
    run = NoisySGD(
        Loss.convex(smoothness=1.0, l2=0.01),
        n=10**6,
        batches=Cyclic(1000),
        steps=10**9,
        step_size=0.1,
        noise_std=1.0,
        gradient_sensitivity=10.0,
    )
    for changes in ({}, {"batches": FullBatch()}, {"diameter": 0.01}, {"release": "path"}):
        fields = {k: getattr(run, k) for k in run.__dataclass_fields__}
        g = NoisySGD(**{**fields, "epochs": None, **changes}).guarantee(delta=1e-7)
        assert len(g.certificate.to_json()) < 1000
        assert pabi.verify(g).ok
    long = NoisyIteration(
        contraction=0.9, step_sensitivity=1.0, step_noise_std=1.0, steps=10**9
    ).guarantee()
    assert len(long.certificate.to_json()) < 1000
    assert pabi.verify(long).ok


@pytest.mark.parametrize("t", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_size_of_many_different_steps(t):
    rng = np.random.default_rng(0)
    run = NoisySGD(
        Loss.convex(smoothness=1.0),
        n=100,
        batches=Cyclic(10),
        steps=t,
        step_size=rng.uniform(0.1, 1.0, t),
        noise_std=rng.uniform(0.1, 1.0, t),
        gradient_sensitivity=10.0,
    )
    g = run.guarantee(delta=DELTA, position=4)
    assert len(g.certificate.to_json()) < 50 * t
    assert pabi.verify(g.certificate.to_json()).ok
    it = NoisyIteration(
        contraction=rng.uniform(0.9, 1.05, t),
        step_sensitivity=rng.uniform(0.0, 1.0, t),
        step_noise_std=rng.uniform(0.1, 1.0, t),
    ).guarantee(delta=DELTA)
    assert len(it.certificate.to_json()) < 50 * t
    assert pabi.verify(it.certificate.to_json()).ok
