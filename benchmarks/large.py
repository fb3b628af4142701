"""Training on a table that does not fit into memory, beside its goals: throughput, and memory that is flat.

    OMP_NUM_THREADS=1 python benchmarks/large.py [--rows 1e6 1e7] [--folder FOLDER] [--sources parquet npy]

Random rows of 40 columns in float32, as Parquet files of 10⁶ rows each and as one .npy file; what they
show does not matter. A turn trains a logistic regression in batches of 4096 rows of one secret shuffle, for
so many epochs; it checks the rows in one pass, computes the guarantee, writes the rows in their order in
another pass, and then takes them from there.
The throughput is measured against that of a pass that only reads the files, the mean of one before and one
after the training: that of an epoch, and that of all passes, the two before the epochs included, which is the
one with a goal. The guarantee is computed without the rows, and so is no pass. Seconds are of
processor time, of all threads, and beside them of the clock. The goal is that of Parquet: numbers of an .npy
file need no decoding, and reading them from the system's cache is faster than any use of them. Every turn has
a process of its own, whose data memory (RLIMIT_DATA) is limited to 2 GB; its peak of resident memory is that
of the whole process, libraries included. Each file is read once before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pabi.showing import plain

COLUMNS, EPOCHS, BATCH = 40, 4, 4096
PART = 10**6  # rows of a Parquet file
FEW = 1000  # rows that are trained on first
LIMIT = 2 * 2**30  # bytes
GOAL = 0.6  # of the throughput of reading alone
GOALS = ("parquet",)  # of the sources that it is the goal of
FLAT = 1.25  # the peak for most rows over that for fewest
NAMES = [f"x{j}" for j in range(COLUMNS)]


def write(folder: Path, rows: int, source: str) -> None:
    """Writes the table as one of the sources, unless it is there."""
    done = folder / f"{source} is complete"
    if not done.exists():
        (folder / "parquet").mkdir(parents=True, exist_ok=True)
        WRITERS[source](folder, rows)
        done.touch()


def parts(rows: int) -> Iterator[tuple[Any, Any]]:
    """(features, labels) of the table, 10⁶ rows at a time."""
    rng = np.random.default_rng(0)
    for first in range(0, rows, PART):
        X = 2.0 * rng.random((min(PART, rows - first), COLUMNS), dtype=np.float32) - 1.0
        yield X, (X[:, 0] + rng.standard_normal(len(X)) > 0.0).astype(np.int8)


def write_parquet(folder: Path, rows: int) -> None:
    """Files of 10⁶ rows."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    for i, (X, y) in enumerate(parts(rows)):
        table = arrow.table([*X.T.copy(), y], [*NAMES, "y"])
        name = folder / "parquet" / f"part-{i:05d}.parquet"
        parquet.write_table(table, name, compression="none", use_dictionary=False)


def write_npy(folder: Path, rows: int) -> None:
    """One array, and one of the labels."""
    matrix = np.lib.format.open_memmap(folder / "x.npy", "w+", np.dtype("f4"), (rows, COLUMNS))
    labels = []
    for i, (X, y) in enumerate(parts(rows)):
        matrix[i * PART : i * PART + len(X)] = X
        labels.append(y)
    np.save(folder / "y.npy", np.concatenate(labels))


WRITERS = {"parquet": write_parquet, "npy": write_npy}


def read_parquet(folder: Path) -> None:
    """Reads all columns of all files, once."""
    import pyarrow.parquet as parquet

    for file in sorted((folder / "parquet").iterdir()):
        with parquet.ParquetFile(file, pre_buffer=False) as table:
            for _ in table.iter_batches(1 << 14, use_threads=False):
                pass


def read_npy(folder: Path) -> None:
    """Reads the array, once."""
    with open(folder / "x.npy", "rb") as file:
        while len(np.fromfile(file, np.float32, 1 << 20)):
            pass


READERS: dict[str, Callable[[Path], None]] = {"parquet": read_parquet, "npy": read_npy}


