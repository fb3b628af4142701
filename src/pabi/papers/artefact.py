"""A published table or figure, and the pieces of work that reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pabi.papers.results import Result


@dataclass(frozen=True)
class Part:
    """A piece of work that takes time: a function of `pabi.papers.work` by name, and plain data for it."""

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """What the user chooses: a file of MNIST (None: fetch it) and how many trainings to average."""

    mnist: str | None = None
    runs: int = 10


@dataclass(frozen=True)
class Artefact:
    """`title` says what it shows, `source` where it is printed.

    `parts`: the work by name; `assemble` turns its results, by the same names, into a `PrintedTable` or a
    `Figure`. `trains`: whether it needs MNIST, and time.
    """

    title: str
    source: str
    assemble: Callable[[Mapping[str, Any]], Result]
    parts: Callable[[Settings], Mapping[str, Part]] = field(default=lambda settings: {})
    trains: bool = False
