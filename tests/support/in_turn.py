"""`pytest.mark.parametrize` in one item: cheap cases take turns, and a failure notes its case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def in_turn(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable:
    """Calls a test with each case; `names` and `cases` are those of `pytest.mark.parametrize`.

    Cases share the fixtures of the item. Stacked, the cases of one table take turns for each of the other.
    """
    several, rows = not isinstance(names, str), list(cases)
    assert rows, "a test of no case tests nothing"

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def each(*args: Any, **fixtures: Any) -> None:
            for case in rows:
                given = dict(zip(names, case, strict=True)) if several else {names: case}
                try:
                    test(*args, **fixtures, **given)
                except BaseException as error:
                    error.add_note(f"case: {given}")
                    raise

        signature = inspect.signature(test)
        left = [
            p
            for p in signature.parameters.values()
            if p.name not in (names if several else [names])
        ]
        each.__signature__ = signature.replace(parameters=left)
        return each

    return decorate
