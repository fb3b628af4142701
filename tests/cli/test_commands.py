"""The command line: exit statuses, one-line errors, valid JSON, and no traceback for any file."""

from __future__ import annotations

import contextlib
import io
import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import pabi
from pabi import cli
from pabi.cli.writing import emit
from pabi.numbers.showing import shown

EXAMPLES = Path(__file__).parents[2] / "examples"
MNIST = EXAMPLES / "mnist-cyclic.toml"
SHUFFLED = EXAMPLES / "logistic-shuffle-once.toml"
ITERATION = EXAMPLES / "iteration.toml"
CLIPPED = EXAMPLES / "clipped-weakly-convex.toml"

RUN: dict[str, Any] = {
    "n": 1000,
    "epochs": 2,
    "step_size": 0.05,
    "noise_std": 0.01,
    "clip_norm": 1.0,
    "loss": {"kind": "logistic", "feature_norm": 1.0, "l2": 0.01},
    "batches": {"kind": "cyclic", "size": 100},
}
ITERATED: dict[str, Any] = {
    "kind": "noisy_iteration",
    "contraction": [0.9, 0.9],
    "step_sensitivity": [0.1, 0.1],
    "step_noise_std": [0.1, 0.1],
}


class Result(NamedTuple):
    status: int
    out: str
    err: str


def call(*arguments: str, stdin: str | bytes = b"") -> Result:
    """`pabi` with these arguments, in this process."""
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(raw))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(arguments)
    finally:
        sys.stdin = before
    return Result(status, out.getvalue(), err.getvalue())


def process(*arguments: str, stdin: bytes = b"", encoding: str = "utf-8", **options: Any) -> Result:
    """`pabi` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pabi.cli", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        **options,
    )
    return Result(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))


def assert_bad(result: Result, *mentions: str) -> None:
    """Exit 2, nothing on standard output, one line on standard error that mentions these."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    assert "defect" not in result.err
    for mention in mentions:
        assert mention in result.err


