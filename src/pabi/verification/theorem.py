"""What a theorem's file declares, and what comes of checking one certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from pabi.verification.adjacency import Adjacency, Compared
from pabi.verification.bounds import Bounds

Payload = dict[str, Any]


class About:
    """What a certificate is about.

    `CALLED`: in a refusal. `scope`: "run" if everything follows from a description, "iteration" if steps are
    taken as stated. `keys`: those that a certificate has on account of it. `unit`: whom adjacent data sets
    differ in. `nulls`: whether all that is said of a record's contribution is true of 0 as well. `compared`:
    of forgetting, (how many are forgotten, what becomes of them, whether models were handed out).
    """

    CALLED: ClassVar[str]
    scope: str = "run"
    keys: tuple[str, ...] = ()
    adjacency: Compared
    unit: str = "record"
    nulls: bool = False
    compared: tuple[int, Adjacency, bool] | None = None


class Names(NamedTuple):
    """The method and the source that a guarantee may state.

    Attributes
    ----------
    method : str
        The method's name, such as "shifted interpolation".
    source : str
        Paper and theorem.
    """

    method: str
    source: str


class Proven(NamedTuple):
    """The bounds that are proven, and the assumptions that they rest on."""

    assumptions: tuple[str, ...]
    bounds: Bounds


class ProofCheck(NamedTuple):
    """How a theorem is checked for one kind of subject.

    `keys`: those of its certificates, beside what every certificate begins with. `check`: subject and
    certificate ↦ what is proven, or Refused. `names`: how a guarantee may call it; one proof must not pass
    for another.
    """

    keys: tuple[str, ...]
    check: Callable[[Any, Payload], Proven]
    names: Callable[[Any], tuple[Names, ...]]


# A theorem: the subjects that it speaks of, by type. Of any other it says nothing.
Theorem = Mapping[type[Any], ProofCheck]


class Finding(NamedTuple):
    """What a certificate claims, what was proven, and (ε, δ) where one of sampled factors says so."""

    adjacency: str
    unit: str
    nulls: bool
    compared: tuple[int, Adjacency, bool] | None
    assumptions: tuple[str, ...]
    scope: str
    claimed: Bounds
    proven: Bounds
    names: tuple[Names, ...]
    reading: tuple[float, float] | None = None


Check = Callable[[Payload], Finding]


def named(method: str, source: str) -> Callable[[Any], tuple[Names, ...]]:
    """A function that gives every subject the same name."""
    names = (Names(method, source),)
    return lambda subject: names
