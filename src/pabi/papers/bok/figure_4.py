"""C_p(G(μ)) and the trade-off functions of batches that it bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from pabi.draw.figures import Curve, Figure
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves
from pabi.tradeoff import Gaussian, Subsampled

P, MU = 0.25, 2.5


def of_pull(share: float) -> tuple[list[float], list[float]]:
    """Points of f^(λ), λ = `share`: both runs share the other records' pull, and the record moves it by μ.

    α = 1 − (1 − p)Φ(z) − pΦ(z + (1 − λ)μ) and f = (1 − p)Φ(z) + pΦ(z − λμ) for all real z.
    """
    z = np.linspace(-8.0, 8.0, 321)
    alpha = 1.0 - (1.0 - P) * ndtr(z) - P * ndtr(z + (1.0 - share) * MU)
    values = (1.0 - P) * ndtr(z) + P * ndtr(z - share * MU)
    return alpha[::-1].tolist(), values[::-1].tolist()


def _assemble(found: Mapping[str, Any]) -> Figure:
    bound = np.asarray(Subsampled(Gaussian(MU), P)(np.array(curves.FPR)))
    drawn = [Curve(f"C_p(G(μ)), p = {exact(P)}, μ = {exact(MU)}", curves.FPR, bound.tolist(), 0)]
    for share, colour, dash in ((0.0, 1, "--"), (0.5, 2, "-."), (1.0, 3, ":")):
        x, y = of_pull(share)
        drawn.append(Curve(f"f^(λ), λ = {exact(share)}", x, y, colour, dash))
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


ARTEFACT = Artefact("Sampling amplifies: C_p(G(μ))", f"{SOURCE}, Figure 4", _assemble)
