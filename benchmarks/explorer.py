"""How long the page of `pabi explore` waits: for its first picture, for ε after a change, and for all curves.

Times are those of the answers, without the browser's drawing. On a machine that others use, look at the
least ones; the 95th percentile is of whatever else runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from http.client import HTTPConnection
from time import perf_counter
from urllib.parse import urlsplit

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
MOVES = 20  # of the slider of epochs, for each run


class Page:
    """A client of the server that the command starts."""

    def __init__(self) -> None:
        begin = perf_counter()
        command = [sys.executable, "-m", "pabi.cli", "explore", "--no-browser"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        address = urlsplit(self._process.stdout.readline().strip())
        self.to_address = perf_counter() - begin
        self._place = (address.hostname or "", address.port or 0)
        token = address.fragment.removeprefix("token=")
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self.answers({})
        self.to_picture = perf_counter() - begin

    def answers(self, state: dict[str, str]) -> tuple[float, float, float]:
        """Seconds until the first ε, the final one, and the last curve."""
        connection, begin = HTTPConnection(*self._place), perf_counter()
        connection.request("POST", "/api/run", json.dumps({"state": state}), self._headers)
        first = final = curves = 0.0
        for line in connection.getresponse():
            now = perf_counter() - begin
            if line.startswith(b"event: number"):
                first, final = first or now, now
            elif line.startswith(b"event: curve"):
                curves = now
            elif line.startswith(b"event: peers"):
                break
        connection.close()
        return first, final, curves

    def end(self) -> None:
        """Ends the server."""
        self._process.terminate()
        self._process.wait()


def percentile(values: list[float], share: float) -> float:
    """The least value that so large a share of all does not exceed."""
    return sorted(values)[max(0, -(-len(values) * round(100 * share) // 100) - 1)]


def main() -> None:
    """Prints a table: milliseconds, least, median and 95th percentile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=MOVES)
    moves = parser.parse_args().moves
    page = Page()
    print(
        f"address after {plain(page.to_address, 2)} s, first answer after {plain(page.to_picture, 2)} s"
    )
    try:
        for name, state in RUNS.items():
            rows = [page.answers(state | {"epochs": f"{20 + k}"}) for k in range(moves)]
            for what, column in zip(
                ("first ε", "final ε", "curves"), zip(*rows, strict=True), strict=True
            ):
                times = [1000.0 * seconds for seconds in column]
                shares = (plain(percentile(times, share), 2) for share in (0.0, 0.5, 0.95))
                print(f"{name:<16}{what:<10}{'  '.join(f'{text:>8}' for text in shares)}  ms")
    finally:
        page.end()


if __name__ == "__main__":
    main()
