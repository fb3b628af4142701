"""The noise that a run needs for ε = 1, against its length."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.002),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=1,
    step_size=0.05,
)
# What is released decides; the noise is found for each length.
RELEASES = {
    "every iterate": {"release": "path"},
    "last iterate, fixed order": {},
    "last iterate, secret order\nand a cool-down epoch": {
        "batches": pabi.ShuffleOnce(size=1_500),
        "cooldown_steps": 40,
    },
}
EPOCHS = np.unique(np.geomspace(1, 1_000, 13).round().astype(int)).tolist()


@cache
def noises(label: str) -> list[float]:
    """The noise that is needed, for each of EPOCHS."""
    runs = [replace(RUN, epochs=e, **RELEASES[label]) for e in EPOCHS]
    return [pabi.calibrate(run, epsilon=1.0, delta=DELTA).noise_std for run in runs]


def draw() -> Figure:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots()
    places = ((9, 0.052), (1.3, 0.0055), (9, 0.00155))
    for label, index, at in zip(RELEASES, (1, 0, 2), places, strict=True):
        style = {"color": colours.cycle[index], "linestyle": colours.lines[index]}
        ax.loglog(EPOCHS, noises(label), linewidth=3.2 if index == 0 else 2.4, **style)
        ax.text(*at, label, color=colours.cycle[index], va="top")
    ax.set(
        title="The noise needed for ε = 1",
        xlabel="epochs",
        ylabel="noise on the mean gradient (std)",
        xlim=(1, 1_000),
    )
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.set_yticks([0.001, 0.01, 0.1], ["0.001", "0.01", "0.1"])
    ax.grid()
    return figure
