"""The page's own files: nothing of elsewhere, nothing inline, nothing read as HTML."""

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pabi.cli.explorer
from support.every_case import every

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(pabi.cli.explorer.__file__).parent / "static"
OURS = sorted(p for p in STATIC.rglob("*") if p.is_file() and p.parent.name != "vega")
SCRIPTS = [p for p in OURS if p.suffix == ".js"]


@pytest.mark.parametrize("name", ["vega.min.js", "vega-lite.min.js", "vega-interpreter.min.js"])
def test_vendored_files_are_those_that_third_party_names(name):
    found = hashlib.sha256((STATIC / "vega" / name).read_bytes()).hexdigest()
    row = next(
        line
        for line in (ROOT / "THIRD-PARTY.md").read_text("utf-8").splitlines()
        if f"/{name}`" in line
    )
    assert found in row


def test_nothing_else_is_vendored_or_inline():
    assert {p.name for p in (STATIC / "vega").iterdir()} == {
        "vega.min.js", "vega-lite.min.js", "vega-interpreter.min.js", "LICENSE"
    }  # fmt: skip
    parser = _Tags()
    parser.feed((STATIC / "index.html").read_text("utf-8"))
    assert not [tag for tag, _ in parser.found if tag == "style"]
    for tag, attributes in parser.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert attributes["src"].startswith("/")


@every("path", OURS)
def test_no_file_names_another_place(path):
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//[a-z0-9-]+\.[a-z]{2,}", text)
    assert not re.search(r"@import|url\(", text)


@every("path", SCRIPTS)
def test_no_script_reads_text_as_html_or_code_or_imports_what_is_not_there(path):
    """What a file or an address says becomes text of the page, never a part of it."""
    text = path.read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"
        r"|DOMParser|createContextualFragment",
        text,
    )
    assert not re.search(r"\.style\b|setAttribute\(\s*[\"']style", text)
    for name in re.findall(r'from "([^"]+)"', path.read_text("utf-8")):
        assert (path.parent / name).resolve() in SCRIPTS


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_page_asks_only_for_calculations_that_there_are():
    from pabi.cli.explorer import workers

    asked = set()
    for path in SCRIPTS:
        asked |= set(
            re.findall(r'\b(?:ask|question|planning|comparing)\("(\w+)"', path.read_text("utf-8"))
        )
    assert asked <= workers.NAMES
