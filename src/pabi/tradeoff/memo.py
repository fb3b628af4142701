"""Values of pure functions, kept so that they are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """The values of one pure function by its arguments: all of them, or the `most` latest.

    The key holds every argument on which a value depends, so that no reading depends on earlier ones.
    """

    __slots__ = ("_most", "_values")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}

    def __call__(self, key: Key, compute: Callable[[], Value]) -> Value:
        """The value at `key`, computed where it is not kept. What `compute` raises is not kept."""
        if key not in self._values:
            value = compute()
            if self._most is not None and len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
            self._values[key] = value
        return self._values[key]

    def value(self, key: Key) -> Value | None:
        """The value at `key` if it is kept."""
        return self._values.get(key)
