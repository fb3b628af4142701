"""Which orders of the two adjacent data sets a trade-off function speaks of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar, assert_never

from pabi.numbers.errors import InvalidInput

Direction = Literal["both", "remove", "add"]
# "symmetric": a function that is its own inverse, so that both orders are one.
Orientation = Literal["symmetric", "both", "remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("both", "remove", "add")

T = TypeVar("T")


def opposite(direction: Direction) -> Direction:
    """The direction with the data sets swapped."""
    match direction:
        case "both":
            return "both"
        case "remove":
            return "add"
        case "add":
            return "remove"
        case _:
            assert_never(direction)


def chosen(direction: Direction, remove: T, add: T) -> tuple[T, ...]:
    """What belongs to `direction`: `remove`, `add`, or both of them in that order."""
    match direction:
        case "both":
            return remove, add
        case "remove":
            return (remove,)
        case "add":
            return (add,)
        case _:
            assert_never(direction)


def one_order(orientation: Orientation) -> bool:
    """Whether a function speaks of one of the two orders only."""
    match orientation:
        case "symmetric" | "both":
            return False
        case "remove" | "add":
            return True
        case _:
            assert_never(orientation)


def common(orientations: Iterable[Orientation]) -> Orientation:
    """The orientation of a composition. Raises InvalidInput where the functions have different ones."""
    directions = set(orientations) - {"symmetric"}
    if len(directions) > 1:
        raise InvalidInput("orientation", f"expected one throughout, got {sorted(directions)}")
    return directions.pop() if directions else "symmetric"
