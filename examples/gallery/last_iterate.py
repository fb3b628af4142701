"""What a run costs, against its length: charging every iterate, a published bound, and pabi."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi
from pabi.literature.ye_shokri import theorem_3_3
from pabi.showing import shown

DELTA = 1e-5
# Logistic regression on MNIST, as in Bok, Su, Altschuler 2024.
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.002),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=1,
    step_size=0.05,
    noise_std=0.002,
)
SHUFFLED = replace(RUN, batches=pabi.ShuffleOnce(size=1_500))
EPOCHS = sorted({50, *np.geomspace(1, 2_000, 33).round().astype(int).tolist()})


def published(epochs: int) -> float:
    """ε by the best bound in terms of Rényi divergence."""
    rho = theorem_3_3(
        L=2.0,
        b=1_500,
        noise_std=0.002,
        slope=1.0 - 0.05 * 0.002,
        batches_per_epoch=40,
        epochs=epochs,
        order=1.0,
    )
    return float(pabi.convert.rdp_to_epsilon(rho=float(rho), delta=DELTA))


@cache
def costs() -> dict[str, list[float]]:
    """ε for each of EPOCHS."""
    fixed = [replace(RUN, epochs=e).guarantee(DELTA) for e in EPOCHS]
    shuffled = [replace(SHUFFLED, epochs=e).guarantee(DELTA) for e in EPOCHS]
    return {
        "every iterate": [g.composition.epsilon(DELTA) for g in fixed],
        "best Rényi bound": [published(e) for e in EPOCHS],
        "pabi, fixed order": [g.epsilon(DELTA) for g in fixed],
        "pabi, shuffled once": [g.epsilon(DELTA) for g in shuffled],
    }


def draw() -> Figure:
    colours = pabi.plotting.palette()
    figure, ax = plt.subplots(figsize=(7.2, 4.8))
    looks = ((1, 1, (2.4, 26)), (4, 3, (110, 15.5)), (0, 0, (66, 2.7)), (2, 4, (66, 1.75)))
    for (label, values), (colour, line, place) in zip(costs().items(), looks, strict=True):
        look = {"color": colours.cycle[colour], "linestyle": colours.lines[line]}
        at = values[EPOCHS.index(50)]
        ax.loglog(EPOCHS, values, linewidth=3.4 if colour == 0 else 2.2, **look)
        ax.plot(50, at, "o", color=look["color"], markersize=7)
        ours = {"weight": "bold"} if label.startswith("pabi") else {}
        ax.text(*place, f"{label}: {shown(at, decimals=2)}", color=look["color"], **ours)
    ax.axvline(50, color=colours.neutral, linewidth=1, zorder=0)
    ax.text(53, 330, "after 50 epochs", color=colours.neutral)
    ax.set(
        title="Only the last iterate is released: ε stops growing",
        xlabel="epochs",
        ylabel="ε at δ = 10⁻⁵",
        xlim=(1, 2_000),
        ylim=(1.2, 900),
    )
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.grid()
    return figure
