"""The page of benchmarks says what pabi says, and nothing tight lies far below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pabi.showing import shown
from support.scripts import load

ROOT = Path(__file__).parents[2]
LIBRARIES = load(ROOT / "benchmarks" / "libraries.py")
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def rows(part: str) -> list[list[str]]:
    """The cells of the table of a part, the head first."""
    text = PAGE.split(f"<!-- {part}: start -->")[1].split(f"<!-- {part}: end -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_every_part_has_a_table_with_versions_and_a_day():
    for part in LIBRARIES.PARTS:
        head, *others = rows(part)
        assert others
        assert all(len(row) == len(head) for row in others)
    assert len(re.findall(r"^pabi [\d.]+, .*; \d{4}-\d\d-\d\d; `benchmarks/", PAGE, re.M)) == 3


@pytest.mark.parametrize("row", rows("accounting")[1:], ids=lambda row: row[0])
def test_the_page_says_what_pabi_says(row):
    head = rows("accounting")[0]
    epsilon = LIBRARIES.accounted()[row[0]]["pabi"]()
    assert row[1].split(" ")[0] == shown(epsilon, decimals=3)
    others = [
        float(cell.split(" ")[0]) for name, cell in zip(head[2:], row[2:], strict=True) if cell
    ]
    assert epsilon < 1.002 * min(
        others
    )  # pabi rounds up by at most a thousandth, the page by another
