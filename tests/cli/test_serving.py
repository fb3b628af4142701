"""The command: a server with its address, its streams, and its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("httpx2")
pytest.importorskip("uvicorn")

import httpx2

import pabi
from pabi.cli import main
from support.every_case import every

RUN = """
n = 6000
epochs = 8
step_size = 0.5
noise_std = 0.01
[loss]
kind = "logistic"
feature_norm = 1.0
[batches]
kind = "cyclic"
size = 600
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("explorer")
    (place / "run.toml").write_text(RUN, encoding="utf-8")
    pabi.Ledger(place / "people.ledger", 2.0, 1e-5)
    return place


@pytest.fixture(scope="module")
def server(folder):
    """(process, address, client that knows the token)."""
    command = [sys.executable, "-m", "pabi", "explore", "run.toml", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--ledger", "people.ledger"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    address, _, token = process.stdout.readline().strip().partition("/#token=")
    with httpx2.Client(
        base_url=address,
        headers={"authorization": f"Bearer {token}"},
        timeout=60.0,
        trust_env=False,
    ) as client:
        yield process, address, client
    process.kill()
    process.wait()


def streamed(client, job, request):
    answer = client.post(f"/api/{job}", json=request)
    assert answer.headers["content-type"].startswith("text/event-stream")
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_the_page_opens_at_its_address_with_the_run_and_the_ledger(server):
    _, address, client = server
    assert address.startswith("http://127.0.0.1:")
    assert len(client.headers["authorization"]) > 40
    assert client.get("/").status_code == 200
    assert httpx2.get(f"{address}/api/opening", trust_env=False).status_code == 401
    opening = server[2].get("/api/opening").json()
    assert opening["start"] == {"name": "run.toml", "text": RUN}
    assert opening["ledger"] == "people.ledger"
    (name, data), *_ = streamed(server[2], "import", {"text": opening["start"]["text"]})
    assert name == "state"
    assert data["state"]["n"] == "6000"
    odd = "<script>alert(1)</script>"
    (name, data), *_ = streamed(server[2], "run", {"state": {"noise": odd}})
    assert name == "error"
    assert odd in data["message"]  # which the page shows as it is: it makes text of everything


def test_answers_arrive_one_after_another(server):
    """The first number is there before the job is over, and whoever leaves is not waited for."""
    client = server[2]
    slow = {"state": {"batches": "poisson", "epochs": "200", "n": "60000"}}
    with client.stream("POST", "/api/run", json=slow) as answer:
        first = next(line for line in answer.iter_lines() if line.startswith("data: "))
    assert not json.loads(first.removeprefix("data: "))["final"]
    names = [name for name, _ in streamed(client, "export", {"state": {}})]
    assert names == ["file", "file", "end"]


def test_the_ledger_is_read_anew_and_never_written(server, folder):
    before = (folder / "people.ledger").read_bytes()
    names = [name for name, _ in streamed(server[2], "budget", {"state": {}, "what": "target"})]
    assert names == ["ledger", "curve", "what", "end"]
    assert (folder / "people.ledger").read_bytes() == before


def test_no_path_of_a_request_is_opened(server, folder):
    (folder / "secret.toml").write_text(RUN, encoding="utf-8")
    for request in (
        {"text": "secret.toml"},
        {"text": str(folder / "secret.toml")},
        {"file": "secret.toml"},
    ):
        (name, data), *_ = streamed(server[2], "import", request)
        assert name == "error"
        assert "6000" not in data["message"]
    (name, data), *_ = streamed(server[2], "budget", {"text": str(folder / "people.ledger")})
    assert name == "error"


def test_ctrl_c_ends_it_in_one_line(server):
    """Last, because it ends the server of this module."""
    process, _, _ = server
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.splitlines()[-1] == "ended"
    assert err == ""


@pytest.mark.skipif(os.name != "posix", reason="needs rights of files")
@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGTERM])
def test_the_token_is_in_no_list_of_processes(folder, ended):
    """A browser is started with the name of a file that its owner alone can read, until the end."""
    browser = folder / "browser"  # writes down what it was given
    browser.write_text('#!/bin/sh\necho "$1" > started\n', encoding="utf-8")
    browser.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "pabi", "explore"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"BROWSER": f"{browser} %s", "XDG_RUNTIME_DIR": str(folder)},
    )
    place = process.stdout.readline().strip()
    address, _, token = place.partition("/#token=")
    started = folder / "started"
    for _ in range(100):
        if started.exists() and started.read_text("utf-8").strip():
            break
        time.sleep(0.1)
    given = started.read_text("utf-8").strip()
    started.unlink()
    assert token not in given
    page = Path(given.removeprefix("file://"))
    assert f"url={place}" in page.read_text("utf-8")
    assert page.stat().st_mode & 0o077 == page.parent.stat().st_mode & 0o077 == 0
    httpx2.get(address, trust_env=False)  # it serves
    process.send_signal(ended)
    process.communicate(timeout=20)
    assert not page.parent.exists()


@every(
    ("words", "expected"),
    [
        (["missing.toml"], "missing.toml: expected a run file"),
        (["--ledger", "missing"], "missing: expected a ledger"),
        (["--ledger", "run.toml"], "run.toml: this is a run file"),
        (["people.ledger"], "people.ledger: this is a ledger"),
        (["--port", "x"], "--port"),
        (["--open", "epoch=3"], "--open: 'epoch' is not on the page"),
        (["run.toml", "--open", "epochs=3"], "not both"),
        (["--port", "70000"], "--port"),
    ],
)
def test_wrong_input_is_one_line(folder, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(folder)
    assert main(["explore", "--no-browser", *words]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
