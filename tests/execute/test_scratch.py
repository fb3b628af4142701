"""The file of secret rows, which is gone with its process whatever ends that, and reading ahead of it."""

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from pabi.execute.layouts import home_of, reserve, scratch_file
from pabi.execute.sources import Ahead, ahead
from pabi.numbers.errors import InvalidInput

# A shell has what it starts in the background ignore SIGINT.
WAITS = """
import signal, sys
from pabi.execute.layouts import home_of, scratch_file
signal.signal(signal.SIGINT, signal.default_int_handler)
file = scratch_file(home_of(sys.argv[1]))
file.write(b"secret"); file.flush()
print("ready", flush=True); sys.stdin.read()
"""


def test_nobody_else_can_open_it(tmp_path):
    """And what is reserved is of that size, where the system can."""
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
    reserve(file.fileno(), 1000)
    assert os.fstat(file.fileno()).st_size in (6, 1000)
    file.close()
    with pytest.raises(InvalidInput, match="scratch: cannot write to .*nowhere"):
        scratch_file(home_of(tmp_path / "nowhere"))


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_end_of_a_process_removes_it_whatever_ended_it(tmp_path, ended):
    command = [sys.executable, "-c", WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        other.send_signal(ended)
    assert other.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_the_next_is_read_while_one_is_used():
    read = [threading.Event() for _ in range(3)]

    def values():
        for event in read:
            event.set()
            yield event

    rest = ahead(values())
    assert next(rest) is read[0]
    assert read[1].wait(5.0)
    assert not read[2].is_set()


def test_the_same_values_and_what_reading_raises():
    assert list(ahead(iter(range(10)))) == list(range(10))
    assert list(ahead(iter(()))) == []

    def values():
        yield 1
        raise OSError("gone")

    rest = ahead(values())
    assert next(rest) == 1
    with pytest.raises(OSError, match="gone"):
        next(rest)


def test_parts_in_any_order_and_again():
    asked = []

    def read(k):
        if k > 3:
            raise OSError("gone")
        asked.append(k)
        return k * k

    parts = Ahead(read, 5)
    assert [parts.part(k) for k in (0, 1, 2, 3, 0, 1, 1, 3)] == [0, 1, 4, 9, 0, 1, 1, 9]
    with pytest.raises(OSError, match="gone"):
        parts.part(4)
    parts.close()
    assert asked[:6] == [0, 1, 2, 3, 0, 1]
