"""The errors of an attacker: the trade-off curves of the last iterate and of every iterate."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.showing import plain, shown_down

RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.002),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=50,
    step_size=0.05,
    noise_std=0.002,
)
ALARMS = 0.05


def readings() -> dict[str, object]:
    """What the figure on the page answers with: the least misses, rounded down."""
    guarantee = RUN.guarantee(delta=1e-5)
    shares = np.concatenate(([ALARMS], np.geomspace(1e-6, 0.01, 40), np.linspace(0.0, 1.0, 201)))
    alarms = np.unique([float(plain(share, 3)) for share in shares])
    curves = {"last iterate": guarantee.tradeoff, "every iterate": guarantee.composition}
    share = {"format": ".0%", "domain": [0, 1], "ticks": [0, 0.2, 0.4, 0.6, 0.8, 1]}
    return {
        "control": "false alarms",
        "reading": "Members that the best test misses, at least:",
        "places": alarms.tolist(),
        "texts": [plain(a, 3, percent=True) for a in alarms],
        "start": int(np.searchsorted(alarms, ALARMS)),
        "x": {"title": "false alarms", **share},
        "y": {"title": "members missed (at least)", **share},
        "curves": [
            {
                "name": name,
                "look": look,
                "values": [float(shown_down(f(a), 4)) for a in alarms],
                "texts": [shown_down(f(a), decimals=2, percent=True) for a in alarms],
            }
            for look, (name, f) in enumerate(curves.items())
        ],
    }


def draw() -> Figure:
    colours = pabi.plotting.palette()
    guarantee = RUN.guarantee(delta=1e-5)
    fpr = np.concatenate(([0.0], np.geomspace(1e-7, 0.02, 60), np.linspace(0.021, 1.0, 100)))
    last, every = guarantee.tradeoff(fpr), guarantee.composition(fpr)
    figure, ax = plt.subplots(figsize=(7.2, 5.2))
    ax.fill_between(fpr, every, last, color=colours.shade, alpha=0.35, linewidth=0)
    ax.plot(fpr, 1.0 - fpr, color=colours.neutral, linestyle=colours.lines[2])
    ax.plot(fpr, last, color=colours.ours, linestyle="-", linewidth=3.2)
    ax.plot(fpr, every, color=colours.other, linestyle=colours.lines[1])
    ax.text(0.56, 0.47, "the model says nothing", color=colours.neutral)
    ax.text(0.12, 0.31, "released: the last iterate", color=colours.ours, rotation=-36)
    for curve, colour, where, (text, decimals) in (
        (guarantee.tradeoff, colours.ours, (0.24, 0.86), ("5% false alarms: {} are missed", 0)),
        (guarantee.composition, colours.other, (0.10, 0.12), ("every iterate: {} missed", 1)),
    ):
        missed = float(curve(ALARMS))
        ax.plot(ALARMS, missed, "o", color=colour, markersize=9, clip_on=False)
        arrow = {"arrowstyle": "-", "color": colour}
        said = text.format(shown_down(missed, decimals=decimals, percent=True))
        ax.annotate(said, (ALARMS, missed), where, color=colour, arrowprops=arrow)
    ax.set(
        title="The errors of an attacker,\nfor the last iterate and for all",
        xlabel="false alarms: outsiders taken for members",
        ylabel="members missed (at least)",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure
