"""A report as one page of HTML: it loads nothing, suits light and dark screens, and prints."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from string import Template
from typing import TYPE_CHECKING, assert_never

from pabi.draw.inline import inline_picture, variables
from pabi.numbers import markup
from pabi.reports.contents import Block, Command, Items, Paragraph, Picture, Report, Section, Table

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee

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
    return _PAGE.substitute(title=markup.escaped(report.title), style=style, sections=sections)


def _rules(rules: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{selector} {{ {declarations}; }}" for selector, declarations in rules)


def _section(section: Section, guarantee: Guarantee) -> str:
    blocks = "\n".join(map(partial(_block, guarantee=guarantee), section.blocks))
    return f"<section>\n{markup.element('h2', section.title)}\n{blocks}\n</section>"


def _block(block: Block, guarantee: Guarantee) -> str:
    match block:
        case Paragraph(alarming=True):
            return f'<p class="alarm">{markup.escaped(block.text)}</p>'
        case Paragraph():
            return markup.element("p", block.text)
        case Items():
            return markup.items(block.texts)
        case Table(header=()):
            return markup.facts((name, value) for name, value in block.rows)
        case Table():
            return markup.table(block.header, block.rows)
        case Command():
            return f"<pre>{markup.element('code', block.text)}</pre>"
        case Picture():
            return _picture(guarantee)
        case _:
            assert_never(block)


def _picture(guarantee: Guarantee) -> str:
    try:
        return inline_picture(guarantee)
    except ImportError:
        return markup.element("p", "There is no picture: matplotlib is not installed.")
