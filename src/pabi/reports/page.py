"""A report as one page of HTML: it loads nothing, suits light and dark screens, and prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from string import Template
from typing import TYPE_CHECKING, Any, assert_never

from pabi.draw.guarantee import inline_picture, variables
from pabi.numbers import showing
from pabi.reports.contents import Block, Command, Items, Paragraph, Picture, Report, Section, Table

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee

# Sentences that differ in one number as one sentence: what differs between settings or releases.


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def folded(sentences: Sequence[str]) -> tuple[str, ...]:
    """The sentences in their order, those that differ in one number alone joined where the first one stands.

    The numbers of a joined sentence stand ascending, as "2, 3 or 5".
    """
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_NUMBER.sub("#", sentence), []).append(sentence)
    return tuple(text for group in alike.values() for text in _joined(group))


def _joined(group: list[str]) -> list[str]:
    """One sentence where the group differs at one place, otherwise the group."""
    columns = list(zip(*map(_NUMBER.findall, group), strict=True))
    different = [place for place, values in enumerate(columns) if len(set(values)) > 1]
    if len(different) != 1:
        return group
    (place,) = different
    *others, last = sorted(columns[place], key=float)
    values = f"{', '.join(others)} or {last}"
    start, end = [match.span() for match in _NUMBER.finditer(group[0])][place]
    return [group[0][:start] + values + group[0][end:]]


_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
<main>
<h1>$title</h1>
$sections
</main>
</body>
</html>
""")
_SCREEN = (
    (":root", "color-scheme: light dark"),
    (
        "body",
        "background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; "
        "margin: 0 auto; max-width: 52rem; padding: 1.5rem",
    ),
    ("h1", "font-size: 1.7rem"),
    ("h2", "font-size: 1.2rem; margin-top: 2rem"),
    ("table", "border-collapse: collapse; margin: 1rem 0"),
    (
        "th, td",
        "border-bottom: 1px solid var(--line); overflow-wrap: anywhere; "
        "padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top",
    ),
    ('th[scope="row"]', "font-weight: 600; min-width: 9rem"),
    ("thead th", "color: var(--neutral); font-weight: 600"),
    ("pre", "background: var(--line); overflow-x: auto; padding: .6rem .8rem"),
    (
        ".alarm",
        "border-left: .3rem solid var(--other); color: var(--other); font-weight: 600; "
        "padding: .2rem .8rem",
    ),
    ("svg", "display: block; height: auto; max-width: 100%"),
)
_PRINT = (
    ("body", "font-size: 10pt; max-width: none; padding: 0"),
    ("h2, p:has(+ ul)", "break-after: avoid"),
    ("tr, svg, li, pre", "break-inside: avoid"),
    ("@page", "margin: 18mm"),
)


def as_page(report: Report, guarantee: Guarantee) -> str:
    """The report as a page, with the picture of the guarantee."""
    sections = "\n".join(_section(section, guarantee) for section in report.sections)
    style = f"{variables()}\n{_rules(_SCREEN)}\n@media print {{\n{_rules(_PRINT)}\n}}"
    return _PAGE.substitute(title=showing.escaped(report.title), style=style, sections=sections)


def _rules(rules: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{selector} {{ {declarations}; }}" for selector, declarations in rules)


def _section(section: Section, guarantee: Guarantee) -> str:
    blocks = "\n".join(map(partial(_block, guarantee=guarantee), section.blocks))
    return f"<section>\n{showing.element('h2', section.title)}\n{blocks}\n</section>"


def _block(block: Block, guarantee: Guarantee) -> str:
    match block:
        case Paragraph(alarming=True):
            return f'<p class="alarm">{showing.escaped(block.text)}</p>'
        case Paragraph():
            return showing.element("p", block.text)
        case Items():
            return showing.items(block.texts)
        case Table(header=()):
            return showing.facts((name, value) for name, value in block.rows)
        case Table():
            return showing.table(block.header, block.rows)
        case Command():
            return f"<pre>{showing.element('code', block.text)}</pre>"
        case Picture():
            return _picture(guarantee)
        case _:
            assert_never(block)


def _picture(guarantee: Guarantee) -> str:
    try:
        return inline_picture(guarantee)
    except ImportError:
        return showing.element("p", "There is no picture: matplotlib is not installed.")


# A report as Markdown, in which no sentence can become a heading, a link, a table or a tag.


# What Markdown and HTML within it would take for more than text; `_` between letters is text.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&#!]|(?<![^\W_])_|_(?![^\W_])")
_STARTS = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")  # a list or a rule, at the start of a line
_LINK = re.compile(r"(?i)\b(https?|ftp|www|mailto)(?=[:.])")


def as_markdown(report: Report, _: Any = None) -> str:
    """The report as Markdown."""
    return f"# {plain_text(report.title)}\n\n{as_sections(report.sections, '##')}"


def as_sections(sections: Iterable[Section], marks: str) -> str:
    """Sections under headings with these `marks`."""
    parts = (
        text
        for section in sections
        for text in (f"{marks} {plain_text(section.title)}", *map(_marked_down, section.blocks))
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def plain_text(text: object) -> str:
    """`text` in one line, with everything escaped that Markdown would take for more than text."""
    escaped = _SPECIAL.sub(lambda match: f"\\{match.group()}", showing.one_line(text))
    return _STARTS.sub(r"\1\\\2", _LINK.sub(lambda match: f"{match.group()}\u200b", escaped))


def _marked_down(block: Block) -> str:
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
