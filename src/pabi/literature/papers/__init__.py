"""The tables and figures of the papers behind pabi, computed anew: `pabi reproduce`.

One package a paper; a module holds the tables and figures that share their runs, and lists them in its
`ARTEFACTS`. Only the command imports this package.
"""

from __future__ import annotations

import importlib

from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import suggestion
from pabi.papers.artefact import Artefact

# The module of every table and figure, in the papers' order.
_HOMES = {
    "bravo/table-1": "bravo.classes",
    "bravo/figure-1": "bravo.steps",
    "bravo/figure-2": "bravo.shape",
    "bok/table-1": "bok.logistic",
    "bok/table-2": "bok.accuracies",
    "bok/table-3": "bok.logistic",
    "bok/table-4": "bok.logistic",
    "bok/table-5": "bok.accuracies",
    "bok/table-6": "bok.accuracies",
    "bok/table-7": "bok.full_batches",
    "bok/table-8": "bok.full_batches",
    "bok/table-9": "bok.cyclic",
    "bok/table-10": "bok.cyclic",
    "bok/table-11": "bok.cyclic",
    "bok/table-12": "bok.cyclic",
    "bok/figure-1": "bok.full_batches",
    "bok/figure-2": "bok.tradeoffs",
    "bok/figure-3": "bok.processes",
    "bok/figure-4": "bok.tradeoffs",
    "bok/figure-5": "bok.processes",
    "bok/figure-6": "bok.full_batches",
    "bok/figure-7": "bok.full_batches",
    "bok/figure-8": "bok.cyclic",
    "bok/figure-9": "bok.cyclic",
    "bok/figure-10": "bok.random_batches",
    "kong-ribero/table-1": "kong_ribero",
    "langevin-universality/table-1": "langevin_universality.risks",
    "langevin-universality/figure-1": "langevin_universality.balance",
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
    return artefacts[name.rpartition("/")[2]]
