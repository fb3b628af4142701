"""The server: the page's own files, and answers as streams of events."""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import os
import socket
import tempfile
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from pabi.cli.explorer.state import BEGINNINGS, names, page
from pabi.cli.explorer.workers import NAMES, Workers
from pabi.numbers.errors import InvalidInput, must_be, require

# Where the explorer is to be found: a socket of this machine, and an address that has the token.
#
# It loads next to nothing, so that the browser can start while the server is loaded.


LONGEST = 6000  # characters of a query: that of the page's script


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


def address(stream: socket.socket, token: str, query: str = "") -> str:
    """What the browser is given. The token stands after #, which browsers do not send."""
    return f"http://127.0.0.1:{stream.getsockname()[1]}/{query and '?'}{query}#token={token}"


@contextmanager
def private_page(place: str) -> Iterator[str]:
    """The address of a file that sends a browser to `place`, and that its owner alone can read.

    What a browser is started with is in the list of processes, which every user of the machine can read: the
    token must not be there.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="pabi-explore-", dir=runtime or None) as folder:
        page = Path(folder) / "explore.html"
        page.touch(0o600)
        link = html.escape(place)
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">pabi explore</a>\n',
            encoding="utf-8",
        )
        yield page.as_uri()


def query_of(link: str) -> str:
    """What a link to another explorer sets, as the address of this one has it.

    Whose server it was and its token are left out.
    """
    before, mark, after = link.strip().partition("#")[0].partition("?")
    pairs = parse_qsl(after if mark else before, keep_blank_values=True)
    must_be(pairs or mark, "--open", "a link to the page, or what follows its ?", link)
    for name, _ in pairs:
        require(
            name in names(), "--open", f"{name!r} is not on the page; expected such as epochs=50"
        )
    query = urlencode(pairs)
    require(
        len(query) <= LONGEST,
        "--open",
        f"expected at most {LONGEST} characters; open a run file instead",
    )
    return query


# Who may speak to the server: whoever has its token, from its own page, by its own name.
#
# Other pages that are open in the same browser can send requests to this machine, and can have a name of
# theirs stand for its address. So the names in `Host` and `Origin` are compared, and whatever computes
# needs the token, which other pages and other users of the machine do not know. There is no cookie,
# because browsers send those to every port of a machine.


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
_PRIVATE = "/api/"
_MOST = 1 << 20  # bytes of a request
_USUAL_PORT = 80  # which browsers leave out
_PATIENCE = 60.0  # seconds for the body of a request


class Guard:
    """An application in front of another one, which gets what may pass.

    `token`: what the page shows, as `Authorization: Bearer`, to ask for anything but its own files. `limits`:
    the most bytes of requests to these paths; 1 MiB to others.
    """

    def __init__(self, app: App, token: str, port: int, limits: Mapping[str, int]) -> None:
        self._app, self._token, self._limits = app, token.encode(), limits
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}" for name in names}
        self._hosts |= set(names) if port == _USUAL_PORT else set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Passes the request on, or answers why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal is not None:
            await _refuse(headed, *refusal)
            return
        try:
            body = await asyncio.wait_for(_body(receive, self._most(scope["path"])), _PATIENCE)
        except TimeoutError:
            await _refuse(headed, 408, "the request did not come to an end")
            return
        if body is None:
            await _refuse(headed, 413, "the file is too large for this page")
            return
        await self._app(scope, _replayed(body, receive), headed)

    def _most(self, path: str) -> int:
        return self._limits.get(path, _MOST)

    def _refusal(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> tuple[int, str] | None:
        """The status and the reason of a refusal; None where there is none."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self._hosts:
            return 421, "this server answers to its own address alone"
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.decode("latin-1").lower() != f"http://{host}"
        if foreign or not _from_here(path, headers):
            return 403, "another page asked, and only pabi's own may"
        if method not in ("GET", "HEAD", "POST"):
            return 405, "expected GET, HEAD or POST"
        if path.startswith(_PRIVATE) and not hmac.compare_digest(
            headers.get(b"authorization", b""), b"Bearer " + self._token
        ):
            return 401, "open the address that pabi explore printed: this page has another token"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most(path):
            return 413, "the file is too large for this page"
        return None


def _from_here(path: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether this page asks, or nobody but the user does. Others may lead to it: it is no secret."""
    if headers.get(b"sec-fetch-site", b"none") in (b"same-origin", b"none"):
        return True
    led = headers.get(b"sec-fetch-mode") == b"navigate"
    return path == "/" and led and headers.get(b"sec-fetch-dest") == b"document"


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"message": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive, most: int) -> bytes | None:
    """All bytes of a request, None where there are more than `most`."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What receives a body that was read already, and then whether the client left."""
    rest = [body]

    async def again() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return again


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


def application(
    port: int,
    token: str,
    *,
    start: dict[str, Any] | None = None,
    ledger: Path | None = None,
    workers: Workers | None = None,
) -> Guard:
    """The page and its answers.

    `start`: what the page opens with, a run file's {"name", "text"}. `ledger`: read anew for every answer.
    """
    workers = workers or Workers()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            workers.end()

    async def opening(_: Request) -> Response:
        name = None if ledger is None else ledger.name
        return JSONResponse(
            {"controls": page(), "beginnings": BEGINNINGS, "start": start or {}, "ledger": name}
        )

    async def answer(request: Request) -> Response:
        job = request.path_params["job"]
        if job not in NAMES:
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
    root = files("pabi.cli.explorer") / "static"
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
