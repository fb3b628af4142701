"""A case of every test, or some: `pytest -p support.each_test --one-case-in 10 --draw 3.12`.

For machines on which all cases take too long. Which cases are run depends on their names and on `--draw`, so
that lines of a matrix try others. What draws its examples by itself tries ten.
"""

import zlib
from collections import defaultdict

import pytest
from hypothesis import settings


def pytest_addoption(parser):
    parser.addoption("--one-case-in", type=int, default=1, help="of every test, but at least one")
    parser.addoption("--draw", default="", help="a word that the choice depends on")


def pytest_configure(config):
    if config.getoption("--one-case-in") > 1:
        settings.register_profile("few", settings.default, max_examples=10)
        settings.load_profile("few")


@pytest.hookimpl(trylast=True)  # after the cases marked nightly were left out
def pytest_collection_modifyitems(config, items):
    among, draw = config.getoption("--one-case-in"), config.getoption("--draw")
    if among == 1:
        return
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    kept = set()
    for cases in tests.values():
        cases.sort(key=lambda item: zlib.crc32(f"{draw} {item.nodeid}".encode()))
        kept.update(cases[: -(-len(cases) // among)])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
