"""`pabi ledger`: what a ledger grants, and what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pabi.cli.kinds import LEDGER, refuse_other_kinds
from pabi.cli.writing import emit, emit_json, one_line


def ledger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ledger of pabi.Ledger.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What a ledger grants, what was spent, when and on what.

    The epsilon beside an entry is that of all entries up to it, as if they had been fixed beforehand. It is a
    reading. What is guaranteed of all releases together is the budget.

    \b
    Example:
      pabi ledger people.ledger
    """
    from pabi.budget.files import read_book
    from pabi.budget.reports import report_of

    refuse_other_kinds(Path(file), LEDGER)
    report = report_of(read_book(Path(file)))
    if as_json:
        emit_json(report.to_dict())
    else:
        emit("\n".join(_printable(line) for line in str(report).split("\n")))


def _printable(text: str) -> str:
    """`text` as it is where all of it can be printed, else as `one_line` has it."""
    return text if text.isprintable() else one_line(text)
