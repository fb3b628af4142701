"""Checks of arguments in which infinity is a meaning, not a mistake."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact
from pabi.numbers.validate import number, reals


def extended(field: str, value: Any, **bounds: float) -> float:
    """`value` as a float within the bounds of `number`, +∞ allowed. Raises InvalidInput naming `field`."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and value == math.inf:
        return math.inf
    return number(field, value, **bounds)


def nonnegative(field: str, value: Any) -> float:
    """`value` as a float ≥ 0, +∞ allowed. Raises InvalidInput naming `field`."""
    return extended(field, value, at_least=0.0)


def real_line(field: str, value: Any) -> float:
    """`value` as a float that is not NaN, both infinities allowed. Raises InvalidInput naming `field`."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and value == -math.inf:
        return -math.inf
    return extended(field, value)


def array(
    field: str, value: Any, *, at_least: float = -math.inf, above: float = -math.inf
) -> Array:
    """`value` as an array of doubles of its shape, all ≥ `at_least` and > `above`; +∞ is allowed, NaN is not.

    Raises InvalidInput naming `field` and the first wrong number.
    """
    try:
        result = reals(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(field, f"expected numbers, got {value!r:.60}") from None
    bad = np.isnan(result) | (result < at_least)
    if above > -math.inf:
        bad |= result <= above
    if bad.any():
        first = float(result[bad].flat[0])
        bound = f" > {exact(above)}" if above > -math.inf else f" ≥ {exact(at_least)}"
        expected = "numbers" if bound == " ≥ -inf" else f"numbers{bound}"
        raise InvalidInput(field, f"expected {expected}, got {first!r}")
    return result
