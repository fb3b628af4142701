"""Warnings that a process shows once, however often what they warn of happens."""

from __future__ import annotations

import sys
import warnings
from typing import Any

_SHOWN: set[tuple[str, type[Warning]]] = set()


def warn_once(message: str, category: type[Warning], stacklevel: int) -> None:
    """Warns unless this process did before; filters that ask for every warning, or for none, get their way.

    `stacklevel`: as for `warnings.warn`, seen from the function that calls this one.

    Python's own record of what was shown does not do: it is dropped whenever any code enters
    `warnings.catch_warnings`, which scikit-learn does in every fit.
    """
    if _action(message, category, stacklevel + 1) in ("default", "module", "once"):
        if (message, category) in _SHOWN:
            return
        _SHOWN.add((message, category))
    warnings.warn(message, category, stacklevel=stacklevel + 1)


def outside() -> int:
    """The `stacklevel`, for `warn_once`, of the nearest caller that is not part of pabi."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _within_pabi(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _within_pabi(module: str) -> bool:
    return module == "pabi" or module.startswith("pabi.")


def _action(message: str, category: type[Warning], depth: int) -> str:
    """What the first filter that matches says; "default" where none does, as Python has it.

    `depth`: of the frame that is warned, 1 for whoever calls this function.
    """
    module, line = "<string>", 0
    try:
        frame = sys._getframe(depth)
        module, line = frame.f_globals.get("__name__", module), frame.f_lineno
    except ValueError:  # the stack is not as deep
        pass
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
