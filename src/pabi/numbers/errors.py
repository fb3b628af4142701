"""Errors and warnings of one clear line, and extras that are missing."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any, Literal


class InvalidInput(ValueError):
    """An argument or a field of a file is wrong; the message names it, its value and what was expected.

    Attributes
    ----------
    field : str
        The name of the argument or field.
    """

    def __init__(self, field: str, message: str) -> None:
        # Some values, such as arrays, are shown in several lines.
        line = re.sub(r"\s*\n\s*", " ", message)
        super().__init__(f"{field}: {line}")
        self.field = field

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (self.field, str(self).removeprefix(f"{self.field}: "))


def require(holds: object, field: str, message: str) -> None:
    """InvalidInput on `field` unless something holds."""
    if not holds:
        raise InvalidInput(field, message)


def must_be(holds: object, field: str, expected: str, value: object) -> None:
    """InvalidInput that names field, value and what was expected, unless something holds."""
    if not holds:
        raise InvalidInput(field, f"expected {expected}, got {value!r}")


class NotApplicable(Exception):
    """An analysis does not cover this run; the message is the reason.

    Attributes
    ----------
    reason : str
        The message.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TargetUnreachable(ValueError):
    """No value of the calibrated parameter meets the target.

    Attributes
    ----------
    best : float
        The least value that was reached of what the target bounds, ε as a rule.
    """

    def __init__(self, message: str, best: float) -> None:
        super().__init__(message)
        self.best = best

    def __reduce__(self) -> tuple[type[TargetUnreachable], tuple[str, float]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (str(self), self.best)


class BudgetExceeded(ValueError):
    """A ledger has less left than a release would spend; nothing was entered, and nothing may be released.

    Attributes
    ----------
    needed : float
        What the release would spend, in the unit of the ledger: μ, or a Rényi divergence in nats.
    left : float
        What is left, in the same unit.
    """

    def __init__(self, message: str, needed: float, left: float) -> None:
        super().__init__(message)
        self.needed = needed
        self.left = left

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[str, float, float]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (str(self), self.needed, self.left)


class PrivacyWarning(UserWarning):
    """A guarantee that holds and yet may protect less than its reader believes."""


class SamplingWarning(UserWarning):
    """Draws that may be far from what they are drawn for, or a path that could be had for their price."""


# Warnings that a process shows once, however often what they warn of happens.


_SHOWN: set[tuple[str, type[Warning]]] = set()
_OWN = re.compile(
    r"(pabi|contextlib)(\.|$)"
)  # modules: pabi's, and what enters its context managers


def warn(message: str, category: type[Warning]) -> None:
    """Warns on behalf of the nearest caller that is not part of pabi."""
    warnings.warn(message, category, stacklevel=_outside()[0])


def warn_once(message: str, category: type[Warning]) -> None:
    """Warns as `warn` does unless this process did before; filters that ask for every warning, or for none,
    get their way.

    Python's own record of what was shown does not do: it is dropped whenever any code enters
    `warnings.catch_warnings`, which scikit-learn does in every fit.
    """
    if _action(message, category, _outside()[1]) in ("default", "module", "once"):
        if (message, category) in _SHOWN:
            return
        _SHOWN.add((message, category))
    warn(message, category)


def _outside() -> tuple[int, FrameType]:
    """(depth, frame) of the nearest caller that is not part of pabi; 1 is the depth of this one's caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _OWN.match(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level, frame


def _action(message: str, category: type[Warning], frame: FrameType) -> str:
    """What the first filter that matches a warning of this frame says; as in Python "default" without one."""
    module, line = frame.f_globals.get("__name__", "<string>"), frame.f_lineno
    for action, text, kind, home, where in warnings.filters:
        fits = _fits(text, message) and _fits(home, module) and where in (0, line)
        if fits and issubclass(category, kind):
            return action
    return "default"


def _fits(pattern: Any, text: str) -> bool:
    """Whether a filter's pattern, None for any, matches; Python's own filters hold plain text."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None


# Packages that not everybody needs, loaded when they are first used.


Extra = Literal[
    "train",
    "zarr",
    "forget",
    "sampling",
    "torch",
    "opacus",
    "jax",
    "dp-accounting",
    "dask",
    "explore",
    "query",
    "sign",
]


def extra(module: str, group: Extra) -> Any:
    """The module of this name, of a package that the optional dependencies `group` install.

    Raises InvalidInput that says how to install it where it is missing, and why it cannot be loaded where it
    is there, for instance since it needs a later numpy.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise _missing(module, group) from None
    except ImportError as bad:
        reason = " ".join(str(bad).split())
        raise InvalidInput(
            _package(module), f"is installed and cannot be loaded: {reason}"
        ) from None


def expect(module: str, group: Extra) -> None:
    """Raises what `extra` raises where the module is missing, and loads nothing: for what is used later."""
    if find_spec(module) is None:
        raise _missing(module, group)


def _missing(module: str, group: Extra) -> InvalidInput:
    return InvalidInput(
        _package(module), f"is not installed; in a checkout of pabi: pip install '.[{group}]'"
    )


def _package(module: str) -> str:
    return module.partition(".")[0].replace("_", "-")
