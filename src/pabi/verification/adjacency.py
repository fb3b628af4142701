"""What two adjacent data sets differ in: a closed list, of which each match names every entry.

A certificate of forgetting compares a model with a retrained one, which is no adjacency of data sets.
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

from pabi.verification.limits import Refused

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
    """Whom adjacent data sets differ in: one "record", or all records of one "user". Refused for any other
    text."""
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
