"""Cyclic batches on strongly convex losses: the last iterate against composition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.draw.figures import Figure
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves, table_9

BATCHES, SLOPE = 20, 0.99
LENGTHS = (5, 10, 20, 40, 80, 160, 320)


def proven(epochs: int) -> float:
    """μ by optimal shifts."""
    mu = table_9.run(BATCHES, SLOPE, epochs).guarantee(1e-5).mu
    assert mu is not None
    return mu


def composed(epochs: int) -> float:
    return float(bok.theorem_4_4(L=table_9.RATIO, b=1, noise_std=1.0, epochs=epochs))


def _assemble(found: Mapping[str, Any]) -> Figure:
    left = curves.tradeoffs(curves.by_length((5, 50, 500), "E", proven, composed))
    return Figure((left, curves.epsilons(LENGTHS, "epochs E", proven, composed)))


ARTEFACT = Artefact(
    "NoisyCGD, strongly convex losses, c = 0.99, l = 20, L/(bσ) = 0.2",
    f"{SOURCE}, Figure 8",
    _assemble,
)
