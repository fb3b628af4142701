"""Composition, Rényi bounds and the exact guarantee of full batches on strongly convex losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.draw.figures import Curve, Figure, Panel
from pabi.literature import bok, ye_shokri
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves

DELTA = 1e-5
LENGTHS = (10, 20, 40, 80, 160)
STEP_SIZE, CONVEXITY, SMOOTHNESS, SENSITIVITY = 0.05, 1.0, 10.0, 0.1


def proven(steps: int) -> float:
    """μ by optimal shifts."""
    loss = Loss.strongly_convex(strong_convexity=CONVEXITY, smoothness=SMOOTHNESS)
    run = NoisySGD(
        loss,
        n=1,
        batches=FullBatch(),
        steps=steps,
        step_size=STEP_SIZE,
        noise_std=1.0,
        gradient_sensitivity=SENSITIVITY,
    )
    mu = run.guarantee(DELTA).mu
    assert mu is not None
    return mu


def composed(steps: int) -> float:
    return float(bok.theorem_4_1(L=SENSITIVITY, n=1, noise_std=1.0, steps=steps))


def renyi(steps: int) -> float:
    """ε of the earlier Rényi bound."""
    told = ye_shokri.theorem_d_6(
        L=SENSITIVITY,
        n=1,
        noise_std=1.0,
        strong_convexity=CONVEXITY,
        step_size=STEP_SIZE,
        steps=steps,
        order=1.0,
    )
    return rdp_to_epsilon(rho=float(told), delta=DELTA)


def _assemble(found: Mapping[str, Any]) -> Figure:
    last = LENGTHS[-1]
    left = curves.tradeoffs(
        [
            curves.gaussian(0.0, "perfect privacy", None, ":"),
            curves.gaussian(proven(last), "last iterate (exact)", 0),
            curves.gaussian(composed(last), "composition", 1, "--"),
            curves.gaussian(10.0, "no privacy", None, "-."),
        ]
    )
    lines = {
        "last iterate (exact)": [gdp_to_epsilon(proven(t), DELTA) for t in LENGTHS],
        "the same by Rényi": [
            rdp_to_epsilon(rho=0.5 * proven(t) ** 2, delta=DELTA) for t in LENGTHS
        ],
        "earlier Rényi bound": [renyi(t) for t in LENGTHS],
        "composition": [gdp_to_epsilon(composed(t), DELTA) for t in LENGTHS],
    }
    order = ((0, "-"), (2, "-."), (3, ":"), (1, "--"))
    drawn = [
        Curve(name, LENGTHS, values, colour, dash, marker="o")
        for (name, values), (colour, dash) in zip(lines.items(), order, strict=True)
    ]
    right = Panel(f"ε at δ = {exact(DELTA)}", "iterations", "ε", drawn, log="x")
    return Figure((left, right))


ARTEFACT = Artefact(
    "NoisyGD on strongly convex losses: exact against composition", f"{SOURCE}, Figure 1", _assemble
)
