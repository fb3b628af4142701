"""Checks of arguments: numbers, fields, keywords and ranges."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact

T = TypeVar("T")


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
    try:
        x = float(value) if _is_real(value) else math.nan
    except OverflowError:
        x = math.inf
    within = (
        math.isfinite(x)
        and (above is None or x > above)
        and (at_least is None or x >= at_least)
        and (below is None or x < below)
        and (at_most is None or x <= at_most)
    )
    if within:
        return x
    bounds = {"> ": above, "≥ ": at_least, "< ": below, "≤ ": at_most}
    limits = " and ".join(f"{sign}{exact(x)}" for sign, x in bounds.items() if x is not None)
    raise InvalidInput(
        field, f"expected a finite number{' ' + limits if limits else ''}, got {value!r}"
    )


def integer(
    field: str, value: Any, *, at_least: int, at_most: int | None = None, of: str = ""
) -> int:
    """`value` as an int within the bounds.

    `of`: what the upper bound is, such as "n = ", for the message.
    """
    bounds = f"≥ {at_least}" if at_most is None else f"in {at_least}..{of}{at_most}"
    expected = f"expected an integer {bounds}, got {value!r}"
    require(isinstance(value, numbers.Integral) and _is_real(value), field, expected)
    k = int(value)
    require(k >= at_least and (at_most is None or k <= at_most), field, expected)
    return k


def instance(field: str, value: Any, kinds: Any, expected: str) -> None:
    """Raises InvalidInput naming `field` unless the value is an instance of a class, or of one of several."""
    require(isinstance(value, kinds), field, f"expected {expected}, got a {type(value).__name__}")


def exactly(field: str, value: Any, kind: type[T], expected: str) -> T:
    """The value, if it is of this class itself. Raises InvalidInput naming `field`."""
    if type(value) is not kind:
        raise InvalidInput(field, f"expected {expected}, got a {type(value).__name__}")
    return value


def function(field: str, value: Any) -> None:
    """Raises InvalidInput naming `field` unless the value can be called."""
    require(callable(value), field, f"expected a callable, got a {type(value).__name__}")


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


def doubles(field: str, value: Any, expected: str) -> Array:
    """`value` as an array of doubles, itself if it is one. Raises InvalidInput naming `field`."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(field, f"expected {expected}") from None


def schedule(field: str, value: Any, *, positive: bool) -> float | Array:
    """A float, or a read-only copy of a one-dimensional array, finite and > 0 (or ≥ 0)."""
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
    if array.ndim == 0:  # such as a number of JAX
        return number(field, array.item(), **bound)
    require(
        array.ndim == 1 and array.size,
        field,
        f"expected a number or one number per step, got an array of shape {array.shape}",
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


# Fields of frozen dataclasses: checked and converted where the instance is constructed.


Check = Callable[[str, Any], Any]
"""(name of the field, value) ↦ the value, converted. Raises InvalidInput for a wrong value."""

NUMBER: Check = number
POSITIVE: Check = partial(number, above=0.0)
NONNEGATIVE: Check = partial(number, at_least=0.0)
SHARE: Check = partial(number, at_least=0.0, at_most=1.0)


def optional(check: Check) -> Check:
    """The check that passes None as well as what `check` passes."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*options: str) -> Check:
    """The check that passes these strings alone."""
    return partial(choice, options=options)


def flag(name: str, value: Any) -> bool:
    """The check that passes True and False alone."""
    if not isinstance(value, bool):
        raise InvalidInput(name, f"expected true or false, got {value!r}")
    return value


def by(check: Check) -> Mapping[str, Check]:
    """The metadata of a dataclass's field that passes what `check` passes; see `Checked`."""
    return {"check": check}


class Checked:
    """A frozen dataclass whose fields are replaced by what the checks that they declare return, in order."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for f in fields(cast("Any", self)):
            if "check" in f.metadata:
                checked = f.metadata["check"](f.name, getattr(self, f.name))
                object.__setattr__(self, f.name, checked)


def convert(instance: Any, **checks: Check) -> None:
    """Replaces fields of a frozen instance by what their checks return, in order; see `Check`."""
    for name, check in checks.items():
        object.__setattr__(instance, name, check(name, getattr(instance, name)))


def keep(instance: Any, **values: Any) -> None:
    """Sets fields of a frozen instance, for its own constructor only."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


# Keywords of other libraries, answered with what to write instead.


Called = TypeVar("Called", bound=Callable[..., Any])


def answering(answers: Mapping[str, str]) -> Callable[[Called], Called]:
    """A decorator of constructors and functions: keywords that are none of theirs raise InvalidInput with
    their answer.

    `answers`: by keyword, with {} for the value. Names that what is called has are left to it, and unknown
    ones to Python. The signature stays what it is.
    """

    def decorated(called: Called) -> Called:
        own = inspect.signature(called).parameters
        foreign = {name: answer for name, answer in answers.items() if name not in own}

        @functools.wraps(called)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name, value in kwargs.items():
                refuse_foreign(foreign, name, value)
            return called(*args, **kwargs)

        return cast("Called", checked)

    return decorated


def refuse_foreign(answers: Mapping[str, str], name: str, value: Any) -> None:
    """Raises InvalidInput with the answer to this keyword, if there is one."""
    if name in answers:
        raise InvalidInput(name, answers[name].replace("{}", " ".join(excerpt(value).split())))


# Declared ranges of columns: every form that users may write them in, as centres and half widths.


def by_column(ranges: Any, names: Any, d: int) -> Any:
    """Ranges given by column name, or number where `names` is None, as (2, d); other forms as they are."""
    if not isinstance(ranges, dict):
        return ranges
    columns = list(range(d)) if names is None else [str(name) for name in names]
    for name in ranges:
        require(name in columns, "feature_ranges", f"there is no column {name!r}")
    for name in columns:
        require(name in ranges, "feature_ranges", f"missing: a range for column {name!r}")
    try:
        return np.array([ranges[name] for name in columns], dtype=np.float64).reshape(d, 2).T
    except (TypeError, ValueError):
        raise InvalidInput("feature_ranges", "expected pairs (low, high)") from None


def centres_and_reaches(ranges: Any, d: int, *, sparse: bool) -> tuple[Array | None, Array | None]:
    """(centres, half widths) of d columns from (low, high) or a (2, d) array, read-only; (None, None) without
    ranges."""
    if ranges is None:
        return None, None
    bounds = doubles("feature_ranges", ranges, "pairs (low, high)")
    require(
        bounds.shape in ((2,), (2, d)),
        "feature_ranges",
        f"expected (low, high) or shape (2, {d}), got shape {bounds.shape}",
    )
    low, high = (np.broadcast_to(side, (d,)) for side in bounds)
    require(
        np.all(np.isfinite(bounds)) and np.all(low < high),
        "feature_ranges",
        "expected finite low < high for every feature",
    )
    require(
        not sparse or np.all(low == -high),
        "feature_ranges",
        "expected (−h, h) for a sparse X, which keeps its zeros",
    )
    centre, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    for side in (centre, reach):
        side.flags.writeable = False
    return centre, reach
