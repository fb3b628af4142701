"""Speed and memory of training, each beside its goal.

    python benchmarks/training.py [--opacus SECONDS_PER_EPOCH]

The MNIST experiment (60 000 rows of 784 features, 10 classes, batches of 1 500, 50 epochs) against its bare
matrix products on the same machine, on random data of that shape; the peak of memory beyond the data; one
epoch over a sparse matrix of 10⁶ × 10⁵ with 10⁷ entries. `--opacus` is what benchmarks/peers/opacus_speed.py
measured on this machine.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.learn import LogisticGradients, Records, SoftmaxGradients, train
from pabi.showing import plain

ROWS, FEATURES, CLASSES, BATCH, EPOCHS = 60_000, 784, 10, 1_500, 50


def peak_mb() -> float:
    """The largest resident memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def products(X: np.ndarray, order: np.ndarray | None) -> float:
    """Seconds for the two matrix products of every step of the experiment."""
    theta = np.zeros((FEATURES, CLASSES))
    residual = np.ones((BATCH, CLASSES))
    begin = time.perf_counter()
    for _ in range(EPOCHS):
        for first in range(0, ROWS, BATCH):
            rows = slice(first, first + BATCH)
            block = X[rows] if order is None else X[order[rows]]
            block @ theta
            block.T @ residual
    return time.perf_counter() - begin


def mnist_like(batches: pabi.Cyclic | pabi.ShuffleOnce, records: Records, y: np.ndarray) -> float:
    run = pabi.NoisySGD(
        pabi.Loss.softmax(feature_norm=1.25**0.5),
        n=ROWS,
        batches=batches,
        epochs=EPOCHS,
        step_size=2.0,
        noise_std=0.003,
    )
    run.guarantee(1e-5)
    begin = time.perf_counter()
    train(run, SoftmaxGradients(records, y, CLASSES), np.zeros((records.width, CLASSES)))
    return time.perf_counter() - begin


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
    given = parser.parse_args()
    table = Table(title="Training")
    for column in ("what", "measured", "goal"):
        table.add_column(column)

    rng = np.random.default_rng(0)
    X, y = rng.random((ROWS, FEATURES)), rng.integers(0, CLASSES, ROWS)
    order = rng.permutation(ROWS)
    before = peak_mb()
    records = Records(X, feature_norm=1.0, intercept_scaling=0.5)
    for batches, rows in ((pabi.Cyclic(BATCH), None), (pabi.ShuffleOnce(BATCH), order)):
        bare = min(products(X, rows) for _ in range(2))
        trained = min(mnist_like(batches, records, y) for _ in range(2))
        table.add_row(
            f"{EPOCHS} epochs, {batches.kind}: over its bare products ({plain(bare, decimals=1)} s)",
            f"{plain(trained, decimals=1)} s, {plain(trained / bare, decimals=2)}×",
            "≤ 1.5×",
        )
        if given.opacus:
            faster = plain(given.opacus * EPOCHS / trained, decimals=0)
            table.add_row("… against Opacus", f"{faster}×", "≥ 20×")
    table.add_row(
        "… peak of memory beyond the data",
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
