"""What preparing a table privately costs in accuracy, beside declared ranges and levels.

    PYTHONPATH=src OMP_NUM_THREADS=1 python benchmarks/preprocessing.py results.json [--seeds 5] [--only NAME]

Five tables of numbers and levels, and a small one, all of those on which settings may be chosen
(`proving_ground/sets.py`). The default estimators at ε = 1 and δ = 1e-5 in all, under zero_out:

- "declared": ranges and levels are public, and cost nothing; the whole budget trains;
- "ranges", "scaler": a share of μ² goes to `PrivateRanges` or `PrivateScaler` of the numbers and to
  `PrivateCategories` of the levels, half to each where a table has both; the rest trains;
- "leaky": a StandardScaler and a OneHotEncoder that look at the data, which no guarantee covers.

The figure is accuracy, R² for regression, and AUC for `alcohol`, on the rows for testing.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.insert(0, str(Path(__file__).parent / "proving_ground"))
import real
from tables import Levels, Range

import datasets
from pabi.learn import (
    PrivateCategories,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateScaler,
    guarantee_of,
    split_epsilon,
)
from pabi.numbers.errors import PrivacyWarning, TargetUnreachable
from pabi.showing import shown, shown_down

EPSILON, DELTA = 1.0, 1e-5
NAMES = ("adult", "hi", "diamonds", "bikeshare", "alcohol", "segment")
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3)
FAILURE = 0.2 * DELTA


def table_of(name: str) -> tuple[Any, ...]:
    """(numbers, ranges, levels, declared levels, answers, task, target range, rows to train on)."""
    if name == "adult":
        return _adult()
    parts: dict[str, Any] = {}

    def noted(table: Any, columns: Any) -> np.ndarray:
        parts.update(table=table, columns=columns)
        return np.arange(len(next(iter(table.values()))))[:, None] / 1e9

    whole, real.encoded = real.encoded, noted
    try:
        problem = getattr(real, name)()
    finally:
        real.encoded = whole
    # The rows' numbers came along in place of their features.
    order = np.rint(np.concatenate([problem.X_train, problem.X_test])[:, 0] * 1e9).astype(int)
    y = np.concatenate([problem.y_train, problem.y_test])
    table, columns = parts["table"], parts["columns"]
    ranges = {c: kind for c, kind in columns.items() if isinstance(kind, Range)}
    levels = {c: kind for c, kind in columns.items() if isinstance(kind, Levels)}
    numbers = [_scaled(table[c], kind) for c, kind in ranges.items()]
    ends = [_scaled([kind.lowest, kind.highest], kind) for kind in ranges.values()]
    cells = [table[c][order].astype(object) for c in levels]
    return (
        np.array(numbers).T[order],
        np.array(ends).T,
        np.array(cells, object).T if cells else np.empty((len(y), 0), object),
        [list(kind.names) for kind in levels.values()],
        y,
        problem.task,
        problem.target_range,
        len(problem.y_train),
    )


def _scaled(cells: Any, kind: Range) -> np.ndarray:
    values = real.numbers(np.asarray(cells, dtype=str))
    return np.log(np.maximum(values, kind.lowest)) if kind.logarithmic else values


def _adult() -> tuple[Any, ...]:
    rows, lengths = [], []
    for part in ("train", "test"):
        with (datasets.data_folder() / f"adult-{part}.csv").open(newline="") as file:
            own = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
        rows += own
        lengths.append(len(own))
    columns = np.array(rows).T
    numbers, ends = [], []
    for column, (low, high, logarithmic) in datasets.ADULT_RANGES.items():
        scale = np.log1p if logarithmic else np.asarray
        numbers.append(scale(columns[column].astype(float)))
        ends.append(scale(np.array([low, high], float)))
    cells = np.array([columns[c] for c in datasets.ADULT_LEVELS], object).T
    declared = [levels.split() for levels in datasets.ADULT_LEVELS.values()]
    y = np.char.startswith(columns[14], ">50K").astype(int)
    return (
        np.array(numbers).T,
        np.array(ends).T,
        cells,
        declared,
        y,
        "classification",
        None,
        lengths[0],
    )


def _prepared(way: str, table: Any, epsilons: tuple[float, float], seed: int) -> Any:
    """Columns side by side; `epsilons`: of the numbers and of the levels."""
    numbers, ends, _, declared = table[:4]
    width = numbers.shape[1]
    common: dict[str, Any] = {"adjacency": "zero_out", "random_state": seed}
    steps: list[Any] = {
        "declared": ["passthrough", PrivateCategories(categories=declared)],
        "ranges": [
            PrivateRanges(epsilons[0], DELTA, **common),
            PrivateCategories(epsilons[1], DELTA, **common),
        ],
        "scaler": [
            PrivateScaler(epsilons[0], DELTA, **common),
            PrivateCategories(epsilons[1], DELTA, **common),
        ],
        "leaky": [StandardScaler(), OneHotEncoder(handle_unknown="ignore", sparse_output=False)],
    }[way]
    parts = [("numbers", steps[0], list(range(width)))] if width else []
    if declared:
        parts.append(("levels", steps[1], list(range(width, width + len(declared)))))
    return ColumnTransformer(parts), ends


def _model(way: str, table: Any, epsilon: float, features: int, seed: int) -> Any:
    numbers, ends, _, declared, y, task, target_range, _ = table
    low, high = {"declared": ends, "scaler": (-3.0, 3.0)}.get(way, (-1.0, 1.0))
    width = numbers.shape[1]
    ranges = np.tile([[-1.0], [1.0]], features)
    ranges[0, :width], ranges[1, :width] = low, high
    common: dict[str, Any] = {
        "adjacency": "zero_out",
        "random_state": seed,
        "feature_ranges": None if way == "leaky" else ranges,
        "feature_norm": float(np.sqrt(width + len(declared))),
    }
    if task == "regression":
        return PrivateLinearRegression(epsilon, DELTA, target_range=target_range, **common)
    return PrivateLogisticRegression(epsilon, DELTA, classes=np.unique(y), **common)


def figure(name: str, table: Any, way: str, share: float, seed: int) -> tuple[float, float]:
    """(the figure on the rows for testing, the ε that was spent)."""
    numbers, _, cells, declared, y, task, _, n = table
    both = numbers.shape[1] > 0 and len(declared) > 0
    free = way in ("declared", "leaky")
    shares = [1.0] if free else [share / 2, share / 2, 1 - share] if both else [share, 1 - share]
    failure = FAILURE if declared and not free else 0.0
    *before, last = split_epsilon(EPSILON, DELTA, shares, failure=failure)
    epsilons = (before[0], before[-1]) if before else (1.0, 1.0)
    preparation, _ = _prepared(way, table, epsilons, seed)
    X = np.hstack([numbers.astype(object), cells])
    features = preparation.fit(X[:n]).transform(X[:1]).shape[1]
    one = make_pipeline(preparation, _indicators(), _model(way, table, last, features, seed))
    one.fit(X[:n], y[:n])
    spent = 1.0 if way == "leaky" else guarantee_of(one).epsilon(DELTA)
    if task == "regression":
        return r2_score(y[n:], one.predict(X[n:])), spent
    if name == "alcohol":
        return roc_auc_score(y[n:], one.predict_proba(X[n:])[:, 1]), spent
    return float(np.mean(one.predict(X[n:]) == y[n:])), spent


def _indicators() -> Any:
    """Missing values become 0 once they are scaled."""
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(_filled)


def _filled(X: Any) -> np.ndarray:
    return np.nan_to_num(np.asarray(X, dtype=np.float64))


def main() -> None:
    """Prints a line for every table and way, and writes all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default=None)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", UserWarning)
    results = {}
    for name in [asked.only] if asked.only else NAMES:
        table = table_of(name)
        ways = [("declared", 0.0), ("leaky", 0.0)]
        ways += [(way, share) for way in ("ranges", "scaler") for share in SHARES]
        for way, share in ways:
            try:
                runs = [figure(name, table, way, share, seed) for seed in range(asked.seeds)]
            except TargetUnreachable as refusal:
                print(f"{name:10} {way:9} {share:4}  refused: {refusal}", flush=True)
                results[f"{name} {way} {share}"] = None
                continue
            figures = [one for one, _ in runs]
            spent = max(epsilon for _, epsilon in runs)
            results[f"{name} {way} {share}"] = {"figures": figures, "epsilon": spent}
            print(
                f"{name:10} {way:9} {share:4}  {shown_down(np.mean(figures), 4)} "
                f"± {shown(np.std(figures), 2)}  ε = {shown(spent)}",
                flush=True,
            )
    asked.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
