"""Altered payments: one payment, or the distance at which they start, smaller by one part in a million."""

from __future__ import annotations

import pytest

import pabi
from pabi.numbers import encoding
from support.certificates import (
    LITTLE_LESS,
    POSITIVE,
    changed_column,
    payload_of,
    refused,
    too_small,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# Whose payments are written out, and those that start at a distance.
WRITTEN = [n for n in POSITIVE if any("q" in case for case in payload_of(n)["cases"])]
DISTANT = [n for n in POSITIVE if any(case.get("distance") for case in payload_of(n)["cases"])]


@pytest.mark.parametrize("name", WRITTEN)
def test_payments(name):
    tried = 0
    for i, case in enumerate(payload_of(name)["cases"]):
        if "q" not in case:
            continue
        for k in range(len(encoding.read_floats("q", case["q"]))):
            payload = payload_of(name)
            payload["cases"][i]["q"] = changed_column(case["q"], k, LITTLE_LESS)
            refused(payload, "step")
            tried += 1
    assert tried


@pytest.mark.parametrize("name", DISTANT)
def test_distance(name):
    for i, case in enumerate(payload_of(name)["cases"]):
        if case.get("distance", 0.0) == 0.0:
            continue
        payload = payload_of(name)
        payload["cases"][i]["distance"] *= LITTLE_LESS
        refused(payload, "distance", "step")
        for tau in {0, case["tau"] - 1, case["tau"] + 1} - {case["tau"]}:
            payload = payload_of(name)
            payload["cases"][i]["tau"] = tau
            assert too_small(payload, pabi.verify(payload)) is None
