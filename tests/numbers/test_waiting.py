"""The line that says that accounting goes on."""

import io
from types import SimpleNamespace

import pytest

from pabi.numbers import locking as module
from pabi.numbers.locking import tick, waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets by hand."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch):
    return seen(Terminal(), monkeypatch)


def seen(stream, monkeypatch):
    """The stream, in place of standard error, which pytest replaces between a fixture and its test."""
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=stream, modules={}))
    return stream


def test_nothing_is_said_of_what_is_quick(clock, terminal):
    with waiting("accounting"):
        tick()
        clock[0] += 1.9
        tick()
    assert terminal.getvalue() == ""


def test_what_takes_long_is_named_and_its_line_erased(clock, terminal):
    with waiting("calibrating noise_std"), waiting("accounting"):
        for _ in range(5):
            clock[0] += 1.0
            tick()
    lines = [line.strip() for line in terminal.getvalue().split("\r") if line.strip()]
    assert lines == [f"calibrating noise_std … {k} s" for k in (2, 3, 4, 5)]
    assert terminal.getvalue().endswith("\r")


def test_a_line_is_not_rewritten_all_the_time(clock, terminal):
    with waiting("accounting"):
        clock[0] += 3.0
        for _ in range(50):
            clock[0] += 0.001
            tick()
    assert terminal.getvalue().count("accounting") == 1


def test_files_and_pipes_stay_clean(clock, monkeypatch):
    stream = seen(io.StringIO(), monkeypatch)
    with waiting("accounting"):
        clock[0] += 10.0
        tick()
    assert stream.getvalue() == ""


def test_an_exception_erases_the_line_as_well(clock, terminal):
    with pytest.raises(KeyError), waiting("accounting"):
        clock[0] += 10.0
        tick()
        raise KeyError
    tick()
    assert terminal.getvalue().endswith("\r")
    assert terminal.getvalue().count("accounting") == 1
