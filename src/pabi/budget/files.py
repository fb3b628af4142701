"""A file to which whole lines are appended, by one process at a time, and from which anybody reads.

Writers hold the system's advisory lock on the file itself (flock). A line is granted only after fsync. What a
crash leaves of a line has no end, or holds bytes that were never written: it was never granted, and the next
writer takes it off. A last line that lacks its end alone counts: an editor may have taken that off. Readers
need no lock, because lines are only added.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from pabi.budget.lines import BEGINNING, Book, book_of, seal_of
from pabi.numbers.errors import InvalidInput, PrivacyWarning

try:
    import fcntl
except ImportError:  # Windows has no flock: nothing is written there
    fcntl = None  # type: ignore[assignment]

_SEAL = 67  # bytes at the end of a line: its hash and what closes it
_LONGEST_OPENING = 1000  # bytes; an opening and an entry are longer together


def read_book(path: Path, book: Book | None = None) -> Book:
    """What the whole lines of the file say, after those that `book` has. Raises InvalidInput."""
    with named(path), _opened(path, os.O_RDONLY) as file:
        newer, rest = _read(file, book)
        newer = _with_last(newer, rest) or newer
        if newer is None:
            raise InvalidInput("format", "expected a ledger, got no whole line")
        return newer


@contextlib.contextmanager
def writing(path: Path, *, create: bool) -> Iterator[int]:
    """A descriptor of the file, locked against all other writers.

    Raises InvalidInput where the file cannot be opened or, unless `create`, is not there.
    """
    if fcntl is None:
        raise InvalidInput(
            str(path), "expected a system with flock: a ledger is read here, not written"
        )
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    with _opened(path, flags) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if not _is_still(path, file):
                raise InvalidInput(str(path), "the ledger was replaced while this process waited")
            yield file
        finally:
            # Closing does not release it while a fork of this process has the file open.
            fcntl.flock(file, fcntl.LOCK_UN)


def brought_up_to_date(file: int, book: Book | None) -> Book | None:
    """The book of a locked file, what a crash left at its end taken off; None if nothing is left."""
    newer, rest = _read(file, book)
    end = 0 if newer is None else newer.length
    if not rest:
        return newer
    if (completed := _with_last(newer, rest)) is not None:
        append(file, b"\n", end + len(rest))
        return completed
    begun = BEGINNING.startswith(rest[: len(BEGINNING)].rstrip(b"\0"))
    if newer is None and not (begun and len(rest) < _LONGEST_OPENING):
        raise InvalidInput("format", "expected a ledger, got another file")
    warnings.warn(
        f"a ledger ended in {len(rest)} bytes of an entry that a crash cut off: it was never granted, and is "
        "taken off",
        PrivacyWarning,
        stacklevel=5,
    )
    os.ftruncate(file, end)
    _sync(file)
    return newer


def append(file: int, line: bytes, end: int) -> None:
    """Writes a line at the end of a locked file; when it returns the line survives a loss of power.

    Raises InvalidInput where it cannot be written; the entry then does not count, unless taking it off failed
    as well.
    """
    try:
        view = memoryview(line)
        os.lseek(file, end, os.SEEK_SET)
        while view:
            view = view[os.write(file, view) :]
        _sync(file)
    except OSError as bad:
        with contextlib.suppress(OSError):
            os.ftruncate(file, end)
        raise InvalidInput("ledger", f"cannot be written: {bad.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Makes a new file's name survive a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync(file: int) -> None:
    """fsync, and on systems whose fsync leaves the drive's own memory alone, what does not."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, full)


def _with_last(book: Book | None, rest: bytes) -> Book | None:
    """The book with a last line that lacks its end alone, None where it lacks more."""
    if not rest or rest.endswith(b"\n"):
        return None
    try:
        return _continued(book, rest + b"\n")
    except InvalidInput:
        return None


def _continued(book: Book | None, whole: bytes) -> Book | None:
    """The book with more whole lines. Raises InvalidInput for changed ones."""
    if not whole:
        return book
    return book_of(whole) if book is None else book.with_lines(whole)


def _read(file: int, book: Book | None) -> tuple[Book | None, bytes]:
    """(the book of all whole lines, None where there is none; what is left). Raises InvalidInput."""
    start = 0 if book is None else book.length
    if book is not None:
        before = os.pread(file, _SEAL, max(0, start - _SEAL))
        if os.fstat(file).st_size < start or seal_of(before) != book.seal:
            raise InvalidInput("ledger", "it does not continue what was read of it before")
    data = _pieces(file, start)
    whole = data[: data.rfind(b"\n") + 1]
    # Blocks that a loss of power kept from the disk read as zeros. No line of ours has one.
    if b"\0" in whole:
        last = whole.rfind(b"\n", 0, -1) + 1
        if b"\0" not in whole[:last]:
            whole = whole[:last]
    return _continued(book, whole), data[len(whole) :]


def _pieces(file: int, start: int) -> bytes:
    """All bytes from `start` on."""
    parts = []
    while part := os.pread(file, 1 << 20, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    try:
        file = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as bad:
        raise InvalidInput(str(path), f"expected a ledger: {bad.strerror}") from None
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors about the file's content name the file."""
    try:
        yield
    except InvalidInput as bad:
        own = bad.field == str(path)
        raise (bad if own else InvalidInput(str(path), str(bad))) from None


def _is_still(path: Path, file: int) -> bool:
    """Whether the path names the very file that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False
