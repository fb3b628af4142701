"""One released number, with a person's record and without: two densities and a threshold."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

import pabi
from pabi.showing import plain

MU, THRESHOLD = 1.0, 1.2


def draw() -> Figure:
    colours = pabi.plotting.palette()
    x = np.linspace(-3.2, 4.4, 300)
    without, with_her = norm.pdf(x), norm.pdf(x, MU)
    figure, ax = plt.subplots()
    right = x >= THRESHOLD
    ax.fill_between(x[right], without[right], color=colours.cycle[0], alpha=0.35, linewidth=0)
    ax.fill_between(x[~right], with_her[~right], color=colours.cycle[1], alpha=0.25, linewidth=0)
    ax.plot(x, without, color=colours.cycle[0], linestyle="-")
    ax.plot(x, with_her, color=colours.cycle[1], linestyle=colours.lines[1])
    ax.axvline(THRESHOLD, color=colours.ink, linestyle=colours.lines[2], linewidth=1.8)
    ax.text(-0.75, 0.36, "without Ada's\nrecord", color=colours.cycle[0], ha="right")
    ax.text(1.85, 0.36, "with Ada's\nrecord", color=colours.cycle[1])
    ax.text(THRESHOLD + 0.08, 0.445, "“Ada is in it”", color=colours.ink)
    ax.text(THRESHOLD - 0.08, 0.445, "“she is not”", color=colours.ink, ha="right")
    alarms, missed = norm.sf(THRESHOLD), norm.cdf(THRESHOLD, MU)
    arrow = {"arrowstyle": "->"}
    for (error, share), at, place, colour in (
        (("false alarms", alarms), (1.5, 0.05), (2.75, 0.17), colours.cycle[0]),
        (("missed", missed), (0.0, 0.1), (-2.9, 0.16), colours.cycle[1]),
    ):
        text = f"{error}\n{plain(share, decimals=0, percent=True)}"
        ax.annotate(text, at, place, color=colour, arrowprops={**arrow, "color": colour})
    ax.set(
        title="One released number, with and without\na person's record",
        xlabel="the released number",
        xlim=(-3.2, 4.4),
        ylim=(0, 0.48),
    )
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return figure
