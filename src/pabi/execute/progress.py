"""Progress that shows steps and time, and nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import count

from pabi.numbers.locking import holding

Listener = Callable[[int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("pabi_progress", default=None)


def heard_by(listener: Listener) -> contextlib.AbstractContextManager[None]:
    """Within it progress is shown by `listener`, called with the steps that are over and all steps."""
    return holding(_listener, listener)


@contextlib.contextmanager
def progress_bar(
    shown: bool, steps: int, first: int = 0, label: str = "training"
) -> Iterator[Callable[[], None]]:
    """A function to call after every step, which with `shown` moves a bar on standard error.

    `first`: how many of `steps` are over at the start.
    """
    listener = _listener.get()
    if not shown:
        yield lambda: None
    elif listener is not None:
        over = count(first + 1)
        yield lambda: listener(next(over), steps)
    else:
        with _bar(steps, first, label) as advance:
            yield advance


@contextlib.contextmanager
def _bar(steps: int, first: int, label: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=steps, completed=first)
        yield lambda: bar.advance(task)


# Which paths are of arrays: `.npy` files, and folders of Zarr arrays. No array is opened.


_OF_ZARR = ("zarr.json", ".zarray")


def is_array_file(path: str) -> bool:
    """Whether it is the name of an `.npy` file, or a folder with a Zarr array in it."""
    return path.lower().endswith(".npy") or is_zarr(path)


def is_zarr(path: str) -> bool:
    """Whether it is a folder with a Zarr array in it."""
    return any(os.path.isfile(os.path.join(path, name)) for name in _OF_ZARR)
