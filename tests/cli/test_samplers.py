"""Samplers, mechanisms and second moments on the command line.

Run files go in; readings, certificates and run files come out.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w

from pabi import cli

LOSS = {"kind": "logistic", "feature_norm": 1.0, "l2": 0.01}
FILES = {
    "langevin_chain": {
        "n": 1000,
        "inverse_temperature": 50.0,
        "step_size": 1e-3,
        "steps": 500,
        "chains": 2,
        "prox": {"kind": "ball", "radius": 2.0},
    },
    "langevin_diffusion": {"n": 1000, "inverse_temperature": 50.0, "time": 2.0, "diameter": 4.0},
    "exponential_mechanism": {"n": 1000, "dimension": 3, "diameter": 2.0, "epsilon": 1.0},
    "iterated_exponential_mechanism": {
        "n": 1000,
        "dimension": 3,
        "diameter": 2.0,
        "epsilons": [0.1, 0.2],
        "failure": 0.01,
    },
    "noisy_second_moments": {
        "n": 1000,
        "dimension": 3,
        "feature_norm": 2.0,
        "noise_multiplier": 4.0,
        "diagonal": True,
    },
}
WITHOUT_LOSS = {"noisy_second_moments"}


def call(*arguments, stdin=""):
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(arguments)
    finally:
        sys.stdin = before
    return status, out.getvalue(), err.getvalue()


def written(kind, **changes):
    loss = None if kind in WITHOUT_LOSS else LOSS
    table = {"kind": kind, **FILES[kind], **changes, "loss": loss}
    return tomli_w.dumps({k: v for k, v in table.items() if v is not None})


@pytest.mark.parametrize("kind", FILES)
def test_account_explain_verify_calibrate(kind):
    status, out, err = call("account", "-", "--delta", "1e-4", stdin=written(kind))
    assert (status, err) == (0, "")
    assert "assumptions" in out
    assert "replace_one" in out
    status, out, _ = call("explain", "-", "--delta", "1e-4", stdin=written(kind))
    assert status == 0
    assert "<- the guarantee" in out
    status, reading, _ = call("account", "-", "--delta", "1e-4", "--json", stdin=written(kind))
    assert status == 0
    status, out, _ = call("verify", "-", "--epsilon", "9", "--delta", "1e-4", stdin=reading)
    assert status == 0
    assert "scope        run" in out
    assert call("verify", "-", "--epsilon", "1e-3", "--delta", "1e-4", stdin=reading)[0] == 1
    status, out, _ = call(
        "calibrate", "-", "--epsilon", "0.2", "--delta", "1e-4", stdin=written(kind)
    )
    assert status == 0
    assert tomllib.loads(out)["kind"] == kind
    gate = ("account", "-", "--epsilon", "0.2", "--delta", "1e-4", "--json")
    status, out, _ = call(*gate, stdin=out)
    assert status == 0
    assert json.loads(out)["epsilon"] > 0.199


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("langevin_chain", {"step_size": None}, "step_size: missing: a langevin_chain needs it"),
        ("langevin_chain", {"steps": 0}, "steps"),
        ("langevin_chain", {"temperature": 1.0}, "did you mean inverse_temperature"),
        ("langevin_diffusion", {"time": -1.0}, "time"),
        ("langevin_diffusion", {"inverse_temperature": "hot"}, "inverse_temperature"),
        ("exponential_mechanism", {"diameter": None}, "diameter: missing"),
        ("exponential_mechanism", {"inverse_temperature": 1.0}, "expected exactly one of"),
        ("iterated_exponential_mechanism", {"epsilons": []}, "epsilons"),
        ("iterated_exponential_mechanism", {"split": 5000}, "split"),
        ("noisy_second_moments", {"feature_norm": None}, "feature_norm: missing"),
        ("noisy_second_moments", {"noise_std": 1.0}, "expected at most one of"),
        ("noisy_second_moments", {"noise_multiplier": None}, "noise_std: missing"),
        ("noisy_second_moments", {"noise_multiplier": [1.0, 2.0]}, "noise_multiplier"),
        ("noisy_second_moments", {"diagonal": 1}, "diagonal: expected true or false"),
        ("noisy_second_moments", {"diagnoal": True}, "did you mean diagonal"),
    ],
)
def test_bad_files_get_one_line(kind, changes, said):
    status, out, err = call("account", "-", "--delta", "1e-4", stdin=written(kind, **changes))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_the_example_is_accounted():
    example = Path(__file__).parents[2] / "examples" / "langevin-chain.toml"
    status, out, _ = call("account", str(example), "--delta", "1e-5")
    assert status == 0
    assert "10 chains use independent noise" in out


def test_parameters_that_are_not_there():
    arguments = ("calibrate", "-", "--epsilon", "1", "--delta", "1e-4", "--parameter", "noise_std")
    status, _, err = call(*arguments, stdin=written("langevin_chain"))
    assert status == 2
    assert "expected one of inverse_temperature, steps" in err
