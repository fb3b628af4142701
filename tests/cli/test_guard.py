"""Who may speak to the server, and what its answers forbid the browser."""

import asyncio
import socket
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi.cli.explorer.server import LONGEST, address, listening, query_of
from pabi.cli.explorer.state import names
from pabi.numbers.errors import InvalidInput
from support.every_case import every

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pabi.cli.explorer import server
from pabi.cli.explorer.server import Guard, application

PORT, TOKEN = 8123, "a token of this test"
HERE = f"http://127.0.0.1:{PORT}"
BEARER = {"authorization": f"Bearer {TOKEN}"}


async def _length(request):
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def client():
    inner = Starlette(routes=[Route("/api/length", _length, methods=["GET", "POST"])])
    return TestClient(Guard(inner, TOKEN, PORT, {"/api/length": 1000}), base_url=HERE)


@pytest.fixture(scope="module")
def page():
    """The real application; nothing in these tests makes it calculate."""
    return TestClient(application(PORT, TOKEN), base_url=HERE)


ANSWERS = {
    200: [{"host": f"{name}:{PORT}"} for name in ("localhost", "LOCALHOST", "127.0.0.1")],
    401: [{"authorization": text} for text in ("", "Bearer ", TOKEN, f"bearer {TOKEN}", "ä")],
    # `localhost` is another origin than the number, although it is the same machine.
    403: [{"origin": f"http{rest}"} for rest in ("s://evil.example", f"://localhost:{PORT}")],
    # Else a page elsewhere could have its name resolve to this machine, and read the answers.
    421: [{"host": name} for name in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", "")],
}
ANSWERS[200] += [{}, {"origin": HERE}, {"sec-fetch-site": "same-origin"}]
ANSWERS[401] += [{"authorization": text} for text in ("Bearer a token of this tesu", "Basic YTpi")]
OTHERS = ("null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:9", f"{HERE}.evil.example")
ANSWERS[403] += [{"origin": origin} for origin in OTHERS]
# Another port of this machine is the same site, and still another page.
ANSWERS[403] += [{"sec-fetch-site": site} for site in ("cross-site", "same-site")]
ANSWERS[421] += [{"host": host} for host in ("127.0.0.1:80", "[::1]:8123", "0.0.0.0:8123")]


@every(("status", "headers"), [(status, one) for status in ANSWERS for one in ANSWERS[status]])
def test_whoever_has_the_token_and_is_this_page_passes_and_nobody_else_does(
    client, status, headers
):
    sent = {name: text.encode("latin-1") for name, text in (BEARER | headers).items()}
    answer = client.get("/api/length", headers=sent)
    assert answer.status_code == status
    assert status != 401 or "pabi explore printed" in answer.json()["message"]


def test_other_methods_and_tokens_in_addresses_are_refused(client):
    assert client.get(f"/api/length?token={TOKEN}").status_code == 401
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.request(method, "/api/length", headers=BEARER).status_code == 405


def test_browsers_leave_the_usual_port_out():
    inner = Starlette(routes=[Route("/api/length", _length, methods=["GET", "POST"])])
    client = TestClient(Guard(inner, TOKEN, 80, {}), base_url="http://127.0.0.1")
    for host in ("127.0.0.1", "localhost", "127.0.0.1:80"):
        named = BEARER | {"host": host, "origin": f"http://{host}"}
        assert client.get("/api/length", headers=named).status_code == 200
    assert client.get("/api/length", headers=BEARER | {"host": "evil.example"}).status_code == 421


def test_a_file_may_lead_to_the_page_and_to_nothing_else(page):
    led = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert page.get("/", headers=led).status_code == 200
    assert page.get("/", headers=led | {"sec-fetch-dest": "iframe"}).status_code == 403
    assert page.get("/", headers=led | {"sec-fetch-mode": "cors"}).status_code == 403
    assert page.get("/api/opening", headers=led | BEARER).status_code == 403


def test_a_large_body_is_refused(client):
    def posted(content, **more):
        return client.post("/api/length", headers=BEARER | more, content=content)

    assert posted(b"x" * 1000).text == "1000"
    assert posted(b"x" * 1001).status_code == 413
    assert posted(b"x" * 1001, **{"content-length": "12"}).status_code == 413
    # In pieces it has no length beforehand.
    assert posted(iter([b"x" * 250] * 5)).status_code == 413


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: 127", b"POST /api/run HTTP/1.1\r\n"]
)
def test_a_connection_without_a_whole_request_is_closed(monkeypatch, sent):
    """Who opens hundreds of them would stop the user's own."""
    monkeypatch.setattr(server, "_IDLE", 0.05)

    async def closed():
        config = uvicorn.Config(application(PORT, TOKEN), http=server._Impatient, lifespan="off")
        config.load()
        state = uvicorn.server.ServerState()
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            lambda: server._Impatient(config, state, {}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
        writer.close()
        listener.close()
        assert not state.connections

    asyncio.run(closed())


def test_answers_and_refusals_forbid_the_browser_what_they_should(client, page):
    for answer in (
        client.get("/api/length"),
        client.get("/api/length", headers=BEARER),
        page.get("/"),
    ):
        policy = dict(
            part.strip().split(" ", 1)
            for part in answer.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers


def test_the_page_is_served_and_holds_no_secret_and_nothing_else_is_calculated(page):
    answer = page.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert TOKEN not in answer.text
    for path in ("/main.js", "/views/run.js", "/style.css", "/vega/vega.min.js"):
        assert page.get(path).status_code == 200
    assert page.post("/api/eval", headers=BEARER, json={}).status_code == 404
    for body in (b"", b"[]", b"{", b"[" * 100_000, b'"a"', b"\xff"):
        assert page.post("/api/run", headers=BEARER, content=body).status_code == 400


@every(
    "path",
    ["/../server.py", "/..%2fserver.py", "/views/../../server.py", "/%2e%2e/guard.py", "//etc/passwd",
     "/etc/passwd", "/vega/LICENSE", "/static/index.html", "/views", "/views/", "/..\\server.py",
     "/views/run.js%00.html", "/main.js/", "/index.html"],
)  # fmt: skip
def test_no_other_path_is_a_file(page, path):
    answer = page.get(path)
    assert answer.status_code in (404, 405)
    assert "def " not in answer.text


@every("path", ["/api/opening", "/api/run", "/api/nothing", "/api/../api/opening"])
def test_every_calculation_needs_the_token(page, path):
    assert page.get(path).status_code == page.post(path, json={}).status_code == 401


def test_the_socket_is_of_this_machine_alone():
    with listening(0) as stream:
        host, port = stream.getsockname()
        assert host == "127.0.0.1"
        socket.create_connection((host, port)).close()  # before anything serves
        with pytest.raises(InvalidInput, match=f"--port: {port} cannot be used"):
            listening(port)


# Where the explorer is to be found, and what a link of somebody else sets there.


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.dictionaries(st.sampled_from(sorted(names())), TEXTS, min_size=1, max_size=6))
def test_a_link_sets_what_it_set_elsewhere(state):
    query = urlencode(state)
    for link in (query, f"http://127.0.0.1:41235/?{query}#token=abc", f"  ?{query} "):
        assert dict(parse_qsl(query_of(link), keep_blank_values=True)) == state


def test_tokens_hosts_and_lengths_of_addresses():
    assert query_of("http://127.0.0.1:1/?epochs=3#token=secret") == "epochs=3"
    assert query_of("http://127.0.0.1:1/?") == ""
    with pytest.raises(InvalidInput, match="run file"):
        query_of("further=" + "x" * LONGEST)
    with listening(0) as stream:
        port = stream.getsockname()[1]
        assert address(stream, "t") == f"http://127.0.0.1:{port}/#token=t"
        assert address(stream, "t", "n=5") == f"http://127.0.0.1:{port}/?n=5#token=t"
    # The page and the command have one limit.
    script = Path(server.__file__).parent / "static" / "state.js"
    assert f"LONGEST = {LONGEST};" in script.read_text("utf-8")


@every(
    "link",
    [
        *("", "run.toml", "http://127.0.0.1:1/", "epoch=3", "?__proto__=1"),
        *("epochs=3&<script>=1", "token=x"),
    ],
)
def test_what_is_no_link_of_the_page_is_refused(link):
    with pytest.raises(InvalidInput, match="--open: ") as problem:
        query_of(link)
    assert "\n" not in str(problem.value)
