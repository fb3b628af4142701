"""Speed and memory of private preconditioning, beside its goal.

    OMP_NUM_THREADS=1 python benchmarks/whitening.py [--only NAME]

Random tables, dense in float32 and sparse; what they show does not matter. What is timed is the release of
the noisy second moments, the map that follows from it, and the mapped table. Seconds are of processor time,
the least of the turns. Each table has a process of its own; its peak of memory is what that held beyond the
table and the mapped table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pabi.execute.hiding import Terms
from pabi.execute.records import Records, seen_norm
from pabi.learn.plans import planned, released_moments, whitening
from pabi.showing import plain

TARGET = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "share": 0.1}
GOAL = 60.0  # seconds in all, for the widest dense table
# By name: rows, columns, numbers a row that are not 0 (None: dense), and turns.
TABLES: dict[str, tuple[int, int, int | None, int]] = {
    "60 000 × 784": (60_000, 784, None, 3),
    "60 000 × 4 000": (60_000, 4_000, None, 2),
    "20 000 × 20 000, sparse": (20_000, 20_000, 60, 3),
}


def table_of(rows: int, columns: int, filled: int | None) -> Any:
    """Random rows of norm below 1."""
    rng = np.random.default_rng(0)
    if filled is None:
        table = rng.random((rows, columns), dtype=np.float32)
        table *= np.float32(1.0 / columns**0.5)
        return table
    from scipy.sparse import csr_matrix

    indices = rng.integers(0, columns, rows * filled)
    data = np.full(rows * filled, 0.9 / filled)
    return csr_matrix((data, indices, np.arange(rows + 1) * filled), (rows, columns))


def peak_mb() -> float:
    """The largest resident memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def turn(records: Records, norm: float) -> list[float]:
    """Seconds of the release, the map and the mapped table."""
    moments = planned(records.n, records.width, norm=norm, **TARGET)
    times = [time.process_time()]
    released = released_moments(Terms(delta=TARGET["delta"]), moments, records)
    times.append(time.process_time())
    row_map = whitening(released.values, moments, norm=norm, equal=True)
    times.append(time.process_time())
    row_map.mapped(records)
    times.append(time.process_time())
    return np.diff(times).tolist()


def measured(name: str) -> dict[str, list[float]]:
    """{"seconds": of the three parts, "mb": of the data, the mapped table and the peak beyond both}."""
    rows, columns, filled, turns = TABLES[name]
    X = table_of(rows, columns, filled)
    data = sum(part.nbytes for part in ((X,) if filled is None else (X.data, X.indices, X.indptr)))
    before = peak_mb()
    records = Records(X, 1.0, 1.0)
    times = [turn(records, seen_norm(1.0, 1.0)) for _ in range(turns)]
    mapped = 4 * rows * records.width if filled is None else data
    beyond = peak_mb() - before - mapped / 2**20
    sizes = [data / 2**20, mapped / 2**20, max(0.0, beyond)]
    return {"seconds": np.min(times, axis=0).tolist(), "mb": sizes}


def in_its_own_process(name: str) -> dict[str, list[float]]:
    """What `measured` returns."""
    command = [sys.executable, __file__, "--only", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLES, help="one table, as JSON")
    only = parser.parse_args().only
    if only is not None:
        print(json.dumps(measured(only)))
        return
    table = Table(title="Private preconditioning")
    for column in ("table", "release", "map", "mapped table", "in all", "goal", "memory beyond"):
        table.add_column(column)
    for name in TABLES:
        figures = in_its_own_process(name)
        seconds = [*figures["seconds"], sum(figures["seconds"])]
        data, mapped, beyond = (f"{plain(mb, decimals=0)} MB" for mb in figures["mb"])
        table.add_row(
            f"{name} ({data})",
            *(f"{plain(s, 3)} s" for s in seconds),
            f"≤ {plain(GOAL, 3)} s",
            f"{beyond}, mapped rows {mapped}",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
