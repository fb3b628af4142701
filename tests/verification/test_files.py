"""What strangers may write into files: each of these was once accepted, or took too long or too much."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import numpy as np

import pabi

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
