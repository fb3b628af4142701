"""What a guarantee says, for people who did not compute it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from string import Template
from types import MappingProxyType
from typing import Any, assert_never

from pabi.account.forgetting import bill_in_words, read_bill
from pabi.describe.accounted import RETRAINED, USUAL_DELTA, Compared, checked_adjacency
from pabi.execute.engine import CLIPS_ITSELF
from pabi.learn.plans import not_covered
from pabi.numbers import showing, validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.rounding import fraction_up
from pabi.numbers.showing import exact, shown, shown_down
from pabi.show.pictures import inline_picture, variables
from pabi.tradeoff import TradeOff
from pabi.tradeoff.certificate import (
    SHA256,
    Certificate,
    adjacent,
    curve_in_words,
    models_in,
    releases_in,
    stamp,
    whom,
)
from pabi.tradeoff.guarantee import FORMAT, INDEPENDENT, TESTING, Guarantee
from pabi.verification import Verdict, verify
from pabi.verification.bounds import best_curve

# What a report consists of: plain text, which whoever writes it escapes as their format needs.


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `alarming`: of what voids the promise."""

    text: str
    alarming: bool = False


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


Block = Paragraph | Items | Table | Command | Picture


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


# What a report says of two data sets, and what of a model that forgot beside one that was retrained.


@dataclass(frozen=True)
class Wording:
    """The sentences that depend on what is compared, some with a place for it, the unit or numbers."""

    promise: str
    outright: str
    attacker: str
    few: str
    even: str
    nothing_else: str


DATA_SETS = Wording(
    promise="Take two data sets that differ in one thing: {}. Whatever is computed from the release, any "
    "outcome is at most e^ε times as likely with the one as with the other, up to a probability of δ. "
    "Smaller numbers are more private. It speaks of what the release adds to what was known before, and not "
    "of what is true of people in general.",
    outright="Publishing one record outright, at random, satisfies any definition with δ = 1/n, so that δ "
    "has to be far below it.",
    attacker="An attacker knows both data sets, sees the release, and decides which of the two was used "
    "(membership inference). Whatever the attack:",
    few="If at most 1 % of its accusations of the innocent are allowed (false positives), it finds at most "
    "{} of those who were in (true positives).",
    even="Where either candidate is as likely as the other beforehand, it is right in at most {} of all "
    "cases (Bayes success; 50 % without the release).",
    nothing_else="Nor may anything else be released that was computed from the data, such as an accuracy on "
    "them: each is a release of its own, which has to be added.",
)
FORGETTING = Wording(
    promise="Records were withdrawn: {}. Whatever is computed from the model, any outcome is at most e^ε "
    "times as likely with the one as with the other, up to a probability of δ. The smaller the numbers, the "
    "more is forgotten. It speaks of this model alone. Checkpoints, stored data and models that were handed "
    "out before forget nothing, and it says nothing of the privacy of all other records.",
    outright="A model that shows one record outright, at random, is within δ = m/n of one that was retrained "
    "without m records, so that δ has to be far below 1/n.",
    attacker="An attacker knows all data and which {}s were withdrawn, sees the model, and decides whether "
    "it forgot them or was retrained. Whatever the attack:",
    few="If at most 1 % of retrained models may be taken for ones that forgot (false positives), it "
    "recognises at most {} of those that forgot (true positives).",
    even="Where either is as likely as the other beforehand, it is right in at most {} of all cases (Bayes "
    "success; 50 % without the model).",
    nothing_else="Nor may anything else be handed out that was computed from the withdrawn records, such as "
    "an accuracy on them: no later step takes it back.",
)


def wording(compared: Compared) -> Wording:
    """The sentences about what is compared."""
    return FORGETTING if compared == RETRAINED else DATA_SETS


# Who stands behind each assumption of a guarantee, and what must stay hidden for it to hold.
#
# A sentence is known by how it begins. One that is not known here is attested by the person who runs the
# training: whoever adds a sentence need not come here to be safe.


class Attests(Enum):
    """Who stands behind an assumption."""

    ACCOUNTANT = "the accountant: it says what was proven, or follows from the description"
    TRAINER = "pabi, where pabi executes the run; otherwise the person who runs it"
    PERSON = "the person who runs it"


