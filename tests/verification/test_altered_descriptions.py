"""Altered descriptions: runs that are less private than those that the certificate was made for."""

from __future__ import annotations

import pytest

import pabi
from pabi.numbers import encoding
from support.certificates import (
    FALLING,
    LITTLE_LESS,
    LITTLE_MORE,
    POSITIVE,
    payload_of,
    refused,
    too_small,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize("name", [n for n in POSITIVE if not n.startswith("bare")])
def test_numbers(name):
    run = payload_of(name)["run"]
    lies = {
        "gradient_sensitivity": LITTLE_MORE,
        "noise_std": LITTLE_LESS,
        "noise_multiplier": LITTLE_LESS,
    }
    assert lies.keys() & run
    for field in lies.keys() & run:
        factor, payload = lies[field], payload_of(name)
        if isinstance(run[field], float):
            payload["run"][field] *= factor
        else:
            values = encoding.read_floats(field, run[field])
            payload["run"][field] = encoding.floats(values * factor)
        refused(payload)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("cyclic", ["epochs"], 7),
        ("cyclic", ["epochs"], 6.2),
        ("cyclic", ["loss", "l2"], 0.04),
        ("cyclic", ["loss", "l2"], 0.0),
        ("cyclic", ["loss", "smoothness"], 8.0),
        ("cyclic", ["loss"], {"kind": "unknown"}),
        ("cyclic", ["loss"], {"kind": "nonconvex", "smoothness": 1.0}),
        ("cyclic", ["batches", "size"], 4),
        ("cyclic", ["batches", "size"], 10),
        ("cyclic", ["batches", "size"], 7),
        ("cyclic", ["batches", "kind"], "reshuffle"),
        ("cyclic", ["batches"], {"kind": "full_batch"}),
        ("cyclic", ["n"], 8),
        ("cyclic", ["n"], 39),
        ("cyclic", ["n"], 41),
        ("cyclic", ["n"], 80),
        ("cyclic", ["step_size"], 0.2),
        ("cyclic", ["step_size"], 7.0),
        ("cyclic", ["release"], "path"),
        ("cyclic", ["update"], "other"),
        ("cyclic", ["adjacency"], "zero_out"),
        ("cyclic", ["cooldown_steps"], 3),
        ("cool-down", ["cooldown_steps"], 8),
        ("cool-down", ["cooldown_steps"], 0),
        ("diameter", ["diameter"], 0.5),
        ("diameter", ["diameter"], None),
        ("diameter of a map", ["prox", "diameter"], 2.0),
        ("diameter of a map", ["prox", "diameter"], None),
        ("diameter of a map", ["prox"], None),
        ("expansive", ["loss", "smoothness"], 0.6),
        ("strongly convex", ["loss", "strong_convexity"], 0.1),
        ("weakly convex", ["loss", "weak_convexity"], 0.2),
        ("logistic, clipped", ["clip_norm"], 2.1),
        ("logistic, clipped", ["clip_norm"], None),
        ("logistic, clipped", ["loss", "kind"], "softmax"),
        ("logistic", ["loss", "feature_norm"], 1.1),
        ("softmax", ["loss", "feature_norm"], 1.1),
        ("poisson", ["loss", "count_bound"], 4.0),
        ("glm, clipped", ["loss", "glm"], False),
        ("multiplier", ["batches", "size"], 9),
        ("zero out", ["adjacency"], "replace_one"),
        ("shuffle once", ["batches", "kind"], "cyclic"),
        ("shuffle once", ["batches", "kind"], "reshuffle"),
        ("shuffle once", ["n"], 39),
        ("reshuffle", ["batches", "kind"], "shuffle_once"),
        ("reshuffle", ["batches", "kind"], "cyclic"),
        ("reshuffle", ["loss"], {"kind": "nonconvex", "smoothness": 1.0}),
        ("partial epochs, reshuffle", ["epochs"], 3.6),
        ("partial epochs, shuffle once", ["epochs"], 3.6),
        ("path", ["epochs"], 7),
        ("path, shuffle once", ["epochs"], 2.7),
        ("path, shuffle once", ["batches", "kind"], "cyclic"),
        ("path, reshuffle", ["epochs"], 3.1),
        ("falling", ["step_size"], list(FALLING[::-1])),
        ("falling, reshuffle", ["batches", "kind"], "cyclic"),
        ("rising, reshuffle", ["step_size"], list(FALLING)),
        ("rising, shuffle once", ["step_size"], list(FALLING)),
    ],
)
def test_fields(name, path, value):
    payload = payload_of(name)
    table = payload["run"]
    for key in path[:-1]:
        table = table[key]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    verdict = pabi.verify(payload)
    assert too_small(payload, verdict) is None, verdict


def test_zero_out_with_its_own_adjacency():
    """A clipped run under the weaker adjacency needs half: honest only if it says so."""
    payload = payload_of("logistic, clipped")
    payload["run"]["adjacency"] = "zero_out"
    refused(payload, "adjacency")
    payload["adjacency"] = "zero_out"
    verdict = pabi.verify(payload)
    assert verdict.ok
    assert verdict.adjacency == "zero_out"
    assert any("zero_out" in s for s in verdict.assumptions)
    payload["adjacency"] = "replace_one"
    refused(payload, "adjacency")
