"""What a theorem is to the checker, and between which data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, assert_never

from pabi.verification.arithmetic import Refused
from pabi.verification.bounds import Bounds

# What two adjacent data sets differ in: a closed list, of which each match names every entry.
#
# A certificate of forgetting compares a model with a retrained one, which is no adjacency of data sets.


Adjacency = Literal["replace_one", "zero_out"]
Compared = Adjacency | Literal["retrained"]
Unit = Literal["record", "user"]


def read_compared(value: Any) -> Compared:
    """What a text says is compared: adjacent data sets, or a model with one that was retrained."""
    return "retrained" if value == "retrained" else read_adjacency(value)


def read_adjacency(value: Any) -> Adjacency:
    """The adjacency that a text names, such as "zero_out". Refused for any other text."""
    match value:
        case "replace_one":
            return "replace_one"
        case "zero_out":
            return "zero_out"
        case _:
            raise Refused(f"adjacency: the checker knows no {value!r}")


def read_unit(value: Any) -> Unit:
    """Whom adjacent data sets differ in: one "record", or all records of one "user"."""
    match value:
        case "record":
            return "record"
        case "user":
            return "user"
        case _:
            raise Refused(f"unit: the checker knows no {value!r}")


def gradients_changed(adjacency: Adjacency) -> int:
    """How many gradients of norm at most G two adjacent sums differ by: one is taken out, or another comes
    in its place as well."""
    match adjacency:
        case "replace_one":
            return 2
        case "zero_out":
            return 1
        case _:
            assert_never(adjacency)


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
