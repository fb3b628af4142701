"""`pabi ledger` and `pabi report`: what was granted and spent, and what a guarantee says, for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pabi.cli.reading import (
    CERTIFICATE,
    GUARANTEE,
    LEDGER,
    MOST_OF_A_STRANGER,
    RUN,
    USUAL_DELTA,
    Seconds,
    described,
    is_ledger,
    read_bytes,
    read_delta,
    read_positive,
    read_target,
    refuse_other_kinds,
    text_of,
    verdict_on_text,
    within_seconds,
)
from pabi.cli.verifying import source_of
from pabi.cli.writing import emit, emit_json, one_line, partial_files
from pabi.numbers.errors import BudgetExceeded, must_be, require
from pabi.numbers.showing import exact, shown, shown_down

if TYPE_CHECKING:
    from pabi.budget.ledger import Ledger
    from pabi.show.report import Source
    from pabi.tradeoff.guarantee import Guarantee
    from pabi.verification import Verdict

_REPORTED = "a guarantee, a certificate (JSON), a run file (TOML) or a ledger"
# Calibration stops a little below its target, and so may what it is charged.
_REACHED = 0.99


def ledger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ledger of pabi.Ledger.")],
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", metavar="E", help="Open a new ledger with this budget."),
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Goes with --epsilon.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="A",
            help="Charge Renyi divergences of this order: for random batches.",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option("--unit", metavar="U", help="Whom it protects: record (default) or user."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    guarantee: Annotated[
        str | None,
        typer.Option(
            "--guarantee",
            metavar="FILE",
            help="Where to write the guarantee of all releases together (JSON).",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """What a ledger grants, what was spent, when and on what.

    The epsilon beside an entry is that of all entries up to it, as if they had been fixed beforehand. It is a
    reading. What is guaranteed of all releases together is the budget. With --epsilon and --delta the ledger
    is opened, unless it is there with the same budget. With --guarantee that guarantee is written, with its
    certificate, for `pabi verify` and `pabi report`.

    \b
    Examples:
      pabi ledger people.ledger --epsilon 2 --delta 1e-5
      pabi ledger people.ledger --epsilon 2 --delta 1e-5 --unit user
      pabi ledger people.ledger
      pabi ledger people.ledger --guarantee whole.json
    """
    from pabi.budget.files import read_book
    from pabi.budget.ledger import report_of

    refuse_other_kinds(Path(file), LEDGER)
    if (epsilon, delta, order, unit) != (None, None, None, None):
        _open(file, epsilon=epsilon, delta=delta, order=order, unit=unit)
    report = report_of(read_book(Path(file)))
    if guarantee is not None:
        whole = whole_of(file)
        with partial_files((guarantee,), force, unlike=(file,)) as (part,):
            part.write_text(f"{whole.to_json()}\n", encoding="utf-8")
    if as_json:
        emit_json(report.to_dict())
    else:
        emit("\n".join(_printable(line) for line in str(report).split("\n")))


def _open(
    file: str, *, epsilon: str | None, delta: str | None, order: str | None, unit: str | None
) -> None:
    from pabi.budget.ledger import Ledger

    budget, at = read_target(epsilon, delta)
    number = read_positive("--order", order)
    must_be(number is None or number > 1.0, "--order", "a number > 1", order)
    Ledger(file, budget, at, order=number, unit="record" if unit is None else unit)


def whole_of(file: str) -> Guarantee:
    """The guarantee of all releases of the ledger in a file, which is read and not locked."""
    from pabi.budget.files import named, read_book
    from pabi.budget.filters import guarantee_of

    with named(Path(file)):
        return guarantee_of(read_book(Path(file)))


def opened(file: str) -> Ledger:
    """The ledger in a file that is there. Raises InvalidInput."""
    from pabi.budget.ledger import Ledger

    require(
        Path(file).exists(),
        file,
        "expected a ledger: no such file; pabi ledger FILE --epsilon E --delta D opens one",
    )
    return Ledger(file)


def refuse_beyond(ledger: Ledger, epsilon: float, delta: float, unit: str) -> None:
    """Raises BudgetExceeded where no release calibrated to (ε, δ) would be granted, before data are read.

    Raises InvalidInput where the ledger protects another unit.

    One that passes may still be refused when its own charge is known, which can be larger. Rényi divergences
    of releases with the same (ε, δ) can be anything: those ledgers only decide then.
    """
    from pabi.budget.files import read_book
    from pabi.budget.filters import GaussianFilter
    from pabi.budget.ledger import refuse_another_unit

    book = read_book(ledger.path)
    refuse_another_unit(book.opening.unit, unit)
    filters = book.opening.filter
    if not isinstance(filters, GaussianFilter):
        return
    # A Gaussian below a curve that passes through (ε, δ) has at least the μ of the Gaussian through it.
    charge = _REACHED * GaussianFilter.of(epsilon, delta).mu
    if book.spent + filters.size(charge) > filters.limit:
        raise BudgetExceeded(
            f"epsilon = {shown(epsilon)} at delta = {exact(delta)} is asked, and epsilon = "
            f"{shown_down(ledger.remaining(delta))} is left of the budget {book.opening}; no data were read",
            charge,
            filters.left(book.spent),
        )


def _printable(text: str) -> str:
    """`text` as it is where all of it can be printed, else as `one_line` has it."""
    return text if text.isprintable() else one_line(text)


# `pabi report`: what a guarantee says, for people.


def report(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A guarantee or certificate (JSON), a run file (TOML) or a ledger; - is standard input.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="F", help="md (Markdown), html (a page) or hf (a model card)."
        ),
    ] = "md",
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="D", help="Read epsilon at this delta; default: the file's, or 1e-5."
        ),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            "--groups", min=2, metavar="K", help="About K records or users together, not about one."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Where to write it.")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="FILE",
            help="Write what it knows of an entry in the DP Deployments Registry, too (JSON).",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    seconds: Seconds = None,
) -> None:
    """A report on a guarantee for officers, auditors and model cards.

    The certificate is verified first. Exit 1 if it is refused: then there is no report. Who ticked and signed
    what (pabi sign) is read from FILE.sig.

    \b
    Examples:
      pabi report guarantee.json --format html --out report.html
      pabi report guarantee.json --groups 5
      pabi report run.toml --delta 1e-6
      pabi report people.ledger
      pabi report guarantee.json --registry entry.json --out report.md
    """
    from pabi.show.formats import entry_text
    from pabi.show.report import report_on
    from pabi.verification import verify

    at = read_delta(delta)
    own = _own(file, at)
    with within_seconds(seconds) as limits:
        guarantee, verdict, source = _read(file, own, limits)
        if guarantee is None:
            emit(f"verdict      refused: {one_line(verdict.reason)}")
            raise typer.Exit(1)
        if groups is not None:  # another guarantee, which nobody signed
            guarantee, source = guarantee.for_groups(groups), None
            verdict = verify(guarantee, **limits)
        text = report_on(guarantee, form, at, verdict, source)
        files = [] if out is None else [(out, text)]
        if registry is not None:
            read_at = at or guarantee.tuned_at or USUAL_DELTA
            files.append((registry, entry_text(guarantee, read_at, verdict)))
    if files:
        with partial_files([name for name, _ in files], force, unlike=(file,)) as parts:
            for part, (_, content) in zip(parts, files, strict=True):
                part.write_text(content, encoding="utf-8")
    if out is None:
        emit(text)


def _own(file: str, delta: float | None) -> Guarantee | bytes:
    """The guarantee of a ledger or of what a run file describes, however long that takes; else the bytes."""
    if is_ledger(file):
        return whole_of(file)
    raw = read_bytes(file, _REPORTED, MOST_OF_A_STRANGER, kinds=(GUARANTEE, CERTIFICATE, RUN))
    text = text_of(file, raw, _REPORTED)
    if text.lstrip()[:1] != "{":
        guarantee = described(file, text).guarantee(delta or USUAL_DELTA)
        _ = guarantee.certificate
        return guarantee
    return raw


def _read(
    file: str, own: Guarantee | bytes, limits: dict[str, Any]
) -> tuple[Guarantee | None, Verdict, Source | None]:
    """The guarantee, None where its proof is refused; the verdict; and the file that it stands in."""
    from pabi.show.report import stated_in
    from pabi.verification import verify

    if isinstance(own, bytes):
        text = text_of(file, own, _REPORTED)
        verdict, *_ = verdict_on_text(file, text, **limits)
        return stated_in(text, verdict), verdict, source_of(file, own)
    verdict = verify(own, **limits)
    return (own if verdict.ok or own.certificate is None else None), verdict, None
