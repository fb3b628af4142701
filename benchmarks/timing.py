"""Does the time of a fit depend on one record? Fits with and without an outlier, by a permutation test.

`python benchmarks/timing.py [--fits 300]` fits private models to one table and to one that differs from it in
one row, in random order, and permutes which fit was of which. Times are of the processor, of this process. A
small p says that the means differ by more than chance; a large one does not say that they are the same.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pabi.learn import PrivateLinearRegression, PrivateLogisticRegression
from pabi.showing import plain

N, D, EPOCHS = 2_000, 20, 20
PERMUTATIONS = 10_000


TASKS: dict[str, tuple[int, Callable[[], Any]]] = {
    "two classes": (
        2,
        lambda: PrivateLogisticRegression(1.0, 1e-5, 1.0, classes=[0, 1], epochs=EPOCHS),
    ),
    "five classes": (
        5,
        lambda: PrivateLogisticRegression(1.0, 1e-5, 1.0, classes=[0, 1, 2, 3, 4], epochs=EPOCHS),
    ),
    "numbers": (
        0,
        lambda: PrivateLinearRegression(1.0, 1e-5, 1.0, target_range=(-2.0, 2.0), epochs=EPOCHS),
    ),
}


def tables() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(a table, what takes the place of its first row)."""
    rows = np.random.default_rng(0).standard_normal((N, D))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    others = {
        "like the others": rows[1].copy(),
        "long, and scaled down": np.full(D, 1e6),
        "all zeros": np.zeros(D),
        "of the least doubles": np.full(D, 5e-324),
    }
    return rows, others


def targets(rows: np.ndarray, classes: int) -> np.ndarray:
    """Classes by each row's first feature, equally frequent ones; 0: five times the feature."""
    first = rows[:, 0]
    return classes * np.argsort(np.argsort(first)) // len(first) if classes else 5.0 * first


def seconds(task: str, rows: np.ndarray, y: np.ndarray) -> float:
    """Of processor time, for one fit."""
    model = TASKS[task][1]()
    begin = time.process_time()
    model.fit(rows, y)
    return time.process_time() - begin


def measured(task: str, fits: int, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(seconds of fits without the row, seconds of fits with it), taken in random order."""
    rows, _ = tables()
    y, changed = targets(rows, TASKS[task][0]), rows.copy()
    changed[0] = row
    order = [False, True] * fits
    random.Random(1).shuffle(order)
    times: tuple[list[float], list[float]] = ([], [])
    for own in order:
        times[own].append(seconds(task, changed if own else rows, y))
    return np.array(times[0]), np.array(times[1])


def p_value(without: np.ndarray, with_it: np.ndarray) -> float:
    """Of a permutation test of the difference of the means of ranks, two-sided."""
    ranks = np.argsort(np.argsort(np.concatenate([without, with_it]))).astype(float)
    k, rng = len(without), np.random.default_rng(2)
    seen = abs(ranks[:k].mean() - ranks[k:].mean())
    shuffled = rng.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)
    differences = np.abs(shuffled[:, :k].mean(axis=1) - shuffled[:, k:].mean(axis=1))
    return float((1 + np.sum(differences >= seen)) / (1 + PERMUTATIONS))


def main() -> None:
    """Measure every kind of row, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=300, help="of either table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, others = tables()
    print(
        "| to learn | the row | fits of each | without, median ms | with, median ms | difference | p |"
    )
    print("|---|---|---|---|---|---|---|")
    for task, (classes, _) in TASKS.items():
        for _ in range(5):
            seconds(task, rows, targets(rows, classes))
        for name, row in others.items():
            without, with_it = measured(task, options.fits, row)
            a, b = 1e3 * np.median(without), 1e3 * np.median(with_it)
            cells = [
                plain(a),
                plain(b),
                f"{plain(100 * (b / a - 1), 2)} %",
                plain(p_value(without, with_it), 2),
            ]
            print(f"| {task} | {name} | {options.fits} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
