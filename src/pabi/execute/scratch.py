"""A file for rows that do not fit into memory, in their secret order.

It has no name: nobody else can open it, and it is gone with its process, whatever ends that. Its space on the
disk is free then, and not wiped.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pabi.numbers.errors import InvalidInput


def home_of(parent: str | os.PathLike[str] | None) -> Path:
    """The folder for scratch files; None is the system's for temporary ones."""
    return Path(tempfile.gettempdir() if parent is None else parent)


def scratch_file(home: Path) -> io.BufferedRandom:
    """A new file in a folder, to write to and read from. Raises InvalidInput naming `scratch`."""
    with writable(home):
        return tempfile.TemporaryFile(dir=home)


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
