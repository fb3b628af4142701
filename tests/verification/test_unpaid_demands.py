"""Proofs that leave something unpaid: steps left out, blocks left out, payments before their demands."""

from __future__ import annotations

import pytest

import pabi
from support.certificates import POSITIVE, RUNS, payload_of, refused, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def test_steps_left_out_of_a_bare_iteration():
    """Starting late is free only where nothing happened, or at the cost of the diameter."""
    payload = payload_of("bare")
    payload["cases"][0] = {
        "tau": 0,
        "distance": 0.0,
        "skipped": 29,
        "blocks": [{"times": 1, "groups": [[1, [[1, 0.9, 1.0, 2.0]]]]}],
    }
    payload["claim"]["mu"] = 0.5000001
    refused(payload)


def test_steps_left_out_with_a_start():
    payload = payload_of("bare, start")
    payload["cases"][0] = {
        "tau": 0,
        "distance": 2.0,
        "skipped": 29,
        "blocks": [{"times": 1, "groups": [[1, [[1, 0.9, 1.0, 2.0]]]]}],
    }
    payload["claim"]["mu"] = 1.41
    refused(payload)


def test_a_start_that_nobody_pays():
    payload = payload_of("bare, start only")
    payload["cases"][0]["blocks"] = []
    payload["claim"]["mu"] = 0.0
    refused(payload)


def test_a_diameter_that_nobody_pays():
    payload = payload_of("bare, diameter")
    payload["cases"][0].update(tau=30, skipped=30, distance=3.0, blocks=[])
    payload["claim"]["mu"] = 0.0
    refused(payload)


@pytest.mark.parametrize("name", ["diameter", "diameter of a map", "diameter, shuffle once"])
def test_a_start_at_the_very_end_of_a_run(name):
    payload = payload_of(name)
    t, d = int(RUNS[name].steps), RUNS[name].range_diameter
    for case in payload["cases"]:
        for key in ("first", "ends", "q"):
            case.pop(key, None)
        case.update(tau=t, skipped=t, distance=d, blocks=[], mu=0.0)
    payload["claim"] = {"mu": 0.0}
    refused(payload)


@pytest.mark.parametrize("name", ["falling, diameter", "bare, diameter, written"])
def test_a_written_start_at_the_very_end(name):
    for tau in (30, 31, 10**9):
        payload = payload_of(name)
        for case in payload["cases"]:
            case.update(tau=tau, distance=10.0, first=tau, ends=[], q=[], mu=0.0)
        payload["claim"]["mu"] = 0.0
        refused(payload)


@pytest.mark.parametrize("name", POSITIVE)
def test_no_payments(name):
    payload = payload_of(name)
    for case in payload["cases"]:
        if "blocks" in case:
            case["blocks"] = []
        elif "q" in case:
            case.update(ends=[], q=[])
    verdict = pabi.verify(payload)
    assert too_small(payload, verdict) is None, verdict
    payload["claim"] = {"mu": 0.0}
    refused(payload)


@pytest.mark.parametrize("name", ["cyclic", "partial epochs", "cool-down", "diameter"])
def test_more_steps_skipped(name):
    case = payload_of(name)["cases"][0]
    for more in (1, 5, 10**6):
        for tau in (0, case["tau"], case["skipped"] + more):
            payload = payload_of(name)
            payload["cases"][0].update(skipped=case["skipped"] + more, tau=tau)
            refused(payload)


@pytest.mark.parametrize("name", ["cyclic", "reshuffle", "shuffle once", "diameter", "bare"])
def test_blocks_left_out(name):
    cases = payload_of(name)["cases"]
    assert any(case.get("blocks") for case in cases)
    for i, case in enumerate(cases):
        for j in range(len(case.get("blocks", []))):
            payload = payload_of(name)
            del payload["cases"][i]["blocks"][j]
            refused(payload)
            payload = payload_of(name)
            payload["cases"][i]["blocks"][j]["times"] += 1
            refused(payload)


def test_one_block_for_all():
    """Paying at one slope all along, although the demands come late."""
    groups = [[1, [[20, 1.0, 0.0, 1.0]]], [1, [[1, 1.0, 1.0, 1.0]]]]
    payload = {
        **payload_of("bare"),
        "groups": groups,
        "claim": {"mu": 0.3},
        "cases": [
            {
                "tau": 0,
                "distance": 0.0,
                "skipped": 0,
                "blocks": [{"times": 1, "groups": groups}],
            }
        ],
    }
    refused(payload, "before they arise")


def test_pooled_repetitions_that_expand():
    """Slopes above one: the payments within repetitions come before the demands."""
    stated = [[50, [[1, 1.2, 1.0, 1.0], [3, 1.0, 0.0, 1.0]]]]
    payload = {
        **payload_of("bare"),
        "groups": stated,
        "claim": {"mu": 0.5},
        "cases": [
            {
                "tau": 0,
                "distance": 0.0,
                "skipped": 0,
                "blocks": [{"times": 1, "groups": stated}],
            }
        ],
    }
    refused(payload)


def test_demands_hidden_in_a_stretch():
    stated = [[1, [[30, 0.9, 1.0, 2.0]]]]
    payload = payload_of("bare")
    payload["groups"] = stated
    payload["cases"][0]["blocks"] = [{"times": 1, "groups": stated}]
    payload["claim"]["mu"] = 0.5
    refused(payload)
