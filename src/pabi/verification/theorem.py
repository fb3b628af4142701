"""What a theorem's file declares, and what comes of checking one certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pabi.verification.bounds import Bounds

Payload = dict[str, Any]


class Names(NamedTuple):
    """Method and source, as a guarantee states them."""

    method: str
    source: str


class Proven(NamedTuple):
    """What is proven, and the assumptions that it rests on."""

    assumptions: tuple[str, ...]
    bounds: Bounds


class Proof(NamedTuple):
    """How a theorem is checked for one kind of subject.

    `keys`: those of its certificates, beside what every certificate begins with. `check`: subject and
    certificate ↦ what is proven, or Refused. `names`: how a guarantee may call it; one proof must not pass
    for another.
    """

    keys: tuple[str, ...]
    check: Callable[[Any, Payload], Proven]
    names: Callable[[Any], tuple[Names, ...]]


# A theorem: the subjects that it speaks of, by type. Of any other it says nothing.
Theorem = Mapping[type[Any], Proof]


class Finding(NamedTuple):
    """What a certificate claims, what was proven, and (ε, δ) where one of sampled factors says so."""

    adjacency: str
    assumptions: tuple[str, ...]
    scope: str
    claimed: Bounds
    proven: Bounds
    names: tuple[Names, ...]
    reading: tuple[float, float] | None = None


Check = Callable[[Payload], Finding]


def named(method: str, source: str) -> Callable[[Any], tuple[Names, ...]]:
    """The same name for every subject."""
    names = (Names(method, source),)
    return lambda subject: names
