"""Calibrations, plans and guarantees of equal descriptions, computed once: for tests that fit often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pabi
from pabi.learn import estimators, forgetting, search, whitening


def computed_once(monkeypatch) -> None:
    """Until the test ends."""
    for module in (estimators, whitening):
        monkeypatch.setattr(module, "calibrate", _once(pabi.calibrate))
    for kind in (pabi.NoisySGD, pabi.NoisySecondMoments):
        monkeypatch.setattr(kind, "guarantee", _once(kind.guarantee))
    plan, planned = forgetting.planned_request, search.planned
    monkeypatch.setattr(forgetting, "planned_request", _once(plan, lambda held: held.requests))
    monkeypatch.setattr(search, "planned", _once(planned, lambda target: target, others=False))


def _once(
    compute: Callable[..., Any], key_of: Callable[[Any], Any] = repr, *, others: bool = True
) -> Callable[..., Any]:
    results: dict[str, Any] = {}

    def remembered(first: Any, *rest: Any, **keywords: Any) -> Any:
        key = repr((key_of(first), (rest, keywords) if others else ()))
        if key not in results:
            results[key] = compute(first, *rest, **keywords)
        return results[key]

    return remembered
