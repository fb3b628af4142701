"""Full batches on strongly convex losses: the exact guarantee against composition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.iteration import NoisyIteration
from pabi.draw.figures import Figure
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves
from pabi.papers.bok.table_7 import SENSITIVITY

SLOPE = 0.99
LENGTHS = (10, 20, 40, 80, 160, 320, 640)


def proven(steps: int) -> float:
    """μ by optimal shifts."""
    it = NoisyIteration(
        contraction=SLOPE, step_sensitivity=SENSITIVITY, step_noise_std=1.0, steps=steps
    )
    mu = it.guarantee(1e-5).mu
    assert mu is not None
    return mu


def composed(steps: int) -> float:
    return float(bok.theorem_4_1(L=SENSITIVITY, n=1, noise_std=1.0, steps=steps))


def _assemble(found: Mapping[str, Any]) -> Figure:
    left = curves.tradeoffs(curves.by_length((10, 100, 1000), "t", proven, composed))
    return Figure((left, curves.epsilons(LENGTHS, "steps t", proven, composed)))


ARTEFACT = Artefact(
    "NoisyGD, strongly convex losses, c = 0.99, L/(nσ) = 0.1", f"{SOURCE}, Figure 6", _assemble
)
