"""What an estimator reaches on the problems, beside the best cell of the peers.

    python benchmarks/proving_ground/judge.py [NAME …] [--settings '{"epochs": 20}'] [--out RESULTS.json]
    python benchmarks/proving_ground/judge.py --judging --why "the settings of 0.2"

Unless arguments say otherwise, the estimator is the default one, untuned: its constructor gets ε, δ, the
adjacency zero_out and public facts (the classes, or the range of targets) and nothing else. Ten seeds. The
problems are those for setting. Those for judging are looked at with --judging, which first adds a line to
LOOKS.md.

The table has the first metric of each problem, as mean ± standard error, and for every metric how many
standard errors of the difference we are ahead of the peer. For each metric the peer is the best cell of all
peers at that ε, chosen for that metric. Standard errors are those of the training's randomness alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from grids import DELTA, EPSILONS, FURTHER, errors, means, short, stored
from metrics import METRICS, Scores, scores, sign
from problem import Problem
from problems import load
from rich.console import Console
from rich.table import Table
from sets import JUDGING, SETTING

from pabi import learn
from pabi.numbers.errors import PrivacyWarning
from pabi.showing import as_printed, exact

LOOKS = Path(__file__).resolve().parent / "LOOKS.md"
SEEDS = 10
AHEAD = 2.0  # standard errors that count as a difference
SHORT = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "calibration_error": "calibration",
}

Record = dict[str, Any]


def estimator(problem: Problem, epsilon: float, seed: int, options: argparse.Namespace) -> Any:
    """The estimator with its public facts; none of them comes from the arrays."""
    common = {"adjacency": "zero_out", "random_state": seed, **options.settings}
    if problem.task == "classification":
        facts = {"classes": np.arange(problem.classes)}
        return getattr(learn, options.classifier)(epsilon, DELTA, **facts, **common)
    facts = {"target_range": problem.target_range}
    return getattr(learn, options.regressor)(epsilon, DELTA, **facts, **common)


def trial(problem: Problem, epsilon: float, seed: int, options: argparse.Namespace) -> Scores:
    model = estimator(problem, epsilon, seed, options).fit(problem.X_train, problem.y_train)
    predict = model.predict_proba if problem.classes else model.predict
    return scores(predict(problem.X_test), problem.y_test, problem.classes)


def best_peers(name: str, epsilon: float) -> dict[str, Record]:
    """For each metric the peer whose best cell is ahead, with that cell."""
    records = [r for r in stored(name) if r["epsilon"] == epsilon]
    best: dict[str, Record] = {}
    for record, metric in product(records, records[0]["best"] if records else ()):
        cell = record["best"][metric]
        entry = {
            "peer": record["peer"],
            "settings": record["cells"][cell["cell"]],
            "mean": cell["mean"],
            "standard_error": cell["standard_error"],
        }
        if metric not in best or sign(metric) * (cell["mean"] - best[metric]["mean"]) > 0.0:
            best[metric] = entry
    return best


def measure(name: str, problem: Problem, epsilon: float, options: argparse.Namespace) -> Record:
    """Our means and standard errors, the best peers', and the differences in standard errors."""
    begin = time.perf_counter()
    several = [trial(problem, epsilon, seed, options) for seed in range(options.seeds)]
    ours, widths, peers = means(several), errors(several), best_peers(name, epsilon)
    return {
        "problem": name,
        "epsilon": epsilon,
        "means": ours,
        "standard_errors": widths,
        "seconds": short((time.perf_counter() - begin) / options.seeds),
        "peers": peers,
        "ahead": {
            m: sign(m) * in_errors(ours[m] - p["mean"], math.hypot(widths[m], p["standard_error"]))
            for m, p in peers.items()
        },
    }


def in_errors(difference: float, width: float) -> float:
    """A difference over its standard error; infinite where nothing scatters."""
    if difference == 0.0:
        return 0.0
    return difference / width if width > 0.0 else math.copysign(math.inf, difference)


