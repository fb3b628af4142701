"""What forgetting takes beside retraining: epochs, seconds and accuracy.

A logistic model is trained once and its secret state kept. From copies of that state m = 1, 10, 100 and 1000
records are forgotten at ε ≤ 0.1 and 1: random ones, records of one class, and the hardest ones, those of the
largest loss in the trained model. Retraining is the same training without them. A training from scratch in as
many epochs as forgetting took stands beside it: what is gained over starting again.

Seconds are those of one processor for whole calls, reading and checking the table, planning and writing the
state included. A table is printed after every repeat.

    python benchmarks/forgetting.py adult mnist --repeats 3
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import datasets
import pabi
from pabi.learn import PrivateLogisticRegression, StateFile
from pabi.numbers.errors import TargetUnreachable
from pabi.showing import exact, plain, shown, shown_down

DELTA = 1e-6
EPSILONS, COUNTS = (0.1, 1.0), (1, 10, 100, 1000)
SETTINGS = {
    "adult": {"l2": 1e-3, "size": 200, "epochs": 100, "step_size": 3.5, "epsilon": 2.0},
    "mnist": {"l2": 1e-3, "size": 200, "epochs": 100, "step_size": 3.5, "epsilon": 2.0},
    "fashion_mnist": {"l2": 1e-3, "size": 200, "epochs": 100, "step_size": 3.5, "epsilon": 2.0},
}


def prepared(name: str) -> datasets.Arrays:
    """Rows less their own mean, of norm 1: each is prepared by itself."""
    X, y, X_test, y_test = getattr(datasets, name)()
    tables = [datasets.unit_rows(t - t.mean(axis=1, keepdims=True)) for t in (X, X_test)]
    return tables[0], y, tables[1], y_test


def model_for(name: str, classes: int, epochs: float | None = None) -> PrivateLogisticRegression:
    """The model of a data set, not fitted."""
    stated = SETTINGS[name]
    return PrivateLogisticRegression(
        stated["epsilon"],
        DELTA,
        classes=range(classes),
        l2=stated["l2"],
        batches=pabi.ShuffleOnce(stated["size"]),
        epochs=stated["epochs"] if epochs is None else epochs,
        step_size=stated["step_size"],
        fit_intercept=False,
        cooldown_epochs=0,
        precondition=None,
        max_sample_weight=1.0,
    )


def chosen(kind: str, count: int, model: PrivateLogisticRegression, X, y, rng) -> np.ndarray:
    """The records that are forgotten. The choice of hard ones looks at the model, as no request may: it is
    for their effect on accuracy alone."""
    if kind == "random":
        return rng.choice(len(X), count, replace=False)
    if kind == "one class":
        return rng.choice(np.flatnonzero(y == y[0]), count, replace=False)
    own = model.predict_proba(X)[np.arange(len(X)), y]
    return np.argsort(own)[:count]


def timed(work):
    """(what it returns, seconds)."""
    start = time.process_time()
    return work(), time.process_time() - start


def measured(name: str, repeat: int, results: dict, retrained: set[int]) -> None:
    """One training, and all that is forgotten from its state."""
    X, y, X_test, y_test = prepared(name)
    rng, classes = np.random.default_rng(repeat), int(y.max()) + 1
    with tempfile.TemporaryDirectory() as folder:
        state = StateFile(Path(folder) / "state", StateFile.new_key())
        model = model_for(name, classes)
        _, seconds = timed(lambda: model.fit(X, y, keep_state=state))
        results["trained"].append((seconds, model.score(X_test, y_test)))
        for kind in ("random", "one class", "hardest"):
            for count in COUNTS if kind == "random" else COUNTS[2:]:
                rows = chosen(kind, count, model, X, y, rng)
                key = (kind, count)
                for epsilon in EPSILONS if kind == "random" else EPSILONS[:1]:
                    copy = StateFile(Path(folder) / f"{kind} {count} {epsilon}", state.key)
                    shutil.copy(state.path, copy.path)
                    try:
                        newer, seconds = timed(
                            lambda at=epsilon, r=rows, s=copy: model.forget(
                                X, y, r, at, DELTA, state=s, accept_loss=True
                            )
                        )
                    except TargetUnreachable:
                        continue
                    epochs = copy.requests()[0].steps // model.run_.steps_per_epoch
                    score = newer.score(X_test, y_test)
                    results[key, epsilon].append((epochs, seconds, score))
                if count in retrained:
                    weights = np.ones(len(X))
                    weights[rows] = 0.0
                    again = model_for(name, classes)
                    _, seconds = timed(lambda w=weights, a=again: a.fit(X, y, sample_weight=w))
                    results[key, "retrained"].append((seconds, again.score(X_test, y_test)))
        for epochs in {int(e) for (_, at), runs in results.items_of_forgetting() for e, *_ in runs}:
            short = model_for(name, classes, epochs)
            short.noise_std = float(model.run_.noise_std)
            results["scratch", epochs].append(short.fit(X, y).score(X_test, y_test))


class Results(defaultdict):
    """Lists of measurements by what was measured."""

    def __init__(self) -> None:
        super().__init__(list)

    def items_of_forgetting(self):
        """((which records, ε), [(epochs, seconds, accuracy)])."""
        return [(k, v) for k, v in self.items() if k[0] in WHICH and isinstance(k[1], float)]


WHICH = {(kind, count) for kind in ("random", "one class", "hardest") for count in COUNTS}


def percent(shares) -> str:
    """A mean of accuracies with its standard error, in percent."""
    values = np.asarray(shares)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    margin = "" if np.isnan(error) else f" ± {shown(error, decimals=2, percent=True)}"
    return f"{shown_down(values.mean(), decimals=2, percent=True)}{margin}"


def show(name: str, results: Results) -> None:
    """The table of a data set."""
    seconds, scores = zip(*results["trained"], strict=True)
    print(f"\n{name}: {SETTINGS[name]}", flush=True)
    print(f"trained in {plain(np.mean(seconds), 3)} s, accuracy {percent(scores)}")
    print("records      m     epsilon  epochs  seconds  of retraining  accuracy        retrained")
    for (which, epsilon), runs in results.items_of_forgetting():
        epochs, took, own = zip(*runs, strict=True)
        again = results.get((which, "retrained"))
        whole = np.mean([s for s, _ in again]) if again else np.mean(seconds)
        beside = percent([score for _, score in again]) if again else "-"
        part = plain(np.mean(took) / whole, decimals=0, percent=True)
        cells = plain(np.mean(epochs), 3), plain(np.mean(took), 3), part, percent(own), beside
        print(
            f"{which[0]:<10} {which[1]:>5}  {exact(epsilon):>8}  {cells[0]:>6}  {cells[1]:>7}"
            f"  {cells[2]:>12}  {cells[3]:<16}  {cells[4]}"
        )
    for (kind, epochs), scores in ((k, v) for k, v in results.items() if k[0] == "scratch"):
        print(f"from {kind} in {epochs} epochs, with the same noise: {percent(scores)}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=["adult", "mnist"], help="data sets")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--retrained", type=int, nargs="*", default=[100, 1000], help="m that is retrained for"
    )
    options = parser.parse_args()
    for name in options.names:
        results = Results()
        for repeat in range(options.repeats):
            measured(name, repeat, results, set(options.retrained))
            show(name, results)


if __name__ == "__main__":
    main()
