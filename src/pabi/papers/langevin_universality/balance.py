"""Figure 1: how drift and Brownian motion balance in Langevin diffusion on L(θ) = ‖θ‖."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.numbers.showing import exact, plain
from pabi.papers.artefact import Artefact
from pabi.papers.langevin_universality import SOURCE

BETA, TIME, DIMENSION = 4.0, 0.06, 3
DRIFT = BETA * TIME
SPREAD = (2.0 * TIME * (DIMENSION - 1)) ** 0.5  # typical length, across the drift
# (r − drift)² + spread² = r²: at this distance the two leave the distance as it is.
EQUILIBRIUM = (DRIFT**2 + SPREAD**2) / (2.0 * DRIFT)
DISTANCES = {"near the minimiser": 0.3, "in equilibrium": EQUILIBRIUM, "far from it": 0.98}


def after(distance: float) -> float:
    """The distance from the minimiser after both."""
    return float(np.hypot(distance - DRIFT, SPREAD))


def _assemble(results: Mapping[str, Any]) -> Figure:
    turn = np.linspace(0.0, 2.0 * np.pi, 121)
    panels = []
    for name, r in DISTANCES.items():
        x, y = r - DRIFT, SPREAD
        across, up = (r * np.cos(turn)).tolist(), (r * np.sin(turn)).tolist()
        drawn = [
            Curve("the set C", np.cos(turn).tolist(), np.sin(turn).tolist(), None),
            Curve("distance from the minimiser before", across, up, None, ":"),
            Curve("distance after", [0.0, x], [0.0, y], 2, "--"),
            Curve("drift, β·time", [r, x], [0.0, 0.0], 0, kind="arrow"),
            Curve("Brownian motion", [x, x], [0.0, y], 1, kind="arrow"),
        ]
        title = f"{name}: {plain(r, decimals=2)} to {plain(after(r), decimals=2)}"
        panels.append(Panel(title, "", "", drawn, equal=True, limits=[-1.1, 1.1, -1.1, 1.1]))
    remark = (
        f"Drawn to scale for β = {exact(BETA)}, time {exact(TIME)} and p = {DIMENSION}: "
        f"a drift of {plain(DRIFT, decimals=2)}, and Brownian motion of typical length "
        f"√(2·time·(p − 1)) = {plain(SPREAD, decimals=2)} across it. The distance in equilibrium, "
        f"{plain(EQUILIBRIUM, decimals=2)} here, grows with the dimension."
    )
    return Figure(tuple(panels), remark, columns=3, legend=True, size=(14.0, 6.0))


ARTEFACTS = {
    "figure-1": Artefact("Drift against Brownian motion", f"{SOURCE}, Figure 1", _assemble)
}
