"""Payments in advance: honest certificates are accepted, and those that claim or pay less are not."""

import functools

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Loss, Reshuffle, ShuffleOnce
from pabi.account.analyses import advance, secret_order
from pabi.numbers import encoding
from pabi.verification.arithmetic import Refused
from support.certificates import all_refused, forged, granted, refused

DELTA = 1e-5


def run(batches=None, **changes):
    given = {"loss": Loss.logistic(1.0, l2=0.01), "step_size": 0.5, "noise_multiplier": 1.5}
    given |= {"clip_norm": 1.0, "epochs": 3, "adjacency": "zero_out"}
    return pabi.NoisySGD(n=500, batches=batches or Cyclic(50), **given | changes)


FALLING = np.linspace(0.5, 0.1, 33)
RUNS = {
    "known": run(),
    "replaced": run(adjacency="replace_one"),
    "secret": run(ShuffleOnce(50)),
    "many, known": run(Cyclic(5)),
    "many, secret": run(ShuffleOnce(5)),
    "full": run(FullBatch(), epochs=20),
    "a spare": run(ShuffleOnce(48, spare=3), epochs=2.5),
    "cool-down": run(ShuffleOnce(50), cooldown_steps=9),
    "reshuffled": run(Reshuffle(50)),
    "reshuffled, many": run(Reshuffle(5), epochs=2),
    "reshuffled, a part": run(Reshuffle(48, spare=3), epochs=2.5, adjacency="replace_one"),
    "reshuffled, rising": run(Reshuffle(49), step_size=FALLING[::-1].copy()),
    "reshuffled, falling": run(Reshuffle(49), step_size=FALLING),
    "reshuffled, falling in part": run(
        Reshuffle(48, spare=3), epochs=2.5, step_size=FALLING[:28].copy(), adjacency="replace_one"
    ),
    "reshuffled, once": run(Reshuffle(50), epochs=1, cooldown_steps=3),
    "drawn anew": run(pabi.BallsInBins(50, cap=120, redraw="epoch")),
    "long": run(epochs=2000),
    "contracting, long": run(loss=Loss.logistic(1.0, l2=0.3), epochs=2000),
    "falling": run(Cyclic(49), step_size=FALLING),
    "falling, many": run(Cyclic(25), step_size=np.linspace(0.5, 0.1, 60)),
    "falling, secret": run(
        ShuffleOnce(49), step_size=FALLING[::-1].copy(), noise_multiplier=1.0 + FALLING
    ),
    "hinge": run(loss=Loss.smoothed_hinge(1.0, 0.5), step_size=0.1),
    "several classes": run(loss=Loss.softmax(2.0), clipping="residual", step_size=0.05),
    "in a ball": run(ShuffleOnce(50), loss=Loss.softmax(2.0), clipping="ball", step_size=0.05),
    "one against the others": run(
        loss=Loss.one_vs_rest(1.0, 3, smoothing=0.5), clipping="residual", step_size=0.05
    ),
}


@functools.cache
def guarantee_of(name, position=None):
    return granted(advance.apply, RUNS[name], DELTA, position)


def payload_of(name, position=None):
    return guarantee_of(name, position).certificate.payload


@pytest.mark.parametrize("name", RUNS)
def test_what_is_proposed_is_granted(name):
    for position in (None, 0, RUNS[name].steps_per_epoch - 1):
        if position is not None and not isinstance(RUNS[name].batches, Cyclic):
            continue
        guarantee_of(name, position)


def numbers(case, name):
    return encoding.read_floats(name, case[name]).copy()


def ahead(payload):
    """The cases that pay in advance."""
    return [case for case in payload["cases"] if case.get("ahead")]


@pytest.mark.parametrize("name", RUNS)
def test_less_is_refused(name):
    payload = payload_of(name)
    least = ["mu"] if "mu" in payload["claim"] else []
    least += [f"mixture.{i}.1" for i in range(len(payload["claim"].get("mixture", ())))]
    places = [f"claim.{place}" for place in least]
    places += [f"cases.{i}.mu" for i in range(len(payload["cases"]))]
    refused(forged(payload, "; ".join(f"{place} *= 0.9999999" for place in places)), "cost")


