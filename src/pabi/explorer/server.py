"""The server: the page's own files, and answers as streams of events."""

from __future__ import annotations

import json
import socket
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
from uvicorn.protocols.http.h11_impl import H11Protocol

from pabi.explorer.guard import Guard
from pabi.explorer.workers import Workers

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LARGE = 1 << 26  # bytes of a file that somebody drops
_SECONDS = {"demo": 600.0, "plan": 300.0}  # of a job, before it is stopped
_USUAL_SECONDS = 120.0
_IDLE = 10.0  # of a connection without a whole request
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
        What the page opens with: {"name": that of a run file, "text": what stands in it}.
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


class _Impatient(H11Protocol):
    """Closes connections on which no whole request comes for seconds: many of them would stop the others."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect(None)

    def _expect(self, last: Any) -> None:
        """Looks in some seconds whether there was another request than `last`."""
        self.loop.call_later(_IDLE, self._look, last)

    def _look(self, last: Any) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is last:
            self.transport.close()
        if not self.transport.is_closing():
            self._expect(self.cycle)


def serve(
    stream: socket.socket,
    token: str,
    *,
    start: dict[str, Any],
    ledger: Path | None,
    workers: Workers,
) -> None:
    """Answers at a socket that listens, until Ctrl-C. The rest as for `application`."""
    port = stream.getsockname()[1]
    config = uvicorn.Config(
        application(port, token, start=start, ledger=ledger, workers=workers),
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        loop="asyncio",
        http=_Impatient,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([stream])
