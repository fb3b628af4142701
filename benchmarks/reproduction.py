"""How long `pabi reproduce` takes for all that does not train, and again with results kept.

python benchmarks/reproduction.py [--jobs 2]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from pabi.showing import plain


def seconds(folder: str, jobs: int) -> float:
    """Wall-clock time of one call, the interpreter's start included."""
    command = [sys.executable, "-m", "pabi", "reproduce", "--all", "--no-training"]
    start = time.perf_counter()
    subprocess.run(
        [*command, "--jobs", str(jobs), "--out", folder], check=True, capture_output=True
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    table = Table(title=f"25 tables and figures, {given.jobs} processes")
    for column in ("call", "seconds", "goal"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        table.add_row("first", plain(seconds(folder, given.jobs), decimals=1), "120")
        table.add_row(
            "second, results kept", plain(seconds(folder, given.jobs), decimals=1), "instant"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
