"""Cheap cases of a test one after another, in one item."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def in_turn(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """As `pytest.mark.parametrize`, with all cases in one item; a failure names its case."""
    names = (names,) if isinstance(names, str) else names

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            for case in cases:
                given = dict(zip(names, (case,) if len(names) == 1 else case, strict=True))
                try:
                    test(**fixtures, **given)
                except Exception as error:
                    raise AssertionError(f"with {given}: {error}") from error

        signature = inspect.signature(test)
        others = [one for one in signature.parameters.values() if one.name not in names]
        all_of_them.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return all_of_them

    return decorated
