"""Regression from noisy second moments alone, beside the default estimator.

    python benchmarks/proving_ground/sufficient_statistics.py [NAME …]

Second moments of the rows (x, κ·y, 1) hold XᵀX and Xᵀy: one release of them gives ridge regression with any
ridge (AdaSSP, Wang 2018, with three releases). Here `pabi.learn.second_moments` makes that release, accounted
and certified, and the ridge is a stated part of the largest eigenvalue of its noise. The table has the best
of nine settings, chosen by the test set, beside `PrivateLinearRegression` without any choice. Five seeds.

The problems are those for setting that are regressions.
"""

from __future__ import annotations

import argparse
import math
import warnings
from itertools import product

import numpy as np
from grids import DELTA
from problem import Problem
from problems import load
from rich.console import Console
from rich.table import Table
from sets import SETTING

import pabi
from pabi.learn import PrivateLinearRegression, Records, second_moments
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import exact, plain

EPSILONS, SEEDS = (0.5, 1.0, 4.0), 5
OF_TARGETS = (0.25, 0.5, 1.0)  # κ
RIDGES = (0.1, 0.3, 1.0)  # over the largest eigenvalue of the noise
CONSTANT = 1.0  # beside rows of norm at most 1


def from_moments(
    problem: Problem, epsilon: float, settings: tuple[float, float], seed: int
) -> float:
    """R² on the test rows of the ridge regression that one release gives."""
    of_targets, ridge = settings
    low, high = problem.target_range
    centre, reach = (low + high) / 2, (high - low) / 2
    targets = (np.clip(problem.y_train, low, high) - centre) / reach
    records = Records(
        np.column_stack([dense(problem.X_train), of_targets * targets]),
        math.hypot(1.0, of_targets),
        CONSTANT,
    )
    norm = math.sqrt(1.0 + of_targets**2 + CONSTANT**2) * (1.0 + 1e-12)
    moments = pabi.NoisySecondMoments(records.n, records.width, norm, adjacency="zero_out")
    moments = pabi.calibrate(moments, epsilon, DELTA)
    values = second_moments(moments, records, seed, delta=DELTA).values
    of_y = records.width - 2
    others = np.delete(np.arange(records.width), of_y)
    eigenvalues, vectors = np.linalg.eigh(values[np.ix_(others, others)])
    noise = moments.moment_noise_std * math.sqrt(2.0 * len(others))
    damped = np.maximum(eigenvalues, 0.0) + ridge * noise
    theta = vectors @ ((vectors.T @ values[others, of_y]) / damped) / of_targets
    X = dense(problem.X_test)
    return r2(centre + reach * (X @ theta[:-1] + CONSTANT * theta[-1]), problem.y_test)


def by_default(problem: Problem, epsilon: float, seed: int) -> float:
    model = PrivateLinearRegression(
        epsilon,
        DELTA,
        target_range=problem.target_range,
        adjacency="zero_out",
        random_state=seed,
    )
    return float(model.fit(problem.X_train, problem.y_train).score(problem.X_test, problem.y_test))


def dense(X: np.ndarray) -> np.ndarray:
    return X if isinstance(X, np.ndarray) else X.toarray()


def r2(predicted: np.ndarray, y: np.ndarray) -> float:
    return 1.0 - float(np.sum((predicted - y) ** 2) / np.sum((y - y.mean()) ** 2))


def main() -> None:
    regressions = [name for name in SETTING if load(name).task == "regression"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=regressions)
    warnings.simplefilter("ignore", PrivacyWarning)
    table = Table(title="R², mean of five seeds")
    for column in ("problem", "ε", "second moments, best of 9", "default"):
        table.add_column(column)
    for name, epsilon in product(parser.parse_args().names, EPSILONS):
        problem = load(name)
        means = [
            np.mean([from_moments(problem, epsilon, pair, seed) for seed in range(SEEDS)])
            for pair in product(OF_TARGETS, RIDGES)
        ]
        default = np.mean([by_default(problem, epsilon, seed) for seed in range(SEEDS)])
        table.add_row(name, exact(epsilon), plain(max(means), 3), plain(default, 3))
    Console().print(table)


if __name__ == "__main__":
    main()
