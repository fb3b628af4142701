"""What a step on a cluster costs beside its gradient sums, and what follows for clusters of any size.

    OMP_NUM_THREADS=1 python benchmarks/dask_steps.py [--workers 1 2 4] [--sums 100]

Sums of gradients are asked of clusters of processes on this machine, of so few rows that they cost nothing:
what is left is the overhead. There are no more processors than this machine has, so that a speed-up cannot be
measured here; it is computed. Two parts of a step are measured: the processor time of the process that
trains, with the scheduler in it, as a line in the number of partitions with rows in the batch (least
squares), less what an idle cluster takes; and the processor time of a sum over a row in memory, which workers
share. The model adds them, one partition a worker. It knows nothing of the network: add one round trip, and
the time that one iterate a worker takes. The clock is shown beside; on a busy machine it is too long.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from rich.console import Console
from rich.table import Table

import pabi
from pabi.describe.vector_losses import executable
from pabi.integrations.dask.blocks import blocks_of
from pabi.integrations.dask.sums import ClusterGradients, Declared, Recipe
from pabi.learn import LogisticGradients, Records
from pabi.showing import plain

COLUMNS = (40, 10_000)  # of the iterate: 320 bytes and 80 kB
PARTS = (1, 4, 16)
ROWS = 20  # of a partition
BATCHES = (10**5, 10**6, 10**7)  # rows, for the model
SIZES = (1, 4, 16, 64)  # workers, for the model
WARM = 3  # sums that are not counted
TURNS = 20  # of the sum in memory


@dataclass(frozen=True)
class Seconds:
    """Medians of a step: of the processor time of this process, and of the clock."""

    processor: float
    clock: float

    def without(self, idle: float) -> Seconds:
        """The same without the processor time that a cluster takes while nothing is asked of it."""
        return Seconds(max(0.0, self.processor - idle * self.clock), self.clock)


def idle_share(seconds: float = 4.0) -> float:
    """The processor time that this process takes for each second of the clock, with a cluster that waits."""
    begin = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return (time.process_time() - begin[0]) / (time.perf_counter() - begin[1])


def description(rows: int) -> pabi.NoisySGD:
    """A run over all rows at once."""
    loss = pabi.Loss.logistic(1.0)
    return pabi.NoisySGD(
        loss, n=rows, batches=pabi.FullBatch(), epochs=1, step_size=0.5, noise_std=1.0
    )


def table(rows: int, columns: int) -> tuple[Any, Any]:
    """Random features, and labels."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, columns), dtype=np.float32), rng.integers(0, 2, rows)


def overhead(client: Client, parts: int, columns: int, sums: int) -> Seconds:
    """Of one sum over a few rows of every partition."""
    import dask.array as arrays

    rows = parts * ROWS
    X, y = table(rows, columns)
    blocks = blocks_of(arrays.from_array(X, chunks=(ROWS, -1)), y)
    run = description(rows)
    recipe = Recipe(run, blocks.columns, Declared(1.0), loss=executable("logistic"))
    gradients = ClusterGradients(client, recipe, blocks)
    total, point = gradients.sum_for(run, None), np.zeros(columns)
    ticks = []
    for _ in range(sums + WARM):
        ticks.append((time.process_time(), time.perf_counter()))
        total(point, slice(0, rows))
    gradients.close()
    spent = np.diff(np.array(ticks[WARM:]), axis=0)
    return Seconds(*(statistics.median(column) for column in spent.T.tolist()))


def row_seconds(columns: int) -> float:
    """Processor time of a sum in memory, over its rows."""
    rows = 100_000
    X, y = table(rows, columns)
    gradients = LogisticGradients(Records(X, 1.0), y)
    from pabi.execute.engine import clipped_sum

    total, point = clipped_sum(description(rows), gradients), np.zeros(columns)
    total(point, slice(0, rows))
    spent = []
    for _ in range(TURNS):
        begin = time.process_time()
        total(point, slice(0, rows))
        spent.append(time.process_time() - begin)
    return statistics.median(spent) / rows


def main() -> None:
    """Measures, fits the model, and shows both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--sums", type=int, default=100)
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    shown = Table(title="Overhead of a step, in milliseconds")
    for heading in ("workers", "partitions", "bytes of the iterate", "processor", "clock"):
        shown.add_column(heading, justify="right")
    points: list[tuple[int, float]] = []
    for workers in options.workers:
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            idle = idle_share()
            for columns, several in zip(COLUMNS, (PARTS, PARTS[1:2]), strict=True):
                for parts in several:
                    spent = overhead(client, parts, columns, options.sums).without(idle)
                    if columns == COLUMNS[0]:
                        points.append((parts, spent.processor))
                    times = [plain(1e3 * s, 3) for s in (spent.processor, spent.clock)]
                    shown.add_row(str(workers), str(parts), str(8 * columns), *times)
    Console().print(shown)
    parts, spent = np.array(points).T
    each, fixed = np.polyfit(parts, spent, 1).tolist()
    row = row_seconds(COLUMNS[0])
    Console().print(
        f"a step: {plain(1e3 * fixed, 3)} ms and {plain(1e3 * each, 3)} ms a partition; "
        f"a row of {COLUMNS[0]} columns: {plain(1e9 * row, 3)} ns"
    )
    model = Table(title="Steps a second by the model, and times as many as in memory")
    model.add_column("batch", justify="right")
    for workers in SIZES:
        model.add_column(f"{workers} workers", justify="right")
    for batch in BATCHES:
        cells = []
        for workers in SIZES:
            seconds = fixed + each * workers + row * batch / workers
            cells.append(f"{plain(1.0 / seconds, 3)} ({plain(row * batch / seconds, 3)}×)")
        model.add_row(str(batch), *cells)
    Console().print(model)


if __name__ == "__main__":
    main()
