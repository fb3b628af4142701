"""What a report consists of: plain text, which whoever writes it escapes as their format needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `alarming`: of what voids the promise."""

    text: str
    alarming: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; without a header its first column has the names of the rows."""

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A line for the shell."""

    text: str


@dataclass(frozen=True)
class Picture:
    """Where the picture of the guarantee stands, in formats that have one."""


Block = Paragraph | Items | Table | Command | Picture


@dataclass(frozen=True)
class Section:
    """A part of a report under a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """A report, and the numbers that a program reads of it.

    `metadata`: names and values, numbers already rounded up and as text.
    """

    title: str
    sections: tuple[Section, ...]
    metadata: tuple[tuple[str, str | float | bool | None], ...]