_BEGINNINGS: dict[Attests, tuple[str, ...]] = {
    Attests.ACCOUNTANT: (
        "adjacent data sets differ in one record",
        "the model is compared with one retrained",
        "every iterate may be released",
        "the whole path may be released",
    ),
    Attests.TRAINER: (
        "one permutation is drawn uniformly",
        "a fresh permutation is drawn uniformly",
        "every step draws its batch uniformly",
        "every step includes each record independently",
        "every record is put into one of the batches",
        "every step uses all records",
        "a batch of more than",
        "every batch sum of gradients",
        "noise is Gaussian",
        "each step depends on the data only through the noisy gradients",
        "each record's gradient is clipped",
        "each record's loss is clipped convexly",
        "each record's gradient has norm at most",
        "each record's vector has norm at most",
        "the regulariser ",
        "the number of trials is drawn in secret",
        "every trial draws one of",
        "which records train and which records score",
        "noise on the accuracy is Gaussian",
        "nothing but the noisy",
        "the last ",
        "the ledger refused every release",
    ),
}
_STEPS_AS_STATED = "moduli of continuity (slopes), step sensitivities and noises are as stated"
_CLIPPING = ("each record's gradient", "each record's loss is clipped", "every batch sum")

# What a sentence says has to stay hidden, by a part of it.
_HIDDEN: tuple[tuple[str, str], ...] = (
    (
        "no model handed out before it, and no earlier iterate, is known",
        "every earlier model and iterate, and what was computed from them: checkpoints, training losses, "
        "gradients",
    ),
    (
        "no iterate in between is",
        "every iterate between the models that were handed out, and what was computed from it",
    ),
    (
        "every earlier iterate stays hidden",
        "every iterate but the last, and what was computed from it: checkpoints, training losses, gradients",
    ),
    ("the path before it stays hidden", "the path before its end, and what was computed from it"),
    ("stays secret", "the order of the records: which of them was in which batch"),
    ("stay secret", "the batches: which record was drawn when"),
    ("never revealed", "the noise, and every seed or state of the generator it was drawn from"),
    (
        "no normalising constant, cost or number of attempts",
        "normalising constants, costs and the number of attempts of the sampler",
    ),
    (
        "the number of trials, their times and all others stay hidden",
        "every trial but the best, their number and how long they took",
    ),
    ("no others are released", "every other draw"),
    ("nothing but the noisy sum", "the sum without noise"),
    ("nothing but the noisy accuracy", "the accuracy without noise"),
    ("checkpoints is released", "checkpoints of the interrupted run"),
)


def attesting(sentence: str, every: Sequence[str]) -> Attests:
    """Who stands behind a sentence of a guarantee that rests on `every` one of these."""
    if sentence.startswith(_CLIPPING) and CLIPS_ITSELF in every:
        return Attests.PERSON
    if any(s.startswith(_STEPS_AS_STATED) for s in every) and sentence.startswith("noise"):
        return Attests.PERSON
    for who, beginnings in _BEGINNINGS.items():
        if sentence.startswith(beginnings):
            return who
    return Attests.PERSON


def hidden(sentences: Sequence[str]) -> tuple[str, ...]:
    """What must stay hidden for these sentences to be true."""
    return tuple(what for part, what in _HIDDEN if any(part in s for s in sentences))


# A report as one page of HTML: it loads nothing, suits light and dark screens, and prints.


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


# A report as a model card of Hugging Face: metadata in YAML, and a section to be put into the card.


_TAGS = ("differential-privacy", "pabi")


def as_model_card(report: Report, _: Any = None) -> str:
    """The report as metadata and a section."""
    tags, facts = (f"- {tag}" for tag in _TAGS), (f"  {n}: {yaml(v)}" for n, v in report.metadata)
    lines = ["---", "tags:", *tags, "differential_privacy:", *facts]
    return "\n".join([*lines, "---", "", "# Privacy", "", as_sections(report.sections, "##")])


def yaml(value: str | float | bool | None) -> str:
    """A scalar of YAML. Text is quoted as in JSON; a number has a point, or 1e-05 would be read as text."""
    if value is None or isinstance(value, (str, bool)):
        return json.dumps(value).replace("<", "\\u003c")  # no tag, whoever reads it as Markdown
    if math.isinf(value):
        return ".inf"
    mantissa, mark, exponent = exact(value).partition("e")
    return mantissa + ".0" * ("." not in mantissa) + mark + exponent


