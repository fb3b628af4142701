"""A folder that a crowd of commands shares, what they do there, and what must be true of it afterwards."""

import contextlib
import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from pabi.budget.files import read_book
from pabi.cli import main
from pabi.execute.state_files import StateFile, state_in
from pabi.numbers.errors import InvalidInput
from support.crowds import Ended

KEY, ROWS = "0123456789abcdef" * 4, 200
SCHEMA = """
[columns.age]
kind = "numeric"
range = [18, 80]
[columns.job]
kind = "categorical"
levels = ["cook", "clerk"]
[target]
levels = ["no", "yes"]
[model]
l2 = 0.05
epochs = 3
batches = {kind = "cyclic", size = 50}
"""
TRAIN = "train people.csv --schema schema.toml --target rich --no-progress --delta 1e-4"
SPEND = f"{TRAIN} --epsilon 0.5 --ledger a.ledger"
FORGET = "forget state people.csv --key-file key --epsilon 1 --delta 1e-4 --force --accept-loss"
OPEN = "--epsilon 2.5 --delta 1e-4"  # which lasts for about half of the trainings of a round
# How often, and what: {i} is the number of the command.
KINDS = (
    (20, f"{SPEND} --out model.skops --guarantee guarantee.json --force"),
    (12, f"{SPEND} --out m{{i}}.skops --guarantee g{{i}}.json"),
    (4, f"{TRAIN} --epsilon 0.5 --out once.skops --guarantee once.json"),
    (8, "ledger a.ledger"),
    (5, f"ledger b.ledger {OPEN}"),
    (8, "verify guarantee.json"),
    (8, "verify guarantee.json --model model.skops"),
    (6, "predict model.skops people.csv --out predicted.csv --force"),
    (6, "report guarantee.json --out report.md --force"),
    (5, "plan --schema schema.toml --rows 1000 --epsilon 1 --delta 1e-5 --out plan.toml --force"),
    (6, "account plan.toml --delta 1e-5"),
    (2, "explain plan.toml --delta 1e-5"),
    (10, f"{FORGET} --rows row{{i}} --out n{{i}}.skops --guarantee n{{i}}.json"),
)
# What a command may say instead of doing what it was told: (the beginning of it, exit status, a part of it).
REFUSALS = (
    ("train", 1, "left of the budget"),
    ("train", 2, "once.json: exists already"),
    ("train", 2, "once.skops: exists already"),
    ("verify", 1, "NOT the one ("),
    ("forget", 2, "another process is at work"),
)


def scene(folder: Path) -> None:
    """Makes the folder; imports all that the commands import."""
    chance = random.Random(0)
    people = (
        f"{chance.randrange(18, 80)},{chance.choice(('cook', 'clerk'))},"
        f"{chance.choice(('no', 'yes'))}\n"
        for _ in range(ROWS)
    )
    (folder / "people.csv").write_text("age,job,rich\n" + "".join(people))
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "key").write_text(KEY)
    (folder / "row-1").write_text("0")
    keep = f"{TRAIN} --epsilon 5 --keep-state state --key-file key --out o.skops --guarantee o.json"
    every = [f"ledger a.ledger {OPEN}", keep, *(words for _, words in KINDS)]
    later = sorted(every, key=lambda words: words.startswith(("account", "explain")))
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for words in later:
            assert main(words.format(i=-1).split()) == 0, words
    for name in ("a.ledger", "b.ledger", "once.skops", "once.json"):
        (folder / name).unlink()
        (folder / f".{name}.lock").unlink(missing_ok=True)  # what was granted in it


def copied(scene: Path, folder: Path, count: int) -> Path:
    """A copy of a scene, with a new ledger, and a row for every command that may forget one."""
    shutil.copytree(scene, folder)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert main(f"ledger a.ledger {OPEN}".split()) == 0
    for i in range(count):
        (folder / f"row{i}").write_text(str(1 + i))
    return folder


def commands(count: int, chance: random.Random) -> Iterator[tuple[str, ...]]:
    """So many of them; each forgets another row."""
    assert count < ROWS
    for i in range(count):
        words = chance.choices(KINDS, [often for often, _ in KINDS])[0][1]
        yield tuple(words.format(i=i).split())


def problems(folder: Path, ended: Sequence[Ended]) -> list[str]:
    """What is wrong with the answers and with what is left in the folder."""
    return [
        *_answers(ended),
        *_ledger(folder, ended),
        *_models(folder, ended),
        *_state(folder, ended),
    ]


