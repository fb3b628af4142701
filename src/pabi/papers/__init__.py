"""The tables and figures of the papers behind pabi, computed anew: `pabi reproduce`.

One module a table or figure, in one package a paper; each defines `ARTEFACT`. Only the command
imports this package.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from functools import cache

from pabi.numbers.errors import InvalidInput
from pabi.papers.artefact import Artefact

_PAPERS = ("bravo", "bok", "kong_ribero", "langevin_universality")


@cache
def names() -> tuple[str, ...]:
    """All that can be reproduced, as "paper/table-4", in the papers' order."""
    found = []
    for paper in _PAPERS:
        package = importlib.import_module(f"{__name__}.{paper}")
        modules = (module.name for module in pkgutil.iter_modules(package.__path__))
        kept = [m for m in modules if re.fullmatch(r"(table|figure)_\d+", m)]
        kept.sort(key=lambda m: (m.split("_")[0] != "table", int(m.split("_")[1])))
        found += [f"{paper}/{module}".replace("_", "-") for module in kept]
    return tuple(found)


def artefact(name: str) -> Artefact:
    """The table or figure of this name; InvalidInput, with the nearest name, where there is none."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "; see pabi reproduce --list"
        raise InvalidInput("name", f"nothing to reproduce is called {name!r}{hint}")
    path = name.replace("-", "_").replace("/", ".")
    module = importlib.import_module(f"{__name__}.{path}")
    found: Artefact = module.ARTEFACT
    return found
