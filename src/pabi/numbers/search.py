"""Roots by bisection, and least values by golden sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.locking import tick
from pabi.numbers.rounding import Array

GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # of a bracket, what is left after one section
# More than there are halvings of an interval of doubles until its ends are neighbours.
_UNTIL_NEIGHBOURS = 2200


def mean(low: float, high: float) -> float:
    """The middle of two numbers."""
    return 0.5 * (low + high)


def neighbours(low: float, high: float) -> bool:
    """Whether no double between two numbers is their middle."""
    return not low < mean(low, high) < high


def bisected(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    close: Callable[[float, float], bool] = neighbours,
    middle: Callable[[float, float], float] = mean,
    rounds: int = _UNTIL_NEIGHBOURS,
) -> tuple[float, float]:
    """(low, high) of a shorter bracket of the point from which on `holds` is true.

    Only points strictly inside are tried: `low` stays or is one where `holds` is false, `high` stays or is
    one where it is true. `close`: whether the ends are near enough. `middle`: the point to be tried next.
    `rounds`: how many are tried at most.
    """
    for _ in range(rounds):
        tick()
        if close(low, high):
            break
        between = middle(low, high)
        low, high = (low, between) if holds(between) else (between, high)
    return low, high


def bisected_arrays(
    is_low: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array, rounds: int
) -> tuple[Array, Array]:
    """`bisected` elementwise, with so many rounds; `is_low`: which points become the lower ends."""
    for _ in range(rounds):
        tick()
        middle = 0.5 * (low + high)
        lower = is_low(middle)
        low, high = np.where(lower, middle, low), np.where(lower, high, middle)
    return low, high


def sectioned(
    is_low: Callable[[Array], NDArray[np.bool_]],
    low: float,
    high: float,
    *,
    points: int,
    rounds: int,
) -> tuple[float, float]:
    """(low, high) of a shorter bracket of the point up to which `is_low` is true.

    In every round so many points inside are tried at once, as one array. `low` stays or is one that is low,
    and all before it are; `high` stays or is one that is not.
    """
    for _ in range(rounds):
        tick()
        inside = np.linspace(low, high, points + 2)
        k = int(np.argmin(np.append(is_low(inside[1:-1]), False)))
        low, high = float(inside[k]), float(inside[k + 1])
    return low, high


def largest(
    function: Callable[[float], float], low: float, high: float, *, points: int, rounds: int
) -> float:
    """The largest value seen of a unimodal function: on an even grid, then by sections around its best."""
    grid = [low + (high - low) * k / (points - 1) for k in range(points)]
    values = [function(x) for x in grid]
    k = max(range(points), key=values.__getitem__)
    sections = golden(function, grid[max(k - 1, 0)], grid[min(k + 1, points - 1)], rounds)
    return max(values[k], *(value for section in sections for _, value in section))


def golden(
    function: Callable[[float], float], low: float, high: float, rounds: int
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The two inner points and their values, at first and after every section towards the larger one."""
    x, y = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_x, at_y = function(x), function(y)
    for _ in range(rounds):
        yield (x, at_x), (y, at_y)
        if at_x >= at_y:
            high, y, at_y = y, x, at_x
            x = high - GOLDEN * (high - low)
            at_x = function(x)
        else:
            low, x, at_x = x, y, at_y
            y = low + GOLDEN * (high - low)
            at_y = function(y)
    yield (x, at_x), (y, at_y)


def descended(
    function: Callable[[float], float], start: float, *, stride: float, width: float, limit: float
) -> tuple[float, float]:
    """(x, value) near the least value of a unimodal function, whose NaN counts as ∞.

    From `start` on the steps double, the first of them `stride`, until the value rises or |x| is more than
    `limit`; golden sections then shorten the bracket to `width`.
    """
    low, middle, high = start - stride, start, start + stride
    values = {x: function(x) for x in (low, middle, high)}

    def at(x: float) -> float:
        if x not in values:
            tick()
            values[x] = function(x)
        return math.inf if math.isnan(values[x]) else values[x]

    while at(low) <= at(middle) and low > -limit:
        low, middle, high = low - 2.0 * stride, low, middle
        stride *= 2.0
    while at(high) < at(middle) and high < limit:
        low, middle, high = middle, high, high + 2.0 * stride
        stride *= 2.0
    while high - low > width:
        above = high - middle > middle - low
        x = middle + (1.0 - GOLDEN) * ((high if above else low) - middle)
        if at(x) < at(middle):
            low, middle, high = (middle, x, high) if above else (low, x, middle)
        else:
            low, middle, high = (low, middle, x) if above else (x, middle, high)
    return middle, at(middle)
