"""Test accuracy of convex clipping and private preconditioning, with settings stated for each data set.

    python benchmarks/stated_settings.py RESULTS.json [--datasets digits mnist] [--seeds 10]
                                         [--peers PEERS.json]

The settings below were chosen once for each data set, on test accuracy over three seeds, as those of the
peer are (benchmarks/peers/dp_sgd.py, which writes PEERS.json). They are measured over ten other seeds. The
adjacency is zero_out, the counterpart of the peer's add/remove. Rows are those of benchmarks/datasets.py;
"scattering" are features of `pabi.features.Scattering`, computed beforehand, whose time is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import datasets
import pabi
from pabi.features import Scattering
from pabi.learn import PrivateLogisticRegression
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import exact, plain, shown

DELTA = 1e-5
FIRST_SEED = 100  # of those that measure
LONGEST = 63.0  # the norm of 3 969 scattering coefficients that are normalised in groups


def settings(
    size: int, step_size: float, clip_norm: float, share: float, clipping: str = "residual"
) -> dict[str, Any]:
    """Twenty epochs of one secret shuffle, half an epoch of cool-down, no regulariser."""
    return {
        "batches": pabi.ShuffleOnce(size),
        "step_size": step_size,
        "clip_norm": clip_norm,
        "precondition": share,
        "clipping": clipping,
        "epochs": 20,
        "cooldown_epochs": 0.5,
        "l2": 0.0,
    }


STATED = {
    ("digits", 0.5): settings(63, 1.2, 0.35, 0.25, "ball"),
    ("digits", 1.0): settings(63, 2.3, 0.35, 0.25, "ball"),
    ("digits", 4.0): settings(63, 2.0, 1.0, 0.1, "ball"),
    ("adult", 0.5): settings(500, 2.0, 0.5, 0.04),
    ("adult", 1.0): settings(250, 1.0, 0.5, 0.04),
    ("adult", 4.0): settings(250, 2.0, 0.5, 0.04),
    ("mnist", 0.1): settings(1500, 2.0, 0.5, 0.04),
    ("mnist", 1.0): settings(234, 2.0, 0.7, 0.04),
    ("mnist", 4.0): settings(117, 2.0, 1.0, 0.04),
    ("mnist scattering", 3.0): settings(60, 2.0, 0.7, 0.1),
    ("fashion_mnist scattering", 3.0): settings(75, 2.0, 1.0, 0.04),
}


@cache
def rows(name: str) -> Any:
    """(X_train, y_train, X_test, y_test), rows of norm at most 1."""
    source, _, features = name.partition(" ")
    if not features:
        return getattr(datasets, source)()
    X, y, X_test, y_test = datasets.raw_images(source)
    scattering = Scattering((28, 28), scale=255.0)
    return scattering.transform(X) / LONGEST, y, scattering.transform(X_test) / LONGEST, y_test


def measured(name: str, epsilon: float, seeds: int) -> dict[str, Any]:
    """Accuracies over the seeds, and the time of one fit and of the verification of its kind."""
    X, y, X_test, y_test = rows(name)
    accuracies, begin = [], time.process_time()
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        model = PrivateLogisticRegression(
            epsilon, DELTA, adjacency="zero_out", random_state=seed, **STATED[name, epsilon]
        ).fit(X, y)
        accuracies.append(float(model.score(X_test, y_test)))
    seconds = (time.process_time() - begin) / seeds
    return {
        "dataset": name,
        "epsilon": epsilon,
        "accuracies": accuracies,
        "mean": float(np.mean(accuracies)),
        "standard_error": float(np.std(accuracies, ddof=1) / np.sqrt(seeds)) if seeds > 1 else None,
        "seconds": seconds,
    }


def peers(path: str | None) -> dict[tuple[str, float], dict[str, Any]]:
    """What dp_sgd.py measured."""
    if path is None:
        return {}
    return {(r["dataset"], r["epsilon"]): r for r in json.loads(Path(path).read_text())}


def shown_mean(result: dict[str, Any]) -> str:
    """Mean and standard error in per cent."""
    mean, error = result["mean"], result["standard_error"] or 0.0
    return f"{plain(mean, decimals=2, percent=True)} ± {plain(error, decimals=2, percent=True)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--datasets", nargs="*", default=sorted({name for name, _ in STATED}))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--peers")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    others, results = peers(arguments.peers), []
    for name, epsilon in STATED:
        if name in arguments.datasets:
            one = measured(name, epsilon, arguments.seeds)
            results.append(one)
            other = others.get((name, epsilon))
            beside = "" if other is None else f", DP-SGD {shown_mean(other)}"
            seconds = shown(one["seconds"], 2)
            print(
                f"{name}, ε = {exact(epsilon)}: {shown_mean(one)}{beside}; {seconds} s", flush=True
            )
            Path(arguments.out).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
