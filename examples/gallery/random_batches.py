"""Sampling hides whether a record was used, contraction shrinks what it did; a run can have both."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.3),
    n=60_000,
    batches=pabi.Poisson(size=1_500, cap=2_000),
    epochs=1,
    step_size=0.05,
    noise_std=0.002,
    adjacency="zero_out",
)
EPOCHS = (1, 3, 6, 10, 20, 50, 100, 200)


@cache
def costs() -> dict[str, list[float]]:
    """ε for each of EPOCHS."""
    cyclic = [replace(RUN, epochs=e, batches=pabi.Cyclic(1_500)).guarantee(DELTA) for e in EPOCHS]
    poisson = [replace(RUN, epochs=e).guarantee(DELTA) for e in EPOCHS]
    return {
        "neither": [g.composition.epsilon(DELTA) for g in cyclic],
        "sampling alone": [g.composition.epsilon(DELTA) for g in poisson],
        "contraction alone": [g.epsilon(DELTA) for g in cyclic],
        "both": [g.epsilon(DELTA) for g in poisson],
    }


def draw() -> Figure:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots()
    looks = ((1, "s"), (3, "^"), (2, "D"), (0, "o"))
    for (label, values), (index, marker) in zip(costs().items(), looks, strict=True):
        style = {"color": colours.cycle[index], "linestyle": colours.lines[index]}
        ax.loglog(EPOCHS, values, marker=marker, **style)
        ax.text(230, values[-1], label, color=colours.cycle[index], va="center")
    ax.set(
        title="Random batches and contraction together",
        xlabel="epochs",
        ylabel="ε at δ = 10⁻⁵ (zero-out)",
        xlim=(0.9, 1_300),
    )
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
    ax.set_yticks([0.2, 0.5, 1, 2, 5, 10, 20], ["0.2", "0.5", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.grid()
    return figure
