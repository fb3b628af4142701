"""Crowds of commands on the same ledger, models, guarantees, plans and secret state; some are killed."""

import os
import random
from collections import Counter

import pytest

pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pytest.importorskip("skops", reason="needs skops: pip install '.[train]'")
pytest.importorskip("cryptography", reason="needs cryptography: pip install '.[forget]'")
if not hasattr(os, "fork"):
    pytest.skip("needs fork and flock", allow_module_level=True)

from support.crowd_scenes import commands, copied, counted, problems, scene
from support.crowds import crowd

ROUND = 100  # commands that share a folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    scene(folder)
    return folder


def survived(made, folder, seed):
    """A round: how its commands ended, after nothing was found wrong."""
    chance = random.Random(seed)
    copied(made, folder, ROUND)
    ended = list(crowd(commands(ROUND, chance), folder, chance))
    assert len(ended) == ROUND
    assert not problems(folder, ended), "\n".join(problems(folder, ended)[:10])
    return ended


def test_a_crowd_loses_nothing(made, tmp_path):
    folder = tmp_path / "shared"
    ended = survived(made, folder, 0)
    how = counted(ended)
    assert min(how["train", "done"], how["train", "refused"], how["forget", "done"]) > 0
    assert any(one.killed for one in ended)
    # What is lost, cut or exchanged is noticed.
    ledger, state = (folder / "a.ledger").read_bytes(), (folder / "state").read_bytes()
    lines = ledger.splitlines(keepends=True)
    (folder / "a.ledger").write_bytes(b"".join(lines[: len(lines) // 2]))
    assert any(text.startswith("ledger: ") for text in problems(folder, ended))
    (folder / "a.ledger").write_bytes(ledger)
    (folder / "state").write_bytes((made / "state").read_bytes())
    assert any(text.startswith("state: ") for text in problems(folder, ended))
    (folder / "state").write_bytes(state)
    own = [
        one.option("--guarantee") for one in ended if one.status == 0 and "--ledger" in one.words
    ]
    first, second = [folder / name for name in own if name.startswith("g") and name[1].isdigit()][
        :2
    ]
    whole = first.read_bytes()
    for other in (whole[: len(whole) // 2], second.read_bytes()):
        first.write_bytes(other)
        assert any(first.name in text for text in problems(folder, ended))
    first.write_bytes(whole)
    assert not problems(folder, ended)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(2))
def test_a_thousand_commands_lose_nothing(made, tmp_path, part):
    how = Counter()
    for i in range(5):
        how += counted(survived(made, tmp_path / str(i), 1 + 5 * part + i))
    assert sum(how.values()) == 5 * ROUND
    assert min(how["train", "done"], how["forget", "done"], how["train", "killed"]) > 10
    print(dict(how))
