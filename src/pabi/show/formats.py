"""What reports consist of, and how it is written: a page of HTML, Markdown, a model card of Hugging Face; and
what of a guarantee goes into a registry."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, assert_never

from pabi.describe.accounted import RETRAINED
from pabi.learn.plans import not_covered
from pabi.numbers import showing
from pabi.numbers.errors import require
from pabi.numbers.showing import exact, one_line, shown
from pabi.show.pictures import inline_picture, variables
from pabi.tradeoff.certificate import (
    SHA256,
    adjacent,
    curve_in_words,
    models_in,
    releases_in,
    stamp,
)
from pabi.tradeoff.guarantee import Guarantee, require_unlimited
from pabi.verification import Verdict

# What a report consists of: plain text, which whoever writes it escapes as their format needs.


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `alarming`: of what voids the promise; `first`: what has to be read before all else."""

    text: str
    alarming: bool = False
    first: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; without a header its first column has the names of the rows."""

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A line for the shell."""

    text: str


@dataclass(frozen=True)
class Picture:
    """Where the picture of the guarantee stands, in formats that have one."""


@dataclass(frozen=True)
class Scale:
    """Where ε lies between what is called strong and what is called weak."""

    epsilon: float


@dataclass(frozen=True)
class Tick:
    """A numbered sentence that somebody attests: in plain words, and the exact ones.

    `by`: who did. `note`: what else has to be known of it.
    """

    text: str
    exact: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Ticks:
    """Sentences with boxes to be ticked, the first of which has the number `first`."""

    ticks: tuple[Tick, ...]
    first: int = 1


@dataclass(frozen=True)
class PaperLine:
    """A line to sign on paper, of what is signed and as what."""

    text: str
    role: str


@dataclass(frozen=True)
class Folded:
    """Sentences that are shown once a reader asks for them."""

    title: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Embedded:
    """The file of the guarantee and the statements about it, which a page holds and checks in the browser.

    `raw`: the bytes of the file; `signatures`: the text of the statements, "" where there are none.
    `epsilon`, `delta`: what the page promises, rounded up. `void`: whether that is not to be relied on.
    """

    raw: bytes
    signatures: str
    epsilon: str
    delta: str
    void: bool


Block = (
    Paragraph
    | Heading
    | Items
    | Table
    | Command
    | Picture
    | Scale
    | Ticks
    | PaperLine
    | Folded
    | Embedded
)


