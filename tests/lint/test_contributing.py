"""What CONTRIBUTING says of the code: its rooms, and where things are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "pabi"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFFS = re.findall(r"^--- (\S+)$", TEXT, flags=re.M)


def test_the_map_has_every_room_in_the_order_that_the_contract_enforces():
    section = TEXT.split("\n## Map of the house\n")[1].split("\n### ")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert rooms == tools["importlinter"]["contracts"][0]["layers"]
    assert set(rooms) == {p.parent.name for p in PACKAGE.glob("*/__init__.py")}


def test_every_file_that_is_named_exists():
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.M)
    named = {
        name for name in re.findall(r"`([^`\s]+)`", prose) if re.search(r"/|\.(py|toml)$", name)
    }
    assert len(named) > 20
    beside = [PACKAGE, PACKAGE / "literature"]  # a list of neighbours names the folder once
    missing = [n for n in {*named, *DIFFS} if not any((at / n).exists() for at in (ROOT, *beside))]
    assert missing == []
