"""Warnings shown once in a process, and the line that says that accounting goes on."""

import io
import pickle
import warnings
from types import SimpleNamespace

import pytest

import pabi
from pabi.numbers import errors
from pabi.numbers import locking as module
from pabi.numbers.errors import warn_once
from pabi.numbers.locking import tick, waiting
from support.every_case import every

WORDS = "rows were long"
FILTERS = {
    "none": [],
    "always": [{"action": "always"}],
    "ignored": [{"action": "ignore"}],
    "ignored by words": [{"action": "ignore", "message": "rows were"}],
    "other words": [{"action": "ignore", "message": "columns were"}],
    "this module": [{"action": "always", "module": __name__.replace(".", r"\.")}],
    "another module": [{"action": "always", "module": "elsewhere"}],
    "another category": [{"action": "always", "category": DeprecationWarning}],
    "the later filter": [{"action": "ignore"}, {"action": "always"}],
    "once": [{"action": "once"}],
}


def counts(warn, monkeypatch, filters):
    """How many of three warnings are shown, where something enters `catch_warnings` in between."""
    monkeypatch.setattr(errors, "_SHOWN", set())
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        for one in filters:
            warnings.filterwarnings(**one)
        shown = []
        for _ in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
            warn()
            shown.append(len(seen))
    assert all(record.filename == __file__ for record in seen)
    return shown


@every("name", FILTERS)
def test_filters_decide_and_a_process_is_told_once(monkeypatch, name):
    def ours():
        warn_once(WORDS, UserWarning)

    def pythons():
        warnings.warn(WORDS, UserWarning, stacklevel=1)

    mine = counts(ours, monkeypatch, FILTERS[name])
    first, *_, last = counts(pythons, monkeypatch, FILTERS[name])
    assert mine[0] == first  # the first warning is Python's to judge
    always = name in ("always", "this module", "the later filter")
    assert mine[-1] == (3 if always else first)
    assert last == 3 * first  # what it is about: Python forgets


def test_other_words_are_another_warning(monkeypatch):
    def both():
        warn_once(WORDS, UserWarning)
        warn_once("columns were long", UserWarning)

    assert counts(both, monkeypatch, []) == [2, 2, 2]


def test_errors_are_raised_every_time(monkeypatch):
    monkeypatch.setattr(errors, "_SHOWN", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match=WORDS):
                warn_once(WORDS, UserWarning)


NO_NOISE = "no noise_std up to 1e9 gives ε ≤ 0.1"


@every(
    "error, said, attributes, python",
    [
        (errors.InvalidInput("n", "got 0"), "n: got 0", {"field": "n"}, ValueError),
        (errors.NotApplicable("no path"), "no path", {"reason": "no path"}, Exception),
        (errors.TargetUnreachable(NO_NOISE, best=0.25), NO_NOISE, {"best": 0.25}, ValueError),
        (errors.PrivacyWarning("little"), "little", {}, UserWarning),
    ],
)
def test_errors_say_what_is_wrong_and_survive_a_pool_of_workers(error, said, attributes, python):
    assert isinstance(error, python)
    assert getattr(pabi, type(error).__name__) is type(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == said
    assert vars(again) == vars(error)
    assert {name: getattr(again, name) for name in attributes} == attributes


def test_what_does_not_apply_is_no_mistake_of_the_caller():
    """Code that catches ValueError for bad input must not swallow that no proof applies."""
    assert not isinstance(errors.NotApplicable("the path is released"), ValueError)


# The line.


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
