"""Joint payments: what the checker asks for, and what it refuses."""

import json
from functools import cache, partial

import numpy as np
import pytest

import pabi
from pabi.account.analyses import joint
from pabi.describe.files import to_dict
from pabi.numbers import encoding
from support.allocations import run_in_bins
from support.certificates import all_refused, forged, granted, refused

DELTA = 1e-5
run = partial(run_in_bins, noise_multiplier=2.0)

RUNS = {
    "zero out": {},
    "replace one": {"adjacency": "replace_one"},
    "part of an epoch": {"epochs": 2.4, "cooldown_steps": 2},
    "varied": {"epochs": None, "steps": 8, "step_size": np.linspace(0.5, 0.2, 8), "diameter": 0.05},
    "sizes matter": {"loss": pabi.Loss.logistic(1.0, l2=0.05), "step_size": 3.0},
    "some never reached": {"epochs": 0.7},
    # What a use leaves after one epoch is less than any double.
    "forgotten": {
        "loss": pabi.Loss.convex(1e-3).with_l2(1.0),
        "n": 200,
        "batches": pabi.BallsInBins(1),
        "step_size": 0.999,
        "clip_norm": 1.0,
    },
}


@cache
def payload_of(name):
    return granted(joint.apply, run(**RUNS[name]), DELTA).certificate.payload


@pytest.mark.parametrize("name", RUNS)
def test_what_is_proposed_is_granted(name):
    payload_of(name)


FORGED = """
plan.now.0 = -1.0
del plan.rate.-1
plan.rate.0 = 1e400
claim.tradeoff.factors.{0}.sizes.-1 *= 0.999999
claim.tradeoff.factors.{0}.counts.-1 += 1; claim.tradeoff.factors.{0}.shares.-1 *= 0.9
claim.tradeoff.factors.{0}.opposite = {1}
run.batches.size = 10
run.adjacency = "{2}"; adjacency = "{2}"
run.batches = {{"kind": "shuffle_once", "size": 20}}
run.batches.cap = 60; cap = 60
run.batches.redraw = "epoch"
run.epochs = 4
theorem = "secret steps"; plan = {{}}
""".strip()


@pytest.mark.parametrize("name", ["zero out", "replace one"])
def test_what_is_not_proven_is_refused(name):
    payload = payload_of(name)
    curve = payload["claim"]["tradeoff"]
    if "factors" not in curve:
        payload = payload | {
            "claim": {"tradeoff": {"kind": "product", "factors": [{**curve, "count": 1}]}}
        }
    factors = payload["claim"]["tradeoff"]["factors"]
    i = [factor["kind"] for factor in factors].index("random_allocation")
    other = {"zero_out": "replace_one", "replace_one": "zero_out"}[payload["adjacency"]]
    edits = FORGED.format(i, json.dumps(not factors[i]["opposite"]), other).splitlines()
    for part in ("now", "rate", "common"):
        largest = int(np.argmax(encoding.read_floats(part, payload["plan"][part])))
        edits.append(f"plan.{part}.{largest} *= 0.999999")
    edits += [f"claim.tradeoff.factors.{i}.common *= 0.9"] * (name == "zero out")
    all_refused(payload, [(edit, "") for edit in edits])


def test_the_failure_cannot_be_left_out():
    refused(forged(payload_of("sizes matter"), "del claim.tradeoff.failure"))


def test_what_underflows_is_owed():
    """Every step multiplies 2^-1074 by 0.4, which is 0 in doubles. The noise is as small."""
    run = pabi.NoisySGD(
        pabi.Loss.convex(1.0).with_l2(6e299),
        2,
        pabi.BallsInBins(1),
        steps=6,
        cooldown_steps=2,
        step_size=1e-300,
        clip_norm=4e-24,
        noise_std=5e-24,
        adjacency="zero_out",
    )
    nothing = {"shares": [1.0], "sizes": [1e-9], "counts": [2], "common": [1e-9]}
    curve = payload_of("zero out")["claim"]["tradeoff"] | nothing
    plan = {"now": [0.0] * 4, "rate": [0.0] * 4, "common": [0.0] * 2}
    payload = payload_of("zero out") | {"run": to_dict(run), "claim": {"tradeoff": curve}}
    refused(payload | {"plan": plan, "cap": 2}, "noise: expected some")
