"""Files that commands write: all of them or none, and never over one that is there unless asked."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from pabi.numbers import locking
from pabi.numbers.errors import InvalidInput

_LOCK = ".pabi-lock"


@contextlib.contextmanager
def partial_files(
    files: Sequence[str], force: bool, *, unlike: Sequence[str]
) -> Iterator[list[Path]]:
    """Paths to write to, which take the names in `files` all together, once nothing went wrong.

    `unlike`: files that are read. Raises InvalidInput naming the file.
    """
    paths = [locking.only_name(file) for file in files]  # an old model would stay behind a link
    for path in paths:
        if not path.parent.is_dir():
            raise InvalidInput(str(path), "expected a file in an existing folder")
        if path.is_dir():
            raise InvalidInput(str(path), "expected a file to write, got a folder")
        if path.exists() and not path.is_file():
            raise InvalidInput(str(path), "expected a file to write, got a device")
    _refuse_existing(paths, force)
    used = [os.path.realpath(name) for name in (*unlike, *files)]
    if len(set(used)) < len(used):
        raise InvalidInput("--out", "expected files of their own for all that is read or written")
    # Names that nobody else has: the number of a process may be that of one which was killed before.
    parts = [path.with_name(f".{path.name}.{secrets.token_hex(4)}.part") for path in paths]
    try:
        for part in parts:
            part.touch(exist_ok=False)
        yield parts
        for part in parts:  # a loss of power must not leave a name without what it names
            _sync(part)
    except OSError as bad:
        _remove(parts)
        raise InvalidInput(
            " and ".join(files), f"cannot be written: {bad.strerror or bad}"
        ) from None
    except BaseException:
        _remove(parts)
        raise
    _name(parts, paths, force)


def _name(parts: Sequence[Path], paths: Sequence[Path], force: bool) -> None:
    """Gives complete files their names. What it took to make them may be spent: they are never removed.

    Raises InvalidInput, also where it was interrupted, which says what they are called then.
    """
    from pabi.budget.files import sync_folder

    folders = sorted({path.parent.resolve() for path in paths})
    try:
        with contextlib.ExitStack() as alone:
            for folder in folders:
                alone.enter_context(_locked(folder))
            _refuse_existing(paths, force)  # another command may have written them meanwhile
            for part, path in zip(parts, paths, strict=True):
                os.replace(part, path)
    except (OSError, InvalidInput, KeyboardInterrupt) as bad:
        names = " and ".join(str(part) for part in parts if part.exists())
        why = "interrupted" if isinstance(bad, KeyboardInterrupt) else bad
        raise InvalidInput(names, f"complete, and kept under this name: {why}") from None
    for folder in folders:
        sync_folder(folder)


def _remove(parts: Sequence[Path]) -> None:
    for part in parts:
        part.unlink(missing_ok=True)


def _refuse_existing(paths: Sequence[Path], force: bool) -> None:
    for path in paths:
        if path.exists() and not force:
            raise InvalidInput(str(path), "exists already: expected a new name, or --force")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other command gives names in the folder meanwhile, where the system can lock.

    So files that belong together are never those of two commands.
    """
    lock = folder / _LOCK
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # disks that lock nothing
            held.enter_context(locking.alone(lock, folder.stat()))
            held.callback(lock.unlink, missing_ok=True)
        yield


def _sync(path: Path) -> None:
    """Makes what was written to a file survive a loss of power."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
