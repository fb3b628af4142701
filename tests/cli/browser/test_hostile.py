"""What wants to do harm: texts with scripts in them, pages of other places, paths out of the folder."""

import json
import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import pabi
from support.browsers import needs_chromium
from support.explorers import VIEWS

pytestmark = needs_chromium

# Each would run in one place or another: in HTML, an attribute, an address, a script, a template, SVG.
SCRIPTS = (
    *('<img src=x onerror="window.harm=1">', '"><svg onload=window.harm=1>', "'};window.harm=1;//"),
    *("</script><script>window.harm=1</script>", "javascript:window.harm=1"),
    *("{{constructor.constructor('window.harm=1')()}}", "${window.harm=1}"),
)
ALL = " ".join(SCRIPTS)


def harmless(page, scripts=0):
    """Whether nothing of it ran or became an element of the page, which has so many scripts of its own."""
    return page.driver.execute_script(
        "return window.harm === undefined && !document.querySelector('img[src=x], [onerror], [onload]')"
        " && document.querySelectorAll('script:not([src])').length === arguments[0]",
        scripts,
    )


def test_no_script_comes_in_through_a_box(opened):
    """One after another, so that the sentence is about each of them; those that mean nothing now as well."""
    boxes = opened.all("#controls input[name], #controls textarea")
    shown = [box.get_attribute("name") for box in boxes if box.is_displayed()]
    hidden = {box.get_attribute("name") for box in boxes} - set(shown)
    assert len(shown) > 9
    for name in hidden:
        opened.write(name, ALL)
    for name in shown:
        before = opened.box(name).get_attribute("value")
        opened.write(name, ALL)
        opened.wait(lambda name=name: opened.text(f"#c-{name}-error"))
        assert name == "further" or "window.harm" in opened.text("main .alarm")
        assert harmless(opened)
        opened.write(name, before)
        opened.wait(lambda name=name: not opened.text(f"#c-{name}-error"))


@pytest.mark.parametrize("view", VIEWS)
def test_no_script_comes_in_through_a_link(page, server, view):
    names = [
        *("loss", "batches", "n", "adjacency", "further", "delta", "target", "a", "b"),
        *("records", "zzz"),
    ]
    page.open(server.at(view=view, **dict.fromkeys(names, ALL)))
    page.wait(lambda: page.one("body").get_attribute("data-view") == view)
    if view in ("run", "forget"):
        page.wait(lambda: page.text(".alarm"))
    assert harmless(page)


def test_an_unknown_view_is_the_first_one(page, server):
    page.open(server.at(view=SCRIPTS[0]))
    page.wait(lambda: page.one("#tabs a[aria-current]").get_attribute("data-view") == "run")
    assert harmless(page)


def strings_replaced(thing):
    """The same, with harm in every text whose meaning nothing depends on, and in names."""
    if isinstance(thing, dict):
        return {key: strings_replaced(value) for key, value in thing.items()} | {ALL: ALL}
    if isinstance(thing, list):
        return [strings_replaced(value) for value in thing] + [ALL]
    return f"{thing} {ALL}" if isinstance(thing, str) else thing


def guarantee():
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
    return pabi.NoisySGD(
        loss, n=6_000, batches=pabi.Cyclic(size=1_500), epochs=5, step_size=0.5, noise_std=0.01
    ).guarantee(1e-5)


def opened_in(page, server, view, path, content):
    """The page with a file of this content, once it said something of it."""
    path.write_text(content, encoding="utf-8")
    page.open(server.at(view=view))
    page.one("main input[type=file]").send_keys(str(path))
    page.wait(lambda: page.text("main .alarm, main .facts, #verdict"))


