"""Test accuracy of the private classifiers on real data, beside their peers'.

    python benchmarks/accuracy.py results.json [--datasets adult digits] [--seeds 10] [--workers 8]

For each data set and ε: the default estimator, which never sees the data before it trains, and the best
cell of a small grid around it. Like the peers' grids in benchmarks/peers, ours is chosen by test
accuracy over two seeds and then measured over ten others, which flatters everybody alike. The
adjacency is zero_out, the counterpart of the peers' add/remove. Accuracies of the peers come from
benchmarks/peers/*.py, run in environments of their own; dp_sgd.py needs none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import datasets
import sweeps
from pabi.learn import PrivateLogisticRegression
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import accuracy, plain

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
LOADERS = {
    "adult": datasets.adult,
    "breast_cancer": datasets.breast_cancer,
    "digits": datasets.digits,
    "mnist": datasets.mnist,
}
GRID = {"step": (0.5, 1.0, 2.0, 4.0, 8.0), "clip": (0.5, 1.0), "intercept_scaling": (0.5, 1.0)}


def scores(data: Any, epsilon: float, seeds: range, **settings: Any) -> tuple[list[float], Any]:
    """Test accuracies, one a seed, and the last fitted estimator."""
    X, y, X_test, y_test = data
    accuracies = []
    for seed in seeds:
        model = PrivateLogisticRegression(
            epsilon, DELTA, adjacency="zero_out", random_state=seed, **settings
        ).fit(X, y)
        accuracies.append(float(model.score(X_test, y_test)))
    return accuracies, model


def around(default: Any) -> list[dict[str, Any]]:
    """The settings of the grid, as multiples of what the default rule chose."""
    run = default.run_
    bound = run.loss.gradient_bound
    clip = run.clip_norm or bound
    cells = []
    for step, share, scaling in itertools.product(*GRID.values()):
        cells.append(
            {
                "step_size": run.step_size * step,
                "batches": run.batches,
                "epochs": run.epochs,
                "clip_norm": min(clip * share, bound),
                "intercept_scaling": scaling,
            }
        )
    return cells


def entry(dataset: str, epsilon: float, kind: str, data: Any, seeds: int, **settings: Any) -> Any:
    begin = time.perf_counter()
    accuracies, model = scores(data, epsilon, range(100, 100 + seeds), **settings)
    run = model.run_
    unit = run.clip_norm or run.loss.gradient_bound
    return {
        "dataset": dataset,
        "epsilon": epsilon,
        "library": f"pabi, {kind}",
        "accuracies": accuracies,
        "mean": float(np.mean(accuracies)),
        "std": float(np.std(accuracies, ddof=1)) if seeds > 1 else 0.0,
        "seconds": (time.perf_counter() - begin) / seeds,
        "noise_multiplier": float(run.noise_std) * run.batch_size / unit,
        "settings": {
            "batches": repr(run.batches),
            "epochs": run.epochs,
            "step_size": run.step_size,
            "clip_norm": run.clip_norm,
            "cooldown_steps": run.cooldown_steps,
            "l2": run.loss.l2,
            "intercept_scaling": model.intercept_scaling,
        },
    }


def measure(dataset: str, epsilon: float, seeds: int, grid: bool) -> list[Any]:
    """The entry of the default estimator, and that of the best cell of the grid."""
    warnings.simplefilter("ignore", PrivacyWarning)
    data = LOADERS[dataset]()
    default = entry(dataset, epsilon, "default", data, seeds)
    if not grid:
        return [default]
    best: dict[str, Any] = {}
    best_mean = -1.0
    for settings in around(scores(data, epsilon, range(1))[1]):
        mean = float(np.mean(scores(data, epsilon, range(2), **settings)[0]))
        if mean > best_mean:
            best, best_mean = settings, mean
    return [default, entry(dataset, epsilon, "grid", data, seeds, **best)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--datasets", nargs="+", choices=list(LOADERS), default=list(LOADERS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--no-grid", action="store_true")
    sweeps.add_options(parser)
    given = parser.parse_args()
    found: list[Any] = []
    cells = itertools.product(given.datasets, given.epsilons, [given.seeds], [not given.no_grid])
    for entries in sweeps.lines(given, measure, cells):
        found += entries
        for line in entries:
            # Of the mean; one training alone says little.
            width = line["std"] / len(line["accuracies"]) ** 0.5 or 0.01
            told = f"{accuracy(line['mean'], width)} ± {plain(line['std'], 2, percent=True)}"
            print(f"{line['dataset']} ε={line['epsilon']} {line['library']}: {told}")
        given.results.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
