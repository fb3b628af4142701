"""The file of secret rows: nobody else can open it, and it is gone with its process, whatever ends that."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from pabi.execute.scratch import home_of, reserve, scratch_file
from pabi.numbers.errors import InvalidInput

WAITS = """
import sys
from pabi.execute.scratch import home_of, scratch_file
file = scratch_file(home_of(sys.argv[1]))
file.write(b"secret"); file.flush()
print("ready", flush=True); sys.stdin.read()
"""


def test_nobody_else_can_open_it(tmp_path):
    before = os.umask(0)
    try:
        file = scratch_file(home_of(tmp_path))
    finally:
        os.umask(before)
    file.write(b"secret")
    file.flush()
    assert list(tmp_path.iterdir()) == []
    about = os.fstat(file.fileno())
    assert (stat.S_IMODE(about.st_mode), about.st_size) == (0o600, 6)
    file.close()


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_end_of_a_process_removes_it_whatever_ended_it(tmp_path, ended):
    command = [sys.executable, "-c", WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        other.send_signal(ended)
    assert other.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_reserved_is_of_that_size(tmp_path):
    with scratch_file(home_of(tmp_path)) as file:
        reserve(file.fileno(), 1000)
        assert os.fstat(file.fileno()).st_size in (0, 1000)  # where the system can


def test_where_there_is_no_folder(tmp_path):
    with pytest.raises(InvalidInput, match="scratch: cannot write to .*nowhere"):
        scratch_file(home_of(tmp_path / "nowhere"))
