"""What (ε, δ) says: straight lines under the trade-off curve of all tests."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

import pabi
from pabi.showing import exact, shown

CURVE = pabi.tradeoff.Gaussian(1.0)
EPSILON = 1.0


def draw() -> Figure:
    colours = pabi.plotting.palette()
    delta = float(CURVE.delta(EPSILON))
    alpha = np.concatenate(([0.0], np.geomspace(1e-5, 0.02, 40), np.linspace(0.021, 1.0, 120)))
    figure, ax = plt.subplots(figsize=(7.2, 5.2))
    steep = 1.0 - delta - math.exp(EPSILON) * alpha
    flat = (1.0 - delta - alpha) * math.exp(-EPSILON)
    below = np.maximum(0.0, np.maximum(steep, flat))
    ax.fill_between(alpha, below, color=colours.shade, alpha=0.35, linewidth=0)
    ax.plot(alpha, below, color=colours.cycle[2], linestyle=colours.lines[1])
    ax.plot(alpha, CURVE(alpha), color=colours.ours, linestyle="-", linewidth=3.2)
    ax.plot(alpha, 1.0 - alpha, color=colours.neutral, linestyle=colours.lines[2])
    alarms, missed = norm.sf(1.2), norm.cdf(0.2)
    ax.plot(alarms, missed, "o", color=colours.ours, markersize=9)
    ax.text(0.56, 0.47, "tossing a coin", color=colours.neutral)
    label = "the threshold of the last picture:\n12% false alarms, 58% missed"
    arrow = {"arrowstyle": "->", "color": colours.ours}
    ax.annotate(label, (alarms, missed), (0.28, 0.78), color=colours.ours, arrowprops=arrow)
    text = f"excluded by\nε = {exact(EPSILON)}, δ = {shown(delta, decimals=2)}"
    ax.text(0.03, 0.10, text, color=colours.ink)
    ax.set(
        title="The errors that an attacker can choose between",
        xlabel="false alarms",
        ylabel="missed",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure
