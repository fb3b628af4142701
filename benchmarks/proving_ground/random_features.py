"""The default estimator on tables, with random features and without.

    python benchmarks/proving_ground/random_features.py [NAME …] [--settings '{"length": 3.0}'] [--seeds 5]

Test accuracy and AUC as mean ± standard deviation over seeds of the training, in per cent. ε is 1 and 4, δ is
1e-5, the adjacency is zero_out. All problems are ones for setting: defaults of the features were chosen here.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
from metrics import scores
from problem import Problem
from problems import load
from rich.console import Console
from rich.table import Table
from sklearn.pipeline import make_pipeline

from pabi.features import RandomFeatures
from pabi.learn import PrivateLogisticRegression
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import as_printed, exact

# Columns with a declared range, of which tables.py divides rows by the root; None for rows of norm 1.
COLUMNS = {"trees": 20, "credit_default": 3, "segment": 18, "adult": None, "yeast": None}
EPSILONS, DELTA = (1.0, 4.0), 1e-5


def ranges(name: str) -> tuple[float, float] | None:
    """What every entry is declared to be between."""
    columns = COLUMNS[name]
    return None if columns is None else (-(columns**-0.5), columns**-0.5)


def trial(problem: Problem, epsilon: float, seed: int, *steps: Any) -> tuple[float, float]:
    head = PrivateLogisticRegression(
        epsilon,
        DELTA,
        adjacency="zero_out",
        classes=np.arange(problem.classes),
        random_state=seed,
    )
    model = make_pipeline(*steps, head).fit(problem.X_train, problem.y_train)
    reached = scores(model.predict_proba(problem.X_test), problem.y_test, problem.classes)
    return reached["accuracy"], reached["auc"]


def cells(problem: Problem, epsilon: float, seeds: int, *steps: Any) -> list[str]:
    several = np.array([trial(problem, epsilon, seed, *steps) for seed in range(seeds)])
    means, spread = 100.0 * several.mean(axis=0), 100.0 * several.std(axis=0, ddof=1)
    return [f"{as_printed(m, 1)} ± {as_printed(s, 1)}" for m, s in zip(means, spread, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COLUMNS))
    parser.add_argument("--settings", type=json.loads, default={}, help="of the features, as JSON")
    parser.add_argument("--seeds", type=int, default=5, help="two or more")
    options = parser.parse_args()
    if unknown := set(options.names) - set(COLUMNS):
        parser.error(f"expected names among {', '.join(COLUMNS)}, got {', '.join(unknown)}")
    warnings.simplefilter("ignore", PrivacyWarning)  # seeds are for repetition; the data are public
    table = Table(title="Without features, and with")
    for column in ("problem", "ε", "accuracy", "with", "AUC", "with"):
        table.add_column(column)
    for name in options.names or COLUMNS:
        problem, features = load(name), RandomFeatures(ranges(name), **options.settings)
        for epsilon in EPSILONS:
            bare = cells(problem, epsilon, options.seeds)
            both = cells(problem, epsilon, options.seeds, features)
            table.add_row(name, exact(epsilon), bare[0], both[0], bare[1], both[1])
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