# What a report on a guarantee says; every number in it is read from the guarantee and rounded up.


_AROUND = (-4, -2, -1, 0, 1)  # powers of ten, times δ: where ε is read
_RATES = (1e-3, 1e-2, 0.1, 0.5)  # of false positives: where the curve is read
_FORMATS: Mapping[str, Callable[[Report, Guarantee], str]] = MappingProxyType(
    {"md": as_markdown, "html": as_page, "hf": as_model_card}
)
FORMATS = tuple(_FORMATS)
_SEVERAL = "Where numbers are joined by “or”, every release and every setting has its own of them."
_TOGETHER = (
    "Several releases are promised together. A sentence about iterates, batches, noise or what is released "
    "speaks of those releases that were computed in this way, so two such sentences may differ."
)


def report_on(
    guarantee: Guarantee, form: str, delta: float | None, verdict: Verdict | None = None
) -> str:
    """The report on a guarantee in one of `FORMATS`. `verdict`: the checker's, if it was asked."""
    written = _FORMATS[validate.choice("format", form, FORMATS)]
    at = guarantee.tuned_at or USUAL_DELTA if delta is None else delta
    at = validate.number("delta", at, above=0.0, below=1.0)
    opinion = verify(guarantee) if verdict is None else verdict
    return written(contents(guarantee, at, opinion), guarantee)


def contents(guarantee: Guarantee, delta: float, verdict: Verdict) -> Report:
    """What the report says, with ε at `delta`; `verdict`: what the checker says of the guarantee."""
    sections = (
        Section("What is promised", _promise(guarantee, delta, verdict)),
        *_staying(guarantee),
        Section("Why this δ", _about_delta(guarantee, delta, sizes_of(guarantee, verdict))),
        Section("What an attacker can do", attacks(guarantee)),
        Section("The whole curve", _curve(guarantee, delta)),
        Section("What must stay hidden", _about_hidden(guarantee)),
        Section("What it rests on", _assumptions(guarantee)),
        Section("The proof, and how to check it", _proof(guarantee, verdict)),
        Section("Where it comes from", _origin(guarantee)),
    )
    return Report("Privacy report", sections, _metadata(guarantee, delta, verdict))


# The sections.


def _promise(guarantee: Guarantee, delta: float, verdict: Verdict) -> tuple[Block, ...]:
    rows = (
        ("Protects", whom(guarantee.adjacency, guarantee.unit)),
        (
            "Adjacency",
            f"{guarantee.adjacency}: {adjacent(guarantee.adjacency, guarantee.unit)}",
        ),
        (f"ε at δ = {exact(delta)}", shown(guarantee.epsilon(delta))),
        ("μ", _mu(guarantee, delta)),
        ("Method", guarantee.method),
        ("Checked", _status(verdict)),
    )
    return (*_alarms(guarantee, verdict), Table(rows), *_explained(guarantee))


def _staying(guarantee: Guarantee) -> Iterator[Section]:
    """What forgetting costs everybody else, of guarantees of forgetting and where the file notes it."""
    bill = read_bill(guarantee.notes)
    if bill is None and guarantee.adjacency != RETRAINED:
        return
    title = "What it costs those who stay"
    if bill is None:
        silent = "The file does not say what it cost those who stay. More steps cost them more: ask for it."
        yield Section(title, (Paragraph(silent, alarming=True),))
        return
    loss = "Those who stay lose by going on: retraining without the records costs them less."
    yield Section(
        title,
        (
            Paragraph(
                "More steps, and more models, cost all whose records stay. This is noted in the file by "
                "whoever wrote it, and is no part of what is checked:"
            ),
            Items(bill_in_words(bill)),
            *([Paragraph(loss, alarming=True)] if bill.dear else []),
        ),
    )


def _mu(guarantee: Guarantee, delta: float) -> str:
    if guarantee.mu is not None:
        return f"{shown(guarantee.mu)} (Gaussian differential privacy: it says everything)"
    equivalent = shown(guarantee.mu_equivalent(delta))
    return (
        f"none ({curve_in_words(guarantee.curve)}). With the same ε at this δ: {equivalent}, a reading at "
        "one δ and no guarantee"
    )


def _explained(guarantee: Guarantee) -> tuple[Block, ...]:
    compared = adjacent(guarantee.adjacency, guarantee.unit)
    return (Paragraph(wording(guarantee.adjacency).promise.format(compared)),)


