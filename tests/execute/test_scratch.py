"""The folder of secret rows: private, and gone at the end, also that of a process that crashed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from pabi.execute.scratch import PREFIX, Scratch
from pabi.numbers.errors import InvalidInput

CRASHES = """
import os, signal, sys
from pabi.execute.scratch import Scratch
scratch = Scratch(sys.argv[1])
path, file = scratch.file("rows")
file.write(b"secret"); file.flush()
if sys.argv[2] == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "wait":
    print("ready", flush=True); sys.stdin.read()
"""


def process(folder, what, **options):
    return subprocess.Popen([sys.executable, "-c", CRASHES, str(folder), what], **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_nobody_else_can_open_it(tmp_path):
    before = os.umask(0)
    try:
        scratch = Scratch(tmp_path)
        path, file = scratch.file("rows")
    finally:
        os.umask(before)
    assert stat.S_IMODE(scratch.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.close()
    scratch.close()
    assert names(tmp_path) == []


def test_the_end_of_a_process_removes_it(tmp_path):
    assert process(tmp_path, "end").wait() == 0
    assert names(tmp_path) == []


def test_the_next_one_removes_what_a_crash_left(tmp_path):
    assert process(tmp_path, "crash").wait() == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert (tmp_path / left / "rows").read_bytes() == b"secret"
    scratch = Scratch(tmp_path)
    assert names(tmp_path) == [scratch.folder.name]
    assert scratch.folder.name != left
    scratch.close()


def test_a_living_owner_keeps_its_own(tmp_path):
    with process(tmp_path, "wait", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        (held,) = names(tmp_path)
        Scratch(tmp_path).close()
        assert names(tmp_path) == [held]
        other.stdin.close()
    assert names(tmp_path) == []


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / f"{PREFIX}mine").mkdir()  # without a lock: nobody knows whose it is
    (tmp_path / "rows").touch()
    Scratch(tmp_path).close()
    assert names(tmp_path) == [f"{PREFIX}mine", "rows"]


def test_a_link_is_not_followed(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (home / f"{PREFIX}link").symlink_to(elsewhere)
    Scratch(home).close()
    assert (elsewhere / "lock").exists()


def test_a_fork_does_not_remove_it(tmp_path):
    scratch = Scratch(tmp_path)
    if not (child := os.fork()):
        scratch.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert names(tmp_path) == [scratch.folder.name]
    scratch.close()


def test_where_there_is_no_folder(tmp_path):
    with pytest.raises(InvalidInput, match="scratch: cannot write to .*nowhere"):
        Scratch(tmp_path / "nowhere")
