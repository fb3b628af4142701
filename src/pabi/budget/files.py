"""A file to which whole lines are appended, by one process at a time, and from which anybody reads.

Beside a ledger NAME lies `.NAME.lock`, whatever links lead to it. Who writes holds its lock. It keeps the
mark: how long the ledger is, and the hash of its last line. A line is granted only once it and its mark are
on the disk. So what a crash leaves of a line lies behind the mark: it was never granted, and the next writer
takes it off. What lies before the mark cannot go away: a ledger without it is refused. A last line that lacks
its end alone counts: an editor may have taken that off. Readers need no lock, because lines are only added.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pabi.budget.filters import BEGINNING, START, Book, book_of, seal_of
from pabi.numbers import locking
from pabi.numbers.errors import InvalidInput, PrivacyWarning, require, warn

_SEAL = 67  # bytes at the end of a line: its hash and what closes it
_LONGEST_OPENING = 1000  # bytes; an opening and an entry are longer together
_MARK = re.compile(rb" {0,19}([0-9]{1,20}) ([0-9a-f]{64})\n")
_LOOKS, _PAUSE = 5, 0.05  # of readers at what may just be written, and seconds between them


class Mark(NamedTuple):
    """How many bytes of a ledger were granted, and the hash of the last line of these."""

    length: int
    seal: str


_NOTHING = Mark(0, START)


class Held(NamedTuple):
    """Descriptors of a ledger and of its lock file, which this process locked, and made where it is `new`."""

    file: int
    lock: int
    new: bool


def lock_beside(path: Path) -> Path:
    """The lock file of a ledger."""
    return path.with_name(f".{path.name}.lock")


def read_book(path: Path, book: Book | None = None) -> Book:
    """What the whole lines of the file say, after those that `book` has. Raises InvalidInput."""
    path = locking.only_name(path)
    with named(path):
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(_Unsettled):
                return _read_book(path, book)
            time.sleep(_PAUSE)
        return _read_book(path, book)


class _Unsettled(InvalidInput):
    """What may be otherwise once somebody who writes is done."""


def _read_book(path: Path, book: Book | None) -> Book:
    with _opened(path, os.O_RDONLY) as file:
        mark = _mark_beside(path)  # before the lines, of which there may be more meanwhile
        newer, rest = _completed(*_read(file, book))
        if newer is None:
            raise InvalidInput("format", "expected a ledger, got no whole line")
        if rest and mark is None:
            raise _cut(path, rest)
        _refuse_missing(file, newer, mark, path)
        return newer


@contextlib.contextmanager
def writing(path: Path, *, create: bool) -> Iterator[Held]:
    """The file, locked against all other writers.

    Raises InvalidInput where the file cannot be opened, has several names or, unless `create`, is not there,
    and where another process holds the lock for long.
    """
    path = locking.only_name(path)
    require(
        locking.fcntl is not None,
        str(path),
        "expected a system with flock: a ledger is read here, not written",
    )
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_opened(path, flags))
        beside = lock_beside(path)
        new = not beside.exists()
        try:
            lock = stack.enter_context(locking.alone(beside, os.fstat(file)))
        except OSError as bad:
            raise InvalidInput(str(beside), f"cannot be locked: {bad.strerror}") from None
        require(
            locking.is_still(path, file),
            str(path),
            "the ledger was replaced while this process waited",
        )
        try:
            yield Held(file, lock, new)
        finally:
            if new and not os.fstat(lock).st_size:
                beside.unlink(missing_ok=True)  # nothing was written: it is as it was


def brought_up_to_date(held: Held, book: Book | None, path: Path) -> Book | None:
    """The book of a locked file, what a crash left at its end taken off; None if nothing is left."""
    mark: Mark | None = _read_mark(held.lock)
    if (
        held.new and mark == _NOTHING
    ):  # a ledger that was copied without its lock file, or an early one
        mark = None
    newer, rest = _read(held.file, book)
    completed, left = _completed(newer, rest)
    _refuse_missing(held.file, completed, mark, path)
    end = 0 if newer is None else newer.length
    if rest and not left:
        append(held, b"\n", end + len(rest))
    elif rest:
        begun = BEGINNING.startswith(rest[: len(BEGINNING)].rstrip(b"\0"))
        if newer is None and not (begun and len(rest) < _LONGEST_OPENING):
            raise InvalidInput("format", "expected a ledger, got another file")
        if newer is not None and mark in (None, _NOTHING):
            raise _cut(path, rest)
        warn(
            f"a ledger ended in {len(rest)} bytes of an entry that a crash cut off: it was never granted, "
            "and is taken off",
            PrivacyWarning,
        )
        os.ftruncate(held.file, end)
        _sync(held.file)
    if completed is not None and mark != (completed.length, completed.seal):
        _write_mark(held.lock, completed.length, completed.seal)
    return completed


def append(held: Held, line: bytes, end: int) -> None:
    """Writes a line at the end of a locked file; when it returns the line survives a loss of power.

    Raises InvalidInput where it cannot be written; the entry then does not count, unless taking it off failed
    as well.
    """
    try:
        view = memoryview(line)
        os.lseek(held.file, end, os.SEEK_SET)
        while view:
            view = view[os.write(held.file, view) :]
        _sync(held.file)
    except OSError as bad:
        with contextlib.suppress(OSError):
            os.ftruncate(held.file, end)
        raise InvalidInput("ledger", f"cannot be written: {bad.strerror}") from None
    _write_mark(held.lock, end + len(line), _seal_before(held.file, end + len(line)))


# The mark.


def _mark_beside(path: Path) -> Mark | None:
    """The mark of a ledger; None where no file keeps one, or for those who may not write the ledger."""
    try:
        lock = os.open(lock_beside(path), os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as bad:
        raise InvalidInput(str(lock_beside(path)), f"cannot be read: {bad.strerror}") from None
    try:
        return _read_mark(lock)
    finally:
        os.close(lock)


def _read_mark(lock: int) -> Mark:
    content = os.pread(lock, 1000, 0)
    if not content:  # as it is made: no entry was granted yet
        return _NOTHING
    parts = _MARK.fullmatch(content)
    # What cannot be read is the mark of no ledger: it is refused like one that is too long.
    return Mark(int(parts[1]), parts[2].decode()) if parts else Mark(sys.maxsize, "")


def _write_mark(lock: int, length: int, seal: str) -> None:
    """Overwrites the mark in one piece. Raises InvalidInput; the ledger then has more than its mark says."""
    try:
        os.pwrite(lock, f"{length:>20} {seal}\n".encode(), 0)
        _sync(lock)
    except OSError as bad:
        raise InvalidInput("ledger", f"its lock file cannot be written: {bad.strerror}") from None


def _refuse_missing(file: int, book: Book | None, mark: Mark | None, path: Path) -> None:
    """Raises InvalidInput unless all that was granted is there."""
    if mark is None:
        return
    if mark.length:
        length, seal = (0, "") if book is None else (book.length, book.seal)
        longer = length > mark.length
        missing = mark.seal != (_seal_before(file, mark.length) if longer else seal)
        missing = missing or length < mark.length
    else:
        missing = book is not None and bool(book.granted)
    if missing:
        raise _Unsettled(
            "ledger",
            f"an entry that was granted is missing or was changed, as {lock_beside(path).name} shows. Put "
            "back the newest copy of both files; who removes that one file accepts the ledger as it is",
        )


def _cut(path: Path, rest: bytes) -> _Unsettled:
    """What is said of a ledger without a mark that ends in a part of a line."""
    return _Unsettled(
        "ledger",
        f"it ends in {len(rest)} bytes that are no whole entry, and whether that was granted cannot be told "
        f"without {lock_beside(path).name}: copy both files",
    )


# The file.


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
    full = getattr(locking.fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(file)
    else:
        locking.fcntl.fcntl(file, full)


def _completed(book: Book | None, rest: bytes) -> tuple[Book | None, bytes]:
    """The book with a last line that lacks its end alone, and nothing left; both as they are otherwise."""
    if rest and not rest.endswith(b"\n"):
        with contextlib.suppress(InvalidInput):
            return _continued(book, rest + b"\n"), b""
    return book, rest


def _continued(book: Book | None, whole: bytes) -> Book | None:
    """The book with more whole lines. Raises InvalidInput for changed ones."""
    if not whole:
        return book
    return book_of(whole) if book is None else book.with_lines(whole)


def _read(file: int, book: Book | None) -> tuple[Book | None, bytes]:
    """(the book of all whole lines, None where there is none; what is left). Raises InvalidInput."""
    start = 0 if book is None else book.length
    require(
        book is None
        or (os.fstat(file).st_size >= start and _seal_before(file, start) == book.seal),
        "ledger",
        "it does not continue what was read of it before",
    )
    data = _pieces(file, start)
    whole = data[: data.rfind(b"\n") + 1]
    # Blocks that a loss of power kept from the disk read as zeros. No line of ours has one.
    if b"\0" in whole:
        last = whole.rfind(b"\n", 0, -1) + 1
        if b"\0" not in whole[:last]:
            whole = whole[:last]
    return _continued(book, whole), data[len(whole) :]


def _seal_before(file: int, end: int) -> str:
    """The hash of the line that ends at a place."""
    return seal_of(os.pread(file, _SEAL, max(0, end - _SEAL)))


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
