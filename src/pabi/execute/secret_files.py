"""Secret files: readable by their owner only, and at any moment the old one or the new one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from pabi.budget.files import sync_folder


def partial_of(path: Path) -> Path:
    """Where the next content of the file is written before it takes the file's name."""
    return path.with_name(f".{path.name}.partial")


def write_secret(path: Path, content: Any) -> None:
    """Gives the file, no link, this content (bytes), which survives a loss of power. Raises OSError; the file
    is then as it was."""
    partial = partial_of(path)
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()  # of a crash while it was written
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
