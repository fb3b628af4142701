"""`pabi report`: what a guarantee says, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pabi.cli.kinds import CERTIFICATE, GUARANTEE, RUN, is_ledger
from pabi.cli.ledgers import whole_of
from pabi.cli.output_files import partial_files
from pabi.cli.reading import (
    MOST_OF_A_STRANGER,
    USUAL_DELTA,
    described,
    read_delta,
    read_text,
    verdict_on_text,
    within_seconds,
)
from pabi.cli.writing import emit, one_line

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee
    from pabi.verification import Verdict


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
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    seconds: Annotated[
        str | None,
        typer.Option(
            "--seconds", metavar="S", help="Of processor time that checking may take; default 9."
        ),
    ] = None,
) -> None:
    """A report on a guarantee for officers, auditors and model cards.

    The certificate is verified first. Exit 1 if it is refused: then there is no report.

    \b
    Examples:
      pabi report guarantee.json --format html --out report.html
      pabi report guarantee.json --groups 5
      pabi report run.toml --delta 1e-6
      pabi report people.ledger
    """
    from pabi.reports.guarantee import report_on
    from pabi.verification import verify

    at = read_delta(delta)
    source = _own(file, at)
    with within_seconds(seconds) as limits:
        guarantee, verdict = _read(file, source, limits)
        if guarantee is None:
            emit(f"verdict      refused: {one_line(verdict.reason)}")
            raise typer.Exit(1)
        if groups is not None:
            guarantee = guarantee.for_groups(groups)
            verdict = verify(guarantee, **limits)
        text = report_on(guarantee, form, at, verdict)
    if out is None:
        emit(text)
    else:
        with partial_files((out,), force, unlike=(file,)) as (part,):
            part.write_text(text, encoding="utf-8")


def _own(file: str, delta: float | None) -> Guarantee | str:
    """The guarantee of a ledger or of what a run file describes, however long that takes; else the text."""
    what = "a guarantee, a certificate (JSON), a run file (TOML) or a ledger"
    if is_ledger(file):
        return whole_of(file)
    text = read_text(file, what, MOST_OF_A_STRANGER, kinds=(GUARANTEE, CERTIFICATE, RUN))
    if text.lstrip()[:1] != "{":
        guarantee = described(file, text).guarantee(delta or USUAL_DELTA)
        _ = guarantee.certificate
        return guarantee
    return text


def _read(
    file: str, source: Guarantee | str, limits: dict[str, Any]
) -> tuple[Guarantee | None, Verdict]:
    """The guarantee, None where its proof is refused; and the verdict."""
    from pabi.reports.reading import stated_in
    from pabi.verification import verify

    if isinstance(source, str):
        verdict, *_ = verdict_on_text(file, source, **limits)
        return stated_in(source, verdict), verdict
    verdict = verify(source, **limits)
    return (source if verdict.ok or source.certificate is None else None), verdict
