"""Commands that try things: `pabi audit`, `pabi explore` and `pabi reproduce`."""

from __future__ import annotations

import contextlib
import secrets
import sys
import webbrowser
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.reading import (
    LEDGER,
    RUN,
    noisy_sgd,
    read_delta,
    read_text,
    read_whole,
    refuse_other_kinds,
    required,
)
from pabi.cli.writing import emit, emit_json
from pabi.numbers.errors import InvalidInput, expect, require
from pabi.numbers.showing import aligned

# `pabi audit`: attack a run on the worst instance that is known, and show what that refutes.


def audit(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A run file (TOML); - is standard input.")
    ],
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="D", help="Read epsilon at this delta. Required without --reach."
        ),
    ] = None,
    trainings: Annotated[
        str,
        typer.Option("--trainings", metavar="N", help="Models, half of them of either data set."),
    ] = "100000",
    only_reach: Annotated[
        bool,
        typer.Option(
            "--reach", help="Say what so many trainings of a trainer find; train nothing."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What an attacker of a run gets on the worst data sets that are known, beside what is promised.

    Many models are trained on two neighbouring data sets of numbers, with random noise of their own. What
    they refute holds with confidence 0.95. Exit 1 if they refute the guarantee. An audit proves no privacy.

    \b
    Example:
      pabi audit run.toml --delta 1e-5 --trainings 1000000
    """
    from pabi.audits import auditing
    from pabi.audits.conformity import FEWEST, Reach, reach

    count = read_whole("--trainings", trainings, FEWEST)
    result: auditing.Audit | Reach
    if only_reach:
        result = reach(noisy_sgd(file, "audited"), trainings=count)
    else:
        at = required("--delta", read_delta(delta))
        result = auditing.audit(noisy_sgd(file, "audited"), trainings=count, delta=at)
    emit_json(result.to_dict()) if as_json else emit(str(result))
    if isinstance(result, auditing.Audit) and result.refuted:
        raise typer.Exit(1)


def explore(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A run file (TOML) to begin with."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="P", help="Default: any free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="FILE", help="A ledger to show.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option("--open", metavar="LINK", help="What a link to somebody else's page shows."),
    ] = None,
) -> None:
    """See what a run costs, in the browser, and change it.

    The page is on this machine alone. The address that is printed has a token; whoever has it may use the
    page until Ctrl-C. LINK is what "Share" on the page gives, or only what follows its question mark.

    \b
    Examples:
      pabi explore
      pabi explore run.toml --ledger people.ledger
      pabi explore --open "epochs=20&noise=0.02"
      pabi explore --no-browser --port 8765
    """
    start: dict[str, Any] = {}  # what the page opens with
    if file is not None:
        start = {
            "name": Path(file).name,
            "text": read_text(file, "a run file (TOML)", kinds=(RUN,)),
        }
    require(file is None or link is None, "--open", "expected a link or a run file, not both")
    book = _book(ledger)
    expect("anyio", "explore")
    expect("uvicorn", "explore")
    expect("starlette", "explore")
    from pabi.cli.explorer.server import address, listening, private_page, query_of

    query = "" if link is None else query_of(link)
    stream = listening(port)
    from pabi.cli.explorer.workers import Workers

    workers = Workers()
    workers.begin()  # it loads the first answer while the browser starts and this process loads the server
    token = secrets.token_urlsafe(32)
    place = address(stream, token, query)
    emit(f"{place}\nThe page is on this machine alone. Ctrl-C ends it.")
    with contextlib.ExitStack() as stack:
        if browser:
            webbrowser.open(stack.enter_context(private_page(place)))
        from pabi.cli.explorer.server import serve

        serve(stream, token, start=start, ledger=book, workers=workers)
    emit("ended")


def _book(ledger: str | None) -> Path | None:
    """The ledger of the command, if it has one."""
    if ledger is None:
        return None
    book = Path(ledger)
    require(book.is_file(), ledger, "expected a ledger: no such file")
    refuse_other_kinds(book, LEDGER)
    return book


# `pabi reproduce`.


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
    from pabi.literature import papers
    from pabi.numbers import validate

    if listed:
        artefacts = {name: papers.artefact(name) for name in papers.names()}
        lines = [[n, a.title + (" (trains)" if a.trains else "")] for n, a in artefacts.items()]
        emit("\n".join(aligned(lines)))
        return
    require(names or everything, "name", "expected the name of a table or figure, --all or --list")
    require(not names or not everything, "name", "expected names or --all, got both")
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
    from pabi.execute.progress import progress_bar
    from pabi.literature import papers
    from pabi.literature.papers import work
    from pabi.literature.papers.writing import write, written

    store, settings = out / "kept", papers.Settings(mnist, runs)
    artefacts = {name: papers.artefact(name) for name in names}
    parts = {name: dict(a.parts(settings)) for name, a in artefacts.items()}
    stamps = {name: work.stamp(group.values(), theme) for name, group in parts.items()}
    files = {name: store / f"{name.replace('/', '-')}.json" for name in names}
    before = {name: {} if fresh else work.read(file) or {} for name, file in files.items()}
    current = {n for n in names if before[n].get("stamp") == stamps[n] and written(n, out)}
    missing = [part for name in names if name not in current for part in parts[name].values()]
    distinct = {work.key(part): part for part in missing}
    with progress_bar(sys.stderr.isatty(), len(distinct), label="reproducing") as advance:
        results = work.run_parts(distinct.values(), store, jobs, fresh, advance)
    explained = True
    for name, artefact in artefacts.items():
        if name in current:
            emit(written(name, out) or "")
            explained &= before[name]["explained"]
            continue
        result = artefact.assemble({n: results[work.key(p)] for n, p in parts[name].items()})
        emit(write(name, artefact, result, out, theme))
        sound = not isinstance(result, papers.PrintedTable) or all(
            e.explained for e in result.entries
        )
        work.write(files[name], {"stamp": stamps[name], "explained": sound})
        explained &= sound
    return explained