def counted(ended: Iterable[Ended]) -> Counter[tuple[str, str]]:
    """How many commands of each name ended how."""
    how = {0: "done", 1: "refused", 2: "refused"}
    return Counter((one.words[0], how.get(one.status, "killed")) for one in ended)


def _answers(ended: Sequence[Ended]) -> Iterator[str]:
    for one in ended:
        told = one.err.splitlines()
        errors = [line for line in told if not line.startswith("warning: ")]
        allowed = any(
            one.words[0] == name and one.status == status and part in one.out + one.err
            for name, status, part in REFUSALS
        )
        if not (one.killed or (one.status == 0 and not errors) or (allowed and len(errors) < 2)):
            yield f"{' '.join(one.words)}: {one.status}, {one.out[:300]!r}, {one.err[:600]!r}"


def _ledger(folder: Path, ended: Sequence[Ended]) -> Iterator[str]:
    """Whoever was told so has spent, whoever was refused has not, and no more than the budget was granted."""
    spent = [one for one in ended if "--ledger" in one.words]
    done, killed = sum(one.status == 0 for one in spent), sum(one.killed for one in spent)
    try:
        book = read_book(folder / "a.ledger")
    except InvalidInput as bad:
        yield f"ledger: {bad}"
        return
    granted, committed = len(book.granted), len(book.committed)
    if not done <= granted <= done + killed:
        yield f"ledger: {granted} entries of {done} trainings, {killed} killed"
    if not done <= committed <= granted:
        yield f"ledger: {committed} entries are committed, of {done} trainings"
    if [line.number for line in book.granted] != list(range(1, granted + 1)):
        yield "ledger: its numbers have gaps"
    if book.spent > book.opening.filter.limit:
        yield f"ledger: {book.spent} is spent of {book.opening.filter.limit}"
    refused = any(one.status == 1 for one in spent)
    # What is asked before data are read is a fiftieth less than the budget's own measure of the target.
    most = max((book.opening.filter.size(line.charge) for line in book.granted), default=0)
    if refused and book.spent + most * Fraction(51, 50) <= book.opening.filter.limit:
        yield "ledger: a training was refused, and there is room for another one"
    if (folder / "b.ledger").exists() and read_book(folder / "b.ledger").granted:
        yield "ledger: nobody has spent of the second one"


def _models(folder: Path, ended: Sequence[Ended]) -> Iterator[str]:
    """Whatever was written is whole and belongs together, and no two have the same noise."""
    done = [one for one in ended if one.status == 0 and "--guarantee" in one.words]
    pairs = {(one.option("--out"), one.option("--guarantee")) for one in done}
    hashes: Counter[str] = Counter()
    for model, guarantee in sorted(pairs):
        if not (folder / model).exists():
            yield f"{model} is gone"
            continue
        if model.startswith("n"):
            continue  # what is promised of forgetting names no model
        status, text = _verified(folder, guarantee, model)
        shared = model == "model.skops" and any(one.killed and model in one.words for one in ended)
        if status != 0 and not (shared and "NOT the one" in text):
            yield f"{model}, {guarantee}: {text}"
        hashes[_hash(folder / guarantee) if status == 0 else model] += 1
    if set(hashes.values()) - {1}:
        yield "two models have the same parameters"
    once = [one for one in done if "once.skops" in one.words]
    if len(once) > 1:
        yield f"{len(once)} trainings wrote once.skops"
    left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    if len(left) > 2 * sum(one.killed for one in ended):
        yield f"parts are left: {left}"


def _verified(folder: Path, guarantee: str, model: str) -> tuple[int, str]:
    text = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        return main(["verify", guarantee, "--model", model]), text.getvalue()


def _hash(guarantee: Path) -> str:
    (release,) = json.loads(guarantee.read_text())["notes"]["releases"]
    return str(release["parameters_sha256"])


def _state(folder: Path, ended: Sequence[Ended]) -> Iterator[str]:
    """Every request that was met is in the state, and no other one but of those that were killed."""
    try:
        log = state_in(StateFile(folder / "state", bytes.fromhex(KEY))).log
    except InvalidInput as bad:
        yield str(bad)
        return
    rows = np.concatenate([line.rows for line in log]).tolist()[1:]  # the first was the scene's
    told = [one for one in ended if one.words[0] == "forget"]
    named = {one: int((folder / one.option("--rows")).read_text()) for one in told}
    met = {row for one, row in named.items() if one.status == 0}
    possible = met | {row for one, row in named.items() if one.killed}
    if len(set(rows)) < len(rows) or not met <= set(rows) <= possible:
        yield f"state: rows {sorted(rows)} are forgotten, of {sorted(met)} to {sorted(possible)}"
