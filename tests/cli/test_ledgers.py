"""`pabi ledger`: a table or JSON of a ledger, and one line for everything else; and training from one."""

import json
from pathlib import Path

import pytest

import pabi
from pabi.cli import main
from pabi.cli.ledgers import _printable
from support.every_case import every
from support.ledgers import DELTA, release
from support.tables import SCHEMA, assert_one_line, files, people, run, train


@pytest.fixture
def ledger(tmp_path):
    one = pabi.Ledger(tmp_path / "a.ledger", 1.0, DELTA)
    one.reserve(release(0.1)).commit()
    one.reserve(release(0.05))
    return one


def test_a_table_and_json(ledger):
    status, out, err = run("ledger", str(ledger.path))
    assert (status, out, err) == (0, f"{ledger.report()}\n", "")
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["1", "2"]
    assert out.endswith("not committed\n")
    table = json.loads(run("ledger", str(ledger.path), "--json").out)
    assert table == ledger.report().to_dict()
    assert [entry["committed"] for entry in table["entries"]] == [True, False]


@every("order", [None, 16.0])
def test_the_guarantee_of_all_releases_is_written(tmp_path, capsys, order):
    path, out = tmp_path / f"{order}.ledger", tmp_path / f"{order}.json"
    one = pabi.Ledger(path, 1.0, DELTA, order=order)
    one.spend(release(0.1))
    path.chmod(0o444)  # who may only read it needs no more
    assert main(["ledger", str(path), "--guarantee", str(out)]) == 0
    whole = pabi.Guarantee.from_json(out.read_text())
    assert whole.to_dict() == one.guarantee.to_dict()
    assert pabi.verify(whole).ok
    capsys.readouterr()
    assert main(["verify", str(out), "--epsilon", "1", "--delta", str(DELTA)]) == 0
    assert (order is None) != ("at order 16)" in capsys.readouterr().out)
    assert main(["ledger", str(path), "--guarantee", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["ledger", str(path), "--guarantee", str(out), "--force"]) == 0


def test_a_report_on_a_ledger_is_one_on_its_guarantee(ledger, tmp_path, capsys):
    assert main(["report", str(ledger.path)]) == 0
    text = capsys.readouterr().out
    assert "adaptive composition" in text
    assert "the ledger refused every release" in text
    assert main(["report", str(ledger.path), "--format", "hf"]) == 0
    empty = pabi.Ledger(tmp_path / "empty.ledger", 1.0, DELTA)
    for command in (["report"], ["ledger", "--guarantee", str(tmp_path / "none.json")]):
        assert_one_line(run(*command, str(empty.path)), "expected an entry")
    assert not (tmp_path / "none.json").exists()
    with ledger.reserve(release(0.05), testing=True):
        pass
    assert "testing only" in run("report", str(ledger.path)).out


def test_reading_changes_nothing_not_even_the_cursor(ledger):
    with ledger.path.open("ab") as file:
        file.write(b'{"entry"')
    before = ledger.path.read_bytes()
    status, _, err = run("ledger", str(ledger.path))
    assert (status, err) == (0, "")
    assert ledger.path.read_bytes() == before
    assert "\x1b" not in _printable("a\x1b[2Jb")
    assert _printable("  a  b") == "  a  b"


@every(
    "content, word",
    [
        (None, "No such file"),
        (b"a,b\n", "got another file"),
        (b"", "no whole line"),
        (b'{"format":"pabi.ledger","x', "no whole line"),
        (b'{"format":"pabi.ledger","x"\n', "line 1"),
    ],
)
def test_everything_else_is_one_line(tmp_path, content, word):
    path = tmp_path / "b.ledger"
    if content is not None:
        path.write_bytes(content)
    assert_one_line(run("ledger", str(path)), f"error: {path}: ", word)


# Opening one, and training from it.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("pandas", "skops", "pyarrow"):
        pytest.importorskip(name, reason="pip install '.[train]'")
    monkeypatch.chdir(tmp_path)
    people(400).to_csv("people.csv", index=False)
    Path("schema.toml").write_text(SCHEMA, "utf-8")
    assert run("ledger", "a.ledger", "--epsilon", "2", "--delta", "1e-4").status == 0
    return tmp_path


def entries():
    return json.loads(run("ledger", "a.ledger", "--json").out)["entries"]


def test_a_ledger_is_opened_and_read_again(folder):
    assert pabi.Ledger("a.ledger", 2.0, 1e-4).report().entries == ()
    out = run("ledger", "a.ledger").out
    assert "epsilon 2 at delta 0.0001" in out
    assert run("ledger", "a.ledger", "--epsilon", "2", "--delta", "1e-4").out == out
    other = run("ledger", "a.ledger", "--epsilon", "3", "--delta", "1e-4")
    assert_one_line(other, "a.ledger", "epsilon = 3", "got one of epsilon = 2")
    words = ("r.ledger", "--epsilon", "2", "--delta", "1e-4", "--order", "12")
    assert run("ledger", *words).status == 0
    assert pabi.Ledger("r.ledger", 2.0, 1e-4, order=12).report().entries == ()


@every(
    "words, mentions",
    [
        ("--epsilon 2", ["--delta", "missing"]),
        ("--delta 1e-5", ["--epsilon", "missing"]),
        ("--order 12", ["--epsilon", "missing"]),
        ("--epsilon x --delta 1e-5", ["--epsilon", "'x'"]),
        ("--epsilon 0 --delta 1e-5", ["--epsilon", "'0'"]),
        ("--epsilon 2 --delta 1e-5 --order 1", ["--order", "> 1"]),
    ],
)
def test_a_ledger_is_not_opened_without_a_budget(tmp_path, words, mentions):
    assert_one_line(run("ledger", f"{tmp_path}/n.ledger", *words.split()), *mentions)
    assert not (tmp_path / "n.ledger").exists()


def test_training_spends_what_its_guarantee_says(folder):
    result = train("people.csv", more=("--ledger", "a.ledger"), epsilon="1.5")
    assert result.status == 0
    assert "ledger       epsilon " in result.out
    [entry] = entries()
    assert entry["committed"]
    stated = pabi.Guarantee.from_json(Path("g.json").read_text("utf-8"))
    whole = pabi.Ledger("a.ledger", 2.0, 1e-4)
    assert stated.epsilon(1e-4) <= whole.report().spent <= 2.0
    assert b"a.ledger" not in Path("model.skops").read_bytes()  # names in a zip are not packed
    import skops.io

    types = skops.io.get_untrusted_types(file="model.skops")
    assert "pabi.budget.ledger.Ledger" not in types
    assert skops.io.load("model.skops", trusted=types)[-1].ledger is None


def test_a_budget_that_is_spent_refuses_before_data_are_read(folder):
    assert train("people.csv", more=("--ledger", "a.ledger"), epsilon="1.5").status == 0
    Path("people.csv").unlink()  # so that reading it would be another error
    before = Path("a.ledger").read_bytes()
    more = {"out": "other.skops", "guarantee": "other.json"}
    refused = train("people.csv", more=("--ledger", "a.ledger"), epsilon="1.9", **more)
    assert_one_line(refused, "epsilon = 1.9", "left of the budget epsilon = 2", status=1)
    assert "no data were read" in refused.err
    assert Path("a.ledger").read_bytes() == before
    assert not {"other.skops", "other.json"} & files()


def test_what_its_order_makes_dearer_is_refused_and_what_fits_exactly_is_granted(folder):
    """A secret order is charged by its worst position: ε = 2 itself does not fit into a budget of 2."""
    before = Path("a.ledger").read_bytes()
    refused = train("people.csv", more=("--ledger", "a.ledger"), epsilon="2")
    assert_one_line(refused, "is asked", "left of the budget epsilon = 2", status=1)
    assert Path("a.ledger").read_bytes() == before
    assert "model.skops" not in files()
    # The early refusal leaves room for what the ledger grants: a fixed order is charged as it is.
    text = SCHEMA + '[model]\nprecondition = 0.1\nbatches = { kind = "cyclic", size = 50 }\n'
    Path("schema.toml").write_text(text, "utf-8")
    worst = train("people.csv", more=("--ledger", "a.ledger"), epsilon="2")
    assert worst.status == 0, worst.err
    assert train("people.csv", more=("--ledger", "a.ledger", "--force"), epsilon="0.1").status == 1


def test_a_ledger_of_an_order_decides_when_the_charge_is_known(folder):
    words = ("r.ledger", "--epsilon", "1", "--delta", "1e-4", "--order", "12")
    assert run("ledger", *words).status == 0
    for status in (0, 0, 1):
        more = ("--ledger", "r.ledger", "--force")
        assert train("people.csv", more=more, epsilon="0.5").status == status


def test_what_is_no_ledger(folder):
    for name, *mentions in [
        ("none.ledger", "no such file", "pabi ledger FILE --epsilon E --delta D"),
        ("people.csv", "people.csv", "got another file"),
        ("model.skops", "model.skops", "no such file"),
    ]:
        assert_one_line(train("people.csv", more=("--ledger", name)), *mentions)
    assert_one_line(train("people.csv", more=("--ledger", "a.ledger"), out="a.ledger"), "exists")
    forced = train("people.csv", more=("--ledger", "a.ledger", "--force"), out="a.ledger")
    assert_one_line(forced, "files of their own")
    assert entries() == []
