"""The same run with batches chosen in five ways."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi
from pabi.showing import shown

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.3),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=50,
    step_size=0.05,
    noise_std=0.002,
    adjacency="zero_out",
)
KINDS = {
    "fixed order\nCyclic": pabi.Cyclic(size=1_500),
    "shuffled once\nShuffleOnce": pabi.ShuffleOnce(size=1_500),
    "shuffled every epoch\nReshuffle": pabi.Reshuffle(size=1_500),
    "as many, at random\nFixedSize": pabi.FixedSize(size=1_500),
    "every record by a coin\nPoisson": pabi.Poisson(size=1_500, cap=2_000),
}


@cache
def costs() -> list[tuple[float, float]]:
    """ε of the last iterate and of every iterate, for every kind of batches."""
    found = [replace(RUN, batches=kind).guarantee(DELTA) for kind in KINDS.values()]
    return [(g.epsilon(DELTA), g.composition.epsilon(DELTA)) for g in found]


def draw() -> Figure:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots(figsize=(7.2, 4.8))
    for row, (last, every) in enumerate(costs()):
        ax.plot([last, every], [row, row], color=colours.neutral, linestyle="-", linewidth=1.4)
        for value, colour, marker, side in (
            (last, colours.ours, "o", -1),
            (every, colours.other, "s", 1),
        ):
            ax.plot(value, row, marker, color=colour, markersize=11)
            place = {"ha": "right" if side < 0 else "left", "va": "center", "color": colour}
            text = shown(value, decimals=2)
            ax.annotate(text, (value, row), (9 * side, 0), textcoords="offset points", **place)
    last, every = costs()[0]
    ax.text(last, -0.55, "last iterate", color=colours.ours, ha="center")
    ax.text(every, -0.55, "every iterate", color=colours.other, ha="center")
    ax.set_yticks(range(len(KINDS)), list(KINDS))
    ax.tick_params(axis="y", length=0)
    ax.set(
        title="What hiding the path saves, by kind of batches",
        xlabel="ε after 50 epochs, δ = 10⁻⁵ (zero-out)",
        xscale="log",
        xlim=(0.25, 30),
        ylim=(len(KINDS) - 0.6, -0.95),
    )
    ax.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    return figure
