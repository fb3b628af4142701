"""Fields of frozen dataclasses: checked and converted where the instance is constructed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput

Check = Callable[[str, Any], Any]
"""(name of the field, value) ↦ the value, converted. Raises InvalidInput for a wrong value."""

NUMBER: Check = validate.number
POSITIVE: Check = partial(validate.number, above=0.0)
NONNEGATIVE: Check = partial(validate.number, at_least=0.0)
SHARE: Check = partial(validate.number, at_least=0.0, at_most=1.0)


def optional(check: Check) -> Check:
    """The check that passes None as well as what `check` passes."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*options: str) -> Check:
    """The check that passes these strings alone."""
    return partial(validate.choice, options=options)


def flag(name: str, value: Any) -> bool:
    """The check that passes True and False alone."""
    if not isinstance(value, bool):
        raise InvalidInput(name, f"expected true or false, got {value!r}")
    return value


def convert(instance: Any, **checks: Check) -> None:
    """Replaces fields of a frozen instance by what their checks return, in order; see `Check`."""
    for name, check in checks.items():
        keep(instance, **{name: check(name, getattr(instance, name))})


def keep(instance: Any, **values: Any) -> None:
    """Sets fields of a frozen instance, for its own constructor only."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
