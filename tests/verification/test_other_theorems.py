"""Another theorem than the one that the certificate was made for."""

from __future__ import annotations

import pytest

import pabi
from support.certificates import RUNS, payload_of, refused, too_small

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


OTHERS = [
    "composition",
    "shifted interpolation",
    "secret order",
    "composed",
    "adaptive composition",
    "adaptive composition of divergences",
]
OTHERS += ["magic", None, [], 1]


@pytest.mark.parametrize(
    ("name", "theorem"),
    [(n, other) for n in RUNS for other in OTHERS if payload_of(n)["theorem"] != other],
)
@pytest.mark.one_in(4)
def test_another_theorem(name, theorem):
    payload = payload_of(name)
    payload["theorem"] = theorem
    assert too_small(payload, pabi.verify(payload)) is None


def test_unknown():
    payload = payload_of("cyclic")
    payload["theorem"] = "magic"
    refused(payload, "magic")


@pytest.mark.parametrize("name", ["path", "other update", "path, shuffle once"])
@pytest.mark.parametrize("theorem", ["shifted interpolation", "secret order"])
def test_a_path_has_nothing_hidden(name, theorem):
    payload = payload_of("cyclic" if "shuffle" not in name else "shuffle once")
    payload["theorem"] = theorem
    for key in ("release", "update"):
        payload["run"].pop(key, None)
        if key in payload_of(name)["run"]:
            payload["run"][key] = payload_of(name)["run"][key]
    refused(payload)
