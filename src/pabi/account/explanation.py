"""Every analysis of a description side by side, with its result or the reason why it does not apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pabi.account.best import best_of, outcomes
from pabi.describe.files import Description
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import Gaussian, TradeOff


@dataclass(frozen=True)
class AnalysisRow:
    """One analysis of an `Explanation`: what it proves, or the reason why it does not apply.

    Attributes
    ----------
    method : str
        The name of the analysis.
    applies : bool
        Whether it covers the description.
    reason : str or None
        Why it does not; None where it does.
    epsilon : float or None
        ε at the δ asked for, an upper bound; None where it does not apply.
    mu : float or None
        The Gaussian-DP parameter; None where the bound is not Gaussian or does not apply.
    """

    method: str
    applies: bool
    reason: str | None
    epsilon: float | None
    mu: float | None


@dataclass(frozen=True)
class Explanation:
    """All analyses of a description at one δ; iterates as rows and prints as a table.

    Attributes
    ----------
    rows : tuple of AnalysisRow
        One row for each analysis, and one for each bound of the user's own.
    delta : float in [0, 1)
        The δ asked for.
    best : Guarantee or None
        The guarantee that `guarantee(delta)` returns; None if no analysis applies.
    """

    rows: tuple[AnalysisRow, ...]
    delta: float
    best: Guarantee | None

    def __iter__(self) -> Iterator[AnalysisRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = [("method", f"ε at δ = {exact(self.delta)}", "μ", "")]
        for row in self.rows:
            epsilon = "—" if row.epsilon is None else shown(row.epsilon)
            mu = "—" if row.mu is None else shown(row.mu)
            best = self.best is not None and row.method == self.best.method
            note = row.reason if row.reason is not None else ("the guarantee" if best else "")
            table.append((row.method, epsilon, mu, note))
        widths = [max(len(line[i]) for line in table) for i in range(3)]
        return "\n".join(
            "  ".join(
                [*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[3]]
            ).rstrip()
            for line in table
        )


def explain(
    description: Description,
    delta: float = 1e-5,
    also: Sequence[Callable[[Any], TradeOff | Guarantee]] = (),
) -> Explanation:
    """Every analysis of `description` with its ε at `delta`.

    Parameters
    ----------
    description : Description
        What was done: noisy SGD, a noisy iteration, a sampler or a mechanism.
    delta : float in [0, 1)
        The δ at which every ε is read.
    also : sequence of callables
        Bounds of one's own: functions of the description that return a trade-off function or a guarantee, and
        may raise NotApplicable. A row is named after the function. These bounds are shown for comparison and
        never become the guarantee.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidInput
        For a `delta` outside [0, 1), for what is no description of pabi's, and for a function in `also` that
        returns something else.
    """
    answers = outcomes(description, delta)
    rows = [
        AnalysisRow(o.name, False, o.reason, None, None)
        if o.guarantee is None
        else _row(o.name, o.guarantee.curve, delta)
        for o in answers
    ]
    for bound in also:
        name = getattr(bound, "__name__", repr(bound))
        try:
            curve = bound(description)
        except NotApplicable as no:
            rows.append(AnalysisRow(name, False, no.reason, None, None))
            continue
        curve = curve.curve if isinstance(curve, Guarantee) else curve
        if not isinstance(curve, TradeOff):
            kind = type(curve).__name__
            raise InvalidInput("also", f"expected {name} to return a trade-off object, got {kind}")
        rows.append(_row(name, curve, delta))
    try:
        best: Guarantee | None = best_of(answers, delta)
    except NotApplicable:
        best = None
    return Explanation(tuple(rows), delta, best)


def _row(name: str, curve: TradeOff, delta: float) -> AnalysisRow:
    mu = curve.mu if isinstance(curve, Gaussian) else None
    return AnalysisRow(name, True, None, curve.epsilon(delta), mu)
