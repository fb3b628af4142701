"""A private search on Adult beside what it competes with, all at the same total (ε, δ).

    python benchmarks/selection.py results.json [--seeds 5] [--epsilon 1] [--mean-trials 10]

The ways, each with the logistic regression of pabi.learn under zero_out:

- "default": one fit with the settings of the rule, at the whole budget;
- "search, public scores": `PrivateSearchCV` over 20 settings, scored on 1000 rows of the test file that count
  as public;
- "search, private scores": the same, scored on a tenth of the private rows, with noise;
- "all 20 composed": every setting is fitted and released, so that each gets a small part of the budget; the
  best on the public rows counts.

Accuracies are those on the remaining rows of the test file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import datasets
import pabi
from pabi.learn import PrivateLogisticRegression, PrivateSearchCV
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import accuracy, plain, shown

DELTA = 1e-5
GRID = {"clip_norm": [0.1, 0.2, 0.4, 0.7, 1.0], "precondition": [None, 0.05, 0.1, 0.2]}
SETTINGS = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
PUBLIC = 1000  # rows


def model(seed: int | None, **settings: Any) -> PrivateLogisticRegression:
    """The estimator of all ways."""
    return PrivateLogisticRegression(
        delta=DELTA, adjacency="zero_out", classes=[0, 1], random_state=seed, **settings
    )


def search(epsilon: float, mean_trials: float, seed: int, **more: Any) -> PrivateSearchCV:
    """The search of both ways that select."""
    return PrivateSearchCV(
        model(None),
        GRID,
        epsilon=epsilon,
        delta=DELTA,
        mean_trials=mean_trials,
        random_state=seed,
        **more,
    )


def composed_budget(epsilon: float, n: int, d: int) -> tuple[float, float]:
    """(ε of each of the 20 fits, ε of all of them)."""
    low, high, total = 0.0, epsilon, 0.0
    for _ in range(8):
        guess = 0.5 * (low + high)
        plans = [model(None, **one).set_params(epsilon=guess).plan(n, d) for one in SETTINGS]
        now = pabi.compose(*(plan.guarantee for plan in plans)).epsilon(DELTA)
        low, high, total = (guess, high, now) if now <= epsilon else (low, guess, total)
    return low, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mean-trials", type=float, default=10.0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    X, y, rest, labels = datasets.adult()
    public = rest[:PUBLIC], labels[:PUBLIC]
    test = rest[PUBLIC:], labels[PUBLIC:]
    budget, composed = composed_budget(asked.epsilon, *X.shape)
    print(f"all 20 composed: each ε = {shown(budget)}, total ε = {shown(composed)}", flush=True)
    results: dict[str, list[dict[str, Any]]] = {}

    def note(way: str, fitted: Any, began: float, **more: Any) -> None:
        entry = {"accuracy": float(fitted.score(*test)), "seconds": time.perf_counter() - began}
        results.setdefault(way, []).append(entry | more)

    for seed in range(asked.seeds):
        began = time.perf_counter()
        default = model(seed).set_params(epsilon=asked.epsilon).fit(X, y)
        note("default", default, began)
        for way, share in (("search, public scores", None), ("search, private scores", 0.1)):
            began = time.perf_counter()
            found = search(asked.epsilon, asked.mean_trials, seed, validation_share=share)
            scoring = dict(zip(("X_public", "y_public"), public, strict=True))
            found.fit(X, y, **(scoring if share is None else {}))
            total = found.guarantee_.epsilon(DELTA)
            note(way, found, began, base=found.plan_.epsilon, total=total)
        began = time.perf_counter()
        every = [
            model(100 * seed + k, **one).set_params(epsilon=budget).fit(X, y)
            for k, one in enumerate(SETTINGS)
        ]
        best = max(every, key=lambda one: float(one.score(*public)))
        note("all 20 composed", best, began, base=budget, total=composed)
        for way, entries in results.items():
            scores = [entry["accuracy"] for entry in entries]
            spread = float(np.std(scores)) or 0.01
            print(f"{seed + 1} seeds, {way}: {accuracy(np.mean(scores), spread)}", flush=True)
        asked.results.write_text(json.dumps(results, indent=1))
    for way, entries in results.items():
        means = {key: plain(np.mean([entry[key] for entry in entries])) for key in entries[0]}
        deviation = plain(np.std([entry["accuracy"] for entry in entries]), 2)
        print(f"{way}: {means}, accuracies ± {deviation}")


if __name__ == "__main__":
    main()
