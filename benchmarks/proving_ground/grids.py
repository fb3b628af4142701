"""What tuned peers reach on the problems: every cell of their grids, and the best of them.

    python benchmarks/proving_ground/grids.py [NAME …] [--peers DP-SGD] [--epsilons 0.5 1 4] [--again]
        [--workers 8]

Each cell is tried with two seeds, of AdaSSP with ten. For each metric the cell of the best mean is then
measured with ten other seeds. Choosing by the test set costs no privacy here, which is in the peers'
favour. Where a fit is slow the seeds are fewer, never the cells. `results/peers/NAME.json` has a record for
each peer and ε; what is there already is not run again without --again. δ is 1e-5, and 0 for the pure
mechanisms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, SupportsFloat

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import dp_sgd
from metrics import METRICS, Scores, scores, sign
from perturbed import Moments, Perturbed, noise_of_three, probabilities
from poisson_accountant import noise_multiplier
from problem import Problem
from problems import PROBLEMS, load
from sets import JUDGING, SETTING

import sweeps
from pabi.showing import plain

RESULTS = Path(__file__).resolve().parent / "results" / "peers"
EPSILONS = (0.5, 1.0, 4.0)
FURTHER = dict.fromkeys(("adult", "fashion_mnist", "mnist"), (0.1,))
DELTA = 1e-5
CHOOSING, MEASURING = 1_000, 0  # the first seeds of either
SEEDS = {"chooses": 2, "measures": 10}
SEEDS_OF_MOMENTS = {"chooses": 10, "measures": 10}  # a fit of AdaSSP takes no time, and scatters
LARGE = 10_000_000  # entries of the rows
SEEDS_OF_LARGE = {"chooses": 1, "measures": 5}
L2 = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
STEPS_OF_SQUARES = (0.5, 1.0, 2.0, 4.0)
CONSTANTS, RIDGES = (0.125, 0.25, 0.5, 1.0), (2.0, 1.0, 0.6, 0.3, 0.1)  # of AdaSSP
DIGITS = 5  # that are written

Cell = dict[str, float]


@dataclass(frozen=True)
class Peer:
    """A mechanism on a problem: its cells, and what it predicts of the test rows."""

    name: str
    delta: float
    adjacency: str
    cells: list[Cell]
    predictions: Callable[[Cell, float, int], np.ndarray]
    seeds: dict[str, int]


def peers_of(problem: Problem) -> list[Peer]:
    if problem.task == "regression":
        return [squared_sgd(problem), adassp(problem)]
    return [sgd(problem), *perturbed(problem)]


def sgd(problem: Problem) -> Peer:
    """benchmarks/peers/dp_sgd.py."""
    train = dp_sgd.table_of(problem.X_train, problem.y_train, problem.classes)
    test = dp_sgd.table_of(problem.X_test, problem.y_test, problem.classes)
    n = len(train.rows)

    def predictions(cell: Cell, epsilon: float, seed: int) -> np.ndarray:
        settings = dp_sgd.Settings(**cell)
        theta = dp_sgd.train(train, noise_of(settings, n, epsilon), seed, settings)
        shares = dp_sgd.residuals(test.rows @ theta, np.float32(0.0))
        return np.hstack([1.0 - shares, shares]) if problem.classes == 2 else shares

    cells = [vars(cell) for cell in dp_sgd.grid(n, problem.classes)]
    seeds = SEEDS_OF_LARGE if train.rows.size > LARGE else SEEDS
    return Peer("DP-SGD", DELTA, "add_remove", cells, predictions, seeds)


def noise_of(settings: dp_sgd.Settings, n: int, epsilon: float) -> float:
    batches = settings.batches(n)
    return noise_multiplier(1.0 / batches, settings.epochs * batches, epsilon, DELTA)


def squared_sgd(problem: Problem) -> Peer:
    """The same for least squares, with other step sizes, since its curvature is 1 and not 1/4."""
    scale = Scale.of(problem)
    train = dp_sgd.table_of(problem.X_train, scale.seen(problem.y_train), 2)
    test = dp_sgd.table_of(problem.X_test, problem.y_test, 2)
    n = len(train.rows)

    def predictions(cell: Cell, epsilon: float, seed: int) -> np.ndarray:
        settings = dp_sgd.Settings(**cell)
        noise = noise_of(settings, n, epsilon)
        theta = dp_sgd.train(train, noise, seed, settings, slopes=np.subtract)
        return scale.meant((test.rows @ theta)[:, 0])

    return Peer("DP-SGD", DELTA, "add_remove", cells_of_squares(n), predictions, SEEDS)


def cells_of_squares(n: int) -> list[Cell]:
    """Those for two classes, with other step sizes."""
    cells = [vars(cell) for cell in dp_sgd.grid(n, 2)]
    first = [cell for cell in cells if cell["step_size"] == cells[0]["step_size"]]
    return [cell | {"step_size": step} for step, cell in product(STEPS_OF_SQUARES, first)]


def perturbed(problem: Problem) -> Iterator[Peer]:
    """Output and objective perturbation."""
    model = Perturbed.of(problem.X_train, problem.y_train, problem.classes)
    minimum = cache(model.minimum)

    def by_output(cell: Cell, epsilon: float, seed: int) -> np.ndarray:
        f = model.by_output(minimum(cell["l2"]), epsilon, cell["l2"], seed)
        return probabilities(f, problem.X_test)

    def by_objective(cell: Cell, epsilon: float, seed: int) -> np.ndarray:
        return probabilities(model.by_objective(epsilon, cell["l2"], seed), problem.X_test)

    cells = [{"l2": l2} for l2 in L2]
    slow = SEEDS_OF_LARGE if model.rows.size > LARGE else SEEDS
    yield Peer("output perturbation", 0.0, "replace_one", cells, by_output, SEEDS)
    yield Peer("objective perturbation", 0.0, "replace_one", cells, by_objective, slow)


@dataclass(frozen=True)
class Scale:
    """Targets on [−1, 1], clipped to their range."""

    low: float
    high: float

    @classmethod
    def of(cls, problem: Problem) -> Scale:
        assert problem.target_range is not None  # for regression
        return cls(*problem.target_range)

    def seen(self, y: np.ndarray) -> np.ndarray:
        inside = np.clip(y, self.low, self.high)
        return (2.0 * inside - self.low - self.high) / (self.high - self.low)

    def meant(self, predictions: np.ndarray) -> np.ndarray:
        inside = np.clip(predictions, -1.0, 1.0)
        return 0.5 * (self.low + self.high + inside * (self.high - self.low))


def adassp(problem: Problem) -> Peer:
    scale = Scale.of(problem)
    y = scale.seen(problem.y_train)
    moments = {c: Moments.of(problem.X_train, y, c) for c in CONSTANTS}

    def predictions(cell: Cell, epsilon: float, seed: int) -> np.ndarray:
        those = moments[cell["constant"]]
        f = those.adassp(noise_of_three(epsilon, DELTA), cell["ridge"], DELTA, seed)
        return scale.meant(those.predict(f, problem.X_test))

    cells = [{"constant": c, "ridge": r} for c, r in product(CONSTANTS, RIDGES)]
    return Peer("AdaSSP", DELTA, "add_remove", cells, predictions, SEEDS_OF_MOMENTS)


def trials(problem: Problem, peer: Peer, epsilon: float, cell: Cell, seeds: range) -> list[Scores]:
    return [
        scores(peer.predictions(cell, epsilon, seed), problem.y_test, problem.classes)
        for seed in seeds
    ]


def short(x: SupportsFloat) -> float:
    """As many digits as a file needs."""
    return float(plain(x, decimals=DIGITS))


def means(several: list[Scores]) -> Scores:
    return {m: short(np.mean([s[m] for s in several])) for m in several[0]}


def errors(several: list[Scores]) -> Scores:
    """Standard errors of the means."""
    root = len(several) ** 0.5
    return {m: short(np.std([s[m] for s in several], ddof=1) / root) for m in several[0]}


def measure(problem: Problem, peer: Peer, epsilon: float) -> dict[str, Any]:
    """All cells, and the best of them for each metric over other seeds."""
    begin = time.perf_counter()
    seeds = range(CHOOSING, CHOOSING + peer.seeds["chooses"])
    tries = [means(trials(problem, peer, epsilon, cell, seeds)) for cell in peer.cells]
    best = {
        metric: max(range(len(tries)), key=lambda i: sign(metric) * tries[i][metric])
        for metric in METRICS[problem.task]
    }
    others = range(MEASURING, MEASURING + peer.seeds["measures"])
    measured = {
        i: trials(problem, peer, epsilon, peer.cells[i], others) for i in set(best.values())
    }
    return {
        "peer": peer.name,
        "epsilon": epsilon,
        "delta": peer.delta,
        "adjacency": peer.adjacency,
        "seeds": peer.seeds,
        "minutes": short((time.perf_counter() - begin) / 60.0),
        "best": {
            metric: {
                "cell": i,
                "mean": means(measured[i])[metric],
                "standard_error": errors(measured[i])[metric],
            }
            for metric, i in best.items()
        },
        "measured": {str(i): means(several) for i, several in measured.items()},
        "cells": [cell | tried for cell, tried in zip(peer.cells, tries, strict=True)],
    }


def stored(name: str) -> list[dict[str, Any]]:
    """The records of a problem that are on file."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def store(name: str, records: list[dict[str, Any]]) -> None:
    """A line for each record."""
    lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    (RESULTS / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def measure_named(name: str, peer: str, epsilons: list[float]) -> list[dict[str, Any]]:
    """The records of a problem and a peer that are known by their names."""
    problem = load(name)
    (own,) = (one for one in peers_of(problem) if one.name == peer)
    return [measure(problem, own, epsilon) for epsilon in epsilons]


def missing(name: str, options: argparse.Namespace) -> Iterator[tuple[str, str, list[float]]]:
    """(problem, peer, all ε) of the records that are asked for, and not on file."""
    former = {(r["peer"], r["epsilon"]) for r in stored(name)}
    for peer in peers_of(load(name)):
        every = options.epsilons or (*FURTHER.get(name, ()), *EPSILONS)
        new = [e for e in every if options.again or (peer.name, e) not in former]
        if new and (not options.peers or peer.name in options.peers):
            yield name, peer.name, new


def add(name: str, record: dict[str, Any]) -> None:
    """Puts a record on file, in place of a former one."""
    key = record["peer"], record["epsilon"]
    store(name, [r for r in stored(name) if (r["peer"], r["epsilon"]) != key] + [record])
    best = {m: (b["mean"], b["standard_error"]) for m, b in record["best"].items()}
    print(name, *key, record["minutes"], best, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of problems; unless some are named, all of them")
    parser.add_argument("--peers", nargs="+", help="only these")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--again", action="store_true", help="what is on file too")
    sweeps.add_options(parser)
    options = parser.parse_args()
    names = options.names or (*SETTING, *JUDGING)
    for name in names:
        if name not in PROBLEMS:
            parser.error(f"no problem is called {name!r}")
    cells = [cell for name in names for cell in missing(name, options)]
    several = sweeps.lines(options, measure_named, cells)
    for (name, *_), records in zip(cells, several, strict=True):
        for record in records:
            add(name, record)


if __name__ == "__main__":
    main()
