"""A printed bound below the truth: one epoch of clipped training, against the number of batches."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi

DELTA, STEP_SIZE, MULTIPLIER = 1e-5, 0.1, 0.5
BATCHES = np.unique(np.geomspace(10, 1_000, 13).round().astype(int)).tolist()


def described(batches: int) -> pabi.NoisySGD:
    """One record a batch, one epoch."""
    return pabi.NoisySGD(
        pabi.Loss.weakly_convex(weak_convexity=0.001, smoothness=1.0),
        n=batches,
        batches=pabi.Cyclic(size=1),
        epochs=1,
        step_size=STEP_SIZE,
        clip_norm=1.0,
        noise_multiplier=MULTIPLIER,
    )


def truth() -> float:
    """ε of a run that exists: squares x²/2, and last a record whose gradient is always clipped, to 1 or −1.

    Its output is a Gaussian about ∓0.1, of the variance of many steps with slope 0.9 and of one with slope
    1. (Squares are clipped as well, at more than seven standard deviations.)
    """
    variance = 1.0 + 1.0 / (1.0 - (1.0 - STEP_SIZE) ** 2)
    return pabi.tradeoff.Gaussian(2.0 / (MULTIPLIER * math.sqrt(variance))).epsilon(DELTA)


def draw() -> Figure:
    colours = pabi.plotting.palette()
    found = [pabi.literature.compare(described(k), DELTA) for k in BATCHES]
    printed = [rows["kong_ribero.theorem_4_5"].epsilon for rows in found]
    proven = [rows["pabi"].epsilon for rows in found]
    figure, ax = plt.subplots()
    ax.loglog(BATCHES, proven, color=colours.ours, linestyle="-", linewidth=3.2)
    ax.loglog(BATCHES, printed, color=colours.other, linestyle=colours.lines[1])
    ax.axhline(truth(), color=colours.ink, linestyle=colours.lines[2], linewidth=2.2)
    ax.text(11, 1.08 * proven[0], "proven (pabi)", color=colours.ours)
    ax.text(200, 1.1 * truth(), f"a run of ε ≥ {math.floor(10 * truth()) / 10}", color=colours.ink)
    ax.text(180, 2.6, "as printed\n(Kong, Ribero, Thm 4.5)", color=colours.other)
    ax.set(
        title="A printed bound that falls below the truth",
        xlabel="batches in the one epoch",
        ylabel="ε at δ = 10⁻⁵",
        xlim=(10, 1_000),
        ylim=(0.6, 45),
    )
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.grid()
    return figure
