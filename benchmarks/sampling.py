"""Speed of sampling, beside its goals and beside a sampler library.

    OMP_NUM_THREADS=1 python benchmarks/sampling.py [--peer RESULTS.json]

10⁴ Langevin chains on a logistic posterior of 10³ records in 10 dimensions, against the two matrix products
of every step alone: in one piece, as one would write them down, and block by block within the cache, as
they are done here. 20 steps are timed and stand for 10³: every step is the same. Then effective draws a
second on the same target, for the mean of the coordinate with the fewest, and how far the chains' own
standard deviations are from the posterior's: steps are not corrected here. `--peer` is what
benchmarks/peers/emcee_sampling.py wrote on this machine. Last, exact draws. Seconds are of processor time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.sampling import gibbs_rejection, langevin, mean_gradient, mean_loss
from pabi.showing import plain
from peers.sampling_target import DIMENSION, RECORDS, posterior

CHAINS, STEPS, RUNS = 10_000, 20, 5
POINTS = 32  # of a block of matrix products, as in pabi.sampling


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def products(X: np.ndarray, points: np.ndarray, block: np.ndarray, result: np.ndarray) -> None:
    """The two matrix products of a step, for as many chains at a time as `block` has rows."""
    together = len(block)
    for first in range(0, len(points), together):
        some = slice(first, min(first + together, len(points)))
        z = block[: some.stop - first]
        np.matmul(points[some], X.T, out=z)
        np.matmul(z, X, out=result[some])


def chain(loss: pabi.Loss, **fields: object) -> pabi.LangevinChain:
    given = {"step_size": 1e-3, "steps": STEPS, "chains": CHAINS, **fields}
    return pabi.LangevinChain(loss, n=RECORDS, inverse_temperature=float(RECORDS), **given)


def stepping(table: Table, X: np.ndarray, y: np.ndarray, loss: pabi.Loss) -> None:
    run, gradient = chain(loss), mean_gradient(X, y, loss)
    points = np.random.default_rng(0).normal(size=(CHAINS, DIMENSION))
    langevin(run, gradient, points)  # imports and guarantee
    # In turns, so that what else the machine does falls on all of them alike.
    result = np.empty_like(points)
    large, small = np.ones((CHAINS, RECORDS)), np.ones((POINTS, RECORDS))
    whole, blocks, ours = [], [], []
    for _ in range(RUNS):
        whole.append(seconds(lambda: [products(X, points, large, result) for _ in range(STEPS)]))
        blocks.append(seconds(lambda: [products(X, points, small, result) for _ in range(STEPS)]))
        ours.append(seconds(lambda: langevin(run, gradient, points)))
    a, b, c = (min(times) / STEPS for times in (whole, blocks, ours))
    said = f"{plain(c * 1e3, 3)} ms a step, {plain(c / a, 3)}× of {plain(a * 1e3, 3)} ms"
    table.add_row("10⁴ chains, over their products in one piece", said, "≤ 2×")
    said = f"{plain(c / b, 3)}× of {plain(b * 1e3, 3)} ms"
    table.add_row("… over their products block by block", said, "")


def effective(
    table: Table, X: np.ndarray, y: np.ndarray, loss: pabi.Loss, peer: Path | None
) -> None:
    """Paths of many chains; the guarantee is composition's and is not what this is about."""
    run = chain(loss, chains=200, steps=3000, step_size=5e-3, release="path")
    gradient = mean_gradient(X, y, loss)
    start = np.zeros(DIMENSION)
    taken = seconds(lambda: langevin(run, gradient, start, thin=5))
    draws = langevin(run, gradient, start, thin=5)
    std = draws.values[:, 100:].std(axis=(0, 1))
    ours = float(np.min(draws.diagnostics(discard=100).ess_bulk)) / taken
    table.add_row("effective draws a second, 200 chains", f"{round(ours):,}", "")
    if peer is None:
        return
    for record in json.loads(peer.read_text()):
        name = f"{record['library']} {record['version']}, {record['walkers']} walkers"
        theirs = record["effective_per_second"]
        table.add_row(f"… {name}", f"{round(theirs):,}; ours are {plain(ours / theirs, 2)}×", "")
    off = np.max(np.abs(std / np.asarray(record["std"]) - 1.0))
    table.add_row(
        "… largest difference of standard deviations", plain(off, decimals=1, percent=True), ""
    )


def exact(table: Table) -> None:
    for n, p in ((1_000, 2), (1_000, 4), (1_000, 6), (100_000, 2)):
        taken = sorted(one_exact(n, p))
        name = f"an exact draw at ε = 1, {n:,} records, dimension {p}"
        table.add_row(name, f"{plain(taken[RUNS // 2], 2)} s", "")


def one_exact(n: int, p: int) -> list[float]:
    X, y, _ = posterior(n, p)
    loss = pabi.Loss.logistic(feature_norm=1.0)
    mechanism = pabi.ExponentialMechanism(loss, n=n, dimension=p, diameter=2.0, epsilon=1.0)
    value = mean_loss(X, y, loss)
    return [seconds(lambda: gibbs_rejection(mechanism, value)) for _ in range(RUNS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, help="what benchmarks/peers/emcee_sampling.py wrote")
    given = parser.parse_args()
    warnings.simplefilter("ignore", pabi.PrivacyWarning)
    table = Table(title="Sampling")
    for column in ("what", "measured", "goal"):
        table.add_column(column)
    X, y, precision = posterior(RECORDS, DIMENSION)
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=precision / RECORDS)
    stepping(table, X, y, loss)
    effective(table, X, y, loss, given.peer)
    exact(table)
    Console().print(table)


if __name__ == "__main__":
    main()
