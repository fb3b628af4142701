"""The picture of the front page: what the last iterate costs, and what all iterates cost.

examples/gallery/make.py draws it, as `front`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi
from pabi.showing import shown

DELTA = 1e-5
# The run of the front page and of the README.
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.002),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=50,
    step_size=0.05,
    noise_std=0.002,
)
EPOCHS = (1, 2, 3, 4, 5, *range(10, 101, 5))


@cache
def costs() -> dict[int, tuple[float, float]]:
    """ε of the last iterate and of all iterates, by the number of epochs."""
    guarantees = {e: replace(RUN, epochs=e).guarantee(DELTA) for e in EPOCHS}
    return {e: (g.epsilon(DELTA), g.composition.epsilon(DELTA)) for e, g in guarantees.items()}


def description() -> str:
    """What is drawn, as text within the picture's file; a test compares it with what pabi says."""
    return "; ".join(
        f"{epochs} epochs: {shown(last, decimals=2)} and {shown(every, decimals=2)}"
        for epochs, (last, every) in costs().items()
    )


def draw() -> Figure:
    colours = pabi.plotting.palette()
    last, every = zip(*costs().values(), strict=True)
    figure, ax = plt.subplots(figsize=(7.2, 4.2))
    ax.fill_between(EPOCHS, last, every, color=colours.shade, alpha=0.2, linewidth=0)
    ax.plot(EPOCHS, every, color=colours.other, linestyle=colours.lines[1])
    ax.plot(EPOCHS, last, color=colours.ours, linestyle="-", linewidth=3.4)
    at = EPOCHS.index(RUN.epochs)
    for values, colour in ((every, colours.other), (last, colours.ours)):
        ax.plot(RUN.epochs, values[at], "o", color=colour, markersize=8)
        ax.annotate(
            shown(values[at], decimals=2),
            (RUN.epochs, values[at]),
            (0, 9),
            textcoords="offset points",
            ha="center" if colour == colours.ours else "right",
            color=colour,
            weight="bold",
        )
    ax.text(99, 34.5, "all iterates charged", color=colours.other, ha="right")
    ax.text(99, 1.2, "last iterate only", color=colours.ours, ha="right", weight="bold")
    ax.set(
        title="ε of the last iterate, and ε when all iterates are charged",
        xlabel="epochs",
        ylabel="ε at δ = 10⁻⁵",
        xlim=(0, 101),
        ylim=(0, 52),
    )
    ax.grid()
    return figure
