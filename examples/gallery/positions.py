"""What a record pays, by the place of its batch in the epoch."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.showing import shown

BATCHES = 40
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.02),
    n=60_000,
    batches=pabi.Cyclic(size=60_000 // BATCHES),
    epochs=50,
    step_size=0.5,
    noise_std=0.002,
)


def draw() -> Figure:
    colours = pabi.plotting.palette()
    positions = np.arange(BATCHES)
    figure, ax = plt.subplots()
    for cooldown, colour, marker in ((0, colours.cycle[0], "o"), (10, colours.cycle[2], "s")):
        run = replace(RUN, cooldown_steps=cooldown)
        mu = [run.guarantee(position=k).mu for k in positions.tolist()]
        ax.plot(positions + 1, mu, marker, color=colour, markersize=5)
    at = RUN.guarantee(position=BATCHES - 1).mu
    ax.annotate(
        f"the last batch\nμ = {shown(at, decimals=2)}",
        (BATCHES, at),
        xytext=(-14, -6),
        textcoords="offset points",
        ha="right",
        va="center",
        color=colours.cycle[0],
    )
    ax.text(6, 0.265, "nothing follows the last epoch", color=colours.cycle[0])
    ax.text(14, 0.10, "ten cool-down steps follow:\nnoise without data", color=colours.cycle[2])
    ax.set(
        title="In a fixed order, the records\nof the last batch are protected least",
        xlabel="a record's batch within the epoch",
        ylabel="μ (Gaussian DP) of that record",
        xlim=(0, BATCHES + 1),
    )
    ax.set_ylim(bottom=0)
    ax.grid(axis="y")
    return figure
