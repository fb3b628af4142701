"""`pabi reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.writing import aligned, emit
from pabi.errors import InvalidInput


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables and figures, such as bok/table-4."),
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
    from pabi import papers, validate

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
    chosen = names or [n for n in papers.names() if training or not papers.artefact(n).trains]
    unexplained = _reproduce(
        dict.fromkeys(chosen), Path(out), mnist, runs, jobs, fresh, "dark" if dark else "light"
    )
    if unexplained:
        raise typer.Exit(1)


def _reproduce(
    names: Any, out: Path, mnist: str | None, runs: int, jobs: int, fresh: bool, theme: Any
) -> bool:
    """Whether an entry is off without a remark."""
    import sys

    from pabi import papers
    from pabi.papers.artefact import Settings
    from pabi.papers.results import Table
    from pabi.papers.running import key, run_parts
    from pabi.papers.writing import write
    from pabi.progress import progress_bar

    settings = Settings(mnist, runs)
    artefacts = {name: papers.artefact(name) for name in names}
    parts = {name: dict(a.parts(settings)) for name, a in artefacts.items()}
    distinct = {key(part): part for group in parts.values() for part in group.values()}
    with progress_bar(sys.stderr.isatty(), len(distinct), label="reproducing") as advance:
        results = run_parts(distinct.values(), out / "kept", jobs, fresh, advance)
    unexplained = False
    for name, artefact in artefacts.items():
        result = artefact.assemble({n: results[key(part)] for n, part in parts[name].items()})
        emit(write(name, artefact, result, out, theme))
        if isinstance(result, Table):
            unexplained |= any(not entry.explained for entry in result.entries)
    emit(f"Written to {out}: text, CSV, PNG and SVG of each.")
    return unexplained