def test_no_script_comes_in_through_a_file(page, server, tmp_path):
    honest = guarantee().to_dict(certificate=True)
    # An honest proof, and words of its author.
    assumed = honest | {"assumptions": [*honest["assumptions"], *SCRIPTS]}
    noted = json.loads(guarantee().noting({"name": ALL}).to_json())
    files = [assumed, noted, strings_replaced(honest), {**honest, "source": ALL, "method": ALL}]
    for k, content in enumerate(files):
        path = tmp_path / f"{k} <img src=x onerror=window.harm=1>.json"
        opened_in(page, server, "check", path, json.dumps(content))
        page.wait(lambda: page.text("main .alarm") or page.all(".attest li"))
        assert harmless(page)
    opened_in(page, server, "check", tmp_path / "guarantee.json", json.dumps(assumed))
    page.press("Save the report")
    text = page.download("report.html")
    assert "window.harm" in text  # it is said, as text
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    page.others = [tmp_path.as_uri()]
    page.driver.get((tmp_path / "report.html").as_uri())
    assert harmless(page, scripts=1)  # that of reports


def test_no_script_comes_in_through_a_ledger(page, server, tmp_path):
    path = tmp_path / "people.ledger"
    pabi.Ledger(path, epsilon=2.0, delta=1e-5).spend(guarantee())
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    odd = (strings_replaced(lines[0]), strings_replaced(lines[-1]), {ALL: ALL})
    for k, changed in enumerate(odd):
        content = [*lines[: min(k, 1)], changed, *lines[1:]]
        text = "".join(json.dumps(line) + "\n" for line in content)
        opened_in(page, server, "budget", path, text)
        assert harmless(page)


def test_no_script_comes_in_through_a_run_file(opened, tmp_path):
    text = json.dumps(ALL)  # which is TOML's way as well
    texts = [f"n = {text}\n", f"{text} = 1\n", f"[loss]\nkind = {text}\n", ALL]
    for k, text in enumerate(texts):
        (tmp_path / f"{k}.toml").write_text(text, encoding="utf-8")
        opened.driver.execute_script("document.querySelector('main .alarm').textContent = ''")
        opened.one("main input[type=file]").send_keys(str(tmp_path / f"{k}.toml"))
        opened.wait(lambda: opened.text("main .alarm"))
        assert harmless(opened)


# Who may ask the server


@contextmanager
def site(page_text):
    """A page of another origin, on another port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page_text.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_of_another_place_learns_nothing(page, server):
    """It cannot read answers, embed the page, or take its scripts, even if it knew the token."""
    own = server.origin
    text = f"""<!doctype html><title>elsewhere</title><iframe src="{own}/"></iframe>
    <script src="{own}/vega/vega.min.js"></script>"""
    with site(text) as address:
        page.others, page.expected = (
            [address],
            [own, address, "security", "javascript", "chrome-error:"],
        )
        page.driver.get(address)
        tried = page.driver.execute_async_script(
            """
            const [own, token, done] = arguments;
            const tries = [];
            for (const mode of ["cors", "no-cors"]) {
              for (const headers of [{}, {authorization: `Bearer ${token}`}]) {
                for (const path of ["/", "/api/opening"]) {
                  tries.push(fetch(own + path, {mode, headers})
                    .then((answer) => answer.text()).then((text) => text, () => "refused"));
                }
              }
              tries.push(fetch(own + "/api/run", {mode, method: "POST", body: "{}",
                headers: {"content-type": "text/plain"}})
                .then((answer) => answer.text()).then((text) => text, () => "refused"));
            }
            Promise.all(tries).then((texts) => done(texts));
            """,
            own,
            server.token,
        )
        assert set(tried) <= {"refused", ""}
        assert page.driver.execute_script("return typeof window.vega") == "undefined"
        page.driver.switch_to.frame(page.one("iframe"))
        assert not page.all("#tabs")
        page.driver.switch_to.default_content()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a network of 127.0.0.0/8")
def test_it_listens_to_one_address_alone(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60):
        pass
    for other in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if other != "127.0.0.1":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, server.port), timeout=60)
