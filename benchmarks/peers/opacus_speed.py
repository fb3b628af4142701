"""Seconds that Opacus needs for an epoch of DP-SGD on MNIST, as a user would write it.

    pip install torch==2.13.0 opacus==1.6.0
    python opacus_speed.py RESULTS.json [--threads 1 2]

Softmax regression from 784 pixels to 10 classes, expected batch size 1500, with `PrivacyEngine` and
its Poisson loader. The clock covers the epochs alone, neither the reading of the data nor the search
for the noise multiplier. `loader_seconds` is what a pass over the loader alone takes: it collects a
batch example by example.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import opacus
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from datasets import DELTA, Arrays, mnist

BATCH_SIZE = 1500
EPOCHS = 50  # for the noise multiplier; only RUNS of them are timed
RUNS = 3
EPSILON = 1.0


def seconds(work: Callable[[], object]) -> list[float]:
    """Wall-clock seconds of each of RUNS calls, after one that warms up."""
    work()
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times


def measure(data: Arrays, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    X_train, y_train, X_test, y_test = (torch.from_numpy(array) for array in data)
    examples = TensorDataset(X_train.float(), y_train)
    model = torch.nn.Linear(784, 10)
    model, optimizer, loader = opacus.PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=4.0),
        data_loader=DataLoader(examples, batch_size=BATCH_SIZE),
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=1.0,
    )

    def epoch() -> None:
        for X, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(X), y).backward()
            optimizer.step()

    def only_load() -> None:
        for _ in loader:
            pass

    epochs, passes = seconds(epoch), seconds(only_load)
    with torch.no_grad():
        accuracy = float((model(X_test.float()).argmax(1) == y_test).double().mean())
    return {
        "dataset": "mnist",
        "epsilon": EPSILON,
        "library": "opacus",
        "settings": {"batch_size": BATCH_SIZE, "threads": threads, "epochs": 1 + RUNS},
        "noise_multiplier": optimizer.noise_multiplier,
        "seconds_per_epoch": median(epochs),
        "epochs": epochs,
        "loader_seconds": median(passes),
        "accuracy": accuracy,
        "versions": {"torch": torch.__version__, "opacus": opacus.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the JSON file to write")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")

    data = mnist()
    records = []
    for threads in arguments.threads:
        records.append(measure(data, threads))
        arguments.results.write_text(json.dumps(records, indent=1))
        print(records[-1])


if __name__ == "__main__":
    main()