def _alarms(guarantee: Guarantee, verdict: Verdict) -> Iterator[Paragraph]:
    """What voids the promise, before anything else."""
    if TESTING in guarantee.assumptions:
        yield Paragraph(f"This protects nobody: {TESTING}.", alarming=True)
    for sentence in not_covered(guarantee.assumptions):
        yield Paragraph(
            f"The numbers below may not be all that was revealed: {sentence}.", alarming=True
        )
    if guarantee.proof is None:
        yield Paragraph(
            "It has no certificate. Nobody can check it, and this report repeats what it states.",
            alarming=True,
        )
    elif not verdict.ok:
        yield Paragraph(
            f"pabi's checker refuses it ({verdict.reason}). Nothing below is proven.", alarming=True
        )
    elif verdict.scope == "iteration":
        yield Paragraph(
            "Only the arithmetic was checked: the steps of the training were taken as stated.",
            alarming=True,
        )


def _status(verdict: Verdict) -> str:
    if not verdict.ok:
        return f"no: {verdict.reason}"
    return f"yes, by pabi's independent checker; scope {verdict.scope}"


def _about_delta(guarantee: Guarantee, delta: float, sizes: tuple[int, ...]) -> tuple[Block, ...]:
    meaning = (
        f"δ = {exact(delta)} is a probability that bounds what the promise of ε may leave out. "
        + wording(guarantee.adjacency).outright
    )
    if not sizes:
        return Paragraph(meaning), Paragraph("The number of records n is not known from the file.")
    counted = (
        f"{guarantee.unit.rpartition(' ')[2].removesuffix('s')}s"  # of "groups of 5 users": users
    )
    return Paragraph(meaning), *(_against(delta, n, counted) for n in sizes)


def _against(delta: float, n: int, counted: str) -> Paragraph:
    share = shown(fraction_up(Fraction(delta) * n), 3)
    about = f"There are n = {n} {counted}: δ is {share} times 1/n"
    if Fraction(delta) * n < 1:
        return Paragraph(f"{about}.")
    return Paragraph(f"{about}, which promises little.", alarming=True)


def attacks(guarantee: Guarantee) -> tuple[Paragraph, Items]:
    """What an attacker gains at most: who that is, and a sentence for each reading."""
    few, fewer = (shown(guarantee.tpr(r), decimals=2, percent=True) for r in (0.01, 0.001))
    advantage = shown(guarantee.advantage, decimals=2, percent=True)
    success = shown(guarantee.bayes_success(), decimals=2, percent=True)
    words = wording(guarantee.adjacency)
    return (
        Paragraph(words.attacker.format(guarantee.unit)),
        Items(
            (
                words.few.format(few),
                f"With 0.1 % false positives it finds at most {fewer}.",
                f"Its true positive rate exceeds its false positive rate by at most {advantage} (advantage).",
                words.even.format(success),
            )
        ),
    )


def _curve(guarantee: Guarantee, delta: float) -> tuple[Block, ...]:
    scaled = (float(Decimal(exact(delta)).scaleb(power)) for power in _AROUND)
    readings = tuple((exact(d), shown(guarantee.epsilon(d))) for d in scaled if 0.0 < d < 1.0)
    errors = tuple((exact(r), shown_down(guarantee.tradeoff(r))) for r in _RATES)
    return (
        Paragraph(
            "The guarantee is a curve, which holds at every δ and against every attack at once: "
            f"{curve_in_words(guarantee.curve)}. Its file has it exactly."
        ),
        Picture(),
        Table(readings, ("δ", "ε at most")),
        Table(errors, ("false positives", "false negatives at least")),
    )


def _about_hidden(guarantee: Guarantee) -> tuple[Block, ...]:
    texts = hidden(guarantee.assumptions)
    closing = Paragraph(wording(guarantee.adjacency).nothing_else)
    if not texts:
        return Paragraph("Its assumptions name nothing that has to stay hidden."), closing
    opening = Paragraph("The promise ends where any of this is published, lent or logged:")
    return opening, Items(texts), closing


