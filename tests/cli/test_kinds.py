"""A file that is given to the wrong command is told where it belongs, in a line that shows nothing of it."""

from __future__ import annotations

import json
import shutil

import pytest

import pabi
from pabi.cli import main
from pabi.cli.kinds import kind_of
from support.ledgers import DELTA, release

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


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of every kind, by its kind."""
    import skops.io
    from sklearn.preprocessing import StandardScaler

    folder = tmp_path_factory.mktemp("files")
    ledger = pabi.Ledger(folder / "one.ledger", 1.0, DELTA)
    ledger.spend(release(0.1))
    one = release(0.1)
    texts = {
        "guarantee.json": one.to_json(),
        "certificate.json": one.certificate.to_json(),
        "run.toml": RUN,
        "schema.toml": SCHEMA,
        "declared.toml": SCHEMA,
        "table.csv": "secretcolumn,y\n1,low\n2,high\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    skops.io.dump(StandardScaler().fit([[1.0], [2.0]]), folder / "model.skops")
    return folder


@pytest.fixture
def files(stored, tmp_path, monkeypatch):
    folder = tmp_path / "copies"
    shutil.copytree(stored, folder)
    monkeypatch.chdir(folder)
    return {
        "guarantee": "guarantee.json",
        "certificate": "certificate.json",
        "ledger": "one.ledger",
        "run": "run.toml",
        "schema": "schema.toml",
        "model": "model.skops",
        "table": "table.csv",
    }


WRONG = [
    (command, kind) for command, (_, _, own) in COMMANDS.items() for kind in USES if kind not in own
]


@pytest.mark.parametrize(("command", "kind"), WRONG)
def test_every_wrong_file_says_where_it_belongs(files, capsys, command, kind):
    before, after, _ = COMMANDS[command]
    assert main([*before, files[kind], *after]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {files[kind]}: this is a ")
    assert err.endswith(f"{kind if kind != 'run' else 'run file'}: use {USES[kind]}\n")
    assert err.count("\n") == 1
    assert "secretcolumn" not in err


@pytest.mark.parametrize("kind", USES)
def test_every_kind_is_known(files, kind):
    with open(files[kind], "rb") as stream:
        assert kind_of(stream.read()).use == USES[kind]


@pytest.mark.parametrize(
    ("command", "kind"),
    [("verify", "guarantee"), ("report", "run"), ("report", "ledger"), ("ledger", "ledger")],
)
def test_the_right_file_is_read(files, capsys, command, kind):
    before, after, _ = COMMANDS[command]
    assert main([*before, files[kind], *after]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{}", b'{"format": 3}', b'{"format": "other"}', b"[1]", b"PK\x03\x04", b"\xff\xfe", b"a = 1",
     b"a,b", b"one line\nanother", b"a,b\nc", b"a = 1, 2\nb = 1, 2", b"[" * 99_999, b'{"a":' * 99_999],
)  # fmt: skip
def test_everything_else_is_none_of_them(raw):
    assert kind_of(raw) is None


def test_the_order_of_keys_does_not_matter():
    data = json.loads(release(0.1).to_json())
    assert kind_of(json.dumps(data, sort_keys=True).encode()).name == "a guarantee"
