"""The tables and figures of the papers behind pabi, computed anew: `pabi reproduce`.

A module holds the tables and figures of one paper, or those that share their runs, and lists them in its
`ARTEFACTS`. Only the command imports this package.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pabi.literature.papers.work import Part as Part
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import suggestion
from pabi.show.themes import Figure

# What the reproduction of a table or a figure consists of: numbers beside numbers, or curves.


# Half a unit of the last digit; a number computed in doubles may sit on the boundary.
_HALF = 0.5 * (1.0 + 1e-9)


@dataclass(frozen=True)
class Entry:
    """One entry of a published table.

    `where`: its row and column, by name. `quantity`: what is tabulated, with its unit. `printed`: as
    printed, None where the paper has no number. `ours`: the same quantity computed by pabi. `pabi`: what
    pabi has in its place, where that is another number (a bound proven of the same run, say). `within`:
    how far `ours` may be from `printed`; None: it has to round to the printed digits. `remark`: why it
    is not, or what else to know.
    """

    where: Mapping[str, str | float]
    quantity: str
    printed: str | None
    ours: float
    pabi: float | None = None
    within: float | None = None
    remark: str = ""

    @cached_property
    def decimals(self) -> int:
        """Decimals that the paper prints (3 where it prints nothing)."""
        return 3 if self.printed is None else len(_number(self.printed).partition(".")[2])

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.printed is None else self.ours - float(_number(self.printed))

    @property
    def agrees(self) -> bool:
        """Whether ours is the printed number, to the printed digits or within `within`."""
        if self.difference is None:
            return True
        allowed = _HALF * 10.0**-self.decimals if self.within is None else self.within
        return abs(self.difference) <= allowed

    @property
    def explained(self) -> bool:
        """Whether ours agrees, or a remark says why it does not."""
        return self.agrees or bool(self.remark)


def _number(printed: str) -> str:
    """The number of "89.36 ± 0.03", "4.34"."""
    number = re.match(r"-?[\d.]+", printed)
    if number is None:
        raise ValueError(f"{printed!r} has no number")
    return number.group()


@dataclass(frozen=True)
class PrintedTable:
    """A published table beside pabi's numbers. `remark`: of the table as a whole."""

    entries: tuple[Entry, ...]
    remark: str = ""

    @property
    def disagreements(self) -> list[Entry]:
        """The entries whose number is not the printed one."""
        return [entry for entry in self.entries if not entry.agrees]


Result = PrintedTable | Figure


def printed(
    entries: Callable[[Mapping[str, Any]], Iterable[Entry]], remark: str = ""
) -> Callable[[Mapping[str, Any]], PrintedTable]:
    """What assembles a table from its entries."""
    return lambda results: PrintedTable(tuple(entries(results)), remark)


@dataclass(frozen=True)
class Settings:
    """What the user chooses: a file of MNIST (None: fetch it) and how many trainings to average."""

    mnist: str | None = None
    runs: int = 10


@dataclass(frozen=True)
class Artefact:
    """A table or figure of a paper, and the work that computes it.

    `parts`: the work by name; `assemble` turns its results, by the same names, into a `PrintedTable` or a
    `Figure`. `trains`: whether it needs MNIST, and time.
    """

    title: str
    source: str
    assemble: Callable[[Mapping[str, Any]], Result]
    parts: Callable[[Settings], Mapping[str, Part]] = field(default=lambda settings: {})
    trains: bool = False


# All of them by name.


# The module of every table and figure, in the papers' order.
_HOMES = {
    "bravo/table-1": "other_tables",
    "bravo/figure-1": "other_tables",
    "bravo/figure-2": "other_tables",
    "bok/table-1": "bok_runs",
    "bok/table-2": "bok_runs",
    "bok/table-3": "bok_runs",
    "bok/table-4": "bok_runs",
    "bok/table-5": "bok_runs",
    "bok/table-6": "bok_runs",
    "bok/table-7": "bok_runs",
    "bok/table-8": "bok_runs",
    "bok/table-9": "bok_curves",
    "bok/table-10": "bok_curves",
    "bok/table-11": "bok_curves",
    "bok/table-12": "bok_curves",
    "bok/figure-1": "bok_runs",
    "bok/figure-2": "bok_curves",
    "bok/figure-3": "bok_curves",
    "bok/figure-4": "bok_curves",
    "bok/figure-5": "bok_curves",
    "bok/figure-6": "bok_runs",
    "bok/figure-7": "bok_runs",
    "bok/figure-8": "bok_curves",
    "bok/figure-9": "bok_curves",
    "bok/figure-10": "bok_curves",
    "kong-ribero/table-1": "other_tables",
    "langevin-universality/table-1": "other_tables",
    "langevin-universality/figure-1": "other_tables",
}


def names() -> tuple[str, ...]:
    """All that can be reproduced, as "paper/table-4", in the papers' order."""
    return tuple(_HOMES)


def artefact(name: str) -> Artefact:
    """The table or figure of this name; InvalidInput, with the nearest name, where there is none."""
    if name not in _HOMES:
        hint = suggestion(name, names(), quoted=True) or "; see pabi reproduce --list"
        raise InvalidInput("name", f"nothing to reproduce is called {name!r}{hint}")
    artefacts: dict[str, Artefact] = importlib.import_module(f"{__name__}.{_HOMES[name]}").ARTEFACTS
    return artefacts[name]
