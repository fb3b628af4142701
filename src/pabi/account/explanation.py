"""Every analysis of a description side by side, with its result or the reason why it does not apply."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any

from pabi.account.best import best_of, outcomes
from pabi.account.changes import SLOW, Change, advice, changes
from pabi.describe.files import Description
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import aligned, exact, plain, shown
from pabi.tradeoff import Gaussian, TradeOff

OwnBound = Callable[[Any], TradeOff | Guarantee]


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
        One row for each analysis, and one for each bound of the user's own. Analyses that apply come first,
        the guarantee on top and the others by ε; then own bounds that apply; then what does not apply.
    delta : float in [0, 1)
        The δ asked for.
    best : Guarantee or None
        The guarantee that `guarantee(delta)` returns; None if no analysis applies.
    description : Description
        What was explained.
    seconds : float
        What the analyses took.
    """

    rows: tuple[AnalysisRow, ...]
    delta: float
    best: Guarantee | None
    description: Description = field(repr=False)
    seconds: float = field(repr=False, compare=False)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Other trainings that would cost at least 5 % less at δ, at most three, the best first.

        They are accounted for on first access, which takes about twice as long as the explanation. None are
        tried where that took over 2 seconds, nor for what is no run of noisy SGD.
        """
        epsilon = math.inf if self.best is None else self.best.epsilon(self.delta)
        return changes(self.description, self.delta, epsilon, self.seconds)

    @property
    def advice(self) -> tuple[str, ...]:
        """What would help as well, in sentences: changes whose ε depends on what only the user knows."""
        return advice(self.description)

    @property
    def refusals(self) -> tuple[tuple[str, str], ...]:
        """(names, reason) for what does not apply; analyses of one reason are named together."""
        names: dict[str, list[str]] = {}
        for row in self.rows:
            if row.reason is not None:
                names.setdefault(row.reason, []).append(row.method)
        return tuple((", ".join(alike), reason) for reason, alike in names.items())

    def __iter__(self) -> Iterator[AnalysisRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = [("method", f"ε at δ = {exact(self.delta)}", "μ", "")]
        for row in self.rows:
            if row.epsilon is not None:
                mu = "—" if row.mu is None else shown(row.mu)
                best = self.best is not None and row.method == self.best.method
                table.append((row.method, shown(row.epsilon), mu, "the guarantee" if best else ""))
        return "\n".join([*aligned(table), *self.closing("ε = ")])

    def closing(self, epsilon: str) -> list[str]:
        """The lines below the table: what does not apply, and what to change for a smaller ε.

        Parameters
        ----------
        epsilon : str
            What stands before a value of ε.

        Returns
        -------
        list of str

        Raises
        ------
        Nothing.
        """
        lines = [f"  {names}: {reason}" for names, reason in self.refusals]
        lines = ["does not apply", *lines] if lines else []
        now = "" if self.best is None else f" instead of {shown(self.best.epsilon(self.delta))}"
        better = [
            f"  with {change.what}: {epsilon}{shown(change.epsilon)}{now} ({change.training})"
            for change in self.changes
        ]
        better += [f"  {sentence}" for sentence in self.advice]
        if isinstance(self.description, NoisySGD) and self.seconds > SLOW:
            better.append(f"  no change was tried: accounting took {plain(self.seconds, 2)} s")
        return [*lines, *(["what another training would cost", *better] if better else [])]


def explain(
    description: Description,
    delta: float = 1e-5,
    also: Sequence[OwnBound] | Mapping[str, OwnBound] = (),
) -> Explanation:
    """Every analysis of `description` with its ε at `delta`.

    Parameters
    ----------
    description : Description
        What was done: noisy SGD, a noisy iteration, a sampler or a mechanism.
    delta : float in [0, 1)
        The δ at which every ε is read.
    also : sequence of callables, or mapping of str to callable
        Bounds of one's own: functions of the description that return a trade-off function or a guarantee, and
        may raise NotApplicable. A row is named after the function, or as the mapping says. These bounds are
        shown for comparison and never become the guarantee.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidInput
        For a `delta` outside [0, 1), for what is no description of pabi's, and for a function in `also` that
        returns something else.
    """
    started = perf_counter()
    answers = outcomes(description, delta)
    seconds = perf_counter() - started
    try:
        best: Guarantee | None = best_of(answers, delta)
    except NotApplicable:
        best = None
    rows = [
        AnalysisRow(o.name, False, o.reason, None, None)
        if o.guarantee is None
        else _row(o.name, o.guarantee.curve, delta)
        for o in answers
    ]
    # Of equals but for roundings the guarantee is on top.
    rows.sort(key=lambda row: (best is None or row.method != best.method, row.epsilon or 0.0))
    named = also if isinstance(also, Mapping) else {_name_of(bound): bound for bound in also}
    for name, bound in named.items():
        if not callable(bound):
            kind = type(bound).__name__
            raise InvalidInput(
                "also", f"expected a function of the description as {name!r}, got a {kind}"
            )
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
    rows.sort(key=lambda row: not row.applies)
    return Explanation(tuple(rows), delta, best, description, seconds)


def _name_of(bound: Any) -> str:
    return str(getattr(bound, "__name__", repr(bound)))


def _row(name: str, curve: TradeOff, delta: float) -> AnalysisRow:
    mu = curve.mu if isinstance(curve, Gaussian) else None
    return AnalysisRow(name, True, None, curve.epsilon(delta), mu)
