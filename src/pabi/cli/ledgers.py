"""`pabi ledger`: what a ledger grants, and what was spent; and the ledgers that other commands spend from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pabi.cli.kinds import LEDGER, refuse_other_kinds
from pabi.cli.output_files import partial_files
from pabi.cli.reading import read_positive, read_target
from pabi.cli.writing import emit, emit_json, one_line
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from pabi.numbers.showing import exact, shown, shown_down

if TYPE_CHECKING:
    from pabi.budget.ledger import Ledger
    from pabi.guarantees.guarantee import Guarantee

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
    from pabi.budget.reports import report_of

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
    if number is not None and number <= 1.0:
        raise InvalidInput("--order", f"expected a number > 1, got {order!r}")
    Ledger(file, budget, at, order=number, unit="record" if unit is None else unit)


def whole_of(file: str) -> Guarantee:
    """The guarantee of all releases of the ledger in a file, which is read and not locked."""
    from pabi.budget.files import named, read_book
    from pabi.budget.guarantees import guarantee_of

    with named(Path(file)):
        return guarantee_of(read_book(Path(file)))


def opened(file: str) -> Ledger:
    """The ledger in a file that is there. Raises InvalidInput."""
    from pabi.budget.ledger import Ledger

    if not Path(file).exists():
        raise InvalidInput(
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
