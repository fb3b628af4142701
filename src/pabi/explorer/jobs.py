"""The calculations by name, and their errors as events: what a process of `pabi.explorer.workers` runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from pabi.explorer.controls import label_of
from pabi.numbers.errors import (
    BudgetExceeded,
    InvalidInput,
    NotApplicable,
    PrivacyWarning,
    TargetUnreachable,
)
from pabi.numbers.showing import shown

Event = tuple[str, dict[str, Any]]

# The module and the function of each. A module is loaded when its job is first asked for, so that the first
# picture does not wait for those of other views.
_JOBS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "run": ("run_view", "events"),
        "plan": ("plan_view", "events"),
        "compare": ("plan_view", "comparison"),
        "check": ("check_view", "events"),
        "budget": ("budget_view", "events"),
        "forget": ("forget_view", "events"),
        "demo": ("demo_view", "events"),
        "export": ("files_view", "exported"),
        "report": ("files_view", "reported"),
        "import": ("files_view", "imported"),
    }
)
NAMES = frozenset(_JOBS)


def calculation(job: str) -> Any:
    """The function of a job, from a request to its events."""
    module, function = _JOBS[job]
    return getattr(import_module(f"pabi.explorer.{module}"), function)


def events(job: str, request: dict[str, Any]) -> Iterator[Event]:
    """What a job yields; an error ends it with one event that says why in a sentence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyWarning)
        try:
            with np.errstate(all="ignore"):
                yield from calculation(job)(request)
        except Exception as bad:
            yield "error", _problem(bad)
        texts = list(dict.fromkeys(str(warning.message) for warning in caught))
    if texts:
        yield "warning", {"messages": texts}


def _problem(bad: Exception) -> dict[str, Any]:
    """An error for the page: which control, its label, and the sentence."""
    match bad:
        case InvalidInput():
            reason = str(bad).removeprefix(f"{bad.field}: ")
            control, label = label_of(bad.field)
            return {"control": control, "message": f"{label}: {reason}"}
        case TargetUnreachable():
            best = "" if "best" in str(bad) else f"; the best reachable ε is {shown(bad.best)}"
            return {"message": f"{bad}{best}"}
        case NotApplicable() | BudgetExceeded():
            return {"message": str(bad)}
        case MemoryError():
            return {"message": "there is not enough memory for this description"}
        case _:
            name = type(bad).__name__
            return {"message": f"unexpected {name}: {bad}; please report this as a defect of pabi"}
