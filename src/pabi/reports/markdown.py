"""A report as Markdown, in which no sentence can become a heading, a link, a table or a tag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from pabi.reports.contents import Block, Command, Items, Paragraph, Picture, Report, Table

if TYPE_CHECKING:
    from pabi.reports.contents import Section

# What Markdown and HTML within it would take for more than text; `_` between letters is text.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&#!]|(?<![^\W_])_|_(?![^\W_])")
_STARTS = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")  # a list or a rule, at the start of a line
_LINK = re.compile(r"(?i)\b(https?|ftp|www|mailto)(?=[:.])")


def as_markdown(report: Report, _: Any = None) -> str:
    """The report as Markdown."""
    return f"# {plain_text(report.title)}\n\n{as_sections(report.sections, '##')}"


def as_sections(sections: Iterable[Section], marks: str) -> str:
    """Sections under headings with these `marks`."""
    parts = []
    for section in sections:
        parts.append(f"{marks} {plain_text(section.title)}")
        parts += [text for block in section.blocks if (text := _block(block))]
    return "\n\n".join(parts) + "\n"


def plain_text(text: object) -> str:
    """`text` in one line, with everything escaped that Markdown would take for more than text."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    escaped = _SPECIAL.sub(lambda match: f"\\{match.group()}", line)
    return _STARTS.sub(r"\1\\\2", _LINK.sub(lambda match: f"{match.group()}\u200b", escaped))


def _block(block: Block) -> str:
    match block:
        case Paragraph(alarming=True):
            return f"> **{plain_text(block.text)}**"
        case Paragraph():
            return plain_text(block.text)
        case Items():
            return "\n".join(f"- {plain_text(text)}" for text in block.texts)
        case Table():
            return _table(block.header or ("", ""), block.rows)
        case Command():
            return f"```sh\n{block.text}\n```"
        case Picture():
            return ""
        case _:
            assert_never(block)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (" | ".join(map(plain_text, row)) for row in (header, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'---|' * len(header)}", *others])
