"""What the literature says of clipped, cyclic training on losses that are not convex."""

from __future__ import annotations

from functools import cache

from matplotlib.figure import Figure

import pabi

RUN = pabi.NoisySGD(
    pabi.Loss.weakly_convex(weak_convexity=0.01, smoothness=1.0),
    n=1_000,
    batches=pabi.Cyclic(size=100),
    epochs=100,
    step_size=0.05,
    noise_multiplier=10.0,
    clip_norm=1.0,
    prox=pabi.prox.l1(0.001),
)


@cache
def comparison() -> pabi.literature.Comparison:
    return pabi.literature.compare(RUN, delta=1e-5)


def draw() -> Figure:
    ax = comparison().plot()
    ax.set_title("Published bounds on one run; the dashed one is refuted")
    figure: Figure = ax.figure
    return figure
