"""How much is tried: a slice by day, another one every day, and everything at night.

Properties are tried with the number of examples of a profile, ten times as many at night; `make nightly`
chooses its profile, and runs all properties besides the tests marked nightly. Tests that cost more an
example than others take a share of the profile's number.

Of a test marked `one_in(k)` about one case in k runs, chosen by the day and the names of its parameters, so
that tests of the same cases try the same ones; the others are marked nightly. So are cases above a tenth of
a second that do not have their day (`support.daily`). `support.pairs` keeps so many pairs of two lists of
cases that each entry is in one.
"""

import gc
import os
from collections import Counter

import mpmath
import pytest
from hypothesis import HealthCheck, settings

from pabi.account.analyses import nonlinear_shifts, shifted_interpolation
from pabi.account.best import refused
from support.computed_once import forget_other_sources
from support.daily import has_its_day, one_in, seed
from support.once_a_process import commands_once, laws_once

# Digits of what truths are computed with, in all files alike.
mpmath.mp.dps = 60

# How long an example takes says more of what else the machine does.
ANY_TIME = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("always", max_examples=50, **ANY_TIME)
settings.register_profile("nightly", max_examples=500, **ANY_TIME)
settings.load_profile("always")


# A quarter of collecting tests was looking for garbage among them, of which there is none.
gc.disable()


def pytest_configure():
    seed()  # before there are workers
    forget_other_sources()


def pytest_report_header():
    return f"costly cases are those of {seed()} (PABI_TESTS_OF={seed()} tries them again)"


def pytest_collection_finish():
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the cases marked nightly are left out
def pytest_collection_modifyitems(config, items):
    by_day, seen = config.option.markexpr == "not nightly", set()
    for item in items:
        test, _, case = item.nodeid.partition("[")
        marked = item.get_closest_marker("nightly") is not None
        days, name, first = one_in(item.nodeid, marked), item.nodeid, False
        if (mark := item.get_closest_marker("one_in")) is not None and not marked:
            # The first one in any case, so that no test is left without.
            days, name, first = mark.args[0], case, test not in seen
            seen.add(test)
        today = days == 1 or (by_day and (first or has_its_day(name, days)))
        if today and marked:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "nightly"]
        elif not today and not marked:
            item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    begin = os.times()
    result = yield
    if folder := os.environ.get("PABI_TESTS_SECONDS"):
        # Of the processor, children that ended included.
        took = sum(os.times()[:4]) - sum(begin[:4])
        with open(f"{folder}/{os.getpid()}.tsv", "a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\t{took:.3f}\n")
    return result


def pytest_terminal_summary(terminalreporter):
    """One line: how many passed, how many were skipped, and why."""
    passed, skipped = (terminalreporter.stats.get(key, ()) for key in ("passed", "skipped"))
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    why = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
    terminalreporter.write_line(f"{len(passed)} passed, {len(skipped)} skipped ({why or 'none'})")


@pytest.fixture
def all_windows(monkeypatch):
    """The nonlinear one-sided shift solves every window, whether it can win or not."""
    for module in (nonlinear_shifts, shifted_interpolation):
        monkeypatch.setattr(module, "CLEARLY", 1e300)


@pytest.fixture(autouse=True)
def _nothing_is_refused():
    """The kernel refuses no proposal of our own; a test that plants a lie takes it out of `refused`."""
    yield
    lies = dict(refused)
    refused.clear()
    assert not lies


@pytest.fixture(scope="session", autouse=True)
def _once_a_process():
    with pytest.MonkeyPatch.context() as patch:
        laws_once(patch)
        commands_once(patch)
        yield
