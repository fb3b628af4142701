"""The tables and figures of the papers behind pabi, computed anew: `pabi reproduce`.

A module holds the tables and figures of one paper, or those that share their runs, and lists them in its
`ARTEFACTS`. Only the command imports this package.
"""

from __future__ import annotations

import importlib

from pabi.literature.papers.artefact import Artefact
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import suggestion

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
