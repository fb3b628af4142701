"""Values that hold for a while, waiting with a clock, and locks that say who holds them."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, thread_time
from typing import TypeVar

from pabi.numbers.errors import require
from pabi.numbers.showing import exact

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Within it the variable has this value, in this thread alone."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


# Accounting that takes long: a sign of life, and an end.
#
# Whoever does a piece of the work calls `tick`. From two seconds on that rewrites one line on standard
# error, if that is a terminal or a notebook, and at the end the line is erased. It says nothing of the
# work's results. Within `until` it ends the work once the time is over: how much of it there is may be a
# stranger's choice.


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
    with holding(_until, min((end, seconds), outer or (end, seconds))):
        yield


def in_time() -> None:
    """Raises OutOfTime once the time is over."""
    limit = _until.get()
    if limit is not None and thread_time() > limit[0]:
        raise OutOfTime(
            f"time: nothing is decided within {exact(limit[1])} s: allow more by seconds, or --seconds"
        )


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Shows `label` and the seconds so far while the body ticks; within another one the outer label stays."""
    if _current.get() is not None or not _watched():
        yield
        return
    line = _Line(label)
    try:
        with holding(_current, line):
            yield
    finally:
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


try:
    import fcntl as fcntl  # also for those who write beside a lock
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

PATIENCE = 30.0  # seconds


def only_name(path: str | os.PathLike[str]) -> Path:
    """The path, or where it is a link what that leads to: a lock, a mark or a new content lies beside that.

    Raises InvalidInput for a folder, for a device, which may never end, and for a file of several names: who
    comes by another one sees none of these.
    """
    own = Path(os.path.realpath(path) if os.path.islink(path) else path)
    with contextlib.suppress(OSError):  # who opens it says why not
        about = own.stat()
        other = "folder" if stat.S_ISDIR(about.st_mode) else "device"
        require(stat.S_ISREG(about.st_mode), str(own), f"expected a file, got a {other}")
        require(
            about.st_nlink <= 1,
            str(own),
            f"expected a file of one name, got one of {about.st_nlink} (hard links)",
        )
    return own


@contextlib.contextmanager
def alone(path: Path, protected: os.stat_result) -> Iterator[int]:
    """A descriptor of the lock file `path`, which this process holds alone; it is made where there is none.

    Those can hold it who may write what is `protected`. Raises InvalidInput where somebody else has held it
    for 30 s, and OSError where the system cannot lock it.
    """
    if fcntl is None:
        raise OSError("the system has no flock")
    file = _held(path, protected)
    try:
        yield file
    finally:
        # Closing does not release it while a fork of this process has the file open.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _held(path: Path, protected: os.stat_result) -> int:
    """A descriptor of the locked file that has the name `path` now."""
    while True:
        file = _opened(path, protected)
        try:
            _wait(file, path)
            if is_still(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _opened(path: Path, protected: os.stat_result) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    if os.fstat(file).st_uid == os.geteuid():
        writers = protected.st_mode & 0o222
        os.fchmod(file, writers | writers << 1)
    return file


def _wait(file: int, path: Path) -> None:
    end = time.monotonic() + PATIENCE
    with waiting(f"waiting for another process, which holds {path.name}"):
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            require(
                time.monotonic() <= end,
                str(path),
                f"another process has held this lock for {exact(PATIENCE)} s: end it, and try again",
            )
            tick()
            time.sleep(random.uniform(0.001, 0.02))  # those who wait do not ask in step


def is_still(path: Path, file: int) -> bool:
    """Whether the path names the very file that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False
