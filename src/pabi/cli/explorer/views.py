"""A ledger as a timeline, and what one more release would take of its budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pabi.budget.filters import GaussianFilter
from pabi.budget.ledger import Ledger, refuse_another_unit
from pabi.budget.lines import Book, book_of
from pabi.budget.reports import LedgerReport, report_of
from pabi.explorer.check_view import checked
from pabi.explorer.controls import number_in, state_in, text_in
from pabi.explorer.run_view import Event, point
from pabi.explorer.state import read
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.showing import exact, shown, shown_down


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a ledger. `request`: {"text": its file's, "what": "target", "run" or "", "state"}.

    {"released": guarantees as [name, text], "state"} is a new ledger with their releases, as a file first.
    """
    text = _begun(request) if "released" in request else text_in(request)
    if "released" in request:
        yield "file", {"name": "people.ledger", "text": text}
    whole = text if text.endswith("\n") else f"{text}\n"
    try:
        book = book_of(whole.encode())
    except InvalidInput as bad:
        raise InvalidInput(
            "ledger", f"{bad}. A ledger is made by `pabi ledger`, or started below"
        ) from None
    report = report_of(book)
    yield "ledger", _ledger(report)
    yield "curve", {"chart": "ledger", "series": "spent so far", "points": _timeline(report)}
    if request.get("what") in ("target", "run"):
        yield "what", _what_if(book, report, request)


def _begun(request: dict[str, Any]) -> str:
    """The text of a new ledger, which has an entry for each guarantee."""
    state, released = state_in(request), request["released"]
    require(isinstance(released, list), "released", "expected a list of files")
    epsilon = number_in(state, "budget_epsilon", above=0.0)
    delta = number_in(state, "budget_delta", above=0.0, below=1.0)
    guarantees = [_proven(one) for one in released]
    unit = guarantees[0].unit if guarantees else "record"
    with TemporaryDirectory() as folder:
        order = Ledger.best_order(guarantees, epsilon, delta) if guarantees else None
        ledger = Ledger(Path(folder) / "people.ledger", epsilon, delta, order=order, unit=unit)
        for guarantee in guarantees:
            ledger.spend(guarantee)
        return ledger.path.read_text("utf-8")


def _proven(file: Any) -> Guarantee:
    """The guarantee in a file, [name, text]. Raises InvalidInput where its proof is refused."""
    match file:
        case [str(name), str(text)]:
            guarantee, verdict = checked(text)
            if guarantee is None or not verdict.ok:
                raise InvalidInput(name, f"its proof is refused: {verdict.reason}")
            return guarantee
        case _:
            raise InvalidInput("released", "expected names and texts of files")


def _ledger(report: LedgerReport) -> dict[str, Any]:
    return {
        "epsilon": exact(report.epsilon),
        "limit": report.epsilon,
        "delta": exact(report.delta),
        "spent": shown(report.spent),
        "left": shown_down(report.epsilon_left),
        "unit": report.unit,
        "adjacency": report.adjacency,
        "symbol": report.symbol,
        "entries": [
            {
                "number": exact(entry.number),
                "at": entry.at,
                "method": entry.method,
                "charge": shown(entry.charge),
                "epsilon": shown(entry.epsilon),
                "remark": _remark(entry.committed, entry.testing),
            }
            for entry in report.entries
        ],
    }


def _remark(committed: bool, testing: bool) -> str:
    return ", ".join(["reserved, not released yet"] * (not committed) + ["a test"] * testing)


def _timeline(report: LedgerReport) -> list[Any]:
    later = (
        point(float(e.number), e.epsilon, shown(e.epsilon), f"{exact(e.number)}: {e.at}")
        for e in report.entries
    )
    return [point(0.0, 0.0, "0", "opened"), *later]


def _what_if(book: Book, report: LedgerReport, request: dict[str, Any]) -> dict[str, Any]:
    """Whether one more release is granted, and what is left then. Nothing is entered."""
    filters, delta = book.opening.filter, book.opening.delta
    state = state_in(request)
    if request["what"] == "run":
        picked = read(state)
        guarantee = picked.description.guarantee(delta)
        refuse_another_unit(report.unit, guarantee.unit)
        charge = filters.charge(guarantee.curve)
        what = f"the run of this page, ε = {shown(guarantee.epsilon(delta))} at δ = {exact(delta)}"
        unlike = report.adjacency not in (None, guarantee.adjacency)
    else:
        epsilon = number_in(state, "what_epsilon", above=0.0)
        at = number_in(state, "what_delta", above=0.0, below=1.0)
        # Of all mechanisms with this ε a Gaussian one: others may be charged more.
        charge = filters.charge(_gaussian(epsilon, at))
        what = f"a Gaussian release with ε = {exact(epsilon)} at δ = {exact(at)}"
        unlike = False
    fits = book.spent + filters.size(charge) <= filters.limit if charge < float("inf") else False
    after = book.spent + filters.size(charge) if fits else book.spent
    answer = {
        "what": what,
        "fits": fits and not unlike,
        "charge": f"{filters.symbol} = {shown(charge)}",
        "left": shown_down(filters.epsilon_left(after, delta)),
        "spent": shown(filters.epsilon(after, delta)),
        "more": _more(filters, book.spent, charge) if fits else "0",
    }
    if unlike:
        answer["reason"] = f"the ledger is about {report.adjacency}, and the run is not"
    return answer


def _gaussian(epsilon: float, delta: float) -> Any:
    from pabi.tradeoff import Gaussian

    return Gaussian(GaussianFilter.of(epsilon, delta).mu)


def _more(filters: Any, spent: Fraction, charge: float) -> str:
    """How many such releases fit."""
    size = filters.size(charge)
    return "any number of" if size == 0 else exact((filters.limit - spent) // size)
