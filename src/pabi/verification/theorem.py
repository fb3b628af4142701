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

    def computed(self, proven: Proven) -> Bounds:
        """What holds of the release as it is computed, if what is proven holds of exact arithmetic."""
        return proven.bounds


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


# How pieces of sources ended in pabi 0.1.0, and how they end since: by the number of a theorem.
_BOK = "Bok, Su, Altschuler 2024"
_OPTIMAL = f"{_BOK}, Thm C.3, with optimal shifts"
_LAST = f"{_BOK}, Thm C.3, with shifts within each epoch, averaged over the record's last position"
_PATH = "Ganesh, Thakurta, Upadhyay, Lemma C.1, as Gaussian DP"
_BATCHES = "docs, Random batches (Poisson batches, zero_out)"
_SINCE = {
    f"{piece}{before}": f"{piece}{since}"
    for piece, before, since in (
        (_OPTIMAL, "", " (docs, Theory, 3, Theorem 1)"),
        (f"{_OPTIMAL}, averaged over the record's position", "", " (docs, Theory, 6, Theorem 5a)"),
        (
            f"{_OPTIMAL}, by a label that stays secret",
            " (docs, Secret places)",
            " (docs, Theory, 6.1, Theorem 45)",
        ),
        (
            f"{_OPTIMAL}, averaged over the record's last two positions",
            " (docs, The worst record)",
            " (docs, Theory, 6, Theorem 5a)",
        ),
        (_LAST, " (docs, Secret order)", " (docs, Theory, 6, Lemma 5b)"),
        (
            f"{_BOK}, Thm C.3, for any modulus",
            " (docs, Shifts imply GDP)",
            " (docs, Theory, 3, Theorem 1)",
        ),
        *(
            (f"{_BOK}, {theorem}", " (docs, Random batches)", f" (docs, Theory, {own})")
            for theorem, own in (
                ("Thm 4.10, extended", "10.4, Theorem 13"),
                ("Thm 4.10, for any modulus", "10.4, Theorem 13"),
                ("Thm C.13, sharpened", "10.5, Theorem 14"),
            )
        ),
        (_PATH, "", " (docs, Theory, 12.2, Theorem 16)"),
        ("", _BATCHES, "docs, Theory, 10.4 (Theorem 13, Poisson batches, zero_out)"),
        ("", "docs, Random batches (Theorem 32a)", "docs, Theory, 20 (Theorem 32a)"),
        ("", "docs, Random batches (Theorem 40)", "docs, Theory, 10.2 (Theorem 40)"),
        ("", "docs, Second moments", "docs, Theory, 13 (Proposition 18)"),
        ("", "docs, Private selection", "docs, Theory, 17 (Theorem 23)"),
        ("", "docs, Forgetting", "docs, Theory, 21.1 (Theorem 33)"),
        ("", "docs, Diffusions", "docs, Theory, 12.2 (Theorem 16)"),
    )
}


def stated_since(source: str) -> str:
    """A source with every piece of it as it is stated since pabi 0.1.0."""
    return "; ".join(_SINCE.get(piece, piece) for piece in source.split("; "))


def named(method: str, source: str) -> Callable[[Any], tuple[Names, ...]]:
    """A function that gives every subject the same name."""
    names = (Names(method, source),)
    return lambda subject: names
