"""How much is tried: a slice always, everything at night.

Properties are tried with the number of examples of a profile, ten times as many at night; `make nightly`
chooses its profile, and runs all properties besides the tests marked nightly. Tests that cost more an
example than others take a share of the profile's number.

Of a test marked `one_in(k)` about one case in k always runs, chosen by the names of its parameters, so that
tests of the same cases keep the same ones; the others are marked nightly. `support.pairs` keeps
so many pairs of two lists of cases that each entry is in one.
"""

from __future__ import annotations

import gc
import zlib

import pytest
from hypothesis import HealthCheck, settings

from pabi.analyses import nonlinear_one_sided, tuning
from support.once_a_process import commands_once, laws_once

# How long an example takes says more of what else the machine does.
ANY_TIME = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("always", max_examples=50, **ANY_TIME)
settings.register_profile("nightly", max_examples=500, **ANY_TIME)
settings.load_profile("always")


# A quarter of collecting tests was looking for garbage among them, of which there is none.
gc.disable()


def pytest_collection_finish():
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the cases marked nightly are left out
def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is None or item.get_closest_marker("nightly") is not None:
            continue
        test, _, case = item.nodeid.partition("[")
        # The first one in any case, so that no test is left without.
        if test in seen and zlib.crc32(case.encode()) % mark.args[0]:
            item.add_marker(pytest.mark.nightly)
        seen.add(test)


@pytest.fixture
def all_windows(monkeypatch):
    """The nonlinear one-sided shift solves every window, whether it can win or not."""
    for module in (nonlinear_one_sided, tuning):
        monkeypatch.setattr(module, "CLEARLY", 1e300)


@pytest.fixture(scope="session", autouse=True)
def _once_a_process():
    with pytest.MonkeyPatch.context() as patch:
        laws_once(patch)
        commands_once(patch)
        yield
