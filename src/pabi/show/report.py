"""What a report on a guarantee says; every number in it is read from the guarantee and rounded up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from pabi.account.forgetting import bill_in_words, read_bill
from pabi.describe.accounted import RETRAINED, USUAL_DELTA, checked_adjacency
from pabi.guarantees.certificate import SHA256, Certificate, releases_in, stamp
from pabi.guarantees.guarantee import FORMAT, INDEPENDENT, TESTING, Guarantee
from pabi.guarantees.stated import adjacent, curve_in_words, whom
from pabi.learn.documentation import not_covered
from pabi.numbers import validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.rounding import fraction_up
from pabi.numbers.showing import exact, shown, shown_down
from pabi.reports.contents import (
    Block,
    Command,
    Items,
    Paragraph,
    Picture,
    Report,
    Section,
    Table,
    attesting,
    hidden,
    wording,
)
from pabi.reports.model_card import as_model_card
from pabi.reports.page import as_markdown, as_page, folded
from pabi.tradeoff import TradeOff
from pabi.verification import Verdict, verify
from pabi.verification.bounds import best_curve

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
    """The report on a guarantee in one of `FORMATS`. `verdict`: what the checker says of it, if it was asked.

    Raises InvalidInput naming `format` or `delta`.
    """
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
    if len(rows) == 1:
        return Table(tuple(rows)), Paragraph("The file notes no release of parameters.")
    return (
        Table(tuple(rows)),
        Paragraph(
            "Version, date and hash of a release are notes of whoever wrote the file. "
            "`pabi verify guarantee.json --model model.skops` and `pabi.learn.parameters_hash(model)` "
            "compare the hash with a model."
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
