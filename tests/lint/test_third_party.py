"""THIRD-PARTY.md names every package that pabi installs, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in requirements}


def rows(title: str) -> dict[str, str]:
    """The first two columns of the table under a heading."""
    text = (ROOT / "THIRD-PARTY.md").read_text("utf-8")
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return {row[0].strip(): row[1].strip() for row in cells[2:]}


def test_every_dependency_has_its_licence():
    needed = rows("Packages that pabi needs")
    assert set(needed) == names(PROJECT["dependencies"])
    assert all(needed.values())


def test_every_extra_has_its_licence():
    told = rows("Packages of the extras")
    wanted = names([r for extra in PROJECT["optional-dependencies"].values() for r in extra])
    assert set(told) == wanted
    assert all(told.values())
