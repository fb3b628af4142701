"""Full batches on a bounded domain: the last iterate against composition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.draw.figures import Figure
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves, table_8
from pabi.papers.bok.figure_6 import LENGTHS

SENSITIVITY, STEP_SIZE, THRESHOLD = 0.5, 0.1, 80


def proven(steps: int) -> float:
    """μ by optimal shifts."""
    return table_8.proven(SENSITIVITY, STEP_SIZE, steps)


def composed(steps: int) -> float:
    return float(bok.theorem_4_1(L=SENSITIVITY, n=1, noise_std=table_8.NOISE_STD, steps=steps))


def _assemble(found: Mapping[str, Any]) -> Figure:
    drawn = [curves.gaussian(proven(table_8.FOREVER), f"last iterate, t ≥ {THRESHOLD}", 0)]
    for steps, dash in zip((80, 160, 320), curves.DASHES, strict=False):
        drawn.append(curves.gaussian(composed(steps), f"composition, t = {steps}", 1, dash))
    right = curves.epsilons(LENGTHS, "steps t", proven, composed)
    remark = "At t = 80 the two curves on the left are one: that is where Theorem 4.3 takes over."
    return Figure((curves.tradeoffs(drawn), right), remark)


ARTEFACT = Artefact(
    "NoisyGD, convex losses, D = 1, σ = 8, L/n = 0.5, η = 0.1", f"{SOURCE}, Figure 7", _assemble
)
