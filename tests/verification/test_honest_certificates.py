"""What the library proves the checker accepts: certificates of every kind of run, in every form."""

from __future__ import annotations

import copy

import pytest

import pabi
from pabi.tradeoff.certificate import Certificate
from support.certificates import DELTA, RUNS, guarantee_of, payload_of, sgd, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize("part", range(10))
def test_every_kind_of_run(part):
    for name in [*RUNS][part::10]:
        g = guarantee_of(name)
        verdict = pabi.verify(g.certificate.to_json())
        assert verdict.ok, (name, verdict.reason)
        assert verdict.scope == ("iteration" if name.startswith("bare") else "run")
        assert (verdict.adjacency, verdict.assumptions) == (g.adjacency, g.assumptions)
        assert verdict.mu == g.mu
        if g.mu is None:
            claimed = sorted((mu, float(w)) for w, mu in verdict.parts)
            stated = zip(g.curve.parts, g.curve.weights, strict=True)
            assert claimed == sorted((part.mu, w) for part, w in stated), name
        assert too_small(payload_of(name), verdict) is None, name
        read = pabi.Guarantee.from_json(g.to_json())
        assert not read.verified
        assert pabi.verify(read).ok
        assert read.verified


def test_the_runs_are_what_their_names_say():
    assert payload_of("diameter")["cases"][0]["tau"] > 0
    assert payload_of("diameter of a map")["cases"][0]["tau"] > 0
    assert payload_of("bare, diameter")["cases"][0]["tau"] > 0
    assert payload_of("bare, diameter, written")["cases"][0]["tau"] > 0
    assert len(payload_of("falling")["cases"]) == 5
    assert guarantee_of("falling, reshuffle, short").method == "latest uses"
    for name in ("falling, reshuffle", "expanding, reshuffle"):
        assert guarantee_of(name).method == "epoch by epoch"
    assert guarantee_of("softmax, clipped").method == "shifted interpolation"
    assert guarantee_of("bare, composition").method == "composition"
    for name in ("reshuffle", "rising, reshuffle", "shuffle once", "falling, shuffle once"):
        assert guarantee_of(name).method == "secret order"
    for name in ("expansive", "falling", "poisson", "glm, clipped"):
        assert guarantee_of(name).method == "shifted interpolation"
    for name in ("logistic, clipped", "multiplier array"):
        assert guarantee_of(name).method == "payments in advance"


def test_positions():
    for name in ("cyclic", "falling", "diameter", "path", "partial epochs"):
        for position in (0, 2, 4):
            g = guarantee_of(name, position)
            verdict = pabi.verify(g.certificate.to_json())
            assert (verdict.ok, verdict.mu) == (True, g.mu), (name, verdict.reason)
            assert any(f"batch {position}" in s for s in verdict.assumptions)


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
