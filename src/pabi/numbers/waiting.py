"""Accounting that takes long: a sign of life, and an end.

Whoever does a piece of the work calls `tick`. From two seconds on that rewrites one line on standard error,
if that is a terminal or a notebook, and at the end the line is erased. It says nothing of the work's results.
Within `until` it ends the work once the time is over: how much of it there is may be a stranger's choice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic, thread_time
from typing import TypeVar

from pabi.numbers.showing import exact

T = TypeVar("T")

_PATIENCE, _PAUSE = 2.0, 0.2  # seconds before the first line, and between two
_WIDTH = 60  # characters that the line is erased with


class _Line:
    """The line for one piece of work."""

    def __init__(self, label: str) -> None:
        self.label, self.begin, self.last = label, monotonic(), 0.0

    def tick(self) -> None:
        now = monotonic()
        if now - self.begin >= _PATIENCE and now - self.last >= _PAUSE:
            self.last = now
            self._write(f"{self.label} … {round(now - self.begin)} s")

    def erase(self) -> None:
        if self.last:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<{_WIDTH}}" if text else f"\r{'':<{_WIDTH}}\r")
        sys.stderr.flush()


_current: ContextVar[_Line | None] = ContextVar("pabi_waiting", default=None)
# (on the clock of this thread, seconds) of the innermost `until`.
_until: ContextVar[tuple[float, float] | None] = ContextVar("pabi_until", default=None)


class OutOfTime(Exception):
    """The time that work may take is over."""


@contextmanager
def until(seconds: float) -> Iterator[None]:
    """Ends the body, with OutOfTime, at its first `tick` after so many seconds of this thread's processor
    time; within another `until` at that one's end, if it is earlier."""
    end, outer = thread_time() + seconds, _until.get()
    token = _until.set(min((end, seconds), outer or (end, seconds)))
    try:
        yield
    finally:
        _until.reset(token)


def in_time() -> None:
    """Raises OutOfTime once the time is over."""
    limit = _until.get()
    if limit is not None and thread_time() > limit[0]:
        raise OutOfTime(f"time: it takes more than {exact(limit[1])} s (seconds)")


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Shows `label` and the seconds so far while the body ticks; within another one the outer label stays."""
    if _current.get() is not None or not _watched():
        yield
        return
    line = _Line(label)
    token = _current.set(line)
    try:
        yield
    finally:
        _current.reset(token)
        line.erase()


def tick() -> None:
    """Says that the work goes on, if it may."""
    in_time()
    line = _current.get()
    if line is not None:
        line.tick()


def ticking(values: Iterable[T]) -> Iterator[T]:
    """`values`, with a tick before each."""
    for value in values:
        tick()
        yield value


def _watched() -> bool:
    """Whether somebody looks at standard error: a terminal, or a notebook."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or "ipykernel" in sys.modules)
