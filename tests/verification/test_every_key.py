"""Every key of every kind of certificate is proven again, refused where it is altered, or unknown."""

from __future__ import annotations

import copy
import json
from functools import cache

import pytest

import pabi
from guarantees.test_proof import PROOFS

ALTERED = [[7, 8, [9]], [7, 8], 99, "other", True, {"f8": "x"}, None, 0]


@cache
def payload_of(name):
    return json.loads(PROOFS[name].certificate.to_json())


def paths(value, path=()):
    """Every key of the certificate's own body; descriptions and inner certificates have their own tests."""
    if isinstance(value, dict):
        for key in value:
            yield (*path, key)
            if key not in ("run", "claim", "parts", "trials", "member", "one", "scoring"):
                yield from paths(value[key], (*path, key))
    elif isinstance(value, list):
        for i in (0, len(value) - 1) if value else ():
            if isinstance(value[i], dict):
                yield from paths(value[i], (*path, i))


def changed(payload, path, value):
    altered = copy.deepcopy(payload)
    parent = altered
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return altered


def claims(verdict):
    return verdict.bounds, verdict.reading, verdict.unit, verdict.adjacency


@pytest.mark.parametrize("name", PROOFS)
def test_an_altered_value_is_refused(name):
    """Of whatever other shape: what nobody reads would be accepted."""
    payload = payload_of(name)
    assert pabi.verify(payload).ok
    accepted = set()
    for path in dict.fromkeys(paths(payload)):
        own = payload
        for key in path:
            own = own[key]
        answers = []
        for value in ALTERED:
            if value == own:
                continue
            try:
                answers.append(pabi.verify(changed(payload, path, value)).ok)
            except pabi.InvalidInput:
                answers.append(False)
        if all(answers):
            accepted.add(path)
    assert not accepted


BESIDE = {"steps": None, "cap": 7, "plan": {}, "alike": False, "weight": [1, 2], "demands": "uses"}
IN_CASE = {
    "weight": [1, 3], "ranges": [[0, 1]], "skipped": 3, "blocks": [], "payments": [0.0], "shift": [5],
    "first": 1, "unit": 2.0, "other": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", PROOFS)
def test_a_key_that_the_proof_does_not_have_is_refused(name):
    payload = payload_of(name)
    accepted = []
    for key, value in BESIDE.items():
        if key not in payload and pabi.verify(payload | {key: value}).ok:
            accepted.append(key)
    for i, case in enumerate(payload.get("cases", ())):
        for key, value in IN_CASE.items():
            if key not in case and pabi.verify(changed(payload, ("cases", i, key), value)).ok:
                accepted.append(("cases", i, key))
        break
    # Without stated steps they are derived, and without a shift of units there is none.
    assert not [key for key in accepted if key != "steps"]
