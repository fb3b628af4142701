"""Cyclic batches on a bounded domain: the last iterate against composition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.draw.figures import Figure
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves, thresholds
from pabi.papers.bok.figure_8 import BATCHES, LENGTHS

RATIO, STEP_SIZE = 0.5, 0.02


def proven(epochs: int) -> float:
    """μ by optimal shifts, which are below Theorem 4.6."""
    mu = thresholds.run(BATCHES, RATIO, STEP_SIZE, epochs).guarantee(1e-5).mu
    assert mu is not None
    return mu


def composed(epochs: int) -> float:
    return float(bok.theorem_4_4(L=RATIO, b=1, noise_std=thresholds.NOISE_STD, epochs=epochs))


def _assemble(found: Mapping[str, Any]) -> Figure:
    drawn = [curves.gaussian(proven(thresholds.FOREVER), "last iterate, for ever", 0)]
    for epochs, dash in zip((25, 50, 100), curves.DASHES, strict=False):
        drawn.append(curves.gaussian(composed(epochs), f"composition, E = {epochs}", 1, dash))
    right = curves.epsilons(LENGTHS, "epochs E", proven, composed)
    return Figure((curves.tradeoffs(drawn), right), "Optimal shifts, a little below Theorem 4.6.")


ARTEFACT = Artefact(
    "NoisyCGD, convex losses, D = 1, σ = 3, η = 0.02, L/b = 0.5, l = 20",
    f"{SOURCE}, Figure 9",
    _assemble,
)
