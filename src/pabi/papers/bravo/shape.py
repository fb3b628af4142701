"""Figure 2: the cost of two shifts is not convex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.draw.paper_figures import Curve, Figure, Panel, Surface
from pabi.literature import bravo
from pabi.numbers.rounding import Array
from pabi.numbers.showing import as_printed
from pabi.papers.artefact import Artefact
from pabi.papers.bravo import SOURCE

DIAMETER, STEP_SIZE, GRADIENT = 5.0, 1.0, 1.0
NOISE = (1.0, 0.01, 0.4)
H = (2.0 * STEP_SIZE * GRADIENT) ** 2
_VALLEY = ((0.0, H**0.5), (5.0, float(np.hypot(5.0, H**0.5))))


def cost(first: Array, second: Array) -> Array:
    """E(u₁, u₂) = Σ (ω(u_{k−1}) − u_k)²/σ_{k−1}², u₀ = D and u₃ = 0, ω(u) = √(u² + h)."""
    start = np.hypot(DIAMETER, H**0.5)
    terms = (start - first, np.hypot(first, H**0.5) - second, np.hypot(second, H**0.5))
    total: Array = np.sum([(t / s) ** 2 for t, s in zip(terms, NOISE, strict=True)], axis=0)
    return total


def least() -> float:
    """The least value, in closed form: the Rényi divergence of order 2 is μ²."""
    return float(bravo.theorem_3_4([1.0] * 3, [H] * 3, NOISE, DIAMETER))


def _assemble(results: Mapping[str, Any]) -> Figure:
    x, y = np.linspace(-6.0, 6.0, 121), np.linspace(-6.0, 8.0, 141)
    values = np.log10(cost(*np.meshgrid(x, y)))
    surface = Surface("log₁₀ E", x.tolist(), y.tolist(), values.tolist())
    # From the bottom of the valley at u₁ = 0 to that at u₁ = 5: between them it is bent.
    (first, second), share = _VALLEY, np.linspace(0.0, 1.0, 101)
    along = cost(*(a + share * (b - a) for a, b in zip(first, second, strict=True)))
    chord = along[0] + share * (along[-1] - along[0])
    plane = Curve("the segment on the right", [first[0], second[0]], [first[1], second[1]], 1, "--")
    line = [
        Curve("E on the segment", share.tolist(), along.tolist(), 1, "--"),
        Curve("its chord", share.tolist(), chord.tolist(), None, ":"),
    ]
    panels = (
        Panel("E(u₁, u₂)", "u₁", "u₂", [plane], surface=surface),
        Panel("above its chord: not convex", "share of the way", "E", line, log="y"),
    )
    remark = (
        "The paper shows the surface. The segment shows that it is not convex. The least value of E is "
        f"{as_printed(least(), 4)}, by Theorem 3.4."
    )
    return Figure(panels, remark, size=(12.0, 5.0))


ARTEFACTS = {
    "figure-2": Artefact(
        "E for D = 5, η = L = 1, σ = (1, 0.01, 0.4)", f"{SOURCE}, Figure 2", _assemble
    )
}
