"""A published table or figure, and the pieces of work that reproduce it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
class Part:
    """A piece of work that takes time: a function of `literature.papers.work` by name, and its plain data."""

    function: str
    arguments: Mapping[str, Any]


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