def _assumptions(guarantee: Guarantee) -> tuple[Block, ...]:
    every = guarantee.assumptions
    rows = tuple((text, attesting(text, every).value) for text in folded(every))
    several = () if len(rows) == len(every) else (Paragraph(_SEVERAL),)
    together = (Paragraph(_TOGETHER),) if INDEPENDENT in every else ()
    return (
        Paragraph(
            "The promise holds if all of these are true. No proof can show that; each has somebody who "
            "stands behind it."
        ),
        *together,
        *several,
        Table(rows, ("assumption", "who attests it")),
    )


def _proof(guarantee: Guarantee, verdict: Verdict) -> tuple[Block, ...]:
    about = Paragraph(f"{guarantee.method}: {guarantee.source}.")
    if guarantee.proof is None:
        return about, Paragraph("There is no certificate, hence nothing to check.")
    scopes = {
        "run": "What every step does is derived again from the description in the file.",
        "iteration": "The steps are taken as the file states them.",
    }
    return (
        about,
        Paragraph(
            "The file of the guarantee has a certificate. A checker that shares no code with what found the "
            f"proof goes through it in exact arithmetic. {scopes.get(verdict.scope or '', '')}".rstrip()
        ),
        Command("pabi verify guarantee.json"),
        Paragraph(f"It says: {'accepted' if verdict.ok else 'refused'}. {verdict.reason}"),
    )


def _origin(guarantee: Guarantee) -> tuple[Block, ...]:
    now = stamp()
    rows = [("This report", f"pabi {now['pabi']}, {now['date']}")]
    for number, one in enumerate(releases_in(guarantee.notes), 1):
        rows.append((f"Release {number}", f"pabi {one.get('pabi')}, {one.get('date')}"))
        rows.append((f"SHA-256 of release {number}", str(one.get(SHA256))))
    rows += [
        (f"SHA-256 of model {number}", one)
        for number, one in enumerate(models_in(guarantee.notes), 1)
    ]
    if len(rows) == 1:
        return Table(tuple(rows)), Paragraph("The file notes no release of parameters.")
    return (
        Table(tuple(rows)),
        Paragraph(
            "Version, date and hashes are notes of whoever wrote the file. "
            "`pabi verify guarantee.json --model FILE` compares them with a model, in a file of skops "
            "(`model.skops`) or of PyTorch (`model.pt`). In Python `pabi.learn.parameters_hash(model)` is "
            "that of a release, and `pabi.learn.model_hash(model)` that of a model."
        ),
    )


# What it takes.


def sizes_of(guarantee: Guarantee, verdict: Verdict) -> tuple[int, ...]:
    """The numbers of records in the descriptions of an accepted certificate, ascending."""
    certificate = guarantee.certificate if verdict.ok else None
    return () if certificate is None else tuple(sorted(set(_sizes(certificate.payload))))


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for entry in value:
            yield from _sizes(entry)
    if isinstance(value, dict):
        if type(value.get("n")) is int:
            yield value["n"]
        for entry in value.values():
            yield from _sizes(entry)


def _metadata(
    guarantee: Guarantee, delta: float, verdict: Verdict
) -> tuple[tuple[str, str | float | bool | None], ...]:
    return (
        ("epsilon", float(shown(guarantee.epsilon(delta)))),
        ("delta", delta),
        ("mu", None if guarantee.mu is None else float(shown(guarantee.mu))),
        ("adjacency", guarantee.adjacency),
        ("unit", guarantee.unit),
        ("method", guarantee.method),
        ("verified", verdict.ok),
    )


# The guarantee that stands in a file, once the checker was asked.


def stated_in(text: str, verdict: Verdict) -> Guarantee | None:
    """The guarantee of a guarantee's or certificate's text, on which there is a verdict.

    None where its proof is refused. What has no proof is returned as it states itself.
    """
    data = parse_json(text)
    stands_alone = data["format"] != FORMAT
    if not verdict.ok and (stands_alone or data.get("certificate") is not None):
        return None
    return _of_certificate(data, verdict) if stands_alone else Guarantee.from_dict(data)


def _of_certificate(payload: dict[str, Any], verdict: Verdict) -> Guarantee:
    """The guarantee that an accepted certificate proves."""
    method, source = verdict.names[0]
    return Guarantee(
        TradeOff.from_dict(best_curve(verdict.bounds)),
        checked_adjacency(verdict.adjacency),
        method,
        source,
        verdict.assumptions,
        None if verdict.reading is None else verdict.reading[1],
        proof=Certificate.from_dict(payload),
    )
