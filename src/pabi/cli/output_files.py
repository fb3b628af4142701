"""Files that commands write: all of them or none, and never over one that is there unless asked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pabi.numbers.errors import InvalidInput


@contextlib.contextmanager
def partial_files(
    files: Sequence[str], force: bool, *, unlike: Sequence[str]
) -> Iterator[list[Path]]:
    """Paths to write to, which take the names in `files` all together, once nothing went wrong.

    `unlike`: files that are read. Raises InvalidInput naming the file.
    """
    from pabi.budget.files import sync_folder

    paths = [Path(file) for file in files]
    for path in paths:
        if not path.parent.is_dir():
            raise InvalidInput(str(path), "expected a file in an existing folder")
        if path.is_dir():
            raise InvalidInput(str(path), "expected a file to write, got a folder")
        if path.exists() and not force:
            raise InvalidInput(str(path), "exists already: expected a new name, or --force")
    used = [os.path.realpath(name) for name in (*unlike, *files)]
    if len(set(used)) < len(used):
        raise InvalidInput("--out", "expected files of their own for all that is read or written")
    parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in paths]
    try:
        for part in parts:
            part.touch(exist_ok=False)
        yield parts
        for part in parts:  # a loss of power must not leave a name without what it names
            _sync(part)
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
            sync_folder(path.parent)
    except OSError as bad:
        raise InvalidInput(
            " and ".join(files), f"cannot be written: {bad.strerror or bad}"
        ) from None
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Makes what was written to a file survive a loss of power."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
