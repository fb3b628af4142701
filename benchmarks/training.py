"""Speed and memory of training, each beside its goal.

    python benchmarks/training.py [--opacus SECONDS_PER_EPOCH]

The MNIST experiment (60 000 rows of 784 features, 10 classes, batches of 1 500) against its bare matrix
products in the data's own precision, X[B] @ W and X[B].T @ Z, on random data of that shape: float32, float64
and a fifth of the entries in a sparse matrix, rows as they are and shuffled, with one BLAS thread and with
two, each in a process of its own. Bare products and training take turns, so that what else the machine does
slows down both; the least time of each counts. Then clipped softmax losses against plain ones, the peak of
memory beyond the data, and one epoch over a sparse matrix of 10⁶ × 10⁵ with 10⁷ entries. `--opacus` is what
benchmarks/peers/opacus_speed.py measured on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.learn import LogisticGradients, Records, SoftmaxGradients, train
from pabi.showing import plain

ROWS, FEATURES, CLASSES, BATCH, EPOCHS = 60_000, 784, 10, 1_500, 4


def peak_mb() -> float:
    """The largest resident memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def products(X: Any, order: np.ndarray | None) -> float:
    """Seconds for the two matrix products of every step of the experiment, in the type of X."""
    theta = np.zeros((FEATURES, CLASSES), X.dtype)
    residual = np.ones((BATCH, CLASSES), X.dtype)
    begin = time.perf_counter()
    for _ in range(EPOCHS):
        for first in range(0, ROWS, BATCH):
            rows = slice(first, first + BATCH)
            block = X[rows] if order is None else X[order[rows]]
            block @ theta
            block.T @ residual
    return time.perf_counter() - begin


def mnist_like(
    batches: pabi.Cyclic | pabi.ShuffleOnce,
    records: Records,
    y: np.ndarray,
    cap: float = 1.0,
    **clipping: Any,
) -> float:
    """Seconds to train the experiment, its accounting left out."""
    run = pabi.NoisySGD(
        pabi.Loss.softmax(feature_norm=1.25**0.5, residual_cap=cap),
        n=ROWS,
        batches=batches,
        epochs=EPOCHS,
        step_size=2.0,
        noise_std=0.003,
        **clipping,
    )
    run.guarantee(1e-5)
    gradients = SoftmaxGradients(records, y, CLASSES, residual_cap=cap)
    begin = time.perf_counter()
    train(run, gradients, np.zeros((records.width, CLASSES)))
    return time.perf_counter() - begin


CLIPPED: dict[str, dict[str, Any]] = {
    "residuals capped at 0.25": {"cap": 0.25},
    'clipping="residual"': {"clip_norm": 0.25, "clipping": "residual"},
}


def against_plain(turns: int) -> dict[str, float]:
    """Training on clipped softmax losses over that on plain ones, the least times of so many turns."""
    rng = np.random.default_rng(2)
    X, y = rng.random((ROWS, FEATURES), dtype=np.float32), rng.integers(0, CLASSES, ROWS)
    records = Records(X, feature_norm=1.0, intercept_scaling=0.5)
    ways = {"": {}, **CLIPPED}
    times = [
        [mnist_like(pabi.Cyclic(BATCH), records, y, **way) for way in ways.values()]
        for _ in range(turns)
    ]
    plain_least, *least = np.min(times, axis=0).tolist()
    return {name: t / plain_least for name, t in zip(CLIPPED, least, strict=True)}


def kinds() -> dict[str, Any]:
    """The data of the experiment by precision and storage."""
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    dense = rng.random((ROWS, FEATURES), dtype=np.float32)
    thin = random_array((ROWS, FEATURES), density=0.2, format="csr", dtype=np.float32, rng=rng)
    return {"float32": dense, "float64": dense.astype(np.float64), "float32 sparse": thin}


