"""Checks at the border: one line that names field, value and what was expected."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact


def number(
    field: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """`value` as a finite float within the bounds. Raises InvalidInput naming `field`."""
    bounds: list[tuple[float | None, str, Callable[[float, float], bool]]] = [
        (above, "> ", operator.gt),
        (at_least, "≥ ", operator.ge),
        (below, "< ", operator.lt),
        (at_most, "≤ ", operator.le),
    ]
    limits = " and ".join(f"{sign}{exact(bound)}" for bound, sign, _ in bounds if bound is not None)
    expected = f"expected a finite number{' ' + limits if limits else ''}, got {value!r}"
    if not _is_real(value):
        raise InvalidInput(field, expected)
    try:
        x = float(value)
    except OverflowError:
        raise InvalidInput(field, expected) from None
    if not math.isfinite(x) or any(b is not None and not ok(x, b) for b, _, ok in bounds):
        raise InvalidInput(field, expected)
    return x


def integer(
    field: str, value: Any, *, at_least: int, at_most: int | None = None, of: str = ""
) -> int:
    """`value` as an int within the bounds. Raises InvalidInput naming `field`.

    `of`: what the upper bound is, such as "n = ", for the message.
    """
    bounds = f"≥ {at_least}" if at_most is None else f"in {at_least}..{of}{at_most}"
    expected = f"expected an integer {bounds}, got {value!r}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InvalidInput(field, expected)
    k = int(value)
    if k < at_least or (at_most is not None and k > at_most):
        raise InvalidInput(field, expected)
    return k


def choice(field: str, value: Any, options: tuple[str, ...]) -> str:
    """The one of `options` that `value` equals. Raises InvalidInput naming `field`."""
    for option in options:
        if isinstance(value, str) and str.__eq__(value, option):  # whatever a subclass says
            return option
    names = " or ".join(f'"{o}"' for o in options)
    raise InvalidInput(field, f"expected {names}, got {value!r}")


def is_scalar(value: Any) -> bool:
    """Whether a schedule is one number for all steps (zero-dimensional)."""
    return isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0)


def _is_real(value: Any) -> bool:
    """Whether it is a real number, which truth values are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def reals(value: Any) -> Array:
    """`value` as an array of doubles. Raises TypeError, ValueError or OverflowError for other entries than
    real numbers, such as masked ones, strings and truth values."""
    array = np.asarray(value)
    kind = array.dtype.kind
    real = kind in "fiu" or (kind == "O" and all(map(_is_real, array.flat)))
    if not real or np.ma.is_masked(value):
        raise TypeError(kind)
    return array.astype(np.float64, copy=False)


def schedule(field: str, value: Any, *, positive: bool) -> float | Array:
    """A float, or a read-only copy of a one-dimensional array, finite and > 0 (or ≥ 0).

    Raises InvalidInput naming `field`.
    """
    sign = ">" if positive else "≥"
    bound: dict[str, float] = {"above": 0.0} if positive else {"at_least": 0.0}
    one = is_scalar(value) and not np.ma.is_masked(value)
    if one or isinstance(value, (bool, str)) or value is None:
        return number(field, value.item() if isinstance(value, np.ndarray) else value, **bound)
    try:
        array = np.array(reals(value))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            field, f"expected a number or one number per step, got {excerpt(value)}"
        ) from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput(
            field, f"expected a number or one number per step, got an array of shape {array.shape}"
        )
    bad = ~(np.isfinite(array) & ((array > 0.0) if positive else (array >= 0.0)))
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            field, f"expected finite numbers {sign} 0, got {float(array[k])!r} at step {k + 1}"
        )
    array.flags.writeable = False
    return array


def excerpt(value: Any) -> str:
    """The first 60 characters of what Python writes for `value`."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
