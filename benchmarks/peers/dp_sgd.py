"""Test accuracy of tuned DP-SGD for linear models, as Opacus trains them, without Opacus.

    python benchmarks/peers/dp_sgd.py RESULTS.json [--datasets adult mnist] [--epsilons 0.5 1 4]
                                      [--seeds 10] [--jobs 2]

Every step takes each record with probability 1/⌈n/b⌉, clips each record's gradient (weights and bias
together) to norm C, adds N(0, σ²C²) and divides by the expected batch size; plain gradient steps,
from the random start of `torch.nn.Linear`. The norm of a softmax gradient is ‖p − e_y‖·‖(x, 1)‖, so that
no gradient of a single record is formed, and an epoch of MNIST takes a tenth of a second. σ is what
poisson_accountant.py says for (ε, 1e-5)-DP when one record is added or removed; it is at most what
Opacus' accountants ask for. `opacus_accuracy.py --check` compares `train` with Opacus.

The settings are the best of 24 by the mean test accuracy over two seeds, which costs no privacy here.
They are then measured over other seeds. The grids were laid around the best cells of wider searches over
further seeds. All of this is in the peer's favour. Nothing of pabi is imported, so that this runs in
the peers' environments too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# One thread a process: products of a batch are too small for two.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from poisson_accountant import noise_multiplier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from datasets import CLASSES, DATASETS, DELTA

EPSILONS = (0.5, 1.0, 4.0)
CHOOSING, MEASURING = 1_000, 0  # the first seeds of either
CHOOSING_SEEDS = 2
TINY = 1e-6  # Opacus adds it to norms
LEAST_LOGIT = -60.0  # below the largest; products of subnormal numbers take several times as long

Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Settings:
    """One cell of the grid."""

    step_size: float
    batch_size: int
    epochs: int
    clip_norm: float

    def batches(self, n: int) -> int:
        """In an epoch; one over the rate."""
        return math.ceil(n / self.batch_size)


def grid(n: int, classes: int) -> list[Settings]:
    """The 24 cells for n records."""
    many = n >= 10_000
    unit = (2.0 if many else 1.0) * (1.0 if classes == 2 else 4.0)
    steps = (1.0, 4.0, 8.0) if classes == 2 else (1.0, 2.0, 4.0)
    sizes = (512, 2048) if many else (math.ceil(n / 10), math.ceil(n / 3))
    epochs = (10, 20) if many else (20, 50)
    cells = product((unit * step for step in steps), sizes, epochs, (0.5, 1.0))
    return [Settings(*cell) for cell in cells]


@dataclass(frozen=True)
class Table:
    """Rows with a constant 1 and their targets, one column a logit."""

    rows: np.ndarray
    norms: np.ndarray
    targets: np.ndarray
    labels: np.ndarray


def table_of(X: np.ndarray, y: np.ndarray, classes: int) -> Table:
    rows = np.hstack([X, np.ones((len(X), 1))]).astype(np.float32)
    # Two classes have one logit.
    targets = y[:, None] if classes == 2 else np.eye(classes)[y]
    return Table(rows, np.linalg.norm(rows, axis=1), targets.astype(np.float32), y)


@cache
def tables(dataset: str) -> tuple[Table, Table]:
    """(train, test)."""
    X, y, X_test, y_test = DATASETS[dataset]()
    return table_of(X, y, CLASSES[dataset]), table_of(X_test, y_test, CLASSES[dataset])


def residuals(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The probabilities less the targets; overwrites the logits."""
    if logits.shape[1] == 1:
        return 0.5 * (1.0 + np.tanh(0.5 * logits)) - targets
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(np.maximum(logits, LEAST_LOGIT, out=logits), out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    logits -= targets
    return logits


def train(
    table: Table, noise: float, seed: int, settings: Settings, *, slopes: Slopes = residuals
) -> np.ndarray:
    """The weights, the bias in the last row; `noise` is the multiplier σ.

    `slopes`: the derivatives of the loss by the logits, from logits and targets.
    """
    rng = np.random.default_rng(seed)
    n, d = len(table.rows), table.rows.shape[1]
    size = (d, table.targets.shape[1])
    reach = (d - 1) ** -0.5
    theta = rng.uniform(-reach, reach, size).astype(np.float32)
    batches, clip = settings.batches(n), settings.clip_norm
    rate = settings.step_size / (n // batches)
    for _ in range(settings.epochs * batches):
        batch = np.flatnonzero(rng.random(n) < 1.0 / batches)
        x = table.rows[batch]
        weights = slopes(x @ theta, table.targets[batch])
        norms = np.linalg.norm(weights, axis=1) * table.norms[batch]
        weights *= np.minimum(clip / (norms + TINY), 1.0)[:, None]
        noisy = x.T @ weights + noise * clip * rng.standard_normal(size, np.float32)
        theta -= np.float32(rate) * noisy
    return theta


def accuracy(theta: np.ndarray, table: Table) -> float:
    logits = table.rows @ theta
    classes = logits[:, 0] > 0.0 if logits.shape[1] == 1 else logits.argmax(axis=1)
    return float(np.mean(classes == table.labels))


@dataclass(frozen=True)
class Trial:
    """One training."""

    dataset: str
    noise: float
    seed: int
    settings: Settings


def timed(trial: Trial) -> tuple[float, float]:
    """(test accuracy, seconds of training)."""
    table, test = tables(trial.dataset)
    begin = time.perf_counter()
    theta = train(table, trial.noise, trial.seed, trial.settings)
    seconds = time.perf_counter() - begin
    return accuracy(theta, test), seconds


@dataclass(frozen=True)
class Question:
    """A data set of n records and a privacy target."""

    dataset: str
    n: int
    epsilon: float

    def noise(self, settings: Settings) -> float:
        batches = settings.batches(self.n)
        return noise_multiplier(1.0 / batches, settings.epochs * batches, self.epsilon, DELTA)

    def tried(
        self, cells: Sequence[Settings], seeds: range, pool: ProcessPoolExecutor
    ) -> list[dict[str, Any]]:
        """What the seeds gave at each of the cells, as it is stored."""
        noises = [self.noise(cell) for cell in cells]
        trials = [
            Trial(self.dataset, noise, seed, cell)
            for cell, noise in zip(cells, noises, strict=True)
            for seed in seeds
        ]
        outcomes = iter(pool.map(timed, trials))
        return [
            summary(cell, noise, list(islice(outcomes, len(seeds))))
            for cell, noise in zip(cells, noises, strict=True)
        ]


def summary(cell: Settings, noise: float, outcomes: list[tuple[float, float]]) -> dict[str, Any]:
    shares, seconds = zip(*outcomes, strict=True)
    return {
        "settings": vars(cell),
        "noise_multiplier": noise,
        "accuracies": shares,
        "mean": float(np.mean(shares)),
        "standard_error": float(np.std(shares, ddof=1)) / len(shares) ** 0.5,
        "seconds": float(np.mean(seconds)),
    }


def measure(dataset: str, epsilon: float, seeds: int, pool: ProcessPoolExecutor) -> dict[str, Any]:
    """All cells, and the best of them over other seeds."""
    n = len(tables(dataset)[0].rows)
    question, cells = Question(dataset, n, epsilon), grid(n, CLASSES[dataset])
    tries = question.tried(cells, range(CHOOSING, CHOOSING + CHOOSING_SEEDS), pool)
    best = max(range(len(cells)), key=lambda i: tries[i]["mean"])
    final = question.tried([cells[best]], range(MEASURING, MEASURING + seeds), pool)[0]
    return {
        "dataset": dataset,
        "epsilon": epsilon,
        "delta": DELTA,
        "library": "DP-SGD",
        **final,
        "cells": tries,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the JSON file to write")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument(
        "--seeds", type=int, default=10, help="that measure the best cell, two or more"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds: expected at least 2, got {options.seeds}")
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for dataset, epsilon in product(options.datasets, options.epsilons):
            records.append(measure(dataset, epsilon, options.seeds, pool))
            options.results.write_text(json.dumps(records, indent=1))
            shown = ("dataset", "epsilon", "mean", "standard_error", "settings")
            print(*(records[-1][key] for key in shown), flush=True)


if __name__ == "__main__":
    main()
