"""A file that is given to the wrong command is told where it belongs, in a line that shows nothing of it."""

import json
import os
from pathlib import Path

import pytest
import skops.io
from sklearn.preprocessing import StandardScaler

import pabi
from pabi.cli.reading import kind_of
from support.every_case import every
from support.ledgers import DELTA, release
from support.tables import assert_one_line, run, train

RUN = """\
n = 100
steps = 2
step_size = 0.1
noise_std = 1.0
clip_norm = 1.0
loss = {kind = "unknown"}
batches = {kind = "full_batch"}
"""
SCHEMA = """\
[target]
levels = ["low", "high"]

[columns.secretcolumn]
kind = "numeric"
range = [0, 9]
"""
TARGET = ("--epsilon", "1", "--delta", "1e-4")
COMMANDS = {
    "account": (("account",), ("--delta", "1e-5"), {"run"}),
    "explain": (("explain",), ("--delta", "1e-5"), {"run"}),
    "calibrate": (("calibrate",), TARGET, {"run"}),
    "verify": (("verify",), (), {"guarantee", "certificate"}),
    "report": (("report",), (), {"run", "guarantee", "certificate", "ledger"}),
    "ledger": (("ledger",), (), {"ledger"}),
    "train": (
        ("train",),
        ("--schema", "declared.toml", "--target", "y", *TARGET, "--out", "m", "--guarantee", "g"),
        {"table"},
    ),
    "schema": (
        ("train", "table.csv", "--schema"),
        ("--target", "y", *TARGET, "--out", "m", "--guarantee", "g"),
        {"schema"},
    ),
}
USES = {
    "guarantee": "pabi verify or pabi report",
    "certificate": "pabi verify or pabi report",
    "ledger": "pabi ledger or pabi report",
    "run": "pabi account, explain, calibrate or report",
    "schema": "pabi train --schema",
    "model": "pabi predict, or pabi verify GUARANTEE --model",
    "table": "pabi train",
}


FILES = {
    "guarantee": "guarantee.json",
    "certificate": "certificate.json",
    "ledger": "one.ledger",
    "run": "run.toml",
    "schema": "schema.toml",
    "model": "model.skops",
    "table": "table.csv",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with a file of every kind."""
    monkeypatch.chdir(tmp_path)
    one = release(0.1)
    pabi.Ledger("one.ledger", 1.0, DELTA).spend(one)
    texts = {
        "guarantee.json": one.to_json(),
        "certificate.json": one.certificate.to_json(),
        "run.toml": RUN,
        "schema.toml": SCHEMA,
        "declared.toml": SCHEMA,
        "table.csv": "secretcolumn,y\n1,low\n2,high\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    skops.io.dump(StandardScaler().fit([[1.0], [2.0]]), "model.skops")


@every("command", COMMANDS)
def test_every_wrong_file_says_where_it_belongs(command):
    before, after, own = COMMANDS[command]
    for kind in set(USES) - own:
        said = run(*before, FILES[kind], *after)
        named = kind if kind != "run" else "run file"
        assert_one_line(said, f"error: {FILES[kind]}: this is a ", f"{named}: use {USES[kind]}\n")
        assert "secretcolumn" not in said.err


def test_every_kind_is_known_in_any_order_of_keys():
    for kind, use in USES.items():
        assert kind_of(Path(FILES[kind]).read_bytes()).use == use
    data = json.loads(release(0.1).to_json())
    assert kind_of(json.dumps(data, sort_keys=True).encode()).name == "a guarantee"


@every(
    "raw",
    [
        *(b"", b"{", b"{}", b'{"format": 3}', b'{"format": "other"}', b"[1]", b"PK\x03\x04"),
        *(b"\xff\xfe", b"a = 1", b"a,b", b"one line\nanother", b"a,b\nc", b"a = 1, 2\nb = 1, 2"),
        *(b"[" * 99_999, b'{"a":' * 99_999),
    ],
)
def test_everything_else_is_none_of_them(raw):
    assert kind_of(raw) is None


@pytest.mark.parametrize("name", [".", "", "/dev/zero", "pipe"])
def test_a_ledger_and_a_state_are_files(name):
    """What may never end is not read, and nobody waits for it."""
    os.mkfifo("pipe")
    Path("key").write_text(64 * "0")
    for words in ((), ("--epsilon", "1", "--delta", "1e-5")):
        assert_one_line(run("ledger", name, *words), "expected a file, got a ")
    named = ("--key-file", "key", "--out", "m", "--guarantee", "g")
    assert_one_line(run("forget", name, *named), "expected a file, got a ")


def test_names_that_are_too_long_for_a_file():
    name = 300 * "x"
    as_target = train("table.csv", target=name, out="m")
    assert_one_line(as_target, "expected a column")  # it may be that of one
    for words in (("schema", name), ("predict", name, "--out", "p.csv"), ("ledger", name)):
        assert_one_line(run(*words), "File name too long")
