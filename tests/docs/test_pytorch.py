"""What the page on PyTorch says that batches cost is what pabi computes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import pabi
from pabi.batches import Batches
from pabi.showing import shown

N, DELTA = 50_000, 1e-6
WAYS = (
    pabi.Poisson(500),
    pabi.BallsInBins(500, redraw="epoch"),
    pabi.Reshuffle(499, spare=N % 499),
)
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pytorch.md"
ROWS = [
    [float(cell) for cell in line.strip("| ").split("|")]
    for line in PAGE.read_text("utf-8").splitlines()
    if re.fullmatch(r"\|( [\d.]+ \|){6}", line)
]


def cost(batches: Batches, noise_multiplier: float, epochs: int) -> float:
    run = pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=N,
        batches=batches,
        epochs=epochs,
        step_size=0.1,
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        adjacency="zero_out",
        release="path",
    )
    assert run.steps_per_epoch == 100
    return run.guarantee(DELTA).epsilon(DELTA)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]:g}-{row[1]:g}")
def test_the_table_is_what_pabi_computes(row):
    noise, epochs, *cells, _ = row
    assert cells == [float(shown(cost(way, noise, int(epochs)), 3)) for way in WAYS]
    # δ of N(μ, 1) beside N(0, 1) with μ² = epochs / noise², at the last digit and at one below it.
    noise, epochs, *_, epsilon = row
    mu = epochs**0.5 / noise

    def delta(e: float) -> float:
        return norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu))

    digit = 10.0 ** (np.floor(np.log10(epsilon)) - 2)
    assert delta(epsilon) <= DELTA < delta(epsilon - 1.001 * digit)


def test_the_table_is_whole():
    assert len(ROWS) == 3
