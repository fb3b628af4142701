"""Altered compositions: parts that are wrong, missing, of another adjacency, or nested without end."""

from __future__ import annotations

import copy
import json

import pytest

import pabi
from support.certificates import (
    LITTLE_LESS,
    gaussian_delta,
    guarantee_of,
    payload_of,
    refused,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def composed():
    both = pabi.compose(guarantee_of("cyclic"), guarantee_of("shuffle once"))
    return both, json.loads(both.certificate.to_json())


def test_accepted():
    both, payload = composed()
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    assert verdict.assumptions == both.assumptions
    for epsilon in (0.0, 1.0):
        claimed = sum(float(w) * gaussian_delta(epsilon, mu) for w, mu in verdict.parts)
        assert claimed == pytest.approx(both.delta(epsilon), rel=1e-8)


def test_a_part_that_is_wrong():
    for i in range(2):
        _, payload = composed()
        if i == 0:
            payload["parts"][i]["claim"]["mu"] *= LITTLE_LESS
        else:
            payload["parts"][i]["claim"]["mixture"][-1][1] *= LITTLE_LESS
        refused(payload, f"part {i + 1}")


def test_fewer_parts():
    """Without one of the releases, only the other one is spoken of."""
    both, payload = composed()
    for i, name in enumerate(("shuffle once", "cyclic")):
        fewer = copy.deepcopy(payload)
        del fewer["parts"][i]
        verdict = pabi.verify(fewer)
        assert verdict.ok
        alone = pabi.verify(payload_of(name))
        assert [mu for _, mu in sorted(verdict.parts)] == pytest.approx(
            [mu for _, mu in sorted(alone.parts)], rel=1e-15
        )
        assert sum(w for w, _ in verdict.parts) == 1
        assert set(verdict.assumptions) < set(both.assumptions)
    payload["parts"] = []
    refused(payload)


def test_another_adjacency():
    _, payload = composed()
    payload["adjacency"] = "zero_out"
    refused(payload, "adjacency")


def test_parts_of_another_format():
    for key, value in (("format", "x"), ("version", 3)):
        _, payload = composed()
        payload["parts"][0][key] = value
        refused(payload, key)


def test_nested():
    inner = pabi.compose(guarantee_of("cyclic"), guarantee_of("path"))
    outer = pabi.compose(inner, guarantee_of("bare"))
    verdict = pabi.verify(outer)
    assert verdict.ok, verdict.reason
    assert verdict.mu == outer.mu


def test_nested_too_deeply():
    _, payload = composed()
    for _ in range(5000):
        payload = {
            "format": "pabi.certificate",
            "version": 1,
            "theorem": "composed",
            "adjacency": "replace_one",
            "parts": [payload],
        }
    assert not pabi.verify(payload).ok
