"""Links of the repository's Markdown, as GitHub reads it: files, places in them, and other sites."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-z]*/*.md")]
NAMES = "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"
PAGES = sorted([*(ROOT / name for name in NAMES), *DOCS])


def prose(page: Path) -> str:
    """A page without its blocks of code, code in lines, and mathematics, which may look like links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`|\$[^$\n]*\$", "", text)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^()\s]+)\)", prose(page))


@cache
def places(page: Path) -> frozenset[str]:
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


def reachable(site: str) -> bool:
    host = re.sub(r"^https?://", "", site).split("/")[0]
    try:
        socket.create_connection((host, 443), timeout=5).close()
    except OSError:
        return False
    return True


def gone(address: str) -> str | None:
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
