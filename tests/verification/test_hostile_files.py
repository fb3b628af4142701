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
    assert seconds('{"' + '\\"' * 1_000_000) <= 10.0


def test_many_small_objects_are_refused_before_they_are_read():
    refused('{"format": "pabi.certificate", "x": [' + "{}," * 600_000 + "0]}", "size", "objects")
    verdict = pabi.verify({"format": "pabi.certificate", "x": [{}] * 600_000})
    assert "objects" in verdict.reason


def test_a_text_that_an_object_holds_many_times_counts_every_time():
    text = "a" * (1 << 20)
    verdict = pabi.verify({"format": "pabi.certificate", "x": [text] * 400})
    assert verdict.reason.startswith("size: larger")
    assert "size: larger" in pabi.verify({text * 9: 0}).reason


def test_time_is_over_in_the_trade_off_function_as_well():
    """A product of mixtures of a guarantee, which may claim more factors than are needed."""
    file, many = read("shuffle-once"), 447
    mixtures = [
        {"kind": "mixture", "weights": [1 / many] * many, "mus": mus.tolist(), "count": 1}
        for mus in (5.0 + np.arange(many) * 1e-3, 5.0 + np.arange(many) * 1.1e-3)
    ]
    factors = [*mixtures, *({"kind": "gaussian", "mu": 1.0, "count": 1} for _ in range(100))]
    file |= {"tradeoff": {"kind": "product", "factors": factors}, "mu": None}
    begin = time.process_time()
    verdict = pabi.verify(json.dumps(file), seconds=2.0)
    assert time.process_time() - begin <= 10.0
    assert verdict.reason.startswith("time: ")


def test_a_product_of_many_factors_is_not_read():
    """A thousand different ones took 20 s and 2.5 GB."""
    file = read("fixed-size")
    more = [
        {"kind": "subsampled", "mu": 0.1 + 1e-4 * i, "probability": 0.05, "count": 1000}
        for i in range(1000)
    ]
    file["tradeoff"]["factors"] += more
    file |= {"epsilon": 1e6, "delta": 1e-5, "version": 2}
    for key in ("tuned_at", "composition"):
        file.pop(key, None)
    refused(file, "1001 factors", "positions")


def test_reasons_are_short_whatever_a_file_quotes():
    file = read("cyclic")
    file["certificate"]["run"]["a" * 1_000_000] = 1
    refused(file, "malformed certificate")
    assert len(pabi.verify(json.dumps(file)).reason) <= 1000


def test_steps_are_stated_once():
    """Two statements of the steps of an iteration, one of which nobody looks at."""
    certificate = read("iteration")["certificate"]
    certificate["steps"] = {name: [1.0] for name in ("c", "s", "sigma")}
    refused(certificate, "groups: the steps are stated twice")


def test_rounds_are_counted_before_they_are_gone_through():
    """A million and a half of them took half a minute to read."""
    file = read("iterated")
    file["certificate"]["run"]["epsilons"] = [0.1] * 1_500_000
    assert seconds(json.dumps(file, separators=(",", ":"))) <= 10.0
    refused(json.dumps(file, separators=(",", ":")), "rounds: 1500000 are too many")
