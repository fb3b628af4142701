"""One guarantee holds at every δ: ε against δ, of the last iterate and of every iterate."""

from __future__ import annotations

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.showing import exact, plain, shown

RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.002),
    n=60_000,
    batches=pabi.ShuffleOnce(size=1_500),
    epochs=50,
    step_size=0.05,
    noise_std=0.002,
)
DELTA = 1e-5
DELTAS = [float(plain(power, 3)) for power in np.geomspace(1e-12, 1e-2, 121)]


@cache
def costs() -> dict[str, tuple[list[float], int]]:
    """ε for each of DELTAS, and the place in the palette, by the name of a curve."""
    guarantee = RUN.guarantee(DELTA)
    last = [guarantee.epsilon(delta) for delta in DELTAS]
    every = [guarantee.composition.epsilon(delta) for delta in DELTAS]
    return {"last iterate": (last, 0), "every iterate": (every, 1)}


def readings() -> dict[str, object]:
    """What the figure on the page answers with: ε, rounded up."""
    powers = {"scale": "log", "ticks": [1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2], "format": ".0e"}
    return {
        "control": "δ",
        "reading": "ε, at most:",
        "places": DELTAS,
        "texts": [exact(delta) for delta in DELTAS],
        "start": DELTAS.index(DELTA),
        "x": {"title": "δ", **powers},
        "y": {"title": "ε", "domain": [0, 50]},
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
    figure, ax = plt.subplots(figsize=(7.2, 4.8))
    for name, (values, look) in costs().items():
        line = {"color": colours.cycle[look], "linestyle": colours.lines[look]}
        ax.semilogx(DELTAS, values, label=name, **line)
        at = values[DELTAS.index(DELTA)]
        ax.plot(DELTA, at, "o", color=colours.cycle[look])
        text = shown(at, decimals=2)
        ax.annotate(text, (DELTA, at), (0, 8), textcoords="offset points", color=colours.ink)
    ax.set(
        title="ε against δ: one guarantee holds at every δ", xlabel="δ", ylabel="ε", ylim=(0, 50)
    )
    ax.grid()
    ax.legend()
    return figure