def read_json(text: str) -> Any:
    """Strict JSON: NaN and Infinity are refused."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def toml(table: dict[str, Any], **changes: Any) -> str:
    """A run file; a change to None leaves the key out."""
    return tomli_w.dumps({k: v for k, v in (table | changes).items() if v is not None})


def account_json(path: Path = MNIST) -> dict[str, Any]:
    result = call("account", str(path), "--delta", "1e-5", "--json")
    assert result.status == 0
    data = read_json(result.out)
    assert isinstance(data, dict)
    return data


# Processes.


def test_account_as_a_process() -> None:
    result = process("account", str(MNIST), "--delta", "1e-5")
    assert result.status == 0
    assert result.err == ""
    assert "epsilon      4.33916 at delta 1e-05" in result.out
    assert "epsilon 30.5063" in result.out  # of mu = 10/(1500·0.01)·√50


def test_bad_input_as_a_process() -> None:
    assert_bad(process("account", "-", "--delta", "1e-5", stdin=b"n = 'abc'"), "standard input")
    assert_bad(process("account", str(MNIST), "--delta", "nan"), "--delta", "'nan'")
    assert_bad(process("nonsense"), "nonsense")


def test_gate_as_a_process() -> None:
    assert process("account", str(MNIST), "--delta", "1e-5", "--epsilon", "4.3").status == 1


def test_account_starts_without_what_it_does_not_need() -> None:
    code = (
        "import sys; from pabi import cli; "
        f"assert cli.main(['account', {str(MNIST)!r}, '--delta', '1e-5']) == 0; "
        "heavy = ('scipy.special', 'scipy.optimize', 'matplotlib', 'sklearn', 'rich', 'tomli_w'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pabi.cli", "account", str(MNIST), "--delta", "1e-5"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(("limit", "status"), [("5", 0), ("4", 1)])
def test_broken_pipe_is_quiet_and_keeps_the_verdict(limit: str, status: int) -> None:
    command = [sys.executable, "-m", "pabi.cli", "account", str(MNIST), "--delta", "1e-5"]
    with subprocess.Popen(
        [*command, "--epsilon", limit], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == status


def test_output_in_an_encoding_without_greek() -> None:
    environment = {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": ":".join(sys.path)}
    account = ("account", str(MNIST), "--delta", "1e-5")
    result = process(*account, "--json", encoding="latin-1", env=environment)
    assert result.status == 0
    assert any("‖x‖" in sentence for sentence in read_json(result.out)["assumptions"])
    assert process(*account, encoding="latin-1", env=environment).status == 0


# account


def test_account_shows_what_a_reading_rests_on() -> None:
    result = call("account", str(MNIST), "--delta", "1e-5")
    assert result.status == 0
    assert "adjacency    replace_one" in result.out
    guarantee = pabi.NoisySGD(
        pabi.Loss.convex(1.0, l2=0.002),
        n=60_000,
        batches=pabi.Cyclic(1500),
        epochs=50,
        step_size=0.05,
        noise_std=0.01,
        gradient_sensitivity=10.0,
    ).guarantee(1e-5)
    for sentence in guarantee.assumptions:
        assert f"  - {sentence}\n" in result.out
    assert guarantee.source in result.out
    assert guarantee.method in result.out


@pytest.mark.parametrize(("epsilon", "status"), [("4.34", 0), ("4.33", 1)])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_gate(epsilon: str, status: int, more: tuple[str, ...]) -> None:
    result = call("account", str(MNIST), "--delta", "1e-5", "--epsilon", epsilon, *more)
    assert result.status == status
    if more:
        assert read_json(result.out)["epsilon"] == pytest.approx(4.33916, abs=5e-6)
        assert result.err.count("\n") == status
    else:
        assert ("FAILED" in result.out) == (status == 1)
        assert "adjacency" in result.out
        assert "assumptions" in result.out


def test_delta_at_an_epsilon() -> None:
    at_delta = account_json()
    result = call("account", str(MNIST), "--epsilon", repr(at_delta["epsilon"]), "--json")
    assert result.status == 0
    data = read_json(result.out)
    # ε was rounded up, so that δ there is not above, and hardly below.
    assert 1e-5 * (1 - 1e-6) <= data["delta"] <= 1e-5 * (1 + 1e-9)
    assert data["epsilon"] == at_delta["epsilon"]
    human = call("account", str(MNIST), "--epsilon", "4")
    assert "at epsilon 4.0" in human.out
    assert "adjacency" in human.out


@pytest.mark.parametrize("path", [MNIST, SHUFFLED, ITERATION, CLIPPED], ids=lambda p: p.stem)
def test_json_holds_the_guarantee_and_the_reading(path: Path) -> None:
    data = account_json(path)
    guarantee = pabi.Guarantee.from_json(json.dumps(data))
    assert data["epsilon"] == guarantee.epsilon(1e-5)
    assert data["delta"] == 1e-5
    assert data["mu"] == guarantee.mu
    assert data["adjacency"] == guarantee.adjacency
    assert tuple(data["assumptions"]) == guarantee.assumptions
    assert data["certificate"]["format"] == "pabi.certificate"
    candidates = {row["method"]: row for row in data["notes"]["candidates"]}
    assert data["method"] in candidates
    for row in candidates.values():
        assert set(row) == {"method", "applies", "reason", "epsilon", "mu"}
        assert row["applies"] == (row["reason"] is None) == (row["epsilon"] is not None)
        if row["applies"]:  # bounds that differ by roundings count as equal
            assert row["epsilon"] >= data["epsilon"] * (1.0 - 1e-9)


def test_infinities_are_written_as_text() -> None:
    file = toml(ITERATED, step_noise_std=[0.1, 0.0])
    result = call("account", "-", "--delta", "1e-5", "--json", stdin=file)
    assert result.status == 0
    data = read_json(result.out)
    assert (data["epsilon"], data["mu"]) == ("inf", "inf")
    assert call("verify", "-", stdin=result.out).status == 0
    assert "epsilon      inf" in call("account", "-", "--delta", "1e-5", stdin=file).out


def test_large_delta_warns_in_one_line() -> None:
    for command in (("account",), ("explain",), ("calibrate", "--epsilon", "1")):
        result = call(*command, "-", "--delta", "0.01", stdin=toml(RUN))
        assert result.status == 0
        assert result.err.startswith("warning: ")
        assert result.err.count("\n") == 1
        assert "1/n" in result.err


def test_an_error_is_one_line_even_after_a_warning() -> None:
    result = call(
        "calibrate",
        "-",
        "--epsilon",
        "1",
        "--delta",
        "0.01",
        "--parameter",
        "size",
        stdin=toml(RUN | {"noise_std": None}),
    )
    assert_bad(result, "noise_std")


# explain


def test_explain_lists_every_analysis() -> None:
    result = call("explain", str(MNIST), "--delta", "1e-5")
    assert result.status == 0
    lines = result.out.splitlines()
    assert any(line.startswith("composition") and "30.5063" in line for line in lines)
    assert any(line.startswith("shifted interpolation") and "4.33916" in line for line in lines)
    assert any(line.startswith("  secret order") and "no secret order" in line for line in lines)
    assert lines[1].startswith("shifted interpolation")
    for change in call_changes():
        start = f"  with {change['what']}: epsilon {shown(change['epsilon'])} instead of 4.33916 ("
        assert any(line.startswith(start) for line in lines)
    assert "adjacency    replace_one" in result.out
    assert "assumptions" in result.out


def test_explain_json() -> None:
    data = read_json(call("explain", str(MNIST), "--delta", "1e-5", "--json").out)
    assert data["candidates"] == account_json()["notes"]["candidates"]
    assert data["adjacency"] == "replace_one"
    assert data["advice"] == []


def call_changes() -> list[Any]:
    return read_json(call("explain", str(MNIST), "--delta", "1e-5", "--json").out)["changes"]


def test_explain_names_changes_that_account_confirms() -> None:
    """The run of a change is a run file, which costs what the change says."""
    changes = call_changes()
    assert changes
    for change in changes:
        result = call("account", "-", "--delta", "1e-5", "--json", stdin=toml(change["run"]))
        assert read_json(result.out)["epsilon"] == change["epsilon"] < 0.95 * 4.33916


def test_explain_says_what_a_known_loss_would_do() -> None:
    unknown = toml(RUN | {"loss": {"kind": "unknown"}, "clip_norm": 1.0})
    assert "Loss.logistic" in call("explain", "-", "--delta", "1e-5", stdin=unknown).out


# calibrate


@pytest.mark.parametrize(
    ("parameter", "epsilon"),
    [
        ("noise_std", "1"),
        ("noise_multiplier", "1"),
        ("epochs", "60"),
        ("steps", "60"),
        ("clip_norm", "3"),
        ("size", "30"),
    ],
)
def test_calibrated_file_meets_the_target(parameter: str, epsilon: str) -> None:
    target = ("--epsilon", epsilon, "--delta", "1e-5")
    result = call("calibrate", "-", *target, "--parameter", parameter, stdin=toml(RUN))
    assert result.status == 0, result.err
    assert "adjacency" in result.out
    assert "assumptions" in result.out
    assert call("account", "-", *target, stdin=result.out).status == 0

    said = call("calibrate", "-", *target, "--parameter", parameter, "--json", stdin=toml(RUN))
    data = read_json(said.out)
    assert data["parameter"] == parameter
    assert data["run"] == tomllib.loads(result.out)
    holder = data["run"]["batches"] if parameter == "size" else data["run"]
    assert data["value"] == holder[parameter]
    assert 0.0 < data["epsilon"] <= float(epsilon)


def test_calibrated_noise_is_tight() -> None:
    data = read_json(
        call("calibrate", str(SHUFFLED), "--epsilon", "1", "--delta", "1e-6", "--json").out
    )
    assert 1 - 1e-6 < data["epsilon"] <= 1.0


def test_calibrated_schedules_and_prox_round_trip() -> None:
    file = toml(
        RUN,
        epochs=None,
        steps=100,
        noise_std=[0.01 + 1e-4 * k for k in range(100)],
        prox={"name": "ball"},
    )
    result = call("calibrate", "-", "--epsilon", "1", "--delta", "1e-5", stdin=file)
    assert result.status == 0, result.err
    table = tomllib.loads(result.out)
    assert len(table["noise_std"]) == 100
    assert table["noise_std"][99] / table["noise_std"][0] == pytest.approx(1.99)
    assert table["prox"] == {"name": "ball"}
    again = call("account", "-", "--epsilon", "1", "--delta", "1e-5", stdin=result.out)
    assert again.status == 0


def test_unreachable_target_says_what_is_reachable() -> None:
    result = call(
        "calibrate",
        "-",
        "--epsilon",
        "0.01",
        "--delta",
        "1e-5",
        "--parameter",
        "epochs",
        stdin=toml(RUN),
    )
    assert result.status == 1
    assert result.out == ""
    assert result.err.count("\n") == 1
    best = call("account", "-", "--delta", "1e-5", "--json", stdin=toml(RUN, epochs=1)).out
    assert f"{read_json(best)['epsilon']:.4g}" in result.err


# verify


@pytest.mark.parametrize("path", [MNIST, SHUFFLED, ITERATION, CLIPPED], ids=lambda p: p.stem)
def test_verify_accepts_every_form(path: Path) -> None:
    data = account_json(path)
    guarantee = {k: v for k, v in data.items() if k not in ("epsilon", "delta", "notes")}
    for form in (data, guarantee, data["certificate"]):
        result = call("verify", "-", stdin=json.dumps(form))
        assert result.status == 0, result.out
        assert "accepted" in result.out
        assert "adjacency    replace_one" in result.out
        assert "scope        " + ("iteration" if path == ITERATION else "run") in result.out
        assert data["assumptions"][0] in result.out
        for factor, status in ((1.001, 0), (0.999, 1)):
            limit = repr(factor * data["epsilon"])
            gate = call(
                "verify", "-", "--epsilon", limit, "--delta", "1e-5", stdin=json.dumps(form)
            )
            assert gate.status == status
            assert ("NOT implied" in gate.out) == (status == 1)


def _tampered() -> dict[str, dict[str, Any]]:
    data = account_json()
    curve, proof = data["tradeoff"], data["certificate"]
    half = data["mu"] / 2
    run = proof["run"]
    return {
        "claim": proof | {"claim": {"mu": half}},
        "noise": proof | {"run": run | {"noise_std": run["noise_std"] / 2}},
        "epochs": proof | {"run": run | {"epochs": 60}},
        "adjacency": proof | {"adjacency": "zero_out"},
        "no cases": proof | {"cases": []},
        "curve": data | {"tradeoff": curve | {"mu": half}, "mu": half},
        "mu": data | {"mu": half},
        "epsilon": data | {"epsilon": data["epsilon"] / 2},
        "delta": data | {"delta": 1e-9},
        "epsilon is text": data | {"epsilon": "small"},
        "assumption": data | {"assumptions": data["assumptions"][:-1]},
        "inner": data | {"certificate": proof | {"claim": {"mu": half}}},
        "no certificate": data | {"certificate": None},
        "huge": data | {"epsilon": 10**400},
    }


def test_verify_refuses_what_was_tampered_with() -> None:
    for name, form in _tampered().items():
        result = call("verify", "-", stdin=json.dumps(form))
        assert (result.status, result.err) == (1, ""), name
        assert result.out.startswith("verdict      refused: "), name
        assert result.out.count("\n") == 1, name


def test_verify_reads_weights_that_add_up_to_more() -> None:
    proof = account_json(SHUFFLED)["certificate"]
    proof["claim"]["mixture"][0][0] = 1.0
    assert call("verify", "-", stdin=json.dumps(proof)).status == 0


def test_verify_another_version_or_format() -> None:
    proof = account_json()["certificate"]
    assert_bad(call("verify", "-", stdin=json.dumps(proof | {"version": 3})), "version", "3")
    assert_bad(
        call("verify", "-", stdin=json.dumps(proof | {"format": "other"})), "format", "other"
    )
    inner = account_json() | {"certificate": proof | {"version": 99}}
    result = call("verify", "-", stdin=json.dumps(inner))
    assert result.status == 1
    assert "version: expected 1 or 2, which this pabi reads, got 99" in result.out
    for text in ("{}", "[]", "3", "null", '"x"'):
        assert_bad(call("verify", "-", stdin=text))


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": NaN}', "[" * 100_000, "1" * 5000, "{'a': 1}", '{"a": 1}x'],
    ids=["empty", "open", "nan", "deep", "long", "quotes", "trailing"],
)
def test_malformed_json(text: str) -> None:
    assert_bad(call("verify", "-", stdin=text), "standard input", "JSON")


# Bad input: files.


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"n = 1\n\xff\xfe")
    for command in ("account", "explain", "calibrate"):
        target = ("--epsilon", "1") if command == "calibrate" else ()
        for path, mention in (
            (tmp_path / "missing.toml", "No such file"),
            (tmp_path, "directory"),
            (binary, "UTF-8"),
        ):
            assert_bad(call(command, str(path), "--delta", "1e-5", *target), str(path), mention)
    assert_bad(call("verify", str(tmp_path / "missing.json")), "missing.json")
    assert_bad(call("verify", str(tmp_path)), str(tmp_path))
    assert_bad(call("verify", str(binary)), "UTF-8")


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    file = b"\xef\xbb\xbf" + toml(RUN).replace("\n", "\r\n").encode()
    assert call("account", "-", "--delta", "1e-5", stdin=file).status == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n = 1\nepochs =\n", "line 2"),
        ("n = 1\nn = 2\n", "line 2"),
        ("n = 1\n\n[loss\n", "line 3"),
        ("n = 1\nloss = {", "line 2"),
        ("\x00", "line 1"),
    ],
)
def test_malformed_toml(text: str, line: str) -> None:
    assert_bad(call("account", "-", "--delta", "1e-5", stdin=text), "standard input", "TOML", line)


def test_toml_beyond_what_python_reads() -> None:
    for text in ("n = " + "1" * 5000, "n = " + "[" * 5000, "n = 0x" + "f" * 5000):
        assert_bad(call("account", "-", "--delta", "1e-5", stdin=text), "standard input")


# Bad input: values.

HUGE = 10**400

BAD_RUNS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("n text", {"n": "abc"}, ("n: ", "integer", "'abc'")),
    ("n float", {"n": 1.5}, ("n: ", "1.5")),
    ("n bool", {"n": True}, ("n: ", "True")),
    ("n zero", {"n": 0}, ("n: ", "0")),
    ("n missing", {"n": None}, ("n: ", "missing")),
    ("n huge", {"n": HUGE}, ("n: ",)),
    ("loss number", {"loss": 3}, ("loss: ", "3", "table")),
    ("loss missing", {"loss": None}, ("loss: ", "missing")),
    ("loss kind", {"loss": {"kind": "logit"}}, ("kind: ", "logit", "logistic")),
    ("loss no kind", {"loss": {}}, ("kind: ", "[loss]")),
    ("loss kind list", {"loss": {"kind": [1]}}, ("kind: ",)),
    ("loss lacks", {"loss": {"kind": "logistic"}}, ("feature_norm: ", "missing")),
    ("loss text", {"loss": {"kind": "logistic", "feature_norm": "x"}}, ("feature_norm: ", "'x'")),
    (
        "loss nan",
        {"loss": {"kind": "logistic", "feature_norm": math.nan}},
        ("feature_norm: ", "nan"),
    ),
    ("l2", {"loss": RUN["loss"] | {"l2": -1.0}}, ("l2: ", "-1.0")),
    ("loss unknown", {"loss": RUN["loss"] | {"lambda": 1}}, ("lambda: ", "unknown key", "[loss]")),
    (
        "wrong table",
        {"loss": RUN["loss"] | {"noise_std": 1}},
        ("noise_std: ", "move it above the first table"),
    ),
    (
        "wrong table 2",
        {"batches": RUN["batches"] | {"n": 1}},
        ("n: ", "move it above the first table"),
    ),
    ("batches text", {"batches": "cyclic"}, ("batches: ", "cyclic")),
    ("batches missing", {"batches": None}, ("batches: ", "missing")),
    ("batches kind", {"batches": {"kind": "cycle", "size": 1}}, ("kind: ", "cycle", "cyclic")),
    ("batches kind list", {"batches": {"kind": [1], "size": 1}}, ("kind: ", "[1]")),
    ("size missing", {"batches": {"kind": "cyclic"}}, ("size: ", "missing")),
    (
        "size large",
        {"batches": {"kind": "cyclic", "size": 1001}},
        ("size: ", "1001", "1..n = 1000"),
    ),
    ("size zero", {"batches": {"kind": "cyclic", "size": 0}}, ("size: ", "0")),
    ("size text", {"batches": {"kind": "cyclic", "size": "x"}}, ("size: ", "'x'")),
    ("size of full", {"batches": {"kind": "full_batch", "size": 3}}, ("size: ",)),
    (
        "cap of cyclic",
        {"batches": RUN["batches"] | {"cap": 200}},
        ("cap: ", "balls_in_bins or poisson"),
    ),
    (
        "cap low",
        {"batches": {"kind": "poisson", "size": 9, "cap": 8}},
        ("cap: ", "at least size = 9"),
    ),
    ("cap text", {"batches": {"kind": "poisson", "size": 9, "cap": "x"}}, ("cap: ", "'x'")),
    ("cap elsewhere", {"cap": 200}, ("cap: ", "unknown key in the top level")),
    ("epochs zero", {"epochs": 0}, ("epochs: ", "0")),
    ("epochs inf", {"epochs": math.inf}, ("epochs: ", "inf")),
    ("epochs huge", {"epochs": 1.7e308}, ("epochs: ",)),
    ("both", {"steps": 3}, ("epochs: ", "both")),
    ("neither", {"epochs": None}, ("epochs: ", "neither")),
    ("steps float", {"epochs": None, "steps": 2.5}, ("steps: ", "2.5")),
    ("step size mixed", {"step_size": [1, "x"]}, ("step_size: ",)),
    ("step size text", {"step_size": "x"}, ("step_size: ",)),
    ("step size zero", {"step_size": 0.0}, ("step_size: ", "0.0")),
    ("step size missing", {"step_size": None}, ("step_size: ", "missing")),
    ("step size nested", {"step_size": [[0.1]]}, ("step_size: ",)),
    ("step size empty", {"step_size": []}, ("step_size: ",)),
    ("step size short", {"step_size": [0.1] * 19}, ("step_size: ", "20", "19")),
    ("step size nan", {"step_size": [0.1] * 19 + [math.nan]}, ("step_size: ", "nan", "step 20")),
    ("step size huge", {"step_size": [HUGE] * 20}, ("step_size: ",)),
    ("noise zero", {"noise_std": 0.0}, ("noise_std: ", "0.0")),
    ("noise negative", {"noise_std": -1.0}, ("noise_std: ", "-1.0")),
    ("noise nan", {"noise_std": math.nan}, ("noise_std: ", "nan")),
    ("noise missing", {"noise_std": None}, ("noise_std: ", "missing")),
    ("noise twice", {"noise_multiplier": 1.0}, ("noise_multiplier: ", "at most one")),
    ("clip", {"clip_norm": 0}, ("clip_norm: ", "0")),
    (
        "no bound",
        {"clip_norm": None, "loss": {"kind": "convex", "smoothness": 1.0}},
        ("clip_norm: ",),
    ),
    (
        "sensitivity and clip",
        {"gradient_sensitivity": 1.0},
        ("gradient_sensitivity: ", "clip_norm"),
    ),
    ("adjacency", {"adjacency": "add_or_remove_one"}, ("adjacency: ", "zero_out")),
    ("adjacency text", {"adjacency": "x"}, ("adjacency: ", "replace_one", "'x'")),
    ("adjacency number", {"adjacency": 3}, ("adjacency: ", "3")),
    ("diameter", {"diameter": math.inf}, ("diameter: ", "inf")),
    ("cooldown", {"cooldown_steps": -1}, ("cooldown_steps: ", "-1")),
    ("update", {"update": "adam"}, ("update: ", "adam", "other")),
    ("release", {"release": ["last"]}, ("release: ", "last")),
    ("prox", {"prox": "ball"}, ("prox: ", "ball")),
    ("prox diameter", {"prox": {"diameter": -1}}, ("diameter: ", "-1")),
    ("unknown", {"nois_std": 1.0}, ("nois_std: ", "noise_std")),
    ("unknown lines", {"a\nb\x1b[31m": 1.0}, ("unknown key",)),
    ("kind", {"kind": "sgd"}, ("kind: ", "noisy_sgd", "'sgd'")),
    ("kind list", {"kind": ["noisy_sgd"]}, ("kind: ", "['noisy_sgd']")),
]

BAD_ITERATIONS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("missing", {"contraction": None}, ("contraction: ",)),
    ("lengths", {"step_sensitivity": [0.1]}, ("step_sensitivity: ", "2", "1")),
    ("negative", {"step_noise_std": [0.1, -0.1]}, ("step_noise_std: ", "-0.1", "step 2")),
    ("nan", {"contraction": [math.nan, 1.0]}, ("contraction: ", "nan", "step 1")),
    ("huge", {"contraction": [HUGE, 1.0]}, ("contraction: ",)),
    ("packed", {"contraction": {"f8": "!"}}, ("contraction: ",)),
    ("steps", {"steps": 3}, ("3", "2")),
    ("no steps", dict.fromkeys(list(ITERATED)[1:], 0.5), ("steps: ", "missing")),
    ("start", {"start": -1.0}, ("start: ", "-1.0")),
    ("diameter", {"diameter": 0}, ("diameter: ", "0")),
    ("moduli", {"moduli": [1]}, ("moduli: ", "kind in linear, ", "got 1")),
    ("modulus", {"moduli": {"kind": "sqrt", "kappa": 1.0}}, ("moduli: ", "kappa, h")),
    ("negative", {"moduli": {"kind": "linear", "slope": -1.0}}, ("slope: ", "-1.0")),
    ("n", {"n": 3}, ("n: ", "unknown key")),
]


@pytest.mark.parametrize(
    ("changes", "mentions"), [b[1:] for b in BAD_RUNS], ids=[b[0] for b in BAD_RUNS]
)
def test_bad_runs(changes: dict[str, Any], mentions: tuple[str, ...]) -> None:
    assert_bad(call("account", "-", "--delta", "1e-5", stdin=toml(RUN, **changes)), *mentions)


@pytest.mark.parametrize(
    ("changes", "mentions"), [b[1:] for b in BAD_ITERATIONS], ids=[b[0] for b in BAD_ITERATIONS]
)
def test_bad_iterations(changes: dict[str, Any], mentions: tuple[str, ...]) -> None:
    assert_bad(call("account", "-", "--delta", "1e-5", stdin=toml(ITERATED, **changes)), *mentions)


# Bad input: options.


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("account", "-"), ("--delta", "--epsilon")),
        (("account", "-", "--delta", "abc"), ("--delta", "'abc'")),
        (("account", "-", "--delta", "nan"), ("--delta", "'nan'")),
        (("account", "-", "--delta", "1"), ("--delta", "'1'")),
        (("account", "-", "--delta", "-1e-5"), ("--delta", "'-1e-5'")),
        (("account", "-", "--epsilon", "-1"), ("--epsilon", "'-1'")),
        (("account", "-", "--epsilon", "inf"), ("--epsilon", "'inf'")),
        (("account", "-", "--epsilon", ""), ("--epsilon", "''")),
        (("account", "-", "--delta"), ("--delta",)),
        (("account", "-", "--dleta", "1"), ("--dleta",)),
        (("account", "--delta", "1e-5"), ("FILE",)),
        (("account", "-", "other", "--delta", "1e-5"), ("other",)),
        (("explain", "-"), ("--delta", "missing")),
        (("explain", "-", "--delta", "2"), ("--delta", "'2'")),
        (("calibrate", "-", "--delta", "1e-5"), ("--epsilon", "missing")),
        (("calibrate", "-", "--epsilon", "1"), ("--delta", "missing")),
        (("calibrate", "-", "--epsilon", "0", "--delta", "1e-5"), ("--epsilon", "'0'")),
        (("calibrate", "-", "--epsilon", "1", "--delta", "0"), ("--delta", "'0'")),
        (
            ("calibrate", "-", "--epsilon", "1", "--delta", "1e-5", "--parameter", "n"),
            ("--parameter", "'n'", "noise_std"),
        ),
        (("verify", "-", "--epsilon", "-1"), ("--epsilon", "'-1'")),
        (("verify", "-", "--delta", "1"), ("--delta", "'1'")),
        (("verify", "-", "--epsilon", "x", "--delta", "1e-5"), ("--epsilon", "'x'")),
        (("acount",), ("acount",)),
        ((), ("command",)),
        (("--nonsense",), ("--nonsense",)),
    ],
)
def test_bad_options(arguments: tuple[str, ...], mentions: tuple[str, ...]) -> None:
    assert_bad(call(*arguments, stdin=toml(RUN)), *mentions)


def test_only_runs_are_calibrated() -> None:
    result = call("calibrate", "-", "--epsilon", "1", "--delta", "1e-5", stdin=toml(ITERATED))
    assert_bad(result, "kind", "noisy_sgd")


# Help.


def test_version() -> None:
    assert call("--version") == Result(0, f"pabi {pabi.__version__}\n", "")


@pytest.mark.parametrize("command", ["account", "explain", "calibrate", "verify", "report"])
def test_help_has_an_example(command: str) -> None:
    result = call(command, "--help")
    assert result.status == 0
    assert "Example" in result.out
    assert f"pabi {command} " in result.out
    assert "Traceback" not in result.out


# Whatever the file contains.

NUMBERS = st.one_of(
    st.integers(-3, 50),
    st.sampled_from([10**5, 10**400, -(10**400)]),
    st.floats(),
    st.booleans(),
)
VALUES = st.recursive(
    st.one_of(
        NUMBERS,
        st.text(max_size=8),
        st.sampled_from(["cyclic", "logistic", "zero_out", "noisy_iteration", "path", "other"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["kind", "size", "cap", "f8", "l2"]), inner, max_size=3),
    ),
    max_leaves=5,
)
# Sizes of runs are left alone here, so that no example takes long.
FIELDS = [
    "adjacency", "clip_norm", "cooldown_steps", "diameter", "gradient_sensitivity", "kind", "loss",
    "batches", "n", "noise_multiplier", "prox", "release", "start", "step_sensitivity", "update",
    "loss.kind", "loss.feature_norm", "loss.l2", "loss.glm", "batches.kind", "batches.size", "batches.cap",
    "prox.name", "prox.diameter", "unknown",
]  # fmt: skip


def assert_civil(result: Result) -> None:
    assert result.status in (0, 1, 2)
    assert "Traceback" not in result.err
    if result.status == 2:
        assert result.out == ""
        assert result.err.count("\n") == 1


@settings(deadline=None)
@given(
    base=st.sampled_from([RUN, ITERATED]),
    changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=2),
    as_json=st.booleans(),
)
def test_no_value_gives_a_traceback(
    base: dict[str, Any], changes: dict[str, Any], as_json: bool
) -> None:
    table = {k: dict(v) if isinstance(v, dict) else v for k, v in base.items()}
    for name, value in changes.items():
        outer, _, inner = name.partition(".")
        if inner and isinstance(table.setdefault(outer, {}), dict):
            table[outer][inner] = value
        else:
            table[outer] = value
    try:
        file = tomli_w.dumps(table)
    except ValueError:  # an integer that Python does not print
        reject()
    result = call("account", "-", "--delta", "1e-5", *(["--json"] if as_json else []), stdin=file)
    assert_civil(result)
    if result.status == 0 and as_json:
        assert read_json(result.out)["assumptions"]


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_bytes_give_a_traceback(raw: bytes) -> None:
    assert_bad(call("account", "-", "--delta", "1e-5", stdin=raw))
    assert_civil(call("verify", "-", stdin=raw))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for k, v in children for p in _places(v, (*path, k)))]


PROOF = call("account", "-", "--delta", "1e-5", "--json", stdin=toml(RUN)).out
JSON = st.recursive(
    st.one_of(st.none(), NUMBERS, st.sampled_from(["", "x", "inf", "\ud800"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["f8", "i8", "mu", "kind"]), inner, max_size=2),
    ),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.data())
def test_no_certificate_gives_a_traceback(data: st.DataObject) -> None:
    form = json.loads(PROOF)
    place = data.draw(st.sampled_from([p for p in _places(form) if p]))
    holder = form
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = data.draw(JSON)
    text = json.dumps(form)  # with NaN and Infinity, which are refused
    result = call("verify", "-", stdin=text)
    assert_civil(result)
    assert "defect" not in result.err
    # What is still accepted states no less than was proven; another run may have another guarantee.
    if result.status == 0 and place[:2] != ("certificate", "run"):
        stated = json.loads(text)
        epsilon, delta = (float(stated[name]) for name in ("epsilon", "delta"))
        if math.isfinite(epsilon) and delta < 1.0:
            true = pabi.Guarantee.from_json(PROOF)
            assert true.epsilon(delta) <= epsilon or true.delta(epsilon) <= delta


@pytest.mark.parametrize("path", [MNIST, SHUFFLED, ITERATION, CLIPPED], ids=lambda p: p.stem)
def test_examples_run_as_their_comments_say(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    commands = [line.split()[2:] for line in lines if line.startswith("#   pabi ")]
    assert commands
    for arguments in commands:
        result = call(*(str(EXAMPLES.parent / a) if a.endswith(".toml") else a for a in arguments))
        assert result.status == 0
    if path == MNIST:
        assert "#   epsilon 4.33916; releasing every iterate would cost 30.5063" in lines


@pytest.mark.parametrize("text", ["{}", "[1]", "3"])
def test_json_of_another_kind_is_no_certificate(text: str) -> None:
    result = call("verify", "-", stdin=text)
    assert result.status == 2
    assert result.err.startswith("error: standard input: expected a certificate or guarantee")


@pytest.mark.parametrize(
    ("table", "wrong", "near"),
    [("loss", "logistik", "logistic"), ("batches", "shufle_once", "shuffle_once")],
)
def test_a_kind_with_a_slip_names_the_nearest(table: str, wrong: str, near: str) -> None:
    kinds = {"loss": "unknown", "batches": "cyclic", table: wrong}
    run = "n = 10\nsteps = 1\nstep_size = 1.0\nnoise_std = 1.0\n"
    run += "".join(f'[{name}]\nkind = "{kind}"\n' for name, kind in kinds.items())
    result = call("account", "-", "--delta", "1e-3", stdin=run)
    assert result.status == 2
    assert f"did you mean {near}?" in result.err


def test_a_terminal_gets_no_commands_from_what_strangers_named(monkeypatch):
    """Classes of a model, columns of a table: printed, they could rewrite what stands on the screen."""
    named = "yes\x1b[2J\x1b]0;owned\x07\u202e\tno\nläuft"
    for terminal, expected in ((True, "yes�[2J�]0;owned��\tno\nläuft\n"), (False, f"{named}\n")):
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr("sys.stdout", screen)
        emit(named)
        assert screen.getvalue() == expected
