"""Everything that calculations load and look up, for processes that are forked from one that has it.

Importing this module does the work: `multiprocessing.forkserver` can import, and nothing else.
"""

from __future__ import annotations

import contextlib

from pabi.cli.explorer.workers import NAMES, calculation, events

# Runs that take hundredths of a second each; between them they load what the accounting of any run loads.
_RUNS: tuple[dict[str, str], ...] = (
    {},
    {"batches": "poisson", "adjacency": "zero_out"},
    {"batches": "fixed_size"},
    {"batches": "balls_in_bins"},
)
_SMALL = {"n": "1000", "size": "100", "epochs": "1", "noise": "0.1"}


def _warmth() -> None:
    """Asks for the first number and the first picture of each run, and for the whole answer of one."""
    for run in _RUNS:
        for name, data in events("run", {"state": _SMALL | run}):
            if run and name == "curve" and data["chart"] == "epsilon":
                break


with contextlib.suppress(Exception):  # whoever needs it will hear why
    import tomli_w  # noqa: F401
for _name in sorted(NAMES):
    with contextlib.suppress(Exception):  # such as that of an extra which is not installed
        calculation(_name)
_warmth()
