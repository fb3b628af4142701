"""What strangers may write into files: each of these was once accepted, or took too long or too much."""

from __future__ import annotations

import base64
import contextlib
import json
import time
import zlib
from pathlib import Path

import numpy as np

import pabi
from pabi.encoding import nesting

FILES = Path(__file__).parent.parent / "data" / "v0.1.0"


def read(name):
    return json.loads((FILES / f"{name}.json").read_text())


def packed(values, key="f8", kind="<f8"):
    raw = np.asarray(values, dtype=kind).tobytes()
    return {key: base64.b64encode(zlib.compress(raw)).decode()}


def refused(file, *words):
    verdict = pabi.verify(file if isinstance(file, str) else json.dumps(file))
    assert not verdict.ok
    for word in words:
        assert word in verdict.reason


def test_nan_before_a_negative_sensitivity_hides_nothing():
    """min(NaN, −1) is NaN, which is not below 0; and the steps before τ are not replayed."""
    certificate = read("iteration-moduli")["certificate"]
    steps = len(certificate["steps"]["s"])
    certificate["steps"]["s"] = packed([np.nan, -1e9] + [0.0] * (steps - 2))
    certificate["diameter"], certificate["claim"] = 1.0, {"mu": 0.0}
    case = {"tau": 1, "distance": 1.0, "payments": [0.0] * (steps - 1)}
    certificate["cases"] = [case]
    refused(certificate, "s: expected a finite number")


def test_infinite_noise_is_no_noise():
    certificate = read("iteration-moduli")["certificate"]
    steps = len(certificate["steps"]["sigma"])
    certificate["steps"]["sigma"] = packed([np.inf] * steps)
    certificate["claim"] = {"mu": 0.0}
    refused(certificate, "sigma: expected a finite number")


def seconds(text):
    """Of processor time, for an answer of whatever kind."""
    begin = time.process_time()
    with contextlib.suppress(pabi.InvalidInput):
        pabi.verify(text)
    return time.process_time() - begin


def test_a_string_that_does_not_end_takes_no_longer_than_its_length_says():
    """Every quote in it could begin a string that does not end."""
    assert seconds('{"' + '\\"' * 1_000_000) < 5.0


def test_brackets_in_strings_are_none():
    assert nesting(r'{"[[\"[[": ["\\", {}, "]]]"]}', 9, 99) == (3, 3)
    assert nesting("[[[[", 2, 99)[0] == 3
    assert nesting("[],[],[]", 2, 1)[1] == 2


def test_many_small_objects_are_refused_before_they_are_read():
    refused('{"format": "pabi.certificate", "x": [' + "{}," * 600_000 + "0]}", "size", "objects")
    verdict = pabi.verify({"format": "pabi.certificate", "x": [{}] * 600_000})
    assert "objects" in verdict.reason


def test_a_text_that_an_object_holds_many_times_counts_every_time():
    text = "a" * (1 << 20)
    verdict = pabi.verify({"format": "pabi.certificate", "x": [text] * 400})
    assert verdict.reason.startswith("size: larger")
    assert "size: larger" in pabi.verify({text * 9: 0}).reason
