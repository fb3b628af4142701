"""How long the page of `pabi explore` waits for ε after a change, and for all curves.

Times are of the processor: what the calculation of one answer takes, which on an idle machine is how long it
takes. Sending and drawing come on top. The slider of epochs is moved.
"""

from __future__ import annotations

import argparse
from time import process_time

from pabi.explorer.jobs import events
from pabi.showing import plain

RUNS = {
    "cyclic": {},
    "shuffled once": {"batches": "shuffle_once"},
    "reshuffled": {"batches": "reshuffle"},
    "balls in bins": {"batches": "balls_in_bins"},
    "falling steps": {"batches": "shuffle_once", "schedule": "linear"},
    "full batches": {"batches": "full_batch"},
    "poisson": {"batches": "poisson"},
    "fixed size": {"batches": "fixed_size"},
}
MOVES = 20  # of the slider, for each run


def answered(state: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until the first ε, the final one, and the last curve."""
    begin = process_time()
    first = final = curves = 0.0
    for name, _ in events("run", {"state": state}):
        now = process_time() - begin
        if name == "number":
            first, final = first or now, now
        elif name == "curve":
            curves = now
        elif name == "peers":
            break
    return first, final, curves


def percentile(values: list[float], share: int) -> float:
    """The least value that so many per cent do not exceed."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]


def main() -> None:
    """Prints a table: milliseconds of the processor, median and 95th percentile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=MOVES)
    moves = parser.parse_args().moves
    for name, state in RUNS.items():
        answered(state)  # loads what it needs
        rows = [answered(state | {"epochs": f"{20 + k}"}) for k in range(moves)]
        whats = ("first ε", "final ε", "curves")
        for what, column in zip(whats, zip(*rows, strict=True), strict=True):
            times = [1000.0 * seconds for seconds in column]
            middle, late = (plain(percentile(times, share), 2) for share in (50, 95))
            print(f"{name:<16}{what:<10}{middle:>8}{late:>10}  ms")


if __name__ == "__main__":
    main()
