"""The theorems that the checker knows, by families that share a proof.

Each file declares `THEOREMS`: the name in a certificate → the subjects that it speaks of, and how it is
checked for them. A new theorem needs no line elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from pabi.verification.discovery import declared
from pabi.verification.theorem import Theorem


@cache
def table() -> Mapping[str, Theorem]:
    """Every theorem of this folder, by name. Raises ValueError for a name that two files declare."""
    theorems_by_name: dict[str, Theorem] = {}
    for theorems in declared(__name__, __path__, "THEOREMS"):
        for name, theorem in theorems.items():
            if name in theorems_by_name:
                raise ValueError(f"theorems: {name!r} is declared twice")
            theorems_by_name[name] = MappingProxyType(dict(theorem))
    return MappingProxyType(theorems_by_name)


def keys_of(subject: type[Any]) -> tuple[str, ...]:
    """All keys that a certificate about such a subject may have, whatever its theorem."""
    proofs = (theorem[subject] for theorem in table().values() if subject in theorem)
    return tuple(dict.fromkeys(key for proof in proofs for key in proof.keys))
