"""The ledger of what several releases may spend together, and what is shown of it."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from pabi.budget.files import append, brought_up_to_date, named, read_book, sync_folder, writing
from pabi.budget.filters import (
    START,
    Book,
    Line,
    Opening,
    RenyiFilter,
    best_order,
    book_of,
    budget_text,
    filter_of,
    guarantee_of,
    now,
    sealed,
)
from pabi.describe.accounted import RETRAINED, checked_protected
from pabi.numbers import showing, validate
from pabi.numbers.errors import BudgetExceeded, InvalidInput, must_be, require
from pabi.numbers.showing import aligned, exact, shown, shown_down
from pabi.tradeoff.guarantee import SEVERAL, Guarantee, require_unlimited

# What stands in a ledger, for people.


@dataclass(frozen=True)
class LedgerEntry:
    """One reservation of a ledger.

    Attributes
    ----------
    number : int
        From 1 on, in the order in which they were granted.
    at : str
        When, in UTC.
    method : str
        The method of its guarantee.
    charge : float
        What it was charged with: μ, or the Rényi divergence of the ledger's order in nats.
    epsilon : float
        ε at the ledger's δ of all up to this one, as if they had been fixed beforehand: a reading.
    committed : bool
        Whether the release was made. What was not counts all the same.
    testing : bool
        Whether its noise can be reproduced: it then protects nobody.
    """

    number: int
    at: str
    method: str
    charge: float
    epsilon: float
    committed: bool
    testing: bool


@dataclass(frozen=True)
class LedgerReport:
    """What a ledger grants, what was spent, and on what; `print` shows a table.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    symbol : str
        What is charged: "mu", or "rho" for a Rényi divergence.
    budget : float
        The largest charge of a single release.
    left : float
        The largest charge that is still granted.
    epsilon_left : float
        ε at the ledger's δ of the largest Gaussian release that is still granted, rounded down.
    adjacency : str or None
        That of all entries; None without any.
    unit : str
        Whom the budget protects.
    entries : tuple of LedgerEntry
        In order.

    References
    ----------
    docs, "Keep a budget".
    """

    epsilon: float
    delta: float
    symbol: str
    budget: float
    left: float
    epsilon_left: float
    adjacency: str | None
    unit: str
    entries: tuple[LedgerEntry, ...]

    @property
    def spent(self) -> float:
        """ε of all entries at the ledger's δ: a reading, no guarantee."""
        return self.entries[-1].epsilon if self.entries else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The report as a dictionary, ready for JSON.

        Returns
        -------
        dict
        """
        return {
            **{
                name: getattr(self, name) for name in self.__dataclass_fields__ if name != "entries"
            },
            "spent": self.spent,
            "entries": [dict(vars(entry)) for entry in self.entries],
        }

    def _rows(self) -> list[tuple[str, ...]]:
        """The table of entries, its header first."""
        last = f"epsilon at delta {exact(self.delta)}"
        rows: list[tuple[str, ...]] = [("", "when", "method", self.symbol, last, "")]
        for e in self.entries:
            numbers = shown(e.charge), shown(e.epsilon)
            remarks = ["not committed"] * (not e.committed) + ["testing"] * e.testing
            rows.append((str(e.number), e.at, e.method, *numbers, ", ".join(remarks)))
        return rows

    def _head(self) -> list[tuple[str, str]]:
        """What stands above the table."""
        return [
            (
                "budget",
                f"epsilon {exact(self.epsilon)} at delta {exact(self.delta)}, "
                f"{self.symbol} {shown_down(self.budget)}",
            ),
            ("spent", f"epsilon {shown(self.spent)} so far (a reading)"),
            (
                "left",
                f"epsilon {shown_down(self.epsilon_left)} for one Gaussian release, "
                f"{self.symbol} {shown_down(self.left)}",
            ),
            ("adjacency", self.adjacency or "that of the first entry"),
            ("protects", self.unit),
        ]

    def _repr_html_(self) -> str:
        """What notebooks show: what is left, the entries folded."""
        header, *rows = self._rows()
        title = f"{len(rows)} entr{'y' if len(rows) == 1 else 'ies'}"
        return showing.facts(self._head()) + showing.folded(title, showing.table(header, rows))

    def __str__(self) -> str:
        table = aligned(self._rows()) if self.entries else ["nothing is entered yet"]
        return "\n".join([*(f"{name:<11}{value}" for name, value in self._head()), *table])


def report_of(book: Book) -> LedgerReport:
    """The report on what was read of a ledger's file."""
    opening, filters = book.opening, book.opening.filter
    total, entries = Fraction(0), []
    for line in book.granted:
        assert line.charge is not None
        assert line.guarantee is not None
        total += filters.size(line.charge)
        entries.append(
            LedgerEntry(
                line.number,
                line.at,
                str(line.guarantee.get("method")),
                line.charge,
                filters.epsilon(total, opening.delta),
                line.number in book.committed,
                bool(line.testing),
            )
        )
    return LedgerReport(
        epsilon=opening.epsilon,
        delta=opening.delta,
        symbol=filters.symbol,
        budget=filters.left(Fraction(0)),
        left=filters.left(book.spent),
        epsilon_left=filters.epsilon_left(book.spent, opening.delta),
        adjacency=book.adjacency,
        unit=opening.unit,
        entries=tuple(entries),
    )


