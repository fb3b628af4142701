"""What stands in a ledger, for people."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pabi.budget.lines import Book
from pabi.numbers import showing
from pabi.numbers.showing import aligned, exact, shown, shown_down


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
