"""Who may speak to the server: whoever has its token, from its own page, by its own name.

Other pages that are open in the same browser can send requests to this machine, and can have a name of theirs
stand for its address. So the names in `Host` and `Origin` are compared, and whatever computes needs the
token, which other pages and other users of the machine do not know. There is no cookie, because browsers send
those to every port of a machine.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

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

    Parameters
    ----------
    app : App
        What answers.
    token : str
        What the page has to show, as `Authorization: Bearer`, to ask for anything but its own files.
    port : int
        That of the server.
    limits : mapping of str to int
        The most bytes of requests to these paths; 1 MiB to others.
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
        if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
            return 403, "another page asked, and only pabi's own may"
        if not _from_here(path, headers):
            return 403, "another page asked, and only pabi's own may"
        if method not in ("GET", "HEAD", "POST"):
            return 405, "expected GET, HEAD or POST"
        if path.startswith(_PRIVATE) and not self._knows_token(headers.get(b"authorization", b"")):
            return 401, "open the address that pabi explore printed: this page has another token"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most(path):
            return 413, "the file is too large for this page"
        return None

    def _knows_token(self, authorization: bytes) -> bool:
        return hmac.compare_digest(authorization, b"Bearer " + self._token)


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
