"""Progress that shows steps and time, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(
    shown: bool, steps: int, first: int = 0, label: str = "training"
) -> Iterator[Callable[[], None]]:
    """A function to call after every step, which with `shown` moves a bar on standard error.

    `first`: how many of `steps` are over at the start. `label`: the name of the bar.
    """
    if not shown:
        yield lambda: None
        return
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
