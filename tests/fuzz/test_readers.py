"""Whatever reads files, with honest files that are mutated: a result, or one line that says what is wrong."""

import contextlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pabi
from pabi.cli import main, predicting, tables
from pabi.execute.checkpoint import Checkpoint
from support.fuzzing.mutations import mutated
from support.fuzzing.running import MOST_MEGABYTES, MOST_SECONDS
from support.fuzzing.targets import (
    TARGETS,
    Target,
    Wrong,
    _checkpointed,
    _checksums_right,
    answer,
    resealed,
)

TESTS = Path(__file__).parents[1]
SLICE = 60  # mutations of the files of every reader


def check(name, begin, end):
    """Refuse whatever is wrong with the answers to the mutations of these seeds."""
    command = [sys.executable, "-m", "support.fuzzing.running", name, str(begin), str(end)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout)
    assert not outcome["wrong"], "\n".join(outcome["wrong"][:10])
    assert outcome["slowest"][0] <= MOST_SECONDS, outcome["slowest"]
    assert outcome["megabytes"] <= MOST_MEGABYTES
    assert sum(outcome["counted"].values()) == end - begin


def test_honest_files_are_read():
    """Or what is done to them would show nothing."""
    for name, target in TARGETS.items():
        for data in target.seeds():
            assert answer(target, data) == "read", (name, data[:200])


@pytest.mark.parametrize("name", [n for n in TARGETS if n != "any kind"])
def test_a_slice_of_the_mutations(name):
    target, honest, counted = TARGETS[name], TARGETS[name].seeds(), set()
    for seed in range(SLICE):
        counted.add(answer(target, mutated(honest, seed)))
    assert "refused" in counted


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_mutations(name):
    check(name, 0, 5_000)


# What was found.


def refusal(read, *words):
    with pytest.raises(pabi.InvalidInput) as caught:
        read()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_damaged_header_of_a_checkpoint(tmp_path):
    """A bracket that does not close: Python's tokenizer raised an error of its own."""
    seeds = TARGETS["checkpoint"].seeds()
    (tmp_path / "a.ckpt").write_bytes(seeds[0].replace(b"'shape': (3,), }", b"'shape': (3L, } "))
    file = Checkpoint(tmp_path / "a.ckpt", _checkpointed()[0], np.zeros(3), 0.0)
    with _checksums_right():
        refusal(file.read, "is not a checkpoint of pabi")


def test_a_checkpoint_that_states_more_than_there_is_memory(tmp_path, monkeypatch):
    def scarce(*_, **__):
        raise MemoryError

    (tmp_path / "a.ckpt").write_bytes(TARGETS["checkpoint"].seeds()[0])
    monkeypatch.setattr(np, "load", scarce)
    file = Checkpoint(tmp_path / "a.ckpt", _checkpointed()[0], np.zeros(3), 0.0)
    refusal(file.read, "resume: ", "not enough memory")


def test_reasons_of_tables_are_one_line(tmp_path):
    """Those of pandas and Arrow end in line breaks, or hold some."""
    pytest.importorskip("pyarrow")
    for name, content in (("a.csv", b"age,job\n1,2,3\n"), ("a.parquet", b"PAR1" * 9)):
        path = tmp_path / name
        path.write_bytes(content)
        refusal(lambda path=path: list(tables.frames([str(path)], ["age", "job"])), "expected a")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ArrowMemoryError", "not enough memory, or it is damaged"),
        ("ArrowException", "expected a Feather or Arrow table: malloc"),
    ],
)
def test_an_arrow_file_that_arrow_cannot_read(tmp_path, monkeypatch, error, reason):
    """It may state more than there is memory, or raise an error of no kind."""
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.feather"
    path.write_bytes(TARGETS["Arrow"].seeds()[0])

    def scarce(number):
        raise getattr(pyarrow.lib, error)("malloc of size 3472898955697861184 failed")

    def arrow(file, fields=None):
        schema = pyarrow.schema([("age", "float64")])
        reader = SimpleNamespace(schema=schema, num_record_batches=1, get_batch=scarce)
        return contextlib.nullcontext(reader)

    monkeypatch.setattr(tables, "_arrow", arrow)
    refusal(lambda: list(tables.frames([str(path)], ["age"])), reason)


@pytest.mark.parametrize(
    "name", ["pabi.__main__.main", "pabi.budget.ledger.Ledger", "pabi.cli._run"]
)
def test_a_model_names_no_part_of_pabi_that_no_model_has(tmp_path, name, monkeypatch, capsys):
    """`verify --model` took everything whose name began with pabi: to import some of it runs a command."""
    module, _, own = name.rpartition(".")
    node = {"__class__": own, "__module__": module, "__loader__": "ObjectNode", "__id__": 1}
    state = {"protocol": 1, "_skops_version": "0.11", "content": node, **node}
    file, text = tmp_path / "m.skops", tmp_path / "g.json"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("schema.json", json.dumps(state))
    run = pabi.NoisySecondMoments(100, 5, 1.5, noise_std=9.0).guarantee(1e-5)
    noted = json.loads(run.to_json())
    noted["notes"] = {"releases": [{"parameters_sha256": "0" * 64}]}
    text.write_text(json.dumps(noted))
    monkeypatch.setattr(sys, "argv", ["pabi", "--version"])
    assert main(["verify", str(text), "--model", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "of pabi's types only" in err
    refusal(lambda: predicting.load_model(str(file)), "not loaded")


# What finds it.


def test_a_reader_that_raises_something_else_is_noticed():
    def two_lines(data):
        error = pabi.InvalidInput("a", "b")
        error.args = ("a: b\nc",)
        raise error

    def other(data):
        raise KeyError("a")

    with pytest.raises(Wrong):
        answer(Target(tuple, two_lines), b"")
    with pytest.raises(KeyError):
        answer(Target(tuple, other), b"")


def test_hashes_that_are_put_right_are_right():
    for data in TARGETS["ledger"].seeds():
        assert resealed(data) == data
