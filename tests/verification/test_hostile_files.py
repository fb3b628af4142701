"""What strangers may write into files: these were once accepted, or took long or much."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi.numbers.encoding import nesting
from support.falsification.edits import packed
from support.falsification.hostile_files import FILES, MOST_MEGABYTES, MOST_SECONDS, OFTEN, read


def check_hostile(names):
    """Each is answered within 10 s and 500 MB, in a process of its own."""
    command = [sys.executable, "-m", "support.falsification.hostile_files", *names]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name, seconds, said, fine, megabytes in json.loads(done.stdout):
        assert fine, (name, said)
        assert seconds <= MOST_SECONDS, (name, seconds)
        assert megabytes <= MOST_MEGABYTES, (name, megabytes)


def test_hostile_files_of_every_sort():
    check_hostile(OFTEN)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, len(FILES), 6))
def test_hostile_files(first):
    check_hostile([*FILES][first : first + 6])


def refused(file, *words):
    verdict = pabi.verify(file if isinstance(file, str) else json.dumps(file))
    assert not verdict.ok
    for word in words:
        assert word in verdict.reason
    assert len(verdict.reason) <= 1000


def test_nan_before_a_negative_sensitivity_hides_nothing():
    """min(NaN, −1) is NaN, which is not below 0; and the steps before τ are not replayed."""
    certificate = read("iteration-moduli")["certificate"]
    steps = len(certificate["steps"]["s"])
    certificate["steps"]["s"] = packed(np.array([np.nan, -1e9] + [0.0] * (steps - 2)).tobytes())
    certificate["diameter"], certificate["claim"] = 1.0, {"mu": 0.0}
    case = {"tau": 1, "distance": 1.0, "payments": [0.0] * (steps - 1)}
    certificate["cases"] = [case]
    refused(certificate, "s: expected a finite number")


def test_infinite_noise_is_no_noise():
    certificate = read("iteration-moduli")["certificate"]
    steps = len(certificate["steps"]["sigma"])
    certificate["steps"]["sigma"] = packed(np.full(steps, np.inf).tobytes())
    certificate["claim"] = {"mu": 0.0}
    refused(certificate, "sigma: expected a finite number")


def test_brackets_in_strings_are_none():
    assert nesting(r'{"[[\"[[": ["\\", {}, "]]]"]}', 9, 99) == (3, 3)
    assert nesting("[[[[", 2, 99)[0] == 3
    assert nesting("[],[],[]", 2, 1)[1] == 2


def test_what_is_too_much_is_refused_before_it_is_read():
    head = '{"format": "pabi.certificate", "x": ['
    refused(head + "{}," * 600_000 + "0]}", "size", "objects")
    shared = {"format": "pabi.certificate", "version": 2}
    assert "objects" in pabi.verify(shared | {"x": [{}] * 600_000}).reason
    text = "a" * (1 << 20)  # counts every time that it is there
    assert pabi.verify(shared | {"x": [text] * 400}).reason.startswith("size: larger")
    assert "size: larger" in pabi.verify({text * 9: 0}).reason
    long = read("cyclic")
    long["certificate"]["run"]["a" * 1_000_000] = 1
    refused(long, "malformed certificate")
    blocks = read("varying")
    blocks["certificate"]["cases"][0]["q"] = packed(np.ones(4_000_000).tobytes())
    refused(blocks, "q: expected one for each")


def test_a_product_of_many_factors_is_not_read():
    """A thousand different ones took 20 s and 2.5 GB."""
    file = read("fixed-size")
    file["tradeoff"]["factors"] += [
        {"kind": "subsampled", "mu": 0.1 + 1e-4 * i, "probability": 0.05, "count": 1000}
        for i in range(1000)
    ]
    file |= {"epsilon": 1e6, "delta": 1e-5, "version": 2}
    for key in ("tuned_at", "composition"):
        file.pop(key, None)
    refused(file, "1001 factors", "positions")


def test_keys_that_another_theorem_would_read_are_unknown():
    """What nobody checks, nobody may rely on."""
    for name, key, value in (
        ("cyclic", "plan", {}),
        ("cyclic", "alike", "anything"),
        ("shuffle-once", "reading", {"epsilon": 0.0, "delta": 0.0}),
        ("fixed-size", "cases", []),
        ("diffusion", "distance", 1.0),
        ("diffusion-window", "window", None),
        ("composition", "cases", [{"mu": 0.0}]),
        ("iteration", "steps", {name: [1.0] for name in ("c", "s", "sigma")}),  # and groups
    ):
        file = read(name)
        file["certificate"][key] = value
        assert not pabi.verify(json.dumps(file)).ok, (name, key)


def test_rounds_are_counted_before_they_are_gone_through():
    """A million and a half of them took half a minute to read."""
    file = read("iterated")
    file["certificate"]["run"]["epsilons"] = [0.1] * 1_500_000
    refused(json.dumps(file, separators=(",", ":")), "rounds: 1500000 are too many")
