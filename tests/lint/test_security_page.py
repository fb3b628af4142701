"""What the page on security says to type, and its tables, fit the files of the project."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from support.fuzzing.targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def after(words, option):
    """The word after an option."""
    return words[words.index(option) + 1]


def test_the_recipe_with_hashes_hangs_together():
    """What the last line builds with is among the hashes, and no line downloads what they do not cover."""
    (recipe,) = re.findall(r"```sh\npip install pip-tools\n(.*?)```", PAGE, flags=re.DOTALL)
    compiled, hashed, own = map(shlex.split, recipe.splitlines())
    assert compiled[0] == "pip-compile"
    assert compiled[-1] == "pyproject.toml"
    assert "--generate-hashes" in compiled
    assert after(compiled, "--extra") in PROJECT["project"]["optional-dependencies"]
    assert after(compiled, "--build-deps-for") == "wheel"
    assert hashed[:3] == ["pip", "install", "--require-hashes"]
    assert after(hashed, "--requirement") == after(compiled, "--output-file")
    assert after(hashed, "--only-binary") == ":all:"
    assert own == ["pip", "install", "--no-deps", "--no-build-isolation", "."]
    # pip-tools asks the build backend of the project for what it needs; nothing else is built.
    assert (
        PROJECT["build-system"]["build-backend"].partition(".")[0]
        in PROJECT["build-system"]["requires"]
    )


def test_every_reader_is_in_the_table():
    table = PAGE.split("<!-- fuzz: start -->")[1].split("<!-- fuzz: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    assert {row[0] for row in rows} == set(TARGETS)
    for name, executions, honest, covered, _ in rows:
        assert int(executions) > 1000, name
        assert 0 < int(honest) <= int(covered), name


def test_every_target_of_make_is_there():
    made = re.findall(r"^(\w+)(?: \w+)*:", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named
    assert named <= set(made)
