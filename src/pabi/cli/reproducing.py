"""`pabi reproduce`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.writing import aligned, emit
from pabi.numbers.errors import InvalidInput


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Tables and figures, such as bok/table-4, or all of a paper: bok."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Print their names and leave.")] = False,
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where text, CSV, PNG and SVG are written.")
    ] = "reproduced",
    mnist: Annotated[
        str | None,
        typer.Option(
            "--mnist", metavar="FILE", help="mnist.npz; without it MNIST is fetched from OpenML."
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", help="Trainings to average, 10 in the papers.")
    ] = 10,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="Processes.")] = 1,
    training: Annotated[
        bool,
        typer.Option("--training/--no-training", help="Whether --all includes tables that train."),
    ] = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute everything again, whatever is kept.")
    ] = False,
    dark: Annotated[bool, typer.Option("--dark", help="Pictures on dark paper.")] = False,
) -> None:
    """The tables and figures of the papers, computed anew beside the printed numbers.

    What was computed is kept in DIR/kept, so that a second call takes no time.
    Exit status 1: a number is off and no remark explains it.

    \b
    Examples:
      pabi reproduce bok/table-4
      pabi reproduce --all --jobs 2 --mnist mnist.npz
    """
    from pabi import papers
    from pabi.numbers import validate

    if listed:
        artefacts = {name: papers.artefact(name) for name in papers.names()}
        lines = [[n, a.title + (" (trains)" if a.trains else "")] for n, a in artefacts.items()]
        emit("\n".join(aligned(lines)))
        return
    if not names and not everything:
        raise InvalidInput("name", "expected the name of a table or figure, --all or --list")
    if names and everything:
        raise InvalidInput("name", "expected names or --all, got both")
    for field, value in (("runs", runs), ("jobs", jobs)):
        validate.integer(field, value, at_least=1)
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        expected = "expected a folder that can be written to"
        raise InvalidInput("out", f"{expected}, got {out!r}: {bad.strerror}") from None
    every = [n for n in papers.names() if training or not papers.artefact(n).trains]
    chosen = [one for name in names for one in _of_paper(name, every)] if names else every
    # Those that train come last: without MNIST all others are written all the same.
    chosen = sorted(dict.fromkeys(chosen), key=lambda name: papers.artefact(name).trains)
    theme = "dark" if dark else "light"
    explained = True
    for _, group in groupby(chosen, key=lambda name: papers.artefact(name).trains):
        explained &= _reproduce(list(group), Path(out), mnist, runs, jobs, fresh, theme)
    emit(f"Written to {out}: text, CSV, PNG and SVG of each.")
    if not explained:
        raise typer.Exit(1)


def _of_paper(name: str, every: list[str]) -> list[str]:
    """All of a paper, where it is named without a table or figure; otherwise the name itself."""
    return [one for one in every if one.startswith(f"{name}/")] or [name]


def _reproduce(
    names: list[str], out: Path, mnist: str | None, runs: int, jobs: int, fresh: bool, theme: Any
) -> bool:
    """Whether every entry agrees, or a remark says why it does not."""
    from pabi import papers
    from pabi.execute.progress import progress_bar
    from pabi.papers import running
    from pabi.papers.artefact import Settings
    from pabi.papers.results import PrintedTable
    from pabi.papers.writing import write, written

    store, settings = out / "kept", Settings(mnist, runs)
    artefacts = {name: papers.artefact(name) for name in names}
    parts = {name: dict(a.parts(settings)) for name, a in artefacts.items()}
    stamps = {name: running.stamp(group.values(), theme) for name, group in parts.items()}
    files = {name: store / f"{name.replace('/', '-')}.json" for name in names}
    before = {name: {} if fresh else running.read(file) or {} for name, file in files.items()}
    current = {n for n in names if before[n].get("stamp") == stamps[n] and written(n, out)}
    missing = [part for name in names if name not in current for part in parts[name].values()]
    distinct = {running.key(part): part for part in missing}
    with progress_bar(sys.stderr.isatty(), len(distinct), label="reproducing") as advance:
        results = running.run_parts(distinct.values(), store, jobs, fresh, advance)
    explained = True
    for name, artefact in artefacts.items():
        if name in current:
            emit(written(name, out) or "")
            explained &= before[name]["explained"]
            continue
        result = artefact.assemble({n: results[running.key(p)] for n, p in parts[name].items()})
        emit(write(name, artefact, result, out, theme))
        sound = not isinstance(result, PrintedTable) or all(e.explained for e in result.entries)
        running.write(files[name], {"stamp": stamps[name], "explained": sound})
        explained &= sound
    return explained
