"""The server: the page's own files, and answers as streams of events."""

from __future__ import annotations

import json
import secrets
import socket
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pabi.explorer.guard import Guard
from pabi.explorer.workers import Workers
from pabi.numbers.errors import InvalidInput

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LARGE = 1 << 26  # bytes of a file that somebody drops
_SECONDS = {"demo": 600.0, "plan": 300.0}  # of a job, before it is stopped
_USUAL_SECONDS = 120.0
_JOBS = (
    "run",
    "plan",
    "compare",
    "check",
    "budget",
    "forget",
    "demo",
    "export",
    "report",
    "import",
)


def application(
    port: int,
    token: str,
    *,
    start: dict[str, Any] | None = None,
    ledger: Path | None = None,
    workers: Workers | None = None,
) -> Guard:
    """The page and its answers.

    Parameters
    ----------
    port : int
        That of the server, which is part of its name.
    token : str
        What a page has to know.
    start : dict, optional
        What the page opens with: {"file": the name, "text": that of a run file}, or {"query": of a link}.
    ledger : Path, optional
        A ledger whose file is read anew for every answer.
    workers : Workers, optional
        What calculates, where it was begun already.

    Returns
    -------
    Guard
        An ASGI application.
    """
    workers = workers or Workers()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        workers.warm()
        try:
            yield
        finally:
            workers.end()

    async def opening(_: Request) -> Response:
        from pabi.explorer.controls import page

        name = None if ledger is None else ledger.name
        return JSONResponse({"controls": page(), "start": start or {}, "ledger": name})

    async def answer(request: Request) -> Response:
        job = request.path_params["job"]
        if job not in _JOBS:
            return JSONResponse({"message": "there is no such calculation"}, 404)
        question = await _question(request)
        if question is None:
            return JSONResponse({"message": "expected an object in JSON"}, 400)
        if job == "budget" and ledger is not None and "text" not in question:
            try:
                question["text"] = ledger.read_text("utf-8")
            except (OSError, ValueError) as bad:
                reason = getattr(bad, "strerror", None) or "it is no text"
                return JSONResponse({"message": f"{ledger}: expected a ledger: {reason}"}, 400)
        answers = workers.events(job, question, _SECONDS.get(job, _USUAL_SECONDS))
        return StreamingResponse(_lines(answers), media_type="text/event-stream")

    routes = [
        Route("/api/opening", opening, methods=["GET"]),
        Route("/api/{job}", answer, methods=["POST"]),
        *_static_routes(),
    ]
    limits = {f"/api/{job}": _LARGE for job in ("check", "budget", "report", "import")}
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False  # there is no other path to any file
    return Guard(app, token, port, limits)


async def _question(request: Request) -> dict[str, Any] | None:
    try:
        question = await request.json()
    except (ValueError, RecursionError):
        return None
    return question if isinstance(question, dict) else None


async def _lines(events: AsyncGenerator[tuple[str, dict[str, Any]], None]) -> AsyncIterator[str]:
    """Events as the text of server-sent events."""
    async with aclosing(events):
        async for name, data in events:
            yield f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


def _static_routes() -> Iterator[Route]:
    """A route for every file of the page. What the client names is looked up, and never opened."""
    root = files("pabi.explorer") / "static"
    for path, file in _below(root, ""):
        suffix = Path(path).suffix
        if suffix in _TYPES:
            name = "/" if path == "/index.html" else path
            yield Route(name, _constant(file.read_bytes(), _TYPES[suffix]), methods=["GET"])


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{path}/{entry.name}")
        else:
            yield f"{path}/{entry.name}", entry


def _constant(content: bytes, media_type: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer


def listening(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 is any free one. Raises InvalidInput."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        stream.bind(("127.0.0.1", port))
        stream.listen(128)  # whoever opens the address at once waits, and is not turned away
    except (OSError, OverflowError) as bad:
        stream.close()
        reason = getattr(bad, "strerror", None) or bad
        raise InvalidInput("--port", f"{port} cannot be used: {reason}") from None
    return stream


def explore(
    start: dict[str, Any],
    *,
    port: int = 0,
    browser: bool = True,
    ledger: Path | None = None,
    workers: Workers | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serves the page until Ctrl-C.

    Parameters
    ----------
    start, ledger, workers
        As for `application`.
    port : int
        0 for any that is free.
    browser : bool
        Whether to open the page in the system's browser.
    say : callable
        What the address is told with.
    """
    stream = listening(port)
    number = stream.getsockname()[1]
    token = secrets.token_urlsafe(32)
    address = f"http://127.0.0.1:{number}/#token={token}"
    config = uvicorn.Config(
        application(number, token, start=start, ledger=ledger, workers=workers),
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    say(f"{address}\nThe page is on this machine alone. Ctrl-C ends it.")
    if browser:
        webbrowser.open(address)
    with suppress(KeyboardInterrupt):
        server.run([stream])
    say("ended")
