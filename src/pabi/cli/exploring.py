"""`pabi explore`: a page on this machine that shows what a run costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.kinds import LEDGER, RUN, refuse_other_kinds
from pabi.cli.reading import read_text
from pabi.cli.writing import emit
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra


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
) -> None:
    """See what a run costs, in the browser, and change it.

    The page is on this machine alone. The address that is printed has a token; whoever has it may use the
    page until Ctrl-C.

    \b
    Examples:
      pabi explore
      pabi explore run.toml --ledger people.ledger
      pabi explore --no-browser --port 8765
    """
    start: dict[str, Any] = {}
    if file is not None:
        start = {
            "name": Path(file).name,
            "text": read_text(file, "a run file (TOML)", kinds=(RUN,)),
        }
    book = None if ledger is None else Path(ledger)
    if book is not None:
        if not book.is_file():
            raise InvalidInput(ledger or "", "expected a ledger: no such file")
        refuse_other_kinds(book, LEDGER)
    extra("anyio", "explore")
    from pabi.explorer.workers import Workers

    workers = Workers()
    workers.warm()  # they load the library while this process loads the server
    extra("uvicorn", "explore")
    extra("starlette", "explore")
    from pabi.explorer.server import explore as serve

    serve(start, port=port, browser=browser, ledger=book, workers=workers, say=emit)