_ANY = 2.0  # an order: a divergence that is finite at it may be charged
_DEAR = 1.25  # times its own epsilon: what a release is charged, where another order may help


class Ledger:
    """A budget (ε, δ) for all releases from the same data, kept in a file that processes share.

    Each release is reserved before data are read, whatever the releases before it showed. What was reserved
    stays spent, also where the process died before it released anything. The file is opened or made here. It
    holds guarantees, and nothing that was computed from data. Copies and pickles of a ledger share the file.

    Parameters
    ----------
    path : str or path
        The file, one JSON object a line, to which entries are only appended. One that is there has to have
        the same budget. One that has several names (hard links) is refused.
    epsilon, delta : float, > 0, delta below 1, optional
        The budget. Without it a ledger that is there is opened, and none is made.
    order : float, > 1, optional
        None: a release is charged with the μ of a Gaussian that lies below its trade-off function, and the
        sum of μ² is bounded. A number: it is charged with its Rényi divergence of that order. That is dearer
        for Gaussians and far cheaper for random batches. The order cannot change later.
    unit : str
        Whom the budget protects, as of guarantees: "record", "user", or groups of them. Releases of another
        unit are refused.

    Raises
    ------
    InvalidInput
        For numbers out of range, and a file that cannot be opened, is no ledger, was changed or has another
        budget.

    Warns
    -----
    PrivacyWarning
        The file ended in an entry that a crash had cut off. It was never granted, and is taken off.

    References
    ----------
    docs, "Theory", 16, and "Keep a budget"; Smith, Thakurta 2022; Feldman, Zrnic 2021, Thm 4.1.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        order: float | None = None,
        unit: str = "record",
    ) -> None:
        try:
            self._path = Path(os.path.realpath(os.fspath(path)))
        except TypeError:
            kind = type(path).__name__
            raise InvalidInput("path", f"expected a path, got a {kind}") from None
        if epsilon is None and delta is None and order is None and unit == "record":
            require(
                os.path.exists(self._path),
                str(self._path),
                "expected a ledger: no such file; state epsilon and delta to open a new one",
            )
            opening = read_book(self._path).opening
            epsilon, delta = opening.epsilon, opening.delta
            order, unit = opening.order, opening.unit
        self._epsilon = validate.number("epsilon", epsilon, above=0.0)
        self._delta = validate.number("delta", delta, above=0.0, below=1.0)
        self._order = None if order is None else validate.number("order", order, above=1.0)
        self._unit = checked_protected(unit)
        self._name: str | None = None
        self._book: Book | None = None
        with self._writing(create=True):
            pass

    @property
    def path(self) -> Path:
        """The file, as an absolute path without links."""
        return self._path

    @property
    def epsilon(self) -> float:
        """ε of the budget."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """δ of the budget."""
        return self._delta

    @staticmethod
    def best_order(guarantees: Sequence[Guarantee], epsilon: float, delta: float) -> float | None:
        """The `order` of a new ledger that leaves most of a budget beside releases that are planned.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            Those of the releases that are planned. Nothing is spent.
        epsilon, delta : float, > 0, delta below 1
            The budget.

        Returns
        -------
        float or None
            None where charging μ takes the least share of the budget.

        Raises
        ------
        InvalidInput
            For numbers out of range, and for what is no guarantee.

        References
        ----------
        docs, "Keep a budget".
        """
        limit = validate.number("epsilon", epsilon, above=0.0)
        at = validate.number("delta", delta, above=0.0, below=1.0)
        for one in guarantees:
            validate.exactly("guarantees", one, Guarantee, SEVERAL)
        return best_order([one.curve for one in guarantees], limit, at)

    # Spending.

    def reserve(self, guarantee: Guarantee, *, testing: bool = False) -> Reservation:
        """Spends what a release costs, before data are read.

        Parameters
        ----------
        guarantee : Guarantee
            What the release will cost, with a certificate.
        testing : bool
            Whether the noise will be reproducible. It is spent all the same, and the ledger's guarantee then
            says that it protects nobody.

        Returns
        -------
        Reservation
            Granted. `commit` it after the release, or use it in a `with` statement, which does so unless an
            exception leaves it. It is never given back.

        Raises
        ------
        BudgetExceeded
            Less is left. Nothing is entered, and nothing may be released.
        InvalidInput
            For a guarantee without a certificate that verifies, of another adjacency than the first one, of
            the records of one batch alone, or that nothing finite bounds, and for a file that was changed or
            is gone.

        References
        ----------
        docs, "Theory", 16.
        """
        return Reservation(self, self._grant("reserved", guarantee, testing))

    def spend(self, guarantee: Guarantee, *, testing: bool = False) -> None:
        """Spends what a release costs in one entry: `reserve` and `commit` at once, before the release.

        Parameters
        ----------
        guarantee : Guarantee
            What the release costs, with a certificate.
        testing : bool
            Whether its noise is reproducible, as for `reserve`.

        Raises
        ------
        BudgetExceeded, InvalidInput
            As for `reserve`.
        """
        self._grant("spent", guarantee, testing)

    def _grant(self, entry: str, guarantee: Guarantee, testing: bool) -> int:
        """The number of a new entry, once it is on the disk."""
        testing = validate.flag("testing", testing)
        table = _verified(guarantee)
        refuse_another_unit(self._unit, guarantee.unit)
        charge = _charge(self._read(), guarantee)
        with self._writing() as (book, enter):
            first = book.adjacency or guarantee.adjacency
            must_be(
                guarantee.adjacency == first,
                "adjacency",
                f"{first!r}, that of the ledger's first entry",
                guarantee.adjacency,
            )
            _refuse_above(book, charge, guarantee)
            number = len(book.granted) + 1
            enter(Line(entry, number, now(), testing, charge, table))
        return number

    def _commit(self, number: int) -> None:
        with self._writing() as (book, enter):
            if number not in book.committed:
                enter(Line("committed", number, now()))

    # Reading.

    def remaining(self, delta: float | None = None) -> float:
        """ε of the largest Gaussian release that is still granted.

        Parameters
        ----------
        delta : float in (0, 1), optional
            The δ at which it is read; None for that of the budget.

        Returns
        -------
        float
            ε ≥ 0, rounded down.

        Raises
        ------
        InvalidInput
            For a `delta` out of range, and for a file that was changed or is gone.
        """
        at = self.delta if delta is None else delta
        at = validate.number("delta", at, above=0.0, below=1.0)
        book = self._read()
        return book.opening.filter.epsilon_left(book.spent, at)

    def report(self) -> LedgerReport:
        """What was granted, when, for what, and what is left.

        Returns
        -------
        LedgerReport
            `print` shows a table.

        Raises
        ------
        InvalidInput
            For a file that was changed or is gone.
        """
        return report_of(self._read())

    @property
    def guarantee(self) -> Guarantee:
        """What all releases cost together, those that are still to come included: the budget.

        It holds however they were chosen, and whenever they end. What was spent so far is a reading: it
        depends on what was released, and is no guarantee. It has a certificate, unless an entry was a test.
        With an `order` it is a Rényi divergence, from which ε follows at every δ, and the budget at its own.

        Raises
        ------
        InvalidInput
            Without any entry, as adjacency is that of the first, and for a file that was changed or is gone.
        """
        return guarantee_of(self._read())

    def _read(self) -> Book:
        """What the file says now, without its lock."""
        book = read_book(self._path, self._book)
        self._refuse_another(book)
        return book

    @contextlib.contextmanager
    def _writing(self, *, create: bool = False) -> Iterator[tuple[Book, Callable[[Line], None]]]:
        """(what the locked file says now, a function that appends an entry)."""
        with writing(self._path, create=create) as held:
            with named(self._path):
                book = brought_up_to_date(held, self._book, self._path)
            if book is None:
                require(create, str(self._path), "expected a ledger, got an empty file")
                filters = filter_of(self._epsilon, self._delta, self._order)
                opening = Opening(self._epsilon, self._delta, filters, unit=self._unit)
                line = sealed(opening.body(), START)
                append(held, line, 0)
                sync_folder(self._path.parent)
                book = book_of(line)
            self._refuse_another(book)
            self._book = book

            def enter(line: Line) -> None:
                assert book is not None
                data = sealed(line.body(), book.seal)
                append(held, data, book.length)
                self._book = book.with_lines(data)

            yield book, enter

    def _refuse_another(self, book: Book) -> None:
        """Raises InvalidInput unless the file is that of before, and has this budget."""
        require(
            self._name in (None, book.opening.name),
            str(self._path),
            "expected the ledger that was there, got another one",
        )
        self._name = book.opening.name
        opening, mine = book.opening, (self._epsilon, self._delta, self._order, self._unit)
        if (opening.epsilon, opening.delta, opening.order, opening.unit) != mine:
            raise InvalidInput(
                str(self._path), f"expected a ledger of {budget_text(*mine)}, got one of {opening}"
            )

    # Copies and pickles: path, name and budget. They never make a file that is gone anew.

    def __getstate__(self) -> dict[str, Any]:
        return {
            "path": str(self._path),
            "budget": (self._epsilon, self._delta, self._order),
            "unit": self._unit,
            "name": self._name,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._path, self._book = Path(state["path"]), None
        self._epsilon, self._delta, self._order = state["budget"]
        self._unit, self._name = state.get("unit", "record"), state.get("name")

    def _repr_html_(self) -> str:
        """What notebooks show: its report, or why there is none."""
        try:
            return self.report()._repr_html_()
        except InvalidInput as bad:
            return showing.element("p", bad)

    def __repr__(self) -> str:
        order = "" if self._order is None else f", order={exact(self._order)}"
        unit = "" if self._unit == "record" else f", unit={self._unit!r}"
        budget = f"epsilon={exact(self.epsilon)}, delta={exact(self.delta)}"
        return f"Ledger({str(self._path)!r}, {budget}{order}{unit})"


class Reservation:
    """What a ledger has granted to one release. It is never given back.

    Made by `Ledger.reserve`. In a `with` statement it is committed at the end, unless an exception leaves it.

    Attributes
    ----------
    number : int
        Its number in the ledger, from 1 on.
    """

    def __init__(self, ledger: Ledger, number: int) -> None:
        """`ledger`: in which it was entered. `number`: of the entry."""
        self._ledger, self.number = ledger, number

    def commit(self) -> None:
        """Notes that the release was made. A second time changes nothing.

        Raises
        ------
        InvalidInput
            For a file that was changed or is gone, or cannot be written.
        """
        self._ledger._commit(self.number)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()


def reserved(
    ledger: Ledger | None, guarantee: Guarantee, *, secret: bool
) -> contextlib.AbstractContextManager[Any]:
    """For trainers: the reservation of a release in `ledger`, nothing to be done without one.

    `guarantee`: of the release as if its noise were secret. `secret`: whether it is.
    """
    check_ledger(ledger)
    if ledger is None:
        return contextlib.nullcontext()
    return ledger.reserve(guarantee, testing=not secret)


def name_of(ledger: Ledger) -> str:
    """The random name under which the ledger was opened."""
    return ledger._read().opening.name


def entries_noting(ledger: Ledger, key: str) -> list[tuple[Any, bool]]:
    """(what an entry's guarantee notes under this key, whether it was committed), in order."""
    book = ledger._read()
    every = ((line.number, (line.guarantee or {}).get("notes")) for line in book.granted)
    noting = [(n, notes[key]) for n, notes in every if isinstance(notes, dict) and key in notes]
    return [(note, number in book.committed) for number, note in noting]


def check_ledger(ledger: Any) -> None:
    """Raises InvalidInput for what is neither a ledger nor None."""
    if ledger is not None:
        validate.exactly("ledger", ledger, Ledger, "a pabi.Ledger or None")


def _verified(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee with its certificate as JSON. Raises InvalidInput unless the checker accepts it."""
    from pabi.verification import verify

    validate.exactly("guarantee", guarantee, Guarantee, "a pabi.Guarantee")
    require(
        guarantee.adjacency != RETRAINED,
        "adjacency",
        "expected that of a training, got 'retrained': what is promised of forgetting supposes that no "
        "request reacts to a release, and a ledger is for what does",
    )
    require_unlimited("guarantee", guarantee)
    if not guarantee.verified:
        verdict = verify(guarantee)
        require(
            verdict.ok,
            "guarantee",
            f"expected one with a certificate that verifies: {verdict.reason}",
        )
    return guarantee.to_dict(certificate=True)


def refuse_another_unit(own: str, other: str) -> None:
    """Raises InvalidInput where a release protects another unit than the budget."""
    if own == other:
        return
    rest = ""
    if other.startswith("groups of "):
        rest = ": spend the guarantee of one of them, and read groups from that of the whole ledger"
    raise InvalidInput(
        "ledger",
        f"expected a release that protects a {own}, as its budget does, got unit {other!r}{rest}",
    )


def _charge(book: Book, guarantee: Guarantee) -> float:
    """What the release is charged with. Raises InvalidInput where nothing finite bounds it."""
    filters = book.opening.filter
    charge = filters.charge(guarantee.curve)
    if not charge < math.inf:
        kind, reason = guarantee.curve.kind, _reason(book, guarantee)
        raise InvalidInput(
            "guarantee",
            f"expected one that a finite {filters.symbol} bounds, got a {kind} curve{reason}",
        )
    return charge


def _reason(book: Book, guarantee: Guarantee) -> str:
    """Why no finite charge bounds a release, and what to do, where there is something."""
    failure = guarantee.delta(math.inf)
    if failure > 0.0:
        return f": with a probability of up to {shown(failure)} it promises nothing, which no charge covers"
    if book.opening.order is None and RenyiFilter(_ANY, 0.0).charge(guarantee.curve) < math.inf:
        return ": a ledger opened with an order charges it (Ledger.best_order finds one)"
    return ""


def _refuse_above(book: Book, charge: float, guarantee: Guarantee) -> None:
    """Raises BudgetExceeded where less is left, with what to do where the charge exceeds what it costs."""
    filters = book.opening.filter
    if book.spent + filters.size(charge) <= filters.limit:
        return
    left, what = filters.left(book.spent), filters.symbol
    raise BudgetExceeded(
        f"{what} = {shown(charge)} is asked, and {what} = {shown_down(left)} is left of the budget "
        f"{book.opening}{_way_out(book, charge, guarantee)}",
        charge,
        left,
    )


def _way_out(book: Book, charge: float, guarantee: Guarantee) -> str:
    """Its ε and what would fit; or what to do about one that would fit by its ε, and is charged more."""
    at, filters = book.opening.delta, book.opening.filter
    own, left = guarantee.epsilon(at), filters.epsilon_left(book.spent, at)
    charged = filters.epsilon(filters.size(charge), at)
    dear = charged > _DEAR * own
    if not dear or own > left:
        more = f" (charged as {shown(charged)})" if dear else ""
        return (
            f"; its epsilon is {shown(own)}{more}, and a Gaussian release fits up to "
            f"{shown_down(left)}"
        )
    order = "another order" if book.opening.order is not None else "an order"
    return (
        f"; its epsilon is {shown(own)}: a ledger opened with {order} may charge less for "
        "it (Ledger.best_order finds one)"
    )
