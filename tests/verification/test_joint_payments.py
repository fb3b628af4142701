"""Joint payments: what the checker asks for, and what it refuses."""

from __future__ import annotations

import copy
import json
from functools import cache, partial

import numpy as np
import pytest

import pabi
from pabi.account.analyses import joint
from pabi.numbers import encoding
from support.allocations import run_in_bins

DELTA = 1e-5
run = partial(run_in_bins, noise_multiplier=2.0)

RUNS = {
    "zero out": {},
    "replace one": {"adjacency": "replace_one"},
    "part of an epoch": {"epochs": 2.4, "cooldown_steps": 2},
    "varied": {"epochs": None, "steps": 8, "step_size": np.linspace(0.5, 0.2, 8), "diameter": 0.05},
    "sizes matter": {"loss": pabi.Loss.logistic(1.0, l2=0.05), "step_size": 3.0},
    "some never reached": {"epochs": 0.7},
}


@cache
def payload_of(name):
    guarantee = joint.apply(run(**RUNS[name]), DELTA)
    return guarantee, json.loads(guarantee.certificate.to_json())


@pytest.mark.parametrize("name", RUNS)
def test_what_is_proven_is_accepted(name):
    guarantee, payload = payload_of(name)
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    assert (verdict.adjacency, verdict.assumptions) == (guarantee.adjacency, guarantee.assumptions)


def test_a_guarantee_is_accepted_with_its_own_number():
    guarantee, _ = payload_of("zero out")
    assert pabi.verify(guarantee).ok


def less(name):
    def change(payload):
        values = encoding.read_floats(name, payload["plan"][name])
        values[int(np.argmax(values))] *= 1.0 - 1e-6
        payload["plan"][name] = encoding.floats(values)

    change.__name__ = f"less_{name}"
    return change


def negative(payload):
    payload["plan"]["now"][0] = -payload["plan"]["now"][0] - 1.0


def one_missing(payload):
    payload["plan"]["rate"].pop()


def not_a_number(payload):
    payload["plan"]["rate"][0] = float("inf")


def labels_of(payload):
    factors = payload["claim"]["product"]["factors"]
    return next(x for x in factors if x["kind"] == "random_allocation")


def smaller_size(payload):
    labels_of(payload)["sizes"][-1] *= 1.0 - 1e-6


def rarer(payload):
    labels_of(payload)["counts"][-1] += 1
    labels_of(payload)["shares"][-1] *= 0.9


def more_bins(payload):
    payload["run"]["batches"]["size"] = 10


def other_neighbours(payload):
    other = {"zero_out": "replace_one", "replace_one": "zero_out"}
    payload["run"]["adjacency"] = payload["adjacency"] = other[payload["adjacency"]]


def turned(payload):
    labels_of(payload)["opposite"] = not labels_of(payload)["opposite"]


def another_order(payload):
    payload["run"]["batches"] = {"kind": "shuffle_once", "size": 20}


def with_cap(payload):
    payload["run"]["batches"]["cap"] = payload["cap"] = 60


def every_epoch(payload):
    payload["run"]["batches"]["redraw"] = "epoch"


def fewer_epochs_claimed(payload):
    payload["run"]["epochs"] = 4


def as_secret_steps(payload):
    payload["theorem"], payload["plan"] = "secret steps", {}


CHANGES = (
    less("now"),
    less("rate"),
    less("common"),
    negative,
    one_missing,
    not_a_number,
    smaller_size,
    rarer,
    more_bins,
    other_neighbours,
    turned,
    another_order,
    with_cap,
    every_epoch,
    fewer_epochs_claimed,
    as_secret_steps,
)


@pytest.mark.parametrize("name", ["zero out", "replace one"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_proven_is_refused(name, change):
    payload = copy.deepcopy(payload_of(name)[1])
    curve = payload["claim"]["product"]
    if "factors" not in curve:
        payload["claim"]["product"] = {"kind": "product", "factors": [{**curve, "count": 1}]}
    change(payload)
    assert not pabi.verify(payload).ok


def test_what_is_common_cannot_be_left_out():
    payload = copy.deepcopy(payload_of("zero out")[1])
    curve = payload["claim"]["product"]
    labels = curve["factors"][0] if "factors" in curve else curve
    labels["common"] = [0.9 * x for x in labels["common"]]
    assert "not covered" in pabi.verify(payload).reason


def test_the_failure_cannot_be_left_out():
    payload = copy.deepcopy(payload_of("sizes matter")[1])
    payload["claim"]["product"].pop("failure")
    assert not pabi.verify(payload).ok
