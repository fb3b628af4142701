"""The tutorial's run: what it costs, epoch after epoch."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi
from pabi.showing import shown

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.001),
    n=1_400,
    batches=pabi.Cyclic(size=35),
    epochs=40,
    step_size=0.5,
    noise_std=0.1,
)
EPOCHS = list(range(1, 41))


def draw() -> Figure:
    colours = pabi.plotting.palette()
    found = [replace(RUN, epochs=e).guarantee(DELTA) for e in EPOCHS]
    every = [g.composition.epsilon(DELTA) for g in found]
    last = [g.epsilon(DELTA) for g in found]
    figure, ax = plt.subplots()
    ax.fill_between(EPOCHS, last, every, color=colours.shade, alpha=0.35, linewidth=0)
    ax.plot(EPOCHS, every, color=colours.other, linestyle=colours.lines[1])
    ax.plot(EPOCHS, last, color=colours.ours, linestyle="-", linewidth=3.2)
    for values, colour in ((every, colours.other), (last, colours.ours)):
        ax.plot(40, values[-1], "o", color=colour, markersize=8, clip_on=False)
        ax.annotate(
            shown(values[-1], decimals=2), (40, values[-1]), (-6, 9), textcoords="offset points",
            color=colour, ha="right", weight="bold",
        )  # fmt: skip
    ax.text(9.5, 14.8, "charging for every iterate", color=colours.other, ha="center")
    ax.text(20, 0.8, "charging for the last one", color=colours.ours, ha="center")
    ax.set(
        title="The digits run: all iterates against the last",
        xlabel="epochs",
        ylabel="ε at δ = 10⁻⁵",
        xlim=(1, 40),
        ylim=(0, 24),
    )
    ax.grid()
    return figure
