"""A private folder for rows that do not fit into memory, in their secret order.

Nobody but its owner can open it. It is removed when it is closed, when its process ends, and after a crash by
the next process that needs such a folder beside it: a living owner holds the system's advisory lock (flock)
on a file in it. Removing a file does not wipe the disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from pabi.numbers.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows has no flock: what a crash leaves is not known to be abandoned
    fcntl = None  # type: ignore[assignment]

PREFIX = "pabi-scratch-"
_LOCK = "lock"


class Scratch:
    """A new folder in `parent`, None for the system's folder of temporary files.

    Raises InvalidInput naming `scratch` where it cannot be made.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        home = Path(tempfile.gettempdir() if parent is None else parent)
        with writable(home):
            remove_abandoned(home)
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home))  # of mode 0700
            lock = _locked(self.folder)
        self._remove = weakref.finalize(self, _removed, self.folder, lock, os.getpid())

    def file(self, name: str) -> tuple[Path, io.BufferedRandom]:
        """A file in the folder, made or emptied, and a stream to write to it and read from it."""
        path = self.folder / name
        with writable(self.folder):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            return path, open(handle, "r+b")

    def close(self) -> None:
        """Removes the folder."""
        self._remove()


def remove_abandoned(home: Path) -> None:
    """Removes what crashed processes of this user left in `home`."""
    for folder in home.glob(f"{PREFIX}*"):
        if fcntl is None or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        with contextlib.suppress(OSError):  # no lock, or one that somebody holds: it is in use
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turns what goes wrong with files in a folder into one line."""
    try:
        yield
    except OSError as bad:
        reason = bad.strerror or "it cannot be written"
        raise InvalidInput("scratch", f"cannot write to {folder}: {reason}") from None


def reserve(file: int, size: int) -> None:
    """Takes so many bytes of the disk for an empty file now, where the system can. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock; under its name the file is locked from the beginning."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(new, folder / _LOCK)
    return lock


def _removed(folder: Path, lock: int, owner: int) -> None:
    """Removes the folder of this process; a fork of it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
