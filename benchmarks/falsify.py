"""Instances by the million whose truth is known exactly, each beside what the accountant proves of it.

    PYTHONPATH=tests python benchmarks/falsify.py --instances 1000000 --processes 2

Prints, for every family, the number of instances, how many come within 1e-6 of the bound, the largest
ratio truth/bound, the violations and the time. Exits with 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.table import Table

from pabi.showing import plain, shown
from support.falsification.affine_maps import FAMILIES, Summary, falsify

CHUNK = 2000


def chunk(job: tuple[str, int, int]) -> tuple[str, Summary, float]:
    begin = time.perf_counter()
    family, instances, seed = job
    return family, falsify(family, instances, seed), time.perf_counter() - begin


def jobs(instances: int, seed: int) -> list[tuple[str, int, int]]:
    found = []
    for family, (_, share) in FAMILIES.items():
        count = round(share * instances)
        sizes = [CHUNK] * (count // CHUNK) + ([count % CHUNK] if count % CHUNK else [])
        found += [(family, size, seed * 1_000_003 + i) for i, size in enumerate(sizes)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    totals = dict.fromkeys(FAMILIES, Summary())
    times = dict.fromkeys(FAMILIES, 0.0)
    begin = time.perf_counter()
    with ProcessPoolExecutor(given.processes) as pool:
        for family, found, seconds in pool.map(chunk, jobs(given.instances, given.seed)):
            totals[family] += found
            times[family] += seconds
    total = sum(totals.values(), Summary())
    console, table = Console(), Table(title="What is proven beside what is exactly true")
    for column in (
        "family",
        "instances",
        "bound met",
        "largest truth/bound",
        "violations",
        "ms each",
    ):
        table.add_column(column, justify="left" if column == "family" else "right")
    for family, found in (*totals.items(), ("all", total)):
        each = times.get(family, sum(times.values())) / max(found.instances, 1) * 1e3
        table.add_row(
            family,
            f"{found.instances:,}",
            f"{found.met:,}",
            shown(found.worst, decimals=13),
            str(found.violations),
            plain(each, decimals=2),
        )
    console.print(table)
    console.print(
        f"{plain(time.perf_counter() - begin, decimals=0)} s with {given.processes} processes"
    )
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
