"""Lock files: one process at a time, and nobody waits for ever or in silence.

The system's advisory lock (flock) can be held by whoever can open a file, for reading too. So what is locked
is a file of its own, which only those can open who may write what it protects.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact
from pabi.numbers.waiting import tick, waiting

try:
    import fcntl as fcntl  # also for those who write beside a lock
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

PATIENCE = 30.0  # seconds


def only_name(path: str | os.PathLike[str]) -> Path:
    """The path, or where it is a link what that leads to: a lock, a mark or a new content lies beside that.

    Raises InvalidInput for a file of several names: who comes by another one sees none of these.
    """
    own = Path(os.path.realpath(path) if os.path.islink(path) else path)
    with contextlib.suppress(OSError):  # who opens it says why not
        about = own.stat()
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            raise InvalidInput(
                str(own), f"expected a file of one name, got one of {about.st_nlink} (hard links)"
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
            if time.monotonic() > end:
                raise InvalidInput(
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