@dataclass(frozen=True)
class Section:
    """A part of a report under a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """A report, and the numbers that a program reads of it.

    `metadata`: names and values, numbers already rounded up and as text.
    """

    title: str
    sections: tuple[Section, ...]
    metadata: tuple[tuple[str, str | float | bool | None], ...]


# Bands of ε, by what machine learning calls them.

STRONG, WEAK = 1.0, 10.0
BANDS_FROM = "Ponomareva et al. 2023, “How to DP-fy ML”, arXiv 2303.00654"


def band(epsilon: float) -> int:
    """0 for what is called strong, 1 for what lies between, 2 for what is called weak."""
    return (epsilon > STRONG) + (epsilon > WEAK)


def band_in_words(epsilon: float) -> str:
    """What the band of ε means for who decides."""
    return (
        "STRONG: ε is at most 1.",
        "IN BETWEEN: ε is above 1 and at most 10. This is not called strong. Decide by what an attacker can "
        "do, below, and write the reason down.",
        "WEAK: ε is above 10. By itself it promises little. Decide by what an attacker can do, below, or do "
        "not release.",
    )[band(epsilon)]


# A report as one page of HTML: it loads nothing, suits light and dark screens, and prints. Its one script
# checks in the browser what can be checked there.


_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'sha256-$hash'">
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
<script>$script</script>
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
    (
        "h2",
        "border-top: 2px solid var(--line); font-size: 1.35rem; margin-top: 2.5rem; padding-top: 1rem",
    ),
    ("h3", "font-size: 1.05rem; margin: 1.8rem 0 .4rem"),
    ("table", "border-collapse: collapse; margin: 1rem 0; max-width: 100%"),
    (
        "th, td",
        "border-bottom: 1px solid var(--line); overflow-wrap: anywhere; "
        "padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top",
    ),
    ('th[scope="row"]', "font-weight: 600; min-width: 7rem"),
    ("thead + tbody td:first-child", "min-width: 4.5rem; overflow-wrap: break-word"),
    ("thead th", "color: var(--neutral); font-weight: 600; overflow-wrap: normal"),
    (
        "pre",
        "background: var(--line); padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere",
    ),
    (
        ".alarm",
        "border: 2px solid var(--other); border-left-width: .5rem; color: var(--other); font-weight: 600; "
        "padding: .5rem .8rem",
    ),
    (".band", "border-left: .5rem solid var(--ours); font-weight: 600; padding: .2rem .8rem"),
    (".band1", "border-left-style: double; border-left-color: var(--amber)"),
    (".band2", "border: 2px solid var(--other); border-left-width: .5rem; color: var(--other)"),
    ("svg", "display: block; height: auto; max-width: 100%"),
    (".scale", "margin: 1rem 0; width: 34rem"),
    (".scale text", "fill: var(--ink); font: 11px system-ui, sans-serif"),
    ("summary", "color: var(--neutral); cursor: pointer; font-size: .9em; width: fit-content"),
    (
        "details ul",
        "font-size: .9em; margin: .2rem 0 .6rem; overflow-wrap: anywhere; padding-left: 1.2rem",
    ),
    (".ticks", "list-style: none; padding: 0"),
    (".ticks > li", "display: grid; grid-template-columns: 1.6rem 1.6rem 1fr; margin: .7rem 0"),
    (".ticks > li > div > p", "margin: 0"),
    (".box", "font-size: 1.15rem; line-height: 1.3"),
    (".number", "color: var(--neutral)"),
    (".by, .note", "font-size: .9em; overflow-wrap: anywhere"),
    (".note", "color: var(--other); font-weight: 600"),
    (".paper", "border: 1px solid var(--neutral); margin: 1.5rem 0; padding: .6rem .8rem"),
    (".paper p", "font-size: .9em; margin: 0; overflow-wrap: anywhere"),
    (
        ".paper div",
        "display: grid; gap: 0 1rem; grid-template-columns: 2fr 1fr 2fr; margin: 2.4rem 0 0",
    ),
    (".paper span", "border-top: 1px solid var(--ink); font-size: .8em"),
    (".checks li", "margin: .3rem 0; overflow-wrap: anywhere"),
    (".bad", "color: var(--other); font-weight: 600"),
)
_NARROW = (
    ("body", "padding: 1rem"),
    (".paper div", "gap: 2.4rem 0; grid-template-columns: 1fr"),
    ('th[scope="row"]', "min-width: 5rem"),
)
_PRINT = (
    ("body", "font-size: 10pt; max-width: none; padding: 0"),
    ("h2, h3, p:has(+ ul)", "break-after: avoid"),
    ("tr, svg, li, pre, .paper", "break-inside: avoid"),
    (".paper div", "gap: 0 1rem; grid-template-columns: 2fr 1fr 2fr"),
    ("@page", "margin: 18mm"),
    # What is signed has to be on the paper: what is folded on a screen is shown.
    ("details::details-content", "content-visibility: visible; block-size: auto"),
    ("summary", "list-style: none"),
)
_AMBER = ("#8A6100", "#E6C323")  # on light and dark paper


def as_page(report: Report, guarantee: Guarantee) -> str:
    """The report as a page, with the picture of the guarantee."""
    sections = "\n".join(_section(section, guarantee) for section in report.sections)
    light, dark = _AMBER
    amber = (
        f":root {{ --amber: {light}; }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ --amber: {dark}; }} }}"
    )
    style = "\n".join(
        (
            variables(),
            amber,
            _rules(_SCREEN),
            f"@media screen and (max-width: 34rem) {{\n{_rules(_NARROW)}\n}}",
            f"@media print {{\n{_rules(_PRINT)}\n}}",
        )
    )
    script, fingerprint = _script()
    return _PAGE.substitute(
        title=showing.escaped(report.title),
        style=style,
        sections=sections,
        script=script,
        hash=fingerprint,
    )


@cache
def _script() -> tuple[str, str]:
    """The script of the page, and its hash as the page's policy names it."""
    text = (files("pabi.show") / "page.js").read_text("utf-8")
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _rules(rules: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{selector} {{ {declarations}; }}" for selector, declarations in rules)


def _section(section: Section, guarantee: Guarantee) -> str:
    blocks = "\n".join(map(partial(_block, guarantee=guarantee), section.blocks))
    return f"<section>\n{showing.element('h2', section.title)}\n{blocks}\n</section>"


def _block(block: Block, guarantee: Guarantee) -> str:
    match block:
        case Paragraph(alarming=True):
            return f'<p class="alarm">{showing.escaped(block.text)}</p>'
        case Paragraph(first=True):
            return f'<p class="band">{showing.escaped(block.text)}</p>'
        case Paragraph():
            return showing.element("p", block.text)
        case Heading():
            return showing.element("h3", block.text)
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
        case Scale():
            return _scale(block.epsilon)
        case Ticks():
            rows = "\n".join(_tick(k, tick) for k, tick in enumerate(block.ticks, block.first))
            return f'<ul class="ticks">\n{rows}\n</ul>'
        case PaperLine():
            return _paper_line(block)
        case Folded():
            return showing.folded(block.title, showing.items(block.texts))
        case Embedded():
            return _embedded(block)
        case _:
            assert_never(block)


def _picture(guarantee: Guarantee) -> str:
    try:
        return inline_picture(guarantee)
    except ImportError:
        return showing.element("p", "There is no picture: matplotlib is not installed.")


def _tick(number: int, tick: Tick) -> str:
    box, label = ("☑", "attested") if tick.by else ("☐", "not attested")
    lines = [showing.element("p", tick.text)]
    lines += [f'<p class="note">{showing.escaped(tick.note)}</p>'] if tick.note else []
    lines += [f'<p class="by">{showing.escaped(one)}</p>' for one in tick.by]
    count = len(tick.exact)
    title = "the exact sentence" if count == 1 else f"the {count} exact sentences"
    lines += [showing.folded(title, showing.items(tick.exact))] if count else []
    return (
        f'<li><span class="box" role="img" aria-label="{label}">{box}</span>'
        f'<span class="number">{number}</span><div>{"".join(lines)}</div></li>'
    )


def _paper_line(line: PaperLine) -> str:
    labels = ("name", "date", f"signature ({line.role})")
    cells = "".join(f"<span>{showing.escaped(label)}</span>" for label in labels)
    return f'<div class="paper"><p>{showing.escaped(line.text)}</p><div>{cells}</div></div>'


_LOWEST = 0.1  # where the scale begins
_LEFT, _DECADE = 8, 114  # where that is, and the width of a factor of ten


def _scale(epsilon: float) -> str:
    """The scale of ε, and in words where it lies: hatched the denser the weaker, and with names."""
    place = min(max(math.log10(max(epsilon, 1e-9) / _LOWEST), 0.0), 3.0) if epsilon < 1e9 else 3.0
    x = round(_LEFT + _DECADE * place)
    bands = "".join(
        f'<rect x="{_LEFT + _DECADE * k}" y="34" width="{_DECADE}" height="16" fill="var(--paper)" '
        f'stroke="var(--ink)" stroke-width=".7"/>'
        f'<rect x="{_LEFT + _DECADE * k}" y="34" width="{_DECADE}" height="16" fill="url(#band{k})"/>'
        f'<text x="{_LEFT + _DECADE * k + _DECADE // 2}" y="77" text-anchor="middle">{name}</text>'
        for k, name in enumerate(("strong", "in between", "weak"))
    )
    patterns = "".join(
        f'<pattern id="band{k}" width="{width}" height="{width}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="{thick}" height="{width}" fill="var(--{colour})"/>'
        "</pattern>"
        for k, (colour, width, thick) in enumerate(
            (("ours", 12, 1), ("amber", 6, 2), ("other", 4, 3))
        )
    )
    numbers = "".join(
        f'<text x="{_LEFT + _DECADE * k}" y="62" text-anchor="{anchor}">{text}</text>'
        for k, (text, anchor) in enumerate(
            (("0.1", "start"), ("1", "middle"), ("10", "middle"), ("100", "end"))
        )
    )
    anchor = "start" if place < 0.7 else "end" if place > 2.3 else "middle"
    text = f"this guarantee: ε = {shown(epsilon, 3)}"
    picture = (
        f'<svg class="scale" viewBox="0 0 358 82" role="img" aria-label="{showing.escaped(text)}, on a scale '
        f'from 0.1 to 100"><defs>{patterns}</defs>{bands}{numbers}'
        f'<path d="M{x} 33l-6 -11h12z" fill="var(--ink)"/>'
        f'<text x="{x}" y="16" text-anchor="{anchor}" font-weight="700">{showing.escaped(text)}</text>'
        "</svg>"
    )
    words = showing.escaped(band_in_words(epsilon))
    return f'{picture}\n<p class="band band{band(epsilon)}">{words}</p>'


_HERE = (
    "This page holds the file of the guarantee, and a browser computes a part of it again. It cannot go "
    "through the proof: only the command above shows that the training has this curve. Whoever can change "
    "this page can change its checks, too. Compare the SHA-256, and the keys of signatures, with what you "
    "were told in another way."
)


_UNCHECKED = "Nothing was checked here: the script of this page did not run."


def _embedded(block: Embedded) -> str:
    def link(name: str, raw: bytes, text: str) -> str:
        data = base64.b64encode(raw).decode("ascii")
        address = f"data:application/octet-stream;base64,{data}"
        return f'<a id="{name}" download="{name}" href="{address}">{showing.escaped(text)}</a>'

    links = [link("guarantee.json", block.raw, "Save the file of the guarantee")]
    if block.signatures:
        raw = block.signatures.encode()
        links.append(link("guarantee.json.sig", raw, "Save the statements about it"))
    return (
        f"{showing.element('h3', 'Checked in this browser, without Python')}\n"
        f"{showing.element('p', _HERE)}\n"
        f'<ul class="checks" id="checks" data-epsilon="{block.epsilon}" data-delta="{block.delta}" '
        f'data-sha256="{hashlib.sha256(block.raw).hexdigest()}"{" data-void" * block.void}>'
        f"{showing.element('li', _UNCHECKED)}</ul>\n"
        f"<p>{' · '.join(links)}</p>"
    )


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
        for text in (
            f"{marks} {plain_text(section.title)}",
            *(_marked_down(block, f"{marks}#") for block in section.blocks),
        )
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def plain_text(text: object) -> str:
    """`text` in one line, with everything escaped that Markdown would take for more than text."""
    escaped = _SPECIAL.sub(lambda match: f"\\{match.group()}", showing.one_line(text))
    return _STARTS.sub(r"\1\\\2", _LINK.sub(lambda match: f"{match.group()}\u200b", escaped))


def _marked_down(block: Block, marks: str) -> str:
    match block:
        case Paragraph(alarming=True):
            return f"> **{plain_text(block.text)}**"
        case Paragraph(first=True):
            return f"**{plain_text(block.text)}**"
        case Paragraph():
            return plain_text(block.text)
        case Heading():
            return f"{marks} {plain_text(block.text)}"
        case Items():
            return "\n".join(f"- {plain_text(text)}" for text in block.texts)
        case Table():
            return _table(block.header or ("", ""), block.rows)
        case Command():
            return f"```sh\n{block.text}\n```"
        case Picture() | Embedded():
            return ""
        case Scale():
            return f"**{plain_text(band_in_words(block.epsilon))}**"
        case Ticks():
            rows = enumerate(block.ticks, block.first)
            return "\n".join(_ticked_off(number, tick) for number, tick in rows)
        case PaperLine():
            return (
                f"{plain_text(block.text)}\n\nName \\_\\_\\_\\_\\_\\_\\_\\_\\_\\_\\_\\_ · date "
                f"\\_\\_\\_\\_\\_\\_\\_\\_ · signature ({block.role}) \\_\\_\\_\\_\\_\\_\\_\\_\\_\\_\\_\\_"
            )
        case Folded():
            return "\n".join(
                [f"- {plain_text(block.title)}:", *(f"  - {plain_text(t)}" for t in block.texts)]
            )
        case _:
            assert_never(block)


def _ticked_off(number: int, tick: Tick) -> str:
    note = f" **{plain_text(tick.note)}**" if tick.note else ""
    lines = [f"- [{'x' if tick.by else ' '}] {number}: {plain_text(tick.text)}{note}"]
    lines += [f"  - {plain_text(one)}" for one in tick.by]
    lines += [f"  - exactly: {plain_text(one)}" for one in tick.exact]
    return "\n".join(lines)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (" | ".join(map(plain_text, row)) for row in (header, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'---|' * len(header)}", *others])


# A report as a model card of Hugging Face: metadata in YAML, and a section to be put into the card.


_TAGS = ("differential-privacy", "pabi")


def as_model_card(report: Report, _: Any = None) -> str:
    """The report as metadata and a section."""
    tags, facts = (f"- {tag}" for tag in _TAGS), (f"  {n}: {yaml(v)}" for n, v in report.metadata)
    lines = ["---", "tags:", *tags, "differential_privacy:", *facts]
    sections = (
        # Nobody signs a model card on paper.
        Section(part.title, tuple(b for b in part.blocks if not isinstance(b, PaperLine)))
        for part in report.sections
    )
    return "\n".join([*lines, "---", "", "# Privacy", "", as_sections(sections, "##")])


def yaml(value: str | float | bool | None) -> str:
    """A scalar of YAML. Text is quoted as in JSON; a number has a point, or 1e-05 would be read as text."""
    if value is None or isinstance(value, (str, bool)):
        return json.dumps(value).replace("<", "\\u003c")  # no tag, whoever reads it as Markdown
    if math.isinf(value):
        return ".inf"
    mantissa, mark, exponent = exact(value).partition("e")
    return mantissa + ".0" * ("." not in mantissa) + mark + exponent


# An entry in the Differential Privacy Deployments Registry.
#
# The schema has no version number. This is `schemas/deployments-schema.yaml` of the repository
# `opendp/deployments-registry-data` on GitHub, commit 3e9c812a of 15 July 2026, which is based on
# Nanayakkara, Ghazi and Vadhan, "Practitioners' Perspectives on a Differential Privacy Deployment Registry",
# arXiv:2509.13509. A field that a guarantee does not know is left out, even if the schema requires it: name,
# curator, purpose, dates, tier, authors.


_SCHEMA = (
    "schemas/deployments-schema.yaml of opendp/deployments-registry-data, commit 3e9c812a (2026-07-15), "
    "arXiv:2509.13509"
)


# YAML takes 1e-05 for text, and 1.0e-05 for a number.
_EXPONENT = re.compile(r'(": \d+)(e[-+]\d+,?)$', re.M)


def entry_text(guarantee: Guarantee, delta: float, verdict: Verdict) -> str:
    """The entry as JSON that YAML reads alike, one field a line."""
    entry = registry_entry(guarantee, delta, verdict)
    return _EXPONENT.sub(r"\1.0\2", json.dumps(entry, ensure_ascii=False, indent=2)) + "\n"


def registry_entry(guarantee: Guarantee, delta: float, verdict: Verdict) -> dict[str, Any]:
    """The entry as data, with ε at `delta`, rounded up.

    Strings are what the registry renders as Markdown. `verdict` is the checker's. Raises `InvalidInput` for
    guarantees of forgetting, which are no differential privacy of a deployment, for those of tests or of the
    records of one batch alone, and where ε is infinite.
    """
    require(
        guarantee.adjacency != RETRAINED,
        "guarantee",
        "expected one of a release for the registry, got one of forgetting",
    )
    require_unlimited("guarantee", guarantee)
    epsilon = guarantee.epsilon(delta)
    require(
        not math.isinf(epsilon), "guarantee", f"expected a finite epsilon at delta = {exact(delta)}"
    )
    deployment: dict[str, Any] = {
        "dp_variant": {
            "variant_name": "Approximate DP",
            "unprotected_quantities": "How many records or users there are.",
        },
        "privacy_loss": {
            "privacy_unit": _text(guarantee.unit),
            "privacy_unit_details": _text(
                f"{guarantee.adjacency}: {adjacent(guarantee.adjacency, guarantee.unit)}"
            ),
            "privacy_parameters": {
                "epsilon": float(shown(epsilon)),
                "delta": delta,
            },
            "privacy_parameters_details": _text(_curve(guarantee, delta)),
        },
        "accounting": {"composition": _text(f"{guarantee.method}: {guarantee.source}")},
        "implementation": {
            "mechanisms": _text(_proof(verdict, guarantee)),
            "justification": _listed(
                "The guarantee holds if all of these are true:", guarantee.assumptions
            ),
        },
        "administrative": {"notes": _listed(f"Written by pabi for {_SCHEMA}.", _notes(guarantee))},
    }
    if outside := not_covered(guarantee.assumptions):
        deployment["implementation"]["preprocessing_and_hyperparameter_tuning"] = _listed(
            "Not covered by the guarantee:", outside
        )
    if models_in(guarantee.notes):
        deployment = {"basic": {"data_product_type": "Machine learning model"}, **deployment}
    return {"status": "Draft", "deployment": deployment}


def _text(text: str) -> str:
    """One line in which nothing becomes a tag."""
    return escape(one_line(text), quote=False)


def _listed(head: str, texts: tuple[str, ...]) -> str:
    """A line, and a list in Markdown."""
    return "\n\n".join((_text(head), "\n".join(f"- {_text(text)}" for text in texts))).rstrip()


def _curve(guarantee: Guarantee, delta: float) -> str:
    mu = (
        ""
        if guarantee.mu is None
        else f" μ of Gaussian differential privacy: {shown(guarantee.mu)}."
    )
    words = curve_in_words(guarantee.curve)
    return f"ε is rounded up, at δ = {exact(delta)}. The trade-off function is known: {words}.{mu}"


def _proof(verdict: Verdict, guarantee: Guarantee) -> str:
    now = stamp()
    by = f"Accounted by pabi; read by pabi {now['pabi']} on {now['date']}."
    if guarantee.proof is None:
        return f"{by} The guarantee has no certificate that could be checked."
    opinion = "accepted" if verdict.ok else "refused"
    scope = f", scope {verdict.scope}" if verdict.scope else ""
    return f"{by} Its certificate was {opinion} by pabi's independent checker{scope}."


def _notes(guarantee: Guarantee) -> tuple[str, ...]:
    """Versions, days and hashes, as whoever wrote the file noted them."""
    releases = (
        f"Release noted by pabi {one.get('pabi')} on {one.get('date')}, SHA-256 {one.get(SHA256)}"
        for one in releases_in(guarantee.notes)
    )
    return (*releases, *(f"SHA-256 of the model: {one}" for one in models_in(guarantee.notes)))
