"""Figure 10: random batches on a bounded domain, Theorem 4.10 against composition, and what pabi proves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.convert import clt_mu
from pabi.describe.batches import FixedSize
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact, Part, Settings
from pabi.papers.bok import SOURCE, curves

PROBABILITIES = (0.0025, 0.005, 0.01, 0.02, 0.04)  # b/n
RATIOS = (0.125, 0.25, 0.5, 1.0, 2.0)  # L/b
STEP_SIZES = (0.2, 0.1, 0.05)
LENGTHS = (5_000, 20_000, 80_000)
DIAMETER, NOISE_STD = 1.0, 3.0
WINDOWS = np.arange(100, 5_000, 100)  # t − τ
ALPHA, BETA = 10.0**0.5, 10.0**0.5 / 3.0  # 1/α² + 1/β² = 1

# The panels in which pabi's own curve is drawn: it is no approximation, and takes seconds.
PROVEN = ((0.01, 0.5), (0.02, 1.0), (0.04, 2.0))
PROVEN_STEP_SIZE = 0.1


def theorem_4_10(probability: float, ratio: float, step_size: float) -> float:
    """μ by the central limit theorem: the least over the windows, as the figure has it."""
    start = ALPHA * DIAMETER / (step_size * NOISE_STD)
    pull = 2.0 * BETA * ratio / NOISE_STD
    pulls = np.array([clt_mu(probability, pull, int(k)) for k in WINDOWS])
    return float(np.sqrt(start**2 / WINDOWS + pulls**2).min())


def run(probability: float, ratio: float) -> NoisySGD:
    """The longest run, in batches of one record, as curved as its step size allows."""
    loss = Loss.convex(smoothness=2.0 / PROVEN_STEP_SIZE, gradient_bound=0.5 * ratio)
    return NoisySGD(
        loss,
        n=round(1.0 / probability),
        batches=FixedSize(1),
        steps=LENGTHS[-1],
        step_size=PROVEN_STEP_SIZE,
        noise_std=NOISE_STD,
        diameter=DIAMETER,
    )


def _parts(settings: Settings) -> Mapping[str, Part]:
    at = {"delta": curves.DELTA, "fpr": curves.FPR}
    return {f"{p} {r}": Part("tradeoff", {"run": to_dict(run(p, r)), **at}) for p, r in PROVEN}


def _assemble(results: Mapping[str, Any]) -> Figure:
    panels = [_panel(results, p, ratio) for p in PROBABILITIES for ratio in RATIOS]
    remark = (
        "The paper's curves use the central limit theorem, which is an approximation and no guarantee. "
        f"pabi's curves are proven. They are for {LENGTHS[-1]} steps of η = {exact(PROVEN_STEP_SIZE)}, "
        "and are drawn in the panels on the diagonal from the middle on."
    )
    return Figure(tuple(panels), remark, columns=5, legend=True, size=(16.0, 15.5))


def _panel(results: Mapping[str, Any], probability: float, ratio: float) -> Panel:
    drawn = [
        curves.gaussian(
            theorem_4_10(probability, ratio, step_size),
            f"Theorem 4.10, η = {exact(step_size)}",
            2,
            dash,
        )
        for step_size, dash in zip(STEP_SIZES, curves.DASHES, strict=False)
    ]
    for steps, dash in zip(LENGTHS, curves.DASHES, strict=False):
        mu = clt_mu(probability, ratio / NOISE_STD, steps)
        drawn.append(curves.gaussian(mu, f"composition, t = {steps}", 1, dash))
    # Drawn in every panel, if only in the legend.
    proven = results.get(f"{probability} {ratio}")
    fpr, values = (curves.FPR, proven) if proven else ([], [])
    drawn.append(Curve(f"pabi, t = {LENGTHS[-1]}, η = {exact(PROVEN_STEP_SIZE)}", fpr, values, 0))
    return Panel(f"b/n = {exact(probability)}, L/b = {exact(ratio)}", "", "", drawn, equal=True)


ARTEFACTS = {
    "figure-10": Artefact(
        "NoisySGD, convex losses, D = 1, σ = 3: type II against type I error",
        f"{SOURCE}, Figure 10",
        _assemble,
        _parts,
    )
}
