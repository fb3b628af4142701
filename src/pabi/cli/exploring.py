"""`pabi explore`: a page on this machine that shows what a run costs."""

from __future__ import annotations

import contextlib
import secrets
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.kinds import LEDGER, RUN, refuse_other_kinds
from pabi.cli.reading import read_text
from pabi.cli.writing import emit
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import expect


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
    start = _start(file)
    if file is not None and link is not None:
        raise InvalidInput("--open", "expected a link or a run file, not both")
    book = _book(ledger)
    expect("anyio", "explore")
    expect("uvicorn", "explore")
    expect("starlette", "explore")
    from pabi.explorer.door import address, listening, private_page, query_of

    query = "" if link is None else query_of(link)
    stream = listening(port)
    from pabi.explorer.workers import Workers

    workers = Workers()
    workers.begin()  # it loads the first answer while the browser starts and this process loads the server
    token = secrets.token_urlsafe(32)
    place = address(stream, token, query)
    emit(f"{place}\nThe page is on this machine alone. Ctrl-C ends it.")
    with contextlib.ExitStack() as stack:
        if browser:
            webbrowser.open(stack.enter_context(private_page(place)))
        from pabi.explorer.server import serve

        serve(stream, token, start=start, ledger=book, workers=workers)
    emit("ended")


def _start(file: str | None) -> dict[str, Any]:
    """What the page opens with."""
    if file is None:
        return {}
    return {"name": Path(file).name, "text": read_text(file, "a run file (TOML)", kinds=(RUN,))}


def _book(ledger: str | None) -> Path | None:
    """The ledger of the command, if it has one."""
    if ledger is None:
        return None
    book = Path(ledger)
    if not book.is_file():
        raise InvalidInput(ledger, "expected a ledger: no such file")
    refuse_other_kinds(book, LEDGER)
    return book
