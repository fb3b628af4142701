"""What the repository's Markdown says: links, as GitHub reads them, terms, rooms, recipes and licences."""

import re
import shlex
import socket
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from support.fuzzing.targets import TARGETS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pabi"
DOCS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-z]*/*.md")]
NAMES = "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"
PAGES = sorted([*(ROOT / name for name in NAMES), *DOCS])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


# Links.


def prose(page):
    """A page without its blocks of code, code in lines, and mathematics, which may look like links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`|\$[^$\n]*\$", "", text)


def links(page):
    return re.findall(r"\]\(([^()\s]+)\)", prose(page))


@cache
def places(page):
    """The anchors of a page: headings as GitHub names them, and those that are written."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    found = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, flags=re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (unique := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(unique)
    return frozenset(found)


def test_links_within_the_repository():
    wrong = []
    for page, link in ((one, link) for one in PAGES for link in links(one)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, place = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or ROOT not in (target, *target.parents):
            wrong.append(f"{page}: {link}: no such file")
        elif place and place not in places(target):
            wrong.append(f"{page}: {link}: no such place")
    assert not wrong, "\n".join(wrong)


def reachable(site):
    host = re.sub(r"^https?://", "", site).split("/")[0]
    try:
        socket.create_connection((host, 443), timeout=5).close()
    except OSError:
        return False
    return True


def gone(address):
    """What is wrong with an address: that it does not exist. A site that is slow or says no is not."""
    asked = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0"})
    try:
        urllib.request.urlopen(asked, timeout=20).close()
    except urllib.error.HTTPError as error:
        return f"{address}: {error}" if error.code in (404, 410) else None
    except urllib.error.URLError as error:
        unknown = isinstance(error.reason, socket.gaierror)
        return f"{address}: {error.reason}" if unknown else None
    except OSError:
        return None
    return None


def test_links_to_other_sites():
    addresses = sorted({link for page in PAGES for link in links(page) if link.startswith("http")})
    assert addresses
    if not any(map(reachable, addresses)):
        pytest.skip(f"no network: {len(addresses)} links to other sites are not checked")
    with ThreadPoolExecutor(8) as pool:
        assert [found for found in pool.map(gone, addresses) if found] == []


# Terms of the field are linked to the glossary where a how-to page first uses them.

TERMS = {
    "iterate": r"\biterates?\b",
    "modulus": r"(?<![/-])\bmodul(?:us|i)\b",  # not within an address
    "shift": r"\bshift(?:s|ed)?\b",
    "cool-down": r"\bcool-?downs?\b|cooldown_steps",
}


def first_uses(text):
    """Where each term stands first, in sentences or in what examples print."""
    return {
        term: match.start()
        for term, words in TERMS.items()
        if (match := re.search(words, text, re.I))
    }


def test_terms_are_linked_at_their_first_use():
    for page in (ROOT / "docs/howto").glob("*.md"):
        text = page.read_text("utf-8")
        for term, place in first_uses(text).items():
            start = text.rfind("\n\n", 0, place)
            link = text.find(f"(../glossary.md#{term})", start)
            assert link >= 0, f"{page.name}: {term} is not linked"
            end = text.find("\n\n", place)
            assert link < end, f"{page.name}: {term} is used before it is linked"


def test_the_glossary_defines_them():
    glossary = (ROOT / "docs/glossary.md").read_text("utf-8")
    for term in TERMS:
        assert f'<a id="{term}"></a>' in glossary
    assert "iterate" in first_uses("An iterate.")
    assert not first_uses("Nothing of the kind.")


# CONTRIBUTING says which rooms there are, and where things are.

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DIFFS = re.findall(r"^--- (\S+)$", CONTRIBUTING, flags=re.M)


def test_the_map_has_every_room_in_the_order_that_the_contract_enforces():
    section = CONTRIBUTING.split("\n## Map of the house\n")[1].split("\n### ")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    assert rooms == PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    assert set(rooms) == {p.parent.name for p in PACKAGE.glob("*/__init__.py")}


def test_every_file_that_is_named_exists():
    prose = re.sub(r"^```.*?^```", "", CONTRIBUTING, flags=re.DOTALL | re.M)
    named = {
        name for name in re.findall(r"`([^`\s]+)`", prose) if re.search(r"/|\.(py|toml)$", name)
    }
    assert len(named) > 20
    beside = [PACKAGE, PACKAGE / "literature"]  # a list of neighbours names the folder once
    missing = [n for n in {*named, *DIFFS} if not any((at / n).exists() for at in (ROOT, *beside))]
    assert missing == []


# The page on security: what it says to type, and its tables.

SECURITY = (ROOT / "docs" / "security.md").read_text("utf-8")


def after(words, option):
    """The word after an option."""
    return words[words.index(option) + 1]


def test_the_recipe_with_hashes_hangs_together():
    """What the last line builds with is among the hashes, and no line downloads what they do not cover."""
    (recipe,) = re.findall(r"```sh\npip install pip-tools\n(.*?)```", SECURITY, flags=re.DOTALL)
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
    table = SECURITY.split("<!-- fuzz: start -->")[1].split("<!-- fuzz: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    assert {row[0] for row in rows} == set(TARGETS)
    for name, executions, honest, covered, _ in rows:
        assert int(executions) > 1000, name
        assert 0 < int(honest) <= int(covered), name


def test_every_target_of_make_is_there():
    made = re.findall(r"^(\w+)(?: \w+)*:", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    named = set(re.findall(r"`make (\w+)`", SECURITY))
    assert named
    assert named <= set(made)


# THIRD-PARTY names every package that pabi installs, and no other.


def names(requirements):
    return {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in requirements}


def rows(title):
    """The first two columns of the table under a heading."""
    text = (ROOT / "THIRD-PARTY.md").read_text("utf-8")
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return {row[0].strip(): row[1].strip() for row in cells[2:]}


def test_every_dependency_has_its_licence():
    needed = rows("Packages that pabi needs")
    assert set(needed) == names(PROJECT["project"]["dependencies"])
    assert all(needed.values())


def test_every_extra_has_its_licence():
    told = rows("Packages of the extras")
    wanted = names(
        [r for extra in PROJECT["project"]["optional-dependencies"].values() for r in extra]
    )
    assert set(told) == wanted
    assert all(told.values())
