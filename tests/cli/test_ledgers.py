"""`pabi ledger`: a table or JSON of a ledger, and one line for everything else."""

from __future__ import annotations

import json

import pytest

import pabi
from pabi.cli import main
from support.ledgers import DELTA, release


@pytest.fixture
def ledger(tmp_path):
    one = pabi.Ledger(tmp_path / "a.ledger", 1.0, DELTA)
    one.reserve(release(0.1)).commit()
    one.reserve(release(0.05))
    return one


def test_table(ledger, capsys):
    assert main(["ledger", str(ledger.path)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{ledger.report()}\n"
    assert err == ""
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["1", "2"]
    assert out.endswith("not committed\n")


def test_json(ledger, capsys):
    assert main(["ledger", str(ledger.path), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table == ledger.report().to_dict()
    assert [entry["committed"] for entry in table["entries"]] == [True, False]


def test_reading_changes_nothing(ledger, capsys):
    with ledger.path.open("ab") as file:
        file.write(b'{"entry"')
    before = ledger.path.read_bytes()
    assert main(["ledger", str(ledger.path)]) == 0
    assert capsys.readouterr().err == ""
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "word"),
    [(None, "No such file"), (b"a,b\n", "got another file"), (b"", "no whole line"),
     (b'{"format":"pabi.ledger","x', "no whole line"), (b'{"format":"pabi.ledger","x"\n', "line 1")],
)  # fmt: skip
def test_everything_else_is_one_line(tmp_path, capsys, content, word):
    path = tmp_path / "b.ledger"
    if content is not None:
        path.write_bytes(content)
    assert main(["ledger", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}: ")
    assert err.count("\n") == 1
    assert word in err


def test_methods_from_elsewhere_cannot_move_the_cursor(ledger, capsys):
    hostile = release(0.05)
    text = ledger.path.read_text()
    assert hostile.method in text
    from pabi.cli.ledgers import _printable

    assert "\x1b" not in _printable("a\x1b[2Jb")
    assert _printable("  a  b") == "  a  b"
