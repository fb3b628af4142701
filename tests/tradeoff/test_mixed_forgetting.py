"""Guarantees that say different things are not added up: by no maker, and by no checker."""

import contextlib
import math
from functools import cache

import pytest

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, NotApplicable
from pabi.tradeoff import Gaussian, SecretMixture
from pabi.tradeoff.guarantee import Guarantee
from support.every_case import every

DELTA = 1e-4


def run_of(adjacency="zero_out", loss=None, **changes):
    fields = {"epochs": 2, "step_size": 0.3, "noise_std": 1.0, "diameter": 1.0}
    loss = Loss.convex(1.0, gradient_bound=1.0) if loss is None else loss
    return NoisySGD(loss, 20, Cyclic(4), adjacency=adjacency, **{**fields, **changes})


@cache
def forgetting(records=1, adjacency="zero_out", published=False, steps=6):
    run = run_of(adjacency)
    return run.unlearning(DELTA, steps=steps, records=records, published=published)


OTHERS = {
    "how many": {"records": 10},
    "what becomes of them": {"adjacency": "replace_one"},
    "whether models were handed out": {"published": True},
}


def certificate_of(theorem, parts, **body):
    payloads = [part.certificate.payload for part in parts]
    header = {key: payloads[0][key] for key in ("format", "version", "adjacency")}
    return header | {"theorem": theorem, "assumes": [], "parts": payloads} | body


@every("changes", OTHERS.values())
def test_forgetting_of_others_is_not_composed(changes):
    one, other = forgetting(), forgetting(**changes)
    for pair in ((one, other), (other, one), (pabi.compose(one, one), other)):
        with pytest.raises(InvalidInput, match="^guarantees: expected the same to be forgotten"):
            pabi.compose(*pair)
    verdict = pabi.verify(certificate_of("composed", (one, other)))
    assert not verdict.ok
    assert "retrained without other records" in verdict.reason


def test_forgetting_of_the_same_records_is_composed():
    """By requests one by one, or at once, and after other steps."""
    several = run_of().unlearning(DELTA, requests=[(3, 1), (4, 1)])
    both = pabi.compose(several, forgetting(records=2), forgetting(records=2, steps=9))
    assert pabi.verify(both).ok
    assert pabi.verify(pabi.compose(both, forgetting(records=2))).ok


def test_what_says_not_what_is_forgotten_is_not_composed():
    one = forgetting()
    with pytest.raises(InvalidInput, match="certificates"):
        pabi.compose(one, one.for_testing())
    assert pabi.compose(one.for_testing()).mu == one.mu


def test_a_calibration_counts_no_forgetting_of_others():
    unlearning = pabi.Unlearning(run_of(noise_std=None), [(6, 1)])
    for changes in OTHERS.values():
        with pytest.raises(InvalidInput, match="^besides: expected the same to be forgotten"):
            pabi.calibrate(unlearning, 3.0, DELTA, besides=[forgetting(**changes)])


def test_releases_that_react_to_each_other_are_no_forgetting():
    one, renyi = forgetting(), {"kind": "renyi_dp", "order": 2.0, "rho": 99.0}
    for theorem, claim in (
        ("adaptive composition", {"mu": 99.0}),
        ("adaptive composition of divergences", {"tradeoff": renyi}),
    ):
        verdict = pabi.verify(certificate_of(theorem, (one, one), claim=claim))
        assert not verdict.ok
        assert "no request reacts to a release" in verdict.reason


def test_nothing_is_selected_from_models_that_forgot():
    one, trained = forgetting(), run_of().guarantee(DELTA)
    with pytest.raises(InvalidInput, match="^adjacency: "):
        pabi.select(one, 10.0)
    selected = pabi.select(trained, 10.0).certificate.payload
    assert pabi.verify(selected).ok
    selected["adjacency"] = "retrained"
    selected["trials"] = [one.certificate.payload]
    verdict = pabi.verify(selected)
    assert not verdict.ok
    assert verdict.reason.startswith("adjacency: ")


STRONG = Loss.strongly_convex(0.5, 1.0, gradient_bound=1.0)


def test_groups_are_zeroed_only_where_zero_is_covered():
    run, other = run_of(loss=STRONG).guarantee(DELTA), run_of().guarantee(DELTA)
    curve = SecretMixture([0.0, 1.0], [0.5, 0.5], opposite=True).symmetrised()
    said = {"method": "own", "source": "own"}
    for guarantee in (
        *(run, run.for_testing(), pabi.compose(other, run), pabi.select(run, 10.0)),
        Guarantee(Gaussian(1.0), "zero_out", assumptions=(), **said),
        Guarantee.from_tradeoff(curve, adjacency="zero_out", unit="user", **said),
    ):
        with pytest.raises(NotApplicable, match="contributions become zero"):
            guarantee.for_groups(3)
    assert other.for_groups(3).mu > 0.0
    replaced = run_of("replace_one", STRONG).guarantee(DELTA).for_testing()
    assert replaced.for_groups(3).mu == pytest.approx(3.0 * replaced.mu)
    assert math.isfinite(pabi.NoisyAccuracy(50, 0.1).guarantee(DELTA).for_groups(3).mu)


@pytest.mark.parametrize(
    "stated",
    [
        {"parts": 5},
        {"parts": []},
        {"parts": [5]},
        {"trials": {"a": 1}},
        {"scoring": 3},
        {"run": {"loss": 5}},
    ],
)
def test_a_proof_that_nobody_verified_may_have_any_form(stated):
    data = run_of().guarantee(DELTA).to_dict(certificate=True)
    data["certificate"] |= stated
    read = Guarantee.from_dict(data)
    for derive in (
        lambda: read.for_groups(2),
        lambda: pabi.compose(*2 * [Guarantee.from_dict(data | {"adjacency": "retrained"})]),
    ):
        with contextlib.suppress(InvalidInput):
            assert not derive().verified
