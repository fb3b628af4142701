"""Docstrings as pages: prose with `code` and unicode mathematics, of which reStructuredText knows nothing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

_CODE = re.compile(r"(?<!`)`(?!`)([^`]+)`(?!`)")
_PLACE = re.compile(r'docs,\s+"([^"]+)"')
_UNDERLINE = re.compile(r"-{3,}")
_SPECIAL = re.compile(r"[*|\\]|_(?!\w)")


@cache
def places() -> dict[str, str]:
    """Where every heading of the documentation is, as seen from a page of the reference."""
    docs, found = Path(__file__).parent.parent, {}
    pages = [p for f in ("theory", ".", "training", "howto") for p in docs.glob(f"{f}/*.md")]
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.M)
        for level, title in re.findall(r"^(#{1,4}) +(.+?) *$", text, flags=re.M):
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            file = f"../{page.relative_to(docs).with_suffix('.html')}"
            name = re.sub(r"^[\d.]+ +", "", title)
            found[name] = file if level == "#" else found.get(name, f"{file}#{slug}")
    return found


def linked(match: re.Match[str]) -> str:
    """`docs, "Title"` with a link to that page or section."""
    title = re.sub(r"\s+", " ", match[1])
    if title not in places():
        logger.warning("a docstring names a page or section that is not there: %s", title)
        return match[0]
    return f'docs, `"{title}" <{places()[title]}>`__'


def as_written(text: str) -> str:
    """`text` with every character but backticks taken as it is, and code in backticks as a literal."""
    parts = _CODE.split(text)
    shown = []
    for i, part in enumerate(parts):
        if i % 2 == 0:
            shown.append(_PLACE.sub(linked, _SPECIAL.sub(r"\\\g<0>", part)))
        else:
            code = re.sub(r"\s+", " ", part) if "\n" not in part else part
            # An escaped space ends the markup where a letter follows, and shows nothing.
            before = r"\ " if parts[i - 1] and re.search(r"[\w)]$", parts[i - 1]) else ""
            after = r"\ " if re.match(r"[\w(]", parts[i + 1]) else ""
            shown.append(f"{before}``{code}``{after}")
    return "".join(shown)


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrites a docstring of pabi in place, paragraph by paragraph.

    Sections of numpydoc become a title and a list of definitions; what stands to the left after a
    section's fields is prose again. Literal blocks are left alone.
    """
    module = getattr(thing, "__module__", None) or name
    if not module.startswith("pabi"):
        return
    written: list[str] = []
    paragraph: list[str] = []
    literal: int | None = None  # the indentation of the text that introduced a literal block
    in_fields = False

    def flush() -> None:
        if paragraph:
            written.extend(as_written("\n".join(paragraph)).split("\n"))
        paragraph.clear()

    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        after = lines[i + 1] if i + 1 < len(lines) else ""
        if literal is not None and (not line.strip() or indent > literal):
            written.append(line)
            continue
        literal = None
        if _UNDERLINE.fullmatch(line):
            continue
        if _UNDERLINE.fullmatch(after):
            flush()
            written += [f"**{line}**", ""]
            in_fields = True
        elif not line.strip():
            flush()
            written.append(line)
        elif in_fields and not indent and after.startswith(" "):
            flush()
            field, _, kind = line.partition(" : ")
            written.append(f"``{field}``" + (f" : {as_written(kind)}" if kind else ""))
        else:
            paragraph.append(line)
            if not indent:
                in_fields = False
            if line.rstrip().endswith("::"):
                flush()
                literal = indent
    flush()
    lines[:] = written


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
