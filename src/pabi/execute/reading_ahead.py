"""Reading while something else is computed, by one more thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """The parts 0..count − 1 of something, of which the next is read while one is used.

    After the last comes the first again. No more than two parts are in memory.
    """

    def __init__(self, read: Callable[[int], T], count: int) -> None:
        self._read, self._count = read, count
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pabi-reading")
        self._held: tuple[int, T] | None = None
        self._next: tuple[int, Future[T]] | None = None

    def part(self, number: int) -> T:
        """One of the parts. What the reading of it raises is raised here."""
        if self._held is not None and self._held[0] == number:
            return self._held[1]
        expected, self._next, self._held = self._next, None, None
        if expected is not None and expected[0] == number:
            value = expected[1].result()
        else:
            value = self._pool.submit(self._read, number).result()
        self._held = number, value
        after = (number + 1) % self._count
        if after != number:
            self._next = after, self._pool.submit(self._read, after)
        return value

    def close(self) -> None:
        """Waits for what is being read, and forgets all parts."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._held = self._next = None


def ahead(values: Iterator[T]) -> Iterator[T]:
    """The same values, of which the next is made while one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="pabi-reading") as pool:
        expected = pool.submit(_next, values)
        while (one := expected.result()) is not None:
            expected = pool.submit(_next, values)
            yield one


def _next(values: Iterator[T]) -> T | None:
    return next(values, None)
