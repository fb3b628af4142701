"""The commands on run files and certificates: readings, verdicts, calibrations and statuses."""

import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pabi
from pabi.cli.reading import describe
from pabi.cli.writing import emit
from pabi.describe.files import from_dict
from pabi.numbers.showing import shown
from pabi.tradeoff import Gaussian
from pabi.tradeoff.guarantee import Guarantee
from support.every_case import every
from support.run_files import EXAMPLES, ITERATED, RUN, SAMPLERS, read_json, sampler, toml
from support.tables import Result, assert_one_line, run

MNIST = EXAMPLES / "mnist-cyclic.toml"
SHUFFLED = EXAMPLES / "logistic-shuffle-once.toml"
ITERATION = EXAMPLES / "iteration.toml"
CLIPPED = EXAMPLES / "clipped-weakly-convex.toml"
PATHS = [MNIST, SHUFFLED, ITERATION, CLIPPED]
ACCOUNT = ("account", str(MNIST), "--delta", "1e-5")
EXPLAIN = ("explain", str(MNIST), "--delta", "1e-5")


def process(*arguments, stdin=b"", encoding="utf-8", **options):
    """`pabi` as a process of its own."""
    command = [sys.executable, "-m", "pabi", *arguments]
    pipe = subprocess.PIPE
    options = {"stdout": pipe, "stderr": pipe, "timeout": 60, "check": False} | options
    done = subprocess.run(command, input=stdin, **options)
    out, err = ((text or b"").decode(encoding) for text in (done.stdout, done.stderr))
    return Result(done.returncode, out, err)


def account_json(path=MNIST):
    result = run("account", str(path), "--delta", "1e-5", "--json")
    assert result.status == 0
    return read_json(result.out)


def verified(form, *target):
    return run("verify", "-", *target, stdin=json.dumps(form))


# Processes.


