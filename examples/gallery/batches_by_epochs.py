"""Which kind of batches costs least depends on how many epochs follow."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi
from pabi.showing import plain, shown

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.02),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=50,
    step_size=0.05,
    noise_std=0.002,
    adjacency="zero_out",
)
KINDS = {  # and their places in the palette
    "fixed order (Cyclic)": (pabi.Cyclic(size=1_500), 0),
    "shuffled once (ShuffleOnce)": (pabi.ShuffleOnce(size=1_500), 2),
    "shuffled every epoch (Reshuffle)": (pabi.Reshuffle(size=1_500), 3),
    "as many, at random (FixedSize)": (pabi.FixedSize(size=1_500), 4),
    "every record by a coin (Poisson)": (pabi.Poisson(size=1_500, cap=2_000), 5),
}
COMPOSED = "fixed order, every iterate released"
EPOCHS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 50, 70, 100, 140, 200)


@cache
def costs() -> dict[str, tuple[list[float], int]]:
    """ε for each of EPOCHS, and the place in the palette, by name."""
    curves = {}
    for name, (batches, look) in KINDS.items():
        guarantees = [replace(RUN, batches=batches, epochs=e).guarantee(DELTA) for e in EPOCHS]
        curves[name] = [g.epsilon(DELTA) for g in guarantees], look
        if batches == RUN.batches:
            composed = [g.composition.epsilon(DELTA) for g in guarantees]
    return {**curves, COMPOSED: (composed, 1)}


def readings() -> dict[str, object]:
    """What the figure on the page answers with: ε, rounded up."""
    return {
        "control": "epochs",
        "reading": "ε at δ = 10⁻⁵, at most:",
        "places": list(EPOCHS),
        "texts": [plain(epochs) for epochs in EPOCHS],
        "start": EPOCHS.index(RUN.epochs),
        "x": {"title": "epochs", "scale": "log", "ticks": [1, 2, 5, 10, 20, 50, 100, 200]},
        "y": {"title": "ε at δ = 10⁻⁵", "scale": "log", "ticks": [0.2, 0.5, 1, 2, 5, 10, 20]},
        "curves": [
            {
                "name": name,
                "look": look,
                "values": [float(shown(value)) for value in values],
                "texts": [shown(value, decimals=2) for value in values],
            }
            for name, (values, look) in costs().items()
        ],
    }


def draw() -> Figure:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots(figsize=(7.2, 5.2))
    for name, (values, look) in costs().items():
        dashes = colours.lines[look]
        ax.loglog(EPOCHS, values, label=name, color=colours.cycle[look], linestyle=dashes)
    ax.set(title="ε by epochs, for all kinds of batches", xlabel="epochs", ylabel="ε at δ = 10⁻⁵")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.legend(fontsize="small")
    return figure