def table_of(records: list[Record]) -> Table:
    metrics = list(METRICS["classification"] + METRICS["regression"])
    table = Table(title="Ahead of the best peer, in standard errors of the difference")
    for column in ("problem", "ε", "metric", "ours", "best peer"):
        table.add_column(column)
    for metric in metrics:
        table.add_column(SHORT.get(metric, metric), justify="right")
    for record in records:
        table.add_row(*row_of(record, metrics))
    return table


def row_of(record: Record, metrics: list[str]) -> Iterator[str]:
    first = next(iter(record["means"]))
    peer = record["peers"].get(first)
    yield record["problem"]
    yield exact(record["epsilon"])
    yield first
    yield percent(record["means"][first], record["standard_errors"][first])
    yield f"{percent(peer['mean'], peer['standard_error'])} {peer['peer']}" if peer else "none"
    for metric in metrics:
        ahead = record["ahead"].get(metric)
        yield "" if ahead is None else as_printed(ahead, 1, sign=True)


def percent(mean: float, width: float) -> str:
    return f"{as_printed(100.0 * mean, 2)} ± {as_printed(100.0 * width, 2)}"


def tally(records: list[Record]) -> Iterator[str]:
    """For each metric: the mean difference, and how often we are ahead, level and behind."""
    for metric in METRICS["classification"] + METRICS["regression"]:
        those = [r for r in records if metric in r["ahead"]]
        if not those:
            continue
        differences = [
            sign(metric) * (r["means"][metric] - r["peers"][metric]["mean"]) for r in those
        ]
        ahead = sum(r["ahead"][metric] > AHEAD for r in those)
        behind = sum(r["ahead"][metric] < -AHEAD for r in those)
        yield (
            f"{metric}: {as_printed(100.0 * float(np.mean(differences)), 2, sign=True)} points on"
            f" average; {ahead} ahead, {len(those) - ahead - behind} level, {behind} behind"
        )


def note_look(names: list[str], options: argparse.Namespace) -> None:
    """Adds the line that a look at problems for judging has to have."""
    what = f"{options.classifier} and {options.regressor} with {json.dumps(options.settings)}"
    which = "all problems for judging" if set(names) == set(JUDGING) else ", ".join(names)
    with LOOKS.open("a") as file:
        file.write(f"| {datetime.date.today()} | {what} on {which} | {options.why} |\n")


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="of problems; unless some are named, all of a half"
    )
    half = parser.add_mutually_exclusive_group()
    half.add_argument(
        "--setting", action="store_true", help="the problems for setting, the default"
    )
    half.add_argument("--judging", action="store_true", help="the problems for judging")
    parser.add_argument("--why", help="the problems for judging are looked at; for LOOKS.md")
    parser.add_argument("--classifier", default="PrivateLogisticRegression")
    parser.add_argument("--regressor", default="PrivateLinearRegression")
    parser.add_argument(
        "--settings", type=json.loads, default={}, help="of the constructor, as JSON"
    )
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="two or more")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    if options.judging and not options.why:
        parser.error("--judging: expected --why with the reason for the look")
    if options.seeds < 2:
        parser.error(f"--seeds: expected at least 2, got {options.seeds}")
    for name in options.names:
        if name not in (JUDGING if options.judging else SETTING):
            parser.error(f"{name} is not among the problems of that half")
    return options


def main() -> None:
    options = options_of()
    warnings.simplefilter("ignore", PrivacyWarning)  # seeds are for repetition; the data are public
    names = options.names or list(JUDGING if options.judging else SETTING)
    if options.judging:
        note_look(names, options)
    records: list[Record] = []
    for name in names:
        problem = load(name)
        for epsilon in options.epsilons or (*FURTHER.get(name, ()), *EPSILONS):
            records.append(measure(name, problem, epsilon, options))
            if options.out:
                options.out.write_text(json.dumps(records, indent=1))
    Console(width=160).print(table_of(records))
    print(*tally(records), sep="\n")


if __name__ == "__main__":
    main()
