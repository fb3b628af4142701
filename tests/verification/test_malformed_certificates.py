"""Hostile JSON: other formats and versions, what is no object, no table, or misses keys."""

from __future__ import annotations

import json

import pytest

import pabi
from pabi import InvalidInput
from support.certificates import payload_of, refused, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "pabi.something"),
        ("format", None),
        ("format", []),
        ("version", 0),
        ("version", 3),
        ("version", "1"),
        ("version", None),
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_another_format_or_version(key, value, as_text):
    payload = payload_of("cyclic")
    payload[key] = value
    with pytest.raises(InvalidInput) as error:
        pabi.verify(json.dumps(payload) if as_text else payload)
    assert error.value.field == key
    del payload[key]
    with pytest.raises(InvalidInput) as error:
        pabi.verify(payload)
    assert error.value.field == key


@pytest.mark.parametrize("value", ["", "{", "[]", "7", "null", "[" * 5000, 5, None, [], 1.5, b"{}"])
def test_not_an_object(value):
    with pytest.raises(InvalidInput):
        pabi.verify(value)


def test_an_integer_too_long_to_read():
    with pytest.raises(InvalidInput):
        pabi.verify('{"format": ' + "1" * 5000 + "}")


@pytest.mark.parametrize("run", [[], [1], 5, 0, "x", True, {}, {"kind": "noisy_iteration"}])
@pytest.mark.parametrize("name", ["cyclic", "path", "bare"])
def test_a_run_that_is_no_table(name, run):
    payload = payload_of(name)
    payload["run"] = run
    refused(payload)


def test_a_run_of_another_kind():
    payload = payload_of("cyclic")
    payload["run"] = {
        "kind": "noisy_iteration",
        "contraction": 1.0,
        "step_sensitivity": 1.0,
        "step_noise_std": 1.0,
        "steps": 3,
    }
    refused(payload)


def test_missing_keys():
    for name in ("cyclic", "falling", "reshuffle", "bare", "bare, written", "path"):
        for key in payload_of(name):
            if key in ("format", "version"):
                continue
            payload = payload_of(name)
            del payload[key]
            verdict = pabi.verify(payload)
            assert not verdict.ok or (too_small({**payload_of(name), **payload}, verdict) is None)
