"""Two runs that differ in one record come together again: a simulation on made-up numbers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.showing import plain

STEPS, USED, SLOPE, PUSH, NOISE = 60, 15, 0.92, 1.0, 0.16


def simulate() -> tuple[np.ndarray, np.ndarray]:
    """Iterates of both runs: the same noise, and one step whose record differs."""
    noise = np.random.default_rng(4).normal(0.0, NOISE, STEPS)
    runs = np.zeros((2, STEPS + 1))
    for k in range(STEPS):
        runs[:, k + 1] = SLOPE * runs[:, k] + 0.05 + noise[k]
        if k + 1 == USED:
            runs[1, k + 1] += PUSH
    return runs[0], runs[1]


def draw() -> Figure:
    colours = pabi.plotting.palette()
    one, other = simulate()
    steps = np.arange(STEPS + 1)
    figure, ax = plt.subplots()
    ax.fill_between(steps, one, other, color=colours.shade, alpha=0.35, linewidth=0)
    ax.plot(steps, other, color=colours.cycle[1], linestyle=colours.lines[1])
    ax.plot(steps, one, color=colours.cycle[0], linestyle="-")
    ax.axvline(USED, color=colours.neutral, linestyle=colours.lines[2], linewidth=1.6)
    ax.text(USED - 0.6, 1.45, "the record\nis used", color=colours.neutral, ha="right")
    ax.text(USED + 2.5, 1.62, "run with Ada's record", color=colours.cycle[1])
    ax.text(USED + 2.5, -0.4, "the same run without it", color=colours.cycle[0])
    left = f"{plain(SLOPE ** (STEPS - USED), decimals=0, percent=True)} of the\ngap is left"
    arrow = {"arrowstyle": "->", "color": colours.ink}
    ax.annotate(left, (STEPS, one[-1]), (STEPS - 11, 1.1), arrowprops=arrow, annotation_clip=False)
    ax.set(
        title="Contraction brings two runs together again\n(made-up numbers)",
        xlabel="step",
        ylabel="one coordinate of the model",
        xlim=(0, STEPS),
        ylim=(-0.6, 1.9),
    )
    return figure
