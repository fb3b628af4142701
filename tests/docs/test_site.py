"""The site builds without a warning, which checks every link within it, and nothing public is missing."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import typer
from sphinx.util.inventory import InventoryFile

from pabi import __version__
from pabi.cli import app
from support.public import described, public

ROOT = Path(__file__).parent.parent.parent


def options():
    """Every command of the command line, and its options."""
    for name, command in typer.main.get_command(app).commands.items():
        yield f"pabi {name}"
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from (*parameter.opts, *parameter.secondary_opts)


def article(page):
    return page[page.index("<article") : page.index("</article>")]


def left_over(page):
    """Markup that was meant to become something else: mathematics, tables, references."""
    text = re.sub(r'<(span|div) class="math.*?</\1>', "", article(page), flags=re.DOTALL)
    text = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    for found in re.finditer(r"\$|\\[a-z]{2,}|\|\s*-{3}|``|\]\(|:[a-z]+:`", unescape(text)):
        yield unescape(text)[max(0, found.start() - 30) : found.end() + 30].replace("\n", " ")


def from_elsewhere(page):
    """What a browser would load from another site to show the page."""
    for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page):
        if re.search(r'\b(?:src|srcset|href)="(?:https?:)?//', tag):
            yield tag


def only_light(page):
    """Pictures that stay as they are where the page is dark."""
    for tag in re.findall(r"<img\b[^>]*>", article(page)):
        if "_images/" in tag and not re.search(r'class="[^"]*\bonly-(light|dark)\b', tag):
            yield tag


def broken_anchors(folder):
    """Links to a place that its page does not have, which Sphinx does not check in every case."""
    pages = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', page)) for path, page in pages.items()}
    for path, page in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]*)"', page):
            file, _, place = unescape(link).partition("#")
            if ":" in file:
                continue
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.exists() or (place and unquote(place) not in ids.get(target, set())):
                yield f"{path.relative_to(folder)}: {link}"


def test_site_builds_and_is_complete(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    site = tmp_path / "html"

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind, of in inventory.data.items() if kind[:3] == "py:" for name in of}
    things = set().union(*(described(name) for name in documented))
    missing = {name for name in public() if not described(name) & things}
    assert missing == set()

    commands = unescape((site / "api" / "cli.html").read_text(encoding="utf-8"))
    shown = re.sub(r"<[^>]+>", "", commands)
    assert [name for name in options() if name not in shown] == []

    pages = {p: p.read_text(encoding="utf-8") for p in site.rglob("*.html")}
    texts = {str(p.relative_to(site)): page for p, page in pages.items() if "<article" in page}
    assert len(texts) > 20
    assert [(name, part) for name, page in texts.items() for part in left_over(page)] == []
    assert list(broken_anchors(site)) == []
    assert [(name, part) for name, page in texts.items() for part in from_elsewhere(page)] == []
    assert [(name, part) for name, page in texts.items() for part in only_light(page)] == []
    assert "mathjax/tex-svg.js" in texts["theory/rounding.html"]
    assert all(f"pabi {__version__}" in page for page in texts.values())


def test_left_over_markup_and_what_comes_from_elsewhere_are_found():
    for wrong in ("costs $\\mu$", "``code``", "[text](page.md)", "\\frac12", ":ref:`there`"):
        assert list(left_over(f"<article>{wrong}</article>"))
    assert not list(left_over('<article><span class="math">\\(\\mu\\)</span></article>'))
    assert list(from_elsewhere('<script defer src="https://cdn.example/m.js"></script>'))
    assert list(from_elsewhere('<link rel="stylesheet" href="//cdn.example/m.css" />'))
    assert not list(
        from_elsewhere('<script src="_static/m.js"></script><a href="https://a.b">a</a>')
    )
    assert list(only_light('<article><img alt="a" src="_images/a.svg" /></article>'))
