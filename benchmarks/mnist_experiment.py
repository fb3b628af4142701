"""The MNIST experiment of Bok, Su, Altschuler 2024, §4.4, with features bounded instead of gradients clipped.

    python benchmarks/mnist_experiment.py [--epochs 50 100 200]

The training beside `pabi reproduce bok/table-2`: softmax regression with bounded features, the noise
calibrated to the paper's ε for cyclic batches (δ = 1e-5, replace one). The same noise is then accounted
for one secret shuffle, and for that with an epoch of cool-down.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

import datasets
import pabi
from pabi.learn import Records, SoftmaxGradients, train
from pabi.literature.papers.bok_runs import (
    DELTA,
    EPOCHS,
    OUR_CONSTANT,
    OUR_ROW_NORM,
    SIZE,
    TABLE_4,
    TABLE_6,
)
from pabi.literature.papers.bok_runs import bounded_accuracies as bounded
from pabi.showing import accuracy, plain, shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS, choices=EPOCHS)
    given = parser.parse_args()
    X, y, X_test, y_test = datasets.mnist()
    gradients = SoftmaxGradients(Records(X, OUR_ROW_NORM, OUR_CONSTANT), y.astype(int), 10)
    table = Table(title="MNIST, softmax regression")
    for column in ("epochs", "paper: ε, accuracy", "batches", "ε proven", "ς", "test accuracy"):
        table.add_column(column)
    width = (0.9 * 0.1 / len(y_test)) ** 0.5  # of a share of so many images, about 0.9
    for epochs in given.epochs:
        cyclic = bounded(epochs)
        shuffled = replace(cyclic, batches=pabi.ShuffleOnce(SIZE))
        cooled = replace(shuffled, cooldown_steps=shuffled.steps_per_epoch)
        for name, run in (("cyclic", cyclic), ("shuffle once", shuffled), ("cool-down", cooled)):
            result = train(run, gradients, np.zeros(gradients.shape), delta=DELTA)
            scores = X_test @ result.x[:-1] + OUR_CONSTANT * result.x[-1]
            table.add_row(
                str(epochs),
                f"{TABLE_4[epochs][2][0.002][1]}, {TABLE_6[epochs][0]} %",
                name,
                shown(result.guarantee.epsilon(DELTA), decimals=3),
                plain(run.gradient_noise_std, decimals=5),
                accuracy(np.mean(scores.argmax(axis=1) == y_test), width),
            )
    Console().print(table)


if __name__ == "__main__":
    main()