def trained(source: str, folder: Path, rows: int) -> list[tuple[float, float]]:
    """Trains; returns the clocks after checks, the guarantee, the writing of rows in order, and all else."""
    import pabi
    from pabi.learn import LargeRecords, LargeTable, LogisticGradients, train

    if source == "parquet":
        table, y = LargeTable(folder / "parquet", columns=NAMES, scratch=folder), "y"
    else:
        table, y = LargeTable(folder / "x.npy", scratch=folder), np.load(folder / "y.npy", "r")
    norm = COLUMNS**0.5
    run = pabi.NoisySGD(
        pabi.Loss.logistic(norm),
        n=rows,
        batches=pabi.ShuffleOnce(min(BATCH, rows)),
        epochs=EPOCHS,
        step_size=0.1,
        noise_std=0.1,
    )
    gradients = LogisticGradients(LargeRecords(table, norm), y)
    checked = clocks()
    layout = gradients.layout
    assert layout is not None
    arrange, arranged = layout.arrange, []

    def timed(*arguments: Any) -> None:
        arranged.append(clocks())
        arrange(*arguments)
        arranged.append(clocks())

    layout.arrange = timed  # type: ignore[method-assign]
    train(run, gradients, np.zeros(COLUMNS))
    return [checked, *arranged, clocks()]


def measured(source: str, folder: Path, rows: int) -> dict[str, Any]:
    """Seconds, on both clocks, of a reading and of the parts of a training, and the peak of memory in MB."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=folder) as few:
        warnings.simplefilter("ignore")
        write(Path(few), FEW, source)  # what is loaded once is not counted
        READERS[source](Path(few))
        trained(source, Path(few), FEW)
        READERS[source](folder)
        before = clocks()
        READERS[source](folder)
        turn = [clocks(), *trained(source, folder, rows)]
        READERS[source](folder)
        after = np.subtract(clocks(), turn[-1])
        read = (np.subtract(turn[0], before) + after) / 2.0
    return {"seconds": [read.tolist(), *np.diff(turn, axis=0).tolist()], "mb": peak_mb()}


def clocks() -> tuple[float, float]:
    """Seconds of processor time, and of the clock."""
    return time.process_time(), time.perf_counter()


def peak_mb() -> float:
    """The largest resident memory of this process so far; `ru_maxrss` has that of its parent in it."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024.0


def in_a_process(source: str, folder: Path, rows: int) -> dict[str, Any]:
    """What `measured` returns, in a process with limited memory."""
    command = [sys.executable, __file__, "--one", source, str(folder), str(rows)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def whole(seconds: Any) -> float:
    """The throughput of all passes of a training over that of a reading."""
    read, check, _, order, epochs = seconds
    return float((EPOCHS + 2) * read / (check + order + epochs))


def columns_of(seconds: Any) -> list[str]:
    """Seconds of a reading, of what comes before the epochs and of an epoch, and what that is of reading."""
    read, *before, epochs = seconds
    own = EPOCHS * read / epochs
    return [plain(x, 3) for x in (read, *before, epochs / EPOCHS, own, whole(seconds))]


def arguments() -> Any:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e6, 1e7])
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks/large"))
    parser.add_argument("--sources", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Writes the tables, trains on them and shows what that took."""
    options = arguments()
    if options.one is not None:
        source, folder, rows = options.one
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
        print(json.dumps(measured(source, Path(folder), int(rows))))
        return
    shown = Table(title=f"{COLUMNS} columns of float32, {EPOCHS} epochs, {EPOCHS + 2} passes")
    parts = ("read once", "check", "guarantee", "order", "epoch")
    seconds = (*parts, "epoch / reading", "all / reading")
    for heading in ("source", "rows", "seconds", *seconds, "peak MB", ""):
        shown.add_column(heading, justify="left" if heading == "source" else "right")
    failures = 0
    for source in options.sources:
        least = None
        for rows in map(int, sorted(options.rows)):
            folder = options.folder / str(rows)
            write(folder, rows, source)
            got = in_a_process(source, folder, rows)
            least = least or got["mb"]
            processor, wall = np.transpose(got["seconds"])
            fast = whole(processor) >= GOAL or source not in GOALS
            met = fast and got["mb"] <= FLAT * least
            failures += not met
            about = [plain(got["mb"], 3), "met" if met else "missed"]
            shown.add_row(source, str(rows), "processor", *columns_of(processor), *about)
            shown.add_row("", "", "clock", *columns_of(wall), "", "")
    Console().print(shown)
    sys.exit(failures > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
