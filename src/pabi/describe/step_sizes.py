"""Step sizes given as a function of the step: numbers for whoever accounts, a function for `replace`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array

MOST_CALLS = 10_000_000  # steps beyond which a function is not asked: some ten seconds, and 80 MB


class StepSizes(np.ndarray[tuple[int], np.dtype[np.float64]]):
    """(steps,) step sizes that a function of the step gave, read-only.

    An array of numbers for everybody but the constructor of a description, which finds the function in it:
    `dataclasses.replace` hands on what the field holds. Whatever is computed from it, a slice or a copy
    included, is a plain array, and so is what is pickled.
    """

    _rule: _Rule | None

    def __array_finalize__(self, obj: Any) -> None:
        self._rule = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            kwargs["out"] = tuple(map(_plain, kwargs["out"]))
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return np.array(self)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, StepSizes) else value


def stated_by_function(value: Any) -> bool:
    """Whether step sizes are a function of the step, or come from one: there are some for any steps."""
    return callable(value) or (isinstance(value, StepSizes) and value._rule is not None)


def evaluated(value: Any, steps: int) -> Any:
    """Step sizes from their function as `StepSizes`; everything else as it is.

    Raises InvalidInput naming `step_size`.
    """
    rule = value._rule if isinstance(value, StepSizes) else None
    if rule is None and not callable(value):
        return value
    sizes = (rule or _Rule(value)).sizes(steps)
    common = min(steps, len(value)) if rule is not None else 0
    if common and not np.array_equal(value[:common], sizes[:common]):
        raise InvalidInput("step_size", "expected what its function gave, got other numbers")
    return sizes


class _Rule:
    """A function of the step with what it gave so far.

    Each step is asked for once, so that a run that was accounted and the same run, built again by `replace`,
    have the same step sizes, whatever the function does.
    """

    def __init__(self, function: Callable[[int], Any]) -> None:
        _check_arity(function)
        self._function = function
        self._sizes: Array = np.empty(0)

    def sizes(self, steps: int) -> StepSizes:
        """(steps,) the function's values at k = 0, …, steps − 1. Raises InvalidInput."""
        require(
            steps <= MOST_CALLS,
            "step_size",
            f"expected a number for {steps} steps: a function of k is asked for at most {MOST_CALLS}",
        )
        first = len(self._sizes)
        if first < steps:
            later = [_checked(k, self._function(k)) for k in range(first, steps)]
            self._sizes = np.append(self._sizes, later)
            self._sizes.flags.writeable = False
        sizes = self._sizes[:steps].view(StepSizes)
        sizes._rule = self
        return sizes


def _check_arity(function: Callable[[int], Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are written in C: the call will say
        return
    try:
        signature.bind(0)
    except TypeError:
        raise InvalidInput(
            "step_size",
            f"expected a function of the step k = 0, 1, … alone, got one of {signature}",
        ) from None


def _checked(k: int, value: Any) -> float:
    if (
        isinstance(value, float) and 0.0 < value < math.inf
    ):  # what most functions give, at little cost
        return float(value)
    # An array without dimensions, of whatever library: schedules of optax return such.
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    try:
        return validate.number("step_size", number, above=0.0)
    except InvalidInput:
        raise InvalidInput(
            "step_size",
            f"expected a finite number > 0 at k = {k}, got {validate.excerpt(value)}",
        ) from None
