"""What a guarantee calls its method and its source, by what its certificate proves.

A file states both, so that both are checked: one proof must not pass for another.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from pabi.assumptions import FOLLOWED_EXACTLY
from pabi.verification.refusal import Refused

_SHIFTS = "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"
_COMPOSED = "Dong, Roth, Su 2022, Thm 3.2"
_RANGE = "McSherry, Talwar 2007; Dong, Durfee, Rogers 2020, Lemma 3"
_GIBBS = "docs, Diffusions; Bok, Su, Altschuler 2024, Cor. 5.2 and 5.4"
_PATH = "Ganesh, Thakurta, Upadhyay, Lemma C.1, as Gaussian DP"
_LAST = "docs, Diffusions; Bok, Su, Altschuler 2024, Thm C.3 in the limit of small steps"

_SOURCES = {
    "composition": "Dong, Roth, Su 2022, Cor. 3.3",
    "shifted interpolation": _SHIFTS,
    "secret order": f"{_SHIFTS}, averaged over the record's position",
    "nonlinear shifts": "Bok, Su, Altschuler 2024, Thm C.3, for any modulus (docs, Shifts imply GDP); "
    "Bravo, Flores-Mella, Guzmán, Thm 3.4",
    "one-sided shift": "Bok, Su, Altschuler 2024, Thm 4.10, extended (docs, Random batches)",
    "two-sided shift": "Bok, Su, Altschuler 2024, Thm C.13, sharpened (docs, Random batches)",
    "nonlinear one-sided shift": "Bok, Su, Altschuler 2024, Thm 4.10, for any modulus "
    "(docs, Random batches)",
    "path": _PATH,
    "last point": _LAST,
    "bounded range": _RANGE,
    "Gibbs measure": _GIBBS,
    "bounded range and Gibbs measure": f"{_RANGE}; {_GIBBS}",
}
# With Poisson batches and a record that is there or not.
_POISSON = "docs, Random batches (Poisson batches, zero_out)"
_SINGLE = {"one-sided shift": _POISSON, "nonlinear one-sided shift": _POISSON}
# With batches in which records take each other's places.
_SAMPLED = {"composition": "Dong, Roth, Su 2022, Thm 4.2; Bok, Su, Altschuler 2024, Thm 4.8"}

_MOST = 64  # ways to name one composition


class Names(NamedTuple):
    """Method and source, as a guarantee states them."""

    method: str
    source: str


def names_of(payload: dict[str, Any]) -> tuple[Names, ...]:
    """How a guarantee with this verified certificate may be named."""
    theorem = payload["theorem"]
    if theorem == "composed":
        return _composed(payload["parts"])
    known = Names(theorem, _source(payload))
    # A diffusion at a varying temperature is proven as the iteration of its cells.
    if payload["run"] is None and (
        payload["version"] == 1 or FOLLOWED_EXACTLY in payload["assumes"]
    ):
        of_cells = "path" if theorem == "composition" else "last point"
        return known, Names(of_cells, _SOURCES[of_cells])
    return (known,)


def _source(payload: dict[str, Any]) -> str:
    theorem, run = payload["theorem"], payload["run"]
    kind = run.get("batches", {}).get("kind") if run is not None else None
    if kind == "poisson" and payload["adjacency"] == "zero_out":
        return _SINGLE.get(theorem, _SOURCES[theorem])
    if kind in ("poisson", "fixed_size"):
        return _SAMPLED.get(theorem, _SOURCES[theorem])
    return _SOURCES[theorem]


def _composed(parts: list[dict[str, Any]]) -> tuple[Names, ...]:
    found = [names_of(part) for part in parts]
    ways = 1
    for names in found:
        ways *= len(names)
        if ways > _MOST:
            raise Refused(f"parts: {len(parts)} that may be named in too many ways")
    joined = []
    for names in product(*found):
        sources = dict.fromkeys(n.source for n in names)
        joined.append(Names(" + ".join(n.method for n in names), "; ".join((*sources, _COMPOSED))))
    if len(parts) > 1 and all(part == parts[0] for part in parts):
        joined += [Names(f"{n.method}, {len(parts)} times", n.source) for n in found[0]]
    return tuple(joined)
