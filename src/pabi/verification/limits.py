"""What one verification may take, and refuse: a certificate comes from a stranger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from pabi.guarantees.certificate import FORMAT, VERSIONS, Certificate, check_format
from pabi.guarantees.guarantee import FORMAT as GUARANTEE
from pabi.guarantees.guarantee import VERSIONS as GUARANTEE_VERSIONS
from pabi.numbers.encoding import nesting, parse_json, unpacking_at_most
from pabi.numbers.errors import InvalidInput
from pabi.numbers.locking import OutOfTime, until
from pabi.numbers.locking import in_time as look

# Why a certificate is refused.


class Refused(Exception):
    """A check failed; the message says which, and at which step."""


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


# Taking in what a stranger sends: no more is read than the limits allow.


# Characters of JSON for every object or array: read, each takes a hundred bytes or two.
_SPARSE = 16
_SENTENCE = 1000  # characters of a reason


class NoCertificate(Exception):
    """What is no certificate at all: the field, and what was expected."""

    def __init__(self, bad: InvalidInput) -> None:
        self.field, self.expected = bad.field, short(str(bad).removeprefix(f"{bad.field}: "))


def received(certificate: Any, limits: Limits) -> dict[str, Any]:
    """A certificate or guarantee as an object of a format and version that are known."""
    text = certificate
    if not isinstance(certificate, str):
        if not isinstance(certificate, dict):
            kind = type(certificate).__name__
            raise NoCertificate(InvalidInput("json", f"expected an object, got {kind}"))
        _check_object(certificate, limits)
        text = Certificate(certificate).to_json()
    if len(text) > limits.size:
        raise Refused(f"size: {len(text)} characters are more than are read (size: {limits.size})")
    # What does not begin as an object is none, however deep.
    if text.lstrip().startswith("{"):
        _check_nesting(*nesting(text, limits.depth, limits.size // _SPARSE), limits)
    try:
        data = parse_json(text)
        guarantee = isinstance(data, dict) and data.get("format") == GUARANTEE
        form = (GUARANTEE, GUARANTEE_VERSIONS) if guarantee else (FORMAT, VERSIONS)
        return check_format(data, *form)
    except InvalidInput as bad:
        raise NoCertificate(bad) from None


def _check_object(value: Any, limits: Limits) -> None:
    """Refuse an object that is too large or deep, or that holds itself, before it is walked through."""
    level, opened, left = [value], 0, limits.size
    for depth in range(1, limits.depth + 2):
        opened += len(level)
        _check_nesting(depth, opened, limits)
        inner: list[Any] = []
        for x in level:
            # The same text or list may be there many times.
            own = [*x, *x.values()] if isinstance(x, dict) else x
            left -= 1 + len(x) + sum(len(y) for y in own if isinstance(y, str))
            if left < 0:
                raise Refused(f"size: larger than what is read (size: {limits.size})")
            inner.extend(y for y in own if isinstance(y, (dict, list, tuple)))
        level = inner
        if not level:
            return


def _check_nesting(depth: int, opened: int, limits: Limits) -> None:
    if depth > limits.depth:
        raise Refused(f"depth: nested more than {limits.depth} deep (depth)")
    if opened > limits.size // _SPARSE:
        raise Refused(
            f"size: {opened} objects and arrays are more than are read (size: {limits.size})"
        )


def reason(bad: Exception) -> str:
    """Why there is no proof, in one sentence."""
    if isinstance(bad, Refused | OutOfTime):
        return str(bad)
    if isinstance(bad, KeyError):
        return f"malformed certificate: {bad.args[0] if bad.args else ''} is missing"
    if isinstance(bad, RecursionError):
        return "malformed certificate: nested too deeply"
    if isinstance(bad, MemoryError):
        return "memory: there is not enough to go through it"
    return f"malformed certificate: {bad}"


def short(text: str) -> str:
    """`text`, however much it quotes."""
    return text if len(text) <= _SENTENCE else text[: _SENTENCE - 1] + "…"
