"""Every problem of the proving ground by name.

python benchmarks/proving_ground/problems.py [NAME …]     a line about each
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import real
import synthetic
from problem import Problem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets
from pabi.showing import plain

NORM = 1.0 + 1e-12  # no row is longer


def prepared(name: str) -> Problem:
    """One of benchmarks/datasets.py, with its own split."""
    arrays = datasets.DATASETS[name]()
    return Problem(*arrays, task="classification", classes=datasets.CLASSES[name])


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "adult": partial(prepared, "adult"),
    "alcohol": real.alcohol,
    "bikeshare": real.bikeshare,
    "budget_food": real.budget_food,
    "bundesliga": real.bundesliga,
    "caravan": real.caravan,
    "census": real.census,
    "computers": real.computers,
    "credit_default": real.credit_default,
    "diamonds": real.diamonds,
    "digits": partial(prepared, "digits"),
    "doctor_aus": real.doctor_aus,
    "embedding_even": partial(synthetic.embedding, 20_000, 1_280, classes=10, falling=1.0, seed=1),
    "embedding_uneven": partial(synthetic.embedding, 12_500, 512, classes=6, falling=0.6, seed=2),
    "fashion_mnist": partial(prepared, "fashion_mnist"),
    "flchain": real.flchain,
    "happiness": real.happiness,
    "heavy_linear": partial(synthetic.heavy_linear, 12_500, 30, seed=3),
    "heavy_tails": partial(synthetic.heavy_tails, 25_000, 50, classes=3, seed=4),
    "hi": real.hi,
    "ill_conditioned": partial(synthetic.ill_conditioned, 10_000, 50, condition=1e4, seed=5),
    "labsup": real.labsup,
    "mixture": partial(prepared, "mixture"),
    "mnist": partial(prepared, "mnist"),
    "rare": partial(synthetic.rare, 40_000, 60, share=0.03, seed=6),
    "segment": real.segment,
    "shuttle": real.shuttle,
    "trees": partial(synthetic.trees, 15_000, 20, depth=6, count=3, seed=7),
    "wage": real.wage,
    "wide_mixture": partial(
        synthetic.wide_mixture, 8_000, 4_000, classes=5, condition=100.0, seed=8
    ),
    "words": partial(synthetic.words, 8_000, 4_000, telling=60, length=40, seed=9),
    "yeast": real.yeast,
}


def load(name: str) -> Problem:
    """A problem by its name; the same arrays every time."""
    return PROBLEMS[name]()


def checked(name: str) -> str:
    """A line about a problem, which is held to what `Problem` promises."""
    p = load(name)
    for X, y in ((p.X_train, p.y_train), (p.X_test, p.y_test)):
        assert len(X) == len(y)
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()
        assert np.linalg.norm(X, axis=1).max() <= NORM
    shape = (
        f"{name:17} {len(p.X_train):6} + {len(p.X_test):5} rows, {p.X_train.shape[1]:4} columns, "
    )
    if p.target_range is not None:
        low, high = p.target_range
        outside = np.mean((p.y_train < low) | (p.y_train > high))
        return (
            shape
            + f"targets in [{low}, {high}], {plain(outside, decimals=1, percent=True)} outside"
        )
    counts = np.bincount(p.y_train, minlength=p.classes)
    assert len(counts) == p.classes
    assert counts.min() > 0
    return (
        shape
        + f"{p.classes} classes, the smallest {plain(counts.min() / counts.sum(), decimals=1, percent=True)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of problems; all of them unless some are named")
    for name in parser.parse_args().names or PROBLEMS:
        print(checked(name), flush=True)


if __name__ == "__main__":
    main()