def test_as_a_process_in_any_encoding():
    result = process(*ACCOUNT, "--epsilon", "4.3")
    assert (result.status, result.err) == (1, "")
    assert "epsilon      4.33916 at delta 1e-05" in result.out
    assert "epsilon 30.5063" in result.out  # of mu = 10/(1500·0.01)·√50
    bad = process("account", "-", "--delta", "1e-5", stdin=b"n = 'abc'")
    assert_one_line(bad, "standard input")
    environment = {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": ":".join(sys.path)}
    result = process(*ACCOUNT, "--json", encoding="latin-1", env=environment)
    assert result.status == 0
    assert any("‖x‖" in sentence for sentence in read_json(result.out)["assumptions"])
    assert process(*ACCOUNT, encoding="latin-1", env=environment).status == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        assert_one_line(process(*ACCOUNT, stdout=full))


@pytest.mark.parametrize(("limit", "status"), [("5", 0), ("4", 1)])
def test_broken_pipe_is_quiet_and_keeps_the_verdict(limit, status):
    command, pipe = [sys.executable, "-m", "pabi", *ACCOUNT], subprocess.PIPE
    with subprocess.Popen([*command, "--epsilon", limit], stdout=pipe, stderr=pipe) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == status


# account


def test_account_shows_what_a_reading_rests_on():
    result = run(*ACCOUNT)
    assert result.status == 0
    assert "adjacency    replace_one" in result.out
    guarantee = describe(str(MNIST)).guarantee(1e-5)
    for sentence in guarantee.assumptions:
        assert f"  - {sentence}\n" in result.out
    assert guarantee.source in result.out
    assert guarantee.method in result.out


def test_composition_is_said_to_see_an_order_that_is_secret(tmp_path):
    """Every model alone may cost less where nobody sees the batches."""
    shuffled = toml(RUN, batches={"kind": "shuffle_once", "size": 100})
    for text, what in ((toml(RUN), "every iterate"), (shuffled, "every iterate and all batches")):
        (tmp_path / "run.toml").write_text(text)
        for reading in (("--delta", "1e-6"), ("--epsilon", "1")):
            said = run("account", str(tmp_path / "run.toml"), *reading).out
            assert f" if {what} were released" in said


@every("epsilon, status", [("4.34", 0), ("4.33", 1)])
def test_gate(epsilon, status):
    said = run(*ACCOUNT, "--epsilon", epsilon)
    assert said.status == status
    assert ("FAILED" in said.out) == (status == 1)
    assert "adjacency" in said.out
    assert "assumptions" in said.out
    result = run(*ACCOUNT, "--epsilon", epsilon, "--json")
    assert (result.status, result.err.count("\n")) == (status, status)
    assert read_json(result.out)["epsilon"] == pytest.approx(4.33916, abs=5e-6)


def test_delta_at_an_epsilon():
    at_delta = account_json()
    result = run("account", str(MNIST), "--epsilon", repr(at_delta["epsilon"]), "--json")
    assert result.status == 0
    data = read_json(result.out)
    # ε was rounded up, so that δ there is not above, and hardly below.
    assert 1e-5 * (1 - 1e-6) <= data["delta"] <= 1e-5 * (1 + 1e-9)
    assert data["epsilon"] == at_delta["epsilon"]
    human = run("account", str(MNIST), "--epsilon", "4")
    assert "at epsilon 4.0" in human.out
    assert "adjacency" in human.out


def test_json_holds_the_guarantee_and_the_reading():
    data = account_json()
    guarantee = pabi.Guarantee.from_json(json.dumps(data))
    assert (data["epsilon"], data["delta"]) == (guarantee.epsilon(1e-5), 1e-5)
    assert (data["mu"], data["adjacency"]) == (guarantee.mu, guarantee.adjacency)
    assert tuple(data["assumptions"]) == guarantee.assumptions
    assert data["certificate"]["format"] == "pabi.certificate"
    candidates = {row["method"]: row for row in data["notes"]["candidates"]}
    assert data["method"] in candidates
    for row in candidates.values():
        assert set(row) == {"method", "applies", "reason", "epsilon", "mu"}
        assert row["applies"] == (row["reason"] is None) == (row["epsilon"] is not None)
        if row["applies"]:  # bounds that differ by roundings count as equal
            assert row["epsilon"] >= data["epsilon"] * (1.0 - 1e-9)


def test_infinities_are_written_as_text_and_files_of_windows_are_read():
    file = toml(ITERATED, step_noise_std=[0.1, 0.0])
    result = run("account", "-", "--delta", "1e-5", "--json", stdin=file)
    assert result.status == 0
    data = read_json(result.out)
    assert (data["epsilon"], data["mu"]) == ("inf", "inf")
    assert run("verify", "-", stdin=result.out).status == 0
    assert "epsilon      inf" in run("account", "-", "--delta", "1e-5", stdin=file).out
    file = b"\xef\xbb\xbf" + toml(RUN).replace("\n", "\r\n").encode()
    assert run("account", "-", "--delta", "1e-5", stdin=file).status == 0


def test_large_delta_warns_in_one_line():
    for command in (("account",), ("explain",), ("calibrate", "--epsilon", "1")):
        result = run(*command, "-", "--delta", "0.01", stdin=toml(RUN))
        assert (result.status, result.err.count("\n")) == (0, 1)
        assert result.err.startswith("warning: ")
        assert "1/n" in result.err
    words = ("calibrate", "-", "--epsilon", "1", "--delta", "0.01", "--parameter", "size")
    assert_one_line(run(*words, stdin=toml(RUN, noise_std=None)), "noise_std")


# explain


def test_explain_lists_every_analysis():
    told = read_json(run(*EXPLAIN, "--json").out)
    assert told["candidates"] == account_json()["notes"]["candidates"]
    assert (told["adjacency"], told["advice"]) == ("replace_one", [])
    result = run(*EXPLAIN)
    assert result.status == 0
    lines = result.out.splitlines()
    assert any(line.startswith("composition") and "30.5063" in line for line in lines)
    assert any(line.startswith("shifted interpolation") and "4.33916" in line for line in lines)
    assert any(
        line.startswith("  secret steps, secret groups, secret order") and "no secret order" in line
        for line in lines
    )
    assert lines[1].startswith("shifted interpolation")
    assert told["changes"]
    for change in told["changes"]:
        start = f"  with {change['what']}: epsilon {shown(change['epsilon'])} instead of 4.33916 ("
        assert any(line.startswith(start) for line in lines)
        # The run of a change is a run file, which costs what the change says.
        costs = run("account", "-", "--delta", "1e-5", "--json", stdin=toml(change["run"])).out
        assert read_json(costs)["epsilon"] == change["epsilon"] < 0.95 * 4.33916
    assert "adjacency    replace_one" in result.out
    assert "assumptions" in result.out
    unknown = toml(RUN | {"loss": {"kind": "unknown"}, "clip_norm": 1.0})
    assert "Loss.logistic" in run("explain", "-", "--delta", "1e-5", stdin=unknown).out


# calibrate


@every("parameter, epsilon", [("noise_std", "1"), ("size", "30")])
def test_calibrated_file_meets_the_target(parameter, epsilon):
    target = ("--epsilon", epsilon, "--delta", "1e-5")
    words = ("calibrate", "-", *target, "--parameter", parameter)
    result = run(*words, stdin=toml(RUN))
    assert result.status == 0, result.err
    assert "adjacency" in result.out
    assert "assumptions" in result.out
    assert run("account", "-", *target, stdin=result.out).status == 0
    data = read_json(run(*words, "--json", stdin=toml(RUN)).out)
    assert data["parameter"] == parameter
    assert data["run"] == tomllib.loads(result.out)
    holder = data["run"]["batches"] if parameter == "size" else data["run"]
    assert data["value"] == holder[parameter]
    least = 1.0 - 1e-6 if parameter.startswith("noise") else 0.0
    assert least * float(epsilon) < data["epsilon"] <= float(epsilon)


@every("target", [{"mu": "0.3"}, {"advantage": "0.1"}, {"tpr": "0.05", "fpr": "0.01"}])
def test_targets_that_are_no_epsilon(target):
    options = [word for name, text in target.items() for word in (f"--{name}", text)]
    words = ("calibrate", "-", *options, "--delta", "1e-5")
    data = read_json(run(*words, "--json", stdin=toml(RUN)).out)
    name, most = next((name, float(text)) for name, text in target.items())
    assert data["target"] == most
    assert most * (1 - 1e-6) < data[name] <= most
    result = run(*words, stdin=toml(RUN))
    assert result.status == 0, result.err
    assert tomllib.loads(result.out) == data["run"]
    assert f"{name} " in result.out.splitlines()[0]
    proven = from_dict(data["run"]).guarantee(1e-5)
    goal = pabi.Target(**{key: float(text) for key, text in target.items()})
    assert goal.cost(proven) == data[name]


def test_calibrated_schedules_and_prox_round_trip_or_say_what_is_reachable():
    noise = [0.01 + 1e-4 * k for k in range(100)]
    file = toml(RUN, epochs=None, steps=100, noise_std=noise, prox={"name": "ball"})
    result = run("calibrate", "-", "--epsilon", "1", "--delta", "1e-5", stdin=file)
    assert result.status == 0, result.err
    table = tomllib.loads(result.out)
    assert len(table["noise_std"]) == 100
    assert table["noise_std"][99] / table["noise_std"][0] == pytest.approx(1.99)
    assert table["prox"] == {"name": "ball"}
    again = run("account", "-", "--epsilon", "1", "--delta", "1e-5", stdin=result.out)
    assert again.status == 0
    words = ("--epsilon", "0.01", "--delta", "1e-5", "--parameter", "epochs")
    result = run("calibrate", "-", *words, stdin=toml(RUN))
    best = run("account", "-", "--delta", "1e-5", "--json", stdin=toml(RUN, epochs=1)).out
    assert_one_line(result, f"epsilon = {shown(read_json(best)['epsilon'])}", status=1)


@every("kind", SAMPLERS)
def test_samplers_mechanisms_and_second_moments(kind):
    target = ("--epsilon", "0.2", "--delta", "1e-4")

    def done(command, *options, stdin=None):
        words = (command, "-", *options, "--delta", "1e-4")
        result = run(*words, stdin=stdin or sampler(kind))
        assert (result.status, result.err) == (0, "")
        return result.out

    assert "assumptions" in done("account")
    assert "replace_one" in done("account")
    assert "<- the guarantee" in done("explain")
    reading = done("account", "--json")
    assert "scope        run" in done("verify", "--epsilon", "9", stdin=reading)
    assert run("verify", "-", "--epsilon", "1e-3", "--delta", "1e-4", stdin=reading).status == 1
    file = done("calibrate", *target[:2])
    assert tomllib.loads(file)["kind"] == kind
    assert json.loads(done("account", *target[:2], "--json", stdin=file))["epsilon"] > 0.199


# verify


@every("path", PATHS)
def test_verify_accepts_every_form(path):
    data = account_json(path)
    guarantee = {k: v for k, v in data.items() if k not in ("epsilon", "delta", "notes")}
    for form in (data, guarantee, data["certificate"]):
        result = verified(form)
        assert result.status == 0, result.out
        assert "accepted" in result.out
        assert "adjacency    replace_one" in result.out
        assert "scope        " + ("iteration" if path == ITERATION else "run") in result.out
        assert data["assumptions"][0] in result.out
        for factor, status in ((1.001, 0), (0.999, 1)):
            limit = repr(factor * data["epsilon"])
            gate = verified(form, "--epsilon", limit, "--delta", "1e-5")
            assert gate.status == status
            assert ("NOT implied" in gate.out) == (status == 1)


def test_verify_refuses_what_was_tampered_with():
    data = account_json()
    curve, proof, half = data["tradeoff"], data["certificate"], data["mu"] / 2
    for name, form in {
        "claim": proof | {"claim": {"mu": half}},
        "curve": data | {"tradeoff": curve | {"mu": half}, "mu": half},
        "mu": data | {"mu": half},
        "epsilon": data | {"epsilon": data["epsilon"] / 2},
        "epsilon is text": data | {"epsilon": "small"},
        "huge": data | {"epsilon": 10**400},
        "delta": data | {"delta": 1e-9},
        "no cases": proof | {"cases": []},
        "assumption": data | {"assumptions": data["assumptions"][:-1]},
        "inner": data | {"certificate": proof | {"claim": {"mu": half}}},
        "no certificate": data | {"certificate": None},
    }.items():
        result = verified(form)
        assert (result.status, result.err) == (1, ""), name
        assert result.out.startswith("verdict      refused: "), name
        assert result.out.count("\n") == 1, name
    # Weights that add up to more are read as a bound that is larger.
    proof = account_json(SHUFFLED)["certificate"]
    proof["claim"]["mixture"][0][0] = 1.0
    assert verified(proof).status == 0


def test_versions_and_help():
    data = account_json()
    proof = data["certificate"]
    assert_one_line(verified(proof | {"version": 3}), "version", "3")
    assert_one_line(verified(proof | {"format": "other"}), "format", "other")
    result = verified(data | {"certificate": proof | {"version": 99}})
    assert result.status == 1
    assert "version: expected 1 or 2, which this pabi reads, got 99" in result.out
    assert run("--version") == Result(0, f"pabi {pabi.__version__}\n", "")
    for command in ("account", "explain", "calibrate", "verify", "report"):
        result = run(command, "--help")
        assert result.status == 0
        assert "Example" in result.out
        assert f"pabi {command} " in result.out


# The rest.


@every("path", PATHS)
def test_examples_run_as_their_comments_say(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    commands = [line.split()[2:] for line in lines if line.startswith("#   pabi ")]
    assert commands
    for arguments in commands:
        result = run(*(str(EXAMPLES.parent / a) if a.endswith(".toml") else a for a in arguments))
        assert result.status == 0
    if path == MNIST:
        assert "#   epsilon 4.33916; releasing every iterate would cost 30.5063" in lines


def test_a_terminal_gets_no_commands_from_what_strangers_named(monkeypatch):
    """Classes of a model, columns of a table: printed, they could rewrite what stands on the screen."""
    named = "yes\x1b[2J\x1b]0;owned\x07\u202e\tno\nläuft"
    for terminal, expected in ((True, "yes�[2J�]0;owned��\tno\nläuft\n"), (False, f"{named}\n")):
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr("sys.stdout", screen)
        emit(named)
        assert screen.getvalue() == expected


# Shell completion: it ends its process.


def completing(*words, **environment):
    return process(*words, env=os.environ | environment).out


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [
        ("pabi tr", "1", {"train"}),
        ("pabi ", "1", {"account", "predict", "schema", "train", "ledger", "verify"}),
        ("pabi train --gua", "2", {"--guarantee"}),
    ],
)
def test_what_bash_is_offered(words, place, expected):
    offered = completing(_PABI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place).split()
    assert expected <= set(offered)
    assert all(word.startswith(words.split(" ")[-1]) for word in offered)


def test_the_script_is_shown_and_installed(tmp_path):
    assert "_PABI_COMPLETE" in completing(_PABI_COMPLETE="source_zsh")
    # Which shell runs the tests says nothing.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    assert "installed" in completing("--install-completion", "fish", **named)
    installed = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_PABI_COMPLETE" in text for text in installed)


# audit


AUDITED = {
    "n": 50,
    "steps": 4,
    "step_size": 0.5,
    "noise_std": 0.08,
    "loss": {"kind": "convex", "smoothness": 1.0, "gradient_bound": 1.0},
    "batches": {"kind": "full_batch"},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(toml(AUDITED), "utf-8")
    return str(path)


OPTIONS = ("--delta", "1e-5", "--trainings", "1000")


def test_the_table_and_json(file):
    status, out, _ = run("audit", file, *OPTIONS)
    lines = out.splitlines()
    assert (status, lines[0]) == (0, "audit          not refuted")
    assert lines[2] == "trainings      1000, confidence 0.95"
    assert lines[-2].split()[:2] == ["exact", "instance"]
    status, out, _ = run("audit", file, *OPTIONS, "--json")
    table = json.loads(out)
    assert status == 0
    assert table["readings"][0]["delta"] == 1e-5
    assert table["readings"][0]["epsilon_lower"] <= table["readings"][0]["exact"]


def test_the_reach_is_said_and_nothing_is_trained():
    logistic = toml(AUDITED, loss={"kind": "logistic", "feature_norm": 1.0})
    status, out, _ = run("audit", "-", "--reach", "--trainings", "400", stdin=logistic)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].startswith("400 trainings find, at confidence 0.95")
    assert lines[2].startswith("noise")


def test_a_refuted_guarantee_is_a_no(file, monkeypatch):
    wrong = Guarantee.from_tradeoff(
        Gaussian(0.1), adjacency="replace_one", method="stated", source="a test"
    )
    monkeypatch.setattr(pabi.NoisySGD, "guarantee", lambda self, delta: wrong)
    status, out, _ = run("audit", file, *OPTIONS)
    assert (status, out.splitlines()[0]) == (1, "audit          REFUTED")


def test_what_is_not_audited_is_said_in_one_line(file):
    for options, problem in [
        ("", "--delta: missing"),
        ("--delta 2", "--delta: expected a number"),
        ("--delta 1e-5 --trainings 7", "--trainings: expected an integer ≥ 100"),
        ("--reach", ""),  # a loss without canaries
    ]:
        assert_one_line(run("audit", file, *options.split()), f"error: {problem}")
    other = sampler("exponential_mechanism")
    assert_one_line(run("audit", "-", "--delta", "1e-5", stdin=other), "error: ")
