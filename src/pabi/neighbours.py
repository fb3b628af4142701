"""Whom a guarantee protects: what two adjacent data sets differ by (adjacency), in one of what (unit)."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from pabi.errors import InvalidInput

Adjacency = Literal["replace_one", "zero_out"]
Unit = Literal["record", "user"]
"""One record, or all records of one user."""

UNITS: tuple[Unit, ...] = get_args(Unit)


def changed(adjacency: Adjacency) -> int:
    """How many contributions differ between adjacent data sets: one is replaced by another, or becomes
    zero."""
    match adjacency:
        case "replace_one":
            return 2
        case "zero_out":
            return 1
        case _:
            assert_never(adjacency)


def checked_unit(value: object) -> Unit:
    """The unit of this name. Raises InvalidInput."""
    for unit in UNITS:
        if type(value) is str and value == unit:
            return unit
    names = " or ".join(f'"{unit}"' for unit in UNITS)
    raise InvalidInput("unit", f"expected {names}, got {value!r}")


def record_only(value: object) -> Unit:
    """The unit of a description: pabi speaks of single records only. Raises InvalidInput."""
    unit = checked_unit(value)
    if unit != "record":
        raise InvalidInput("unit", f'expected "record", the only unit that runs have, got {unit!r}')
    return unit