@pytest.mark.parametrize("name", ["known", "secret", "falling", "several classes"])
def test_other_distances_cost_more(name):
    """The best ones are found to 1e-5, so that what is 1 % beside them is paid for."""
    rng = np.random.default_rng(0)
    for part in ("n", "z"):
        payload = payload_of(name)
        case = ahead(payload)[-1]
        case[part] = encoding.floats(
            np.abs(numbers(case, part) + rng.normal(0.0, 0.01, len(numbers(case, part))))
        )
        refused(payload, "cost")


def test_what_is_left_is_paid_for():
    payload = payload_of("known")
    i = payload["cases"].index(ahead(payload)[-1])
    case, place = payload["cases"][i], f"cases.{i}"
    none = f"{place}.n = []; {place}.z = []"
    all_refused(
        payload,
        [
            (f"{place}.begin += 1", ""),
            (f"{place}.paid = {case['begin'] + 1}", ""),
            (f"del {place}.n.-1", ""),
            (f"{place}.n *= -1.0", ""),
            (f"{place}.n *= 1e400", ""),
            (f"{place}.begin = 30; {place}.paid = 0; {none}", ""),
            (f"{place}.begin = 31; {place}.paid = 31", ""),
            (f"{place}.distance = 1.0", ""),
            (f"{place}.ahead = -1", ""),
            (f"{place}.ahead = 1.5", ""),
        ],
    )


def test_a_place_in_advance_is_one():
    payload = payload_of("many, known")
    wide, first, *rest = payload["cases"]
    assert wide["ranges"][0][0] == 0
    first["ranges"] = [[0, first["ranges"][0][1]]]
    payload["cases"] = [first, *rest]
    refused(payload, "depends on the position")


@pytest.mark.parametrize("epochs", [1, 2])
def test_last_places_in_advance_are_one_each(monkeypatch, epochs):
    monkeypatch.setattr(secret_order, "_MAX_LAST", 4)
    monkeypatch.setattr(advance, "_uses_alone", lambda view, case, most: epochs)
    with pytest.raises(Refused, match="depends on the position"):
        granted(advance.apply, run(Reshuffle(50), epochs=epochs), DELTA)


def test_places_before_the_last_one_are_paid_for_or_leave_a_distance():
    payload = payload_of("reshuffled")
    case = next(case for case in ahead(payload) if case["paid"] < case["begin"])
    more = case["begin"] - case["paid"]  # so that the use before the last one is among these steps
    case["begin"] = case["paid"]
    for part in ("n", "z"):
        case[part] = encoding.floats(np.concatenate([np.zeros(more), numbers(case, part)]))
    refused(payload, "after all uses but")


def test_places_change_where_later_ones_are_worse():
    payload = payload_of("reshuffled")
    payload["run"]["step_size"] = 9.0
    refused(payload, "later uses to be worse")


def test_uses_that_may_be_earlier_are_as_large_as_they_have_to_be(monkeypatch):
    """Those of rising steps are as large as at the end of their epoch."""
    payload = payload_of("reshuffled, rising")
    payload["run"]["step_size"] = encoding.floats(FALLING)
    refused(payload)
    monkeypatch.setattr(advance._Standing, "standing", lambda self, a, b: self.arrays.s[b])
    with pytest.raises(Refused, match="distance|cost"):
        granted(advance.apply, RUNS["reshuffled, falling"], DELTA)


def test_the_loss_must_pull_to_one_side():
    all_refused(
        payload_of("known"),
        [
            ('run.loss = {"kind": "huber", "feature_norm": 1.0, "threshold": 1.0, "l2": 0.01}', ""),
            ('run.loss = {"kind": "squared", "l2": 0.01, "residual_bound": 1.0}', ""),
            ('run.loss = {"kind": "convex", "l2": 0.01, "smoothness": 0.25}', ""),
            ('run.prox = {"kind": "ball", "radius": 3.0}', ""),
            ("run.diameter = 3.0", ""),
            ('run.unit = "user"', ""),
            ('run.release = "path"', ""),
            ('run.batches = {"kind": "fixed_size", "size": 50}', ""),
            ("run.loss.feature_norm = 1.2", "cost"),  # more curvature
        ],
    )


def test_of_a_cone_the_others_may_be_anywhere():
    """That more uses are known than was said may be cheaper or not; fewer are dearer where all were."""
    payload = payload_of("known")
    for case in ahead(payload):
        case["ahead"] = 0
    refused(payload, "cost")
