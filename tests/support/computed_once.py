"""Calibrations, plans and guarantees of equal descriptions, computed once: for tests that fit often."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pabi
from pabi.learn import estimators, forgetting, search, whitening

_CALIBRATED: dict[bytes, Any] = {}


def calibrated_once(monkeypatch) -> None:
    """Until the test ends fits share calibrations with all tests of this process that call this.

    What is shared are frozen descriptions, by every bit of what they were calibrated from. Not for tests that
    plant a mistake in the accounting.
    """
    calibrate = pabi.calibrate

    def remembered(*given: Any, **keywords: Any) -> Any:
        try:
            key = pickle.dumps((given, sorted(keywords.items())))
        except (AttributeError, TypeError, pickle.PicklingError):  # functions of tests have no name
            return calibrate(*given, **keywords)
        if key not in _CALIBRATED:
            _CALIBRATED[key] = calibrate(*given, **keywords)
        return _CALIBRATED[key]

    for module in (estimators, whitening):
        monkeypatch.setattr(module, "calibrate", remembered)


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
