"""Swapped, doubled and missing cases: other records, positions, ranges and weights than those needed."""

from __future__ import annotations

import copy

import pytest

import pabi
from support.certificates import RUNS, payload_of, refused, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize("name", ["falling", "falling, shuffle once", "reshuffle", "shuffle once"])
def test_swapped(name):
    count = len(payload_of(name)["cases"])
    for i, j in [(0, 1), (0, count - 1), (1, count - 1)]:
        payload = payload_of(name)
        cases = payload["cases"]
        cases[i], cases[j] = cases[j], cases[i]
        verdict = pabi.verify(payload)
        assert too_small(payload, verdict) is None
        assert not verdict.ok or name == "reshuffle"  # whose pairs may come in any order
        # The proofs alone, with the headings left in place.
        payload = payload_of(name)
        for key in ("uses", "ranges", "weight"):
            if key in cases[0]:
                here = payload["cases"]
                here[i][key], here[j][key] = here[j][key], here[i][key]
        refused(payload)


@pytest.mark.parametrize(
    "name", ["cyclic", "falling", "falling, shuffle once", "reshuffle", "shuffle once", "bare"]
)
def test_deleted_or_doubled(name):
    count = len(payload_of(name)["cases"])
    for i in range(count):
        payload = payload_of(name)
        del payload["cases"][i]
        refused(payload)
        payload = payload_of(name)
        payload["cases"].append(copy.deepcopy(payload["cases"][i]))
        assert too_small(payload, pabi.verify(payload)) is None
        payload = payload_of(name)
        payload["cases"][i] = copy.deepcopy(payload["cases"][(i + 1) % count])
        if count > 1:
            refused(payload)
    payload = payload_of(name)
    payload["cases"] = []
    refused(payload)


@pytest.mark.parametrize("name", ["cyclic", "falling", "partial epochs"])
def test_another_position(name):
    for stated in (0, 1, None):
        for other in (None, 0, 1, 3, 4, 5, -1, True, 1.5):
            if other is stated:
                continue
            payload = payload_of(name, stated)
            payload["position"] = other
            verdict = pabi.verify(payload)
            assert not verdict.ok or stated is None, (stated, other)
            if other is not True:
                assert too_small(payload, verdict) is None, (stated, other)


@pytest.mark.parametrize("name", ["cyclic", "partial epochs", "diameter", "rising", "cool-down"])
def test_a_safer_record_for_the_worst(name):
    for position in range(RUNS[name].steps_per_epoch):
        safer = payload_of(name, position)
        if position == (RUNS[name].data_steps - 1) % RUNS[name].steps_per_epoch:
            continue
        payload = payload_of(name)
        payload["cases"], payload["claim"] = safer["cases"], safer["claim"]
        refused(payload, "uses")
        payload["cases"][0]["uses"] = payload_of(name)["cases"][0]["uses"]
        refused(payload)


@pytest.mark.parametrize("name", ["falling", "expansive, cool-down"])
def test_a_safer_record_among_all(name):
    """Where every position has to be shown, showing one of them several times is not enough."""
    payload = payload_of(name)
    safest = min(payload["cases"], key=lambda c: c["mu"])
    payload["cases"] = [copy.deepcopy(safest) for _ in payload["cases"]]
    payload["claim"]["mu"] = safest["mu"]
    refused(payload)
    payload["cases"] = [copy.deepcopy(safest)]
    refused(payload)


@pytest.mark.parametrize("name", ["shuffle once", "falling, shuffle once", "reshuffle"])
def test_ranges_and_weights(name):
    for i in range(len(payload_of(name)["cases"])):
        ranges = payload_of(name)["cases"][i]["ranges"]
        for r in range(len(ranges)):
            for end, by in [(0, 1), (0, -1), (1, 1), (1, -1)]:
                payload = payload_of(name)
                payload["cases"][i]["ranges"][r][end] += by
                refused(payload)
            payload = payload_of(name)
            payload["cases"][i]["ranges"][r] = None
            refused(payload)
        payload = payload_of(name)
        payload["cases"][i]["weight"] = [1, 1000]  # weights are derived, so this says nothing
        assert too_small(payload, pabi.verify(payload)) is None


def test_uses():
    for name in ("cyclic", "falling", "reshuffle", "shuffle once", "partial epochs, reshuffle"):
        first, count, then = payload_of(name)["cases"][0]["uses"]
        lies = [[first, count - 1, then], [first - 1, count, then], [first, count, [*then, 3]]]
        lies += [[first, 0, then], [first, count, then[:-1]]] if then else [[first, 0, []]]
        for uses in lies:
            payload = payload_of(name)
            payload["cases"][0]["uses"] = uses
            refused(payload, "uses")


def test_pooled_positions_where_they_may_not_be():
    """Positions may be rounded to later ones only where a later use is never safer."""
    payload = payload_of("falling, shuffle once")
    cases = payload["cases"]
    cases[0]["ranges"] = [[0, 1]]
    del cases[1]
    refused(payload)
    last = payload["cases"][-1]
    last["ranges"] = [[0, len(cases)]]
    payload["cases"] = [last]
    payload["claim"] = {"mu": last["mu"]}
    refused(payload, "rounded")


def test_pooling_where_it_may():
    payload = payload_of("shuffle once")
    last = payload["cases"][-1]
    last["ranges"], last["weight"] = [[0, len(payload["cases"]) - 1]], [1, 1]
    payload["cases"], payload["claim"] = [last], {"mu": last["mu"]}
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    assert too_small(payload, verdict) is None
