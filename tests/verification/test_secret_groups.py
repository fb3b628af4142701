"""Secret groups: honest certificates are accepted, and those that claim less or another proof are not."""

import functools
import json

import numpy as np
import pytest

import pabi
from pabi import Loss, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_steps
from support.certificates import all_refused, forged, granted, refused, with_reading

DELTA = 1e-5


def run(batches, n=1003, **changes):
    given = {"step_size": 0.5, "noise_multiplier": 2.0, "adjacency": "zero_out", **changes}
    return pabi.NoisySGD(Loss.convex(1.0, l2=0.1, gradient_bound=1.0), n, batches, **given)


FALLING = np.linspace(0.8, 0.3, 30)
RUNS = {
    "once": run(ShuffleOnce(100, spare=3), epochs=1),
    "once, replaced": run(ShuffleOnce(100, spare=3), epochs=1, adjacency="replace_one"),
    "cool-down": run(ShuffleOnce(100, spare=3), epochs=1, cooldown_steps=4),
    "a short last batch": run(ShuffleOnce(100, spare=43), epochs=1),
    "falling": run(ShuffleOnce(100, spare=3), epochs=3, step_size=FALLING),
    "anew": run(Reshuffle(100, spare=3), epochs=2),
    "anew, falling": run(Reshuffle(100, spare=3), epochs=3, step_size=FALLING),
    "little noise": run(
        ShuffleOnce(1, spare=1), 2, epochs=1, noise_multiplier=0.8, adjacency="replace_one"
    ),
    "far": run(ShuffleOnce(100, spare=903), epochs=1),
}


@functools.cache
def guarantee_of(name):
    return granted(secret_steps.groups, RUNS[name], DELTA)


def payload_of(name):
    return guarantee_of(name).certificate.payload


@pytest.mark.parametrize("name", RUNS)
def test_what_is_proposed_is_granted(name):
    assert any("every earlier iterate stays hidden" in x for x in guarantee_of(name).assumptions)


FORGED = """
claim.tradeoff{0}.sizes.-1.1 *= 0.999999999
claim.tradeoff{0}.shares.0 *= 0.999999999
claim.tradeoff{0}.sizes.0 = [1e-3]
claim.tradeoff{0}.sizes.0 += [1.0]
claim.tradeoff{0}.opposite = true
claim.tradeoff{0}.displaces = false
plan.offsets += 1
plan.offsets = 0
plan.offsets = 65
plan.offsets = true
plan.groups.0 = [10]
plan.groups += [[3, 4]]
plan.groups += [[10]]
plan.groups.0.-1 += -1
plan.groups.0 += [0]
plan.groups.0.0 = 1.5
plan.groups = []
plan.steps = 3
plan = {{}}
del run.batches.spare; run.n = 1000
run.noise_multiplier *= 0.999999999
run.loss.l2 = 0.05
run.batches = {{"kind": "balls_in_bins", "size": 100}}
run.batches = {{"kind": "cyclic", "size": 100}}
run.release = "path"
run.update = {{"kind": "momentum", "momentum": 0.9}}
theorem = "secret steps"
theorem = "secret order"
""".strip()


def allocation_in(payload):
    """Where the claimed allocation stands in the product, and itself."""
    curve = payload["claim"]["tradeoff"]
    for i, factor in enumerate(curve.get("factors", ())):
        if factor["kind"] == "random_allocation":
            return f".factors.{i}", factor
    return "", curve


@pytest.mark.parametrize("part", range(4))  # some take a second
@pytest.mark.parametrize("name", ["once", "anew"])
def test_forgeries_are_refused(name, part):
    payload = payload_of(name)
    place, curve = allocation_in(payload)
    fewer, best = [x[:-1] for x in curve["sizes"]], [min(x) for x in curve["sizes"]]
    edits = FORGED.format(place).splitlines()
    edits += [f"claim.tradeoff{place}.sizes = {json.dumps(sizes)}" for sizes in (fewer, best)]
    all_refused(payload, [(edit, "") for edit in edits[part::4]])


def test_a_smaller_reading_and_a_stated_sensitivity_are_refused():
    payload = payload_of("once")
    epsilon = guarantee_of("once").epsilon(DELTA)
    refused(with_reading(payload, 0.98 * epsilon, DELTA))  # after several levels were tried
    sensitivity = 'run.loss.parameters = {"smoothness": 1.0}; run.gradient_sensitivity = 1.0'
    refused(forged(payload, sensitivity))


def test_more_than_is_needed_may_be_claimed():
    payload = payload_of("once")
    _, curve = allocation_in(payload)
    curve["sizes"] = [[1.0001 * a for a in sizes] for sizes in curve["sizes"]]
    assert pabi.verify(payload).ok
