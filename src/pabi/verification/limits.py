"""How much one verification may take: a certificate comes from a stranger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from pabi.numbers.encoding import unpacking_at_most
from pabi.numbers.waiting import OutOfTime, until
from pabi.numbers.waiting import in_time as look
from pabi.verification.refusal import Refused

T = TypeVar("T")
_OFTEN = 128  # operations between two looks at the clock


class Limits(NamedTuple):
    """What a verification may take before it refuses.

    `size`: characters of JSON. `depth`: of its nesting. `unpacked`: bytes of all packed arrays together.
    `positions`: steps, batches or releases that are gone through one by one. `seconds`: of processor time.
    """

    size: int
    depth: int
    unpacked: int
    positions: int
    seconds: float


_current: ContextVar[Limits | None] = ContextVar("_current", default=None)


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Makes `positions` and `in_time` refuse beyond these limits, and unpacking as well. The accountant's
    functions look at the same clock where they read what was proven."""
    token = _current.set(limits)
    try:
        with unpacking_at_most(limits.unpacked), until(limits.seconds):
            yield
    finally:
        _current.reset(token)


def positions(name: str, count: int) -> int:
    """`count`, if so many may be gone through one by one."""
    limits = _current.get()
    if limits is not None and count > limits.positions:
        raise Refused(
            f"{name}: {count} are too many to go through one by one (positions: {limits.positions})"
        )
    return count


def timed(values: Iterable[T]) -> Iterator[T]:
    """`values`, one after another, as long as there is time."""
    for i, value in enumerate(values):
        if i % _OFTEN == 0:
            in_time()
        yield value


def in_time() -> None:
    """Refuses once the time is over; called every few hundred operations."""
    try:
        look()
    except OutOfTime as over:
        raise Refused(str(over)) from None
