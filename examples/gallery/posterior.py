"""A draw from a posterior by a Langevin chain: its path, and its last point."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.showing import shown

DELTA, N, PRECISION = 1e-5, 1_000, 40.0
CHAIN = pabi.LangevinChain(
    pabi.Loss.logistic(feature_norm=1.0, l2=PRECISION / N),
    n=N,
    inverse_temperature=N,
    step_size=1e-3,
    steps=1,
    prox=pabi.prox.ball(4.0),
)
STEPS = np.unique(np.geomspace(1, 10_000, 40).round().astype(int)).tolist()


def draw() -> Figure:
    colours = pabi.plotting.palette()
    found = [replace(CHAIN, steps=k).guarantee(DELTA) for k in STEPS]
    last = [g.epsilon(DELTA) for g in found]
    path = [g.composition.epsilon(DELTA) for g in found]
    mixed = pabi.mixing_time(CHAIN.loss, 8.0, CHAIN.step_size, 0.01, CHAIN.inverse_temperature)
    figure, ax = plt.subplots()
    ax.axvline(mixed, color=colours.neutral, linestyle=colours.lines[2], linewidth=1.6)
    ax.loglog(STEPS, path, color=colours.other, linestyle=colours.lines[1])
    ax.loglog(STEPS, last, color=colours.ours, linestyle="-", linewidth=3.2)
    ax.text(1_900, 14, "the whole path", color=colours.other, ha="right")
    text = f"the last point: ε = {shown(last[-1], decimals=2)}"
    ax.text(9_000, 1.32, text, color=colours.ours, ha="right")
    note = f"after {mixed} steps\nthe start is forgotten\n(proven, to 1%)"
    ax.text(1.08 * mixed, 0.12, note, color=colours.neutral)
    ax.set(
        title="A draw from a posterior: the last point and the path",
        xlabel="steps of the Langevin chain",
        ylabel="ε at δ = 10⁻⁵",
        xlim=(1, 10_000),
        ylim=(0.1, 40),
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:,g}")
    ax.grid()
    return figure