def against_products(turns: int) -> list[tuple[str, str, float, float]]:
    """(data, batches, seconds of the bare products, seconds of training), the least of so many turns."""
    rng = np.random.default_rng(1)
    y, order = rng.integers(0, CLASSES, ROWS), rng.permutation(ROWS)
    found = []
    for name, X in kinds().items():
        records = Records(X, feature_norm=1.0, intercept_scaling=0.5)
        for batches, rows in ((pabi.Cyclic(BATCH), None), (pabi.ShuffleOnce(BATCH), order)):
            times = [(products(X, rows), mnist_like(batches, records, y)) for _ in range(turns)]
            bare, trained = (min(side) for side in zip(*times, strict=True))
            found.append((name, batches.kind, bare, trained))
    return found


def with_threads(threads: int, turns: int) -> list[tuple[str, str, float, float]]:
    """`against_products` in a process whose BLAS has so many threads."""
    limits = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    command = [sys.executable, __file__, "--only-products", str(turns)]
    done = subprocess.run(
        command, env=os.environ | limits, capture_output=True, check=True, text=True
    )
    return [tuple(row) for row in json.loads(done.stdout)]


def sparse_epoch() -> tuple[float, float, float]:
    """(seconds to read, seconds to train one epoch, peak MB beyond the data)."""
    from scipy.sparse import csr_matrix

    n, d, entries = 1_000_000, 100_000, 10_000_000
    rng = np.random.default_rng(0)
    indptr = np.arange(0, entries + 1, entries // n)
    indices = np.sort(rng.integers(0, d, entries).reshape(n, -1), axis=1).ravel()
    X = csr_matrix((rng.random(entries), indices, indptr), (n, d))
    y = rng.integers(0, 2, n)
    before = peak_mb()
    begin = time.perf_counter()
    records = Records(X, feature_norm=1.0)
    read = time.perf_counter() - begin
    run = pabi.NoisySGD(
        pabi.Loss.logistic(feature_norm=1.0),
        n=n,
        batches=pabi.Cyclic(10_000),
        epochs=1,
        step_size=2.0,
        noise_std=1e-3,
    )
    begin = time.perf_counter()
    train(run, LogisticGradients(records, y), np.zeros(d))
    return read, time.perf_counter() - begin, peak_mb() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opacus", type=float, help="seconds an epoch of the same experiment")
    parser.add_argument("--turns", type=int, default=7, help="how often each time is taken")
    parser.add_argument(
        "--only-products", type=int, metavar="TURNS", help="print the ratios as JSON"
    )
    given = parser.parse_args()
    if given.only_products:
        print(json.dumps(against_products(given.only_products)))
        return
    table = Table(title="Training")
    for column in ("what", "measured", "goal"):
        table.add_column(column)

    for threads in (1, 2):
        for name, kind, bare, trained in with_threads(threads, given.turns):
            table.add_row(
                f"{name}, {kind}, {threads} BLAS thread{'s' if threads > 1 else ''}: an epoch over its "
                f"bare products ({plain(bare / EPOCHS, decimals=3)} s)",
                f"{plain(trained / EPOCHS, decimals=3)} s, {plain(trained / bare, decimals=2)}×",
                "≤ 1.5×",
            )
            if given.opacus and threads == 1:
                faster = plain(given.opacus * EPOCHS / trained, decimals=0)
                table.add_row("… against Opacus", f"{faster}×", "≥ 20×")
    for name, ratio in against_plain(given.turns).items():
        table.add_row(f"softmax, {name}, over plain", f"{plain(ratio, decimals=2)}×", "≤ 1.1×")
    rng = np.random.default_rng(0)
    X, y = rng.random((ROWS, FEATURES), dtype=np.float32), rng.integers(0, CLASSES, ROWS)
    before = peak_mb()
    mnist_like(pabi.ShuffleOnce(BATCH), Records(X, feature_norm=1.0, intercept_scaling=0.5), y)
    table.add_row(
        "peak of memory beyond the data",
        f"{plain(peak_mb() - before, decimals=0)} MB",
        "≤ 200 MB",
    )
    read, epoch, memory = sparse_epoch()
    table.add_row(
        "10⁶ × 10⁵ sparse, 10⁷ entries, one epoch",
        f"{plain(read, 2)} + {plain(epoch, 2)} s, {plain(memory, 3)} MB beyond the data",
        "trains, not densified",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
