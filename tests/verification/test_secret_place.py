"""Secret places: what the checker asks for, what it refuses, and what it makes of the mixtures."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import pabi
from pabi.account.analyses import secret_order
from pabi.tradeoff import Gaussian, Product, SecretMixture
from pabi.verification.bounds import JointBound
from pabi.verification.factors.closed_forms import Gaussians
from pabi.verification.factors.mixtures import SecretMixtures
from support.allocations import run_in_bins
from support.certificates import all_refused, granted

DELTA = 1e-5
run = partial(run_in_bins, n=100, epochs=4)

RUNS = {
    "zero out": {},
    "replace one": {"adjacency": "replace_one"},
    "part of an epoch": {"epochs": 2.6},
    "cool-down": {"cooldown_steps": 3},
    "varied": {"epochs": None, "steps": 20, "step_size": np.linspace(0.5, 0.2, 20)},
    "diameter": {"diameter": 0.05, "epochs": 30},
    "diameter, replace one": {"diameter": 0.05, "epochs": 30, "adjacency": "replace_one"},
    "sizes matter": {"loss": pabi.Loss.logistic(1.0, l2=0.05), "step_size": 3.0, "n": 300},
    "never reached": {"epochs": 0.4},
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_proposed_is_granted(name):
    guarantee = granted(secret_order.secret_place, run(**RUNS[name]), DELTA)
    assert isinstance(guarantee.curve, SecretMixture | Product)


def payload_of(**changes):
    guarantee = granted(secret_order.secret_place, run(**changes), DELTA)
    return guarantee.certificate.payload


FORGED = """
claim.tradeoff{0}.means.-1 *= 0.999999999
claim.tradeoff{0}.weights.-1 += -1e-6; claim.tradeoff{0}.weights.0 += 1e-6
claim.tradeoff{0}.opposite = {1}
del claim.tradeoff{0}.means.-1; del claim.tradeoff{0}.weights.-1
run.batches = {{"kind": "shuffle_once", "size": 20}}
run.batches.cap = 60; cap = 60
run.gradient_sensitivity = 2.0
theorem = "secret order"
claim.tradeoff{0}.weights.0 *= 0.5
""".strip()


@pytest.mark.parametrize("name", ["zero out", "replace one"])
def test_what_is_not_proven_is_refused(name):
    payload = payload_of(**RUNS[name])
    assert pabi.verify(payload).ok
    curve = payload["claim"]["tradeoff"]
    place = "" if curve["kind"] == "secret_mixture" else ".factors.0"
    opposite = (curve if not place else curve["factors"][0])["opposite"]
    edits = FORGED.format(place, json.dumps(not opposite)).splitlines()
    if name == "zero out":
        edits[6] = 'run.adjacency = "replace_one"; adjacency = "replace_one"'
    all_refused(payload, [(edit, "") for edit in edits])


def test_the_failure_cannot_be_left_out():
    payload = payload_of(**RUNS["sizes matter"])
    assert pabi.verify(payload).ok
    all_refused(payload, [(f"claim.tradeoff.failure *= {less}", "") for less in (0.0, 0.5)])


def test_orders_that_move_others_prove_nothing_secret():
    shuffled = run(batches=pabi.ShuffleOnce(20)).guarantee(DELTA).certificate.payload
    shuffled["theorem"] = "secret place"
    assert "those of others" in pabi.verify(shuffled).reason
    cyclic = run(batches=pabi.Cyclic(20)).guarantee(DELTA).certificate.payload
    cyclic["theorem"] = "secret place"
    assert not pabi.verify(cyclic).ok


PARTS = [(Fraction(1, 4), m) for m in (0.7, 0.8, 1.0, 1.6)]


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_one_mixture_against_the_accountant(opposite, delta):
    """Which finds places by Newton's method in doubles, and shares no code with the checker."""
    curve = SecretMixture([m for _, m in PARTS], [0.25] * 4, opposite)
    bound = JointBound.of(SecretMixtures.single(PARTS, opposite))
    epsilon = curve.epsilon(delta)
    assert bound.epsilon(delta) == pytest.approx(epsilon, rel=3e-9, abs=3e-9)
    assert epsilon <= bound.epsilon(delta, epsilon) <= epsilon * (1.0 + 1e-8) + 1e-8
    assert bound.epsilon(delta, 0.99 * epsilon) >= epsilon * (1.0 - 1e-8)


@pytest.mark.parametrize("opposite", [False, True])
def test_several_mixtures_against_the_accountant(opposite):
    one = SecretMixtures.single(PARTS, opposite)
    curve = SecretMixture([m for _, m in PARTS], [0.25] * 4, opposite)
    low, high = Product([(curve, 2), (Gaussian(0.5), 1)]).epsilon_bounds(DELTA)
    found = JointBound.of(one, one, Gaussians.single(0.5)).epsilon(DELTA)
    assert low <= found <= 1.002 * high


def test_every_mixture_needs_one_of_its_own():
    small = SecretMixtures.single(PARTS, False)
    large = SecretMixtures.single([(Fraction(1), 2.0)], False)
    assert SecretMixtures.merged([small, small]).missing(small) is not None
    assert (
        SecretMixtures.merged([small, small]).missing(SecretMixtures.merged([large, small])) is None
    )
    assert large.missing(small) is not None
    assert SecretMixtures.single(PARTS, True).missing(large) is not None
    product = {"factors": []}
    SecretMixtures.merged([small, large]).write(product)
    again = [SecretMixtures.read(curve, curve["count"]) for curve in product["factors"]]
    assert SecretMixtures.merged([small, large]).missing(SecretMixtures.merged(again)) is None
