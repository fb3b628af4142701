"""Whom a guarantee protects: what two adjacent data sets differ by (adjacency), in one of what (unit).

A guarantee of forgetting compares a model with one that was retrained, not two data sets. Its adjacency is
"retrained", which no description of a training has.
"""

from __future__ import annotations

import re
from typing import Any, Literal, assert_never, get_args

from pabi.numbers.errors import InvalidInput

Adjacency = Literal["replace_one", "zero_out"]
Compared = Adjacency | Literal["retrained"]
"""What a guarantee compares: adjacent data sets, or a model that forgot with one that was retrained."""
RETRAINED: Literal["retrained"] = "retrained"
Unit = Literal["record", "user"]
"""One record, or all records of one user, of whom there are `n`."""

UNITS: tuple[Unit, ...] = get_args(Unit)
MOST_GROUPED = 10**9  # units of a group
_GROUPS = re.compile(r"groups of ([2-9]|[1-9][0-9]{1,9}) (record|user)s")


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


def checked_adjacency(value: Any) -> Adjacency:
    """The canonical name of an adjacency, given by name or as a dp_accounting.NeighboringRelation."""
    name = getattr(value, "name", value)
    names: dict[str, Adjacency] = {
        "replace_one": "replace_one",
        "REPLACE_ONE": "replace_one",
        "zero_out": "zero_out",
        "REPLACE_SPECIAL": "zero_out",
    }
    if isinstance(name, str) and name in names:
        return names[name]
    if isinstance(name, str) and name.lower() in (
        "add_or_remove",
        "add_or_remove_one",
        "add_remove",
        "add_remove_one",
    ):
        raise InvalidInput(
            "adjacency",
            'adding or removing a record changes n and with it the batches; the nearest is "zero_out" '
            f'(the record\'s contribution becomes zero), expected "replace_one" or "zero_out", got {name!r}',
        )
    raise InvalidInput("adjacency", f'expected "replace_one" or "zero_out", got {value!r}')


def checked_comparison(value: Any) -> Compared:
    """The canonical name of what a guarantee compares. Raises InvalidInput."""
    if type(value) is str and value == RETRAINED:
        return RETRAINED
    return checked_adjacency(value)


def require_alike(field: str, expected: object, other: object) -> None:
    """InvalidInput unless two guarantees agree in `field`, such as adjacency or unit."""
    if other == expected:
        return
    why = ""
    if field == "adjacency" and RETRAINED in (expected, other):
        why = (
            "; forgetting is compared with retraining, training with adjacent data, and neither bounds "
            "the other"
        )
    raise InvalidInput(field, f"expected {expected!r} throughout, got {other!r} too{why}")


def checked_unit(value: object) -> Unit:
    """The unit of this name. Raises InvalidInput."""
    for unit in UNITS:
        if type(value) is str and value == unit:
            return unit
    names = " or ".join(f'"{unit}"' for unit in UNITS)
    raise InvalidInput("unit", f"expected {names}, got {value!r}")


def checked_protected(value: object) -> str:
    """Whom a guarantee protects, in the one spelling: a unit, or groups of them. Raises InvalidInput."""
    match = _GROUPS.fullmatch(value) if type(value) is str else None
    if match is not None and int(match[1]) <= MOST_GROUPED:
        return match[0]
    if type(value) is str and value in UNITS:
        return value
    names = ", ".join(f'"{unit}"' for unit in UNITS)
    raise InvalidInput("unit", f'expected {names} or "groups of 2 records", got {value!r}')


def groups_of(size: int, unit: str) -> str:
    """The name of groups of so many units, of the unit itself for 1."""
    return unit if size == 1 else f"groups of {size} {unit}s"


def record_only(value: object) -> Unit:
    """The unit of a sampler or mechanism, which has no users. Raises InvalidInput."""
    unit = checked_unit(value)
    if unit != "record":
        raise InvalidInput(
            "unit", f'expected "record", the only unit of samplers and mechanisms, got {unit!r}'
        )
    return unit
