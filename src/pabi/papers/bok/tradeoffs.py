"""Figures 2 and 4: trade-off functions of a mechanism, and of sampled batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from pabi.draw.paper_figures import Curve, Figure
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves
from pabi.tradeoff import Gaussian, Subsampled

# Figure 2: a mechanism that is 1-GDP and not ½-GDP.

_ROUNDINGS = 1e-12  # above those of a trade-off function
FIXED_POINT = 0.37  # where type I and type II error of the mechanism are equal


def mechanism(fpr: Any) -> Any:
    """A symmetric trade-off function of two straight pieces."""
    x = FIXED_POINT
    return np.where(fpr <= x, 1.0 - (1.0 - x) / x * fpr, x / (1.0 - x) * (1.0 - fpr))


def _figure_2(results: Mapping[str, Any]) -> Figure:
    fpr = np.array(curves.FPR)
    values = mechanism(fpr)
    if not np.all(values >= Gaussian(1.0)(fpr) - _ROUNDINGS) or np.all(
        values >= Gaussian(0.5)(fpr)
    ):
        raise AssertionError("the mechanism is to be 1-GDP and not ½-GDP")
    drawn = [
        curves.gaussian(0.0, "G(0) = Id, full privacy", None, ":"),
        curves.gaussian(0.5, "G(0.5)", 2),
        curves.gaussian(1.0, "G(1)", 0),
        curves.gaussian(5.0, "G(5), next to no privacy", 1),
        Curve("T(A(S), A(S'))", curves.FPR, values.tolist(), 3, "--"),
    ]
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


# Figure 4: C_p(G(μ)) and the trade-off functions of batches that it bounds.

P, MU = 0.25, 2.5


def of_pull(share: float) -> tuple[list[float], list[float]]:
    """Points of f^(λ), λ = `share`: both runs share the other records' pull, and the record moves it by μ.

    α = 1 − (1 − p)Φ(z) − pΦ(z + (1 − λ)μ) and f = (1 − p)Φ(z) + pΦ(z − λμ) for all real z.
    """
    z = np.linspace(-8.0, 8.0, 321)
    alpha = 1.0 - (1.0 - P) * ndtr(z) - P * ndtr(z + (1.0 - share) * MU)
    values = (1.0 - P) * ndtr(z) + P * ndtr(z - share * MU)
    return alpha[::-1].tolist(), values[::-1].tolist()


def _figure_4(results: Mapping[str, Any]) -> Figure:
    bound = np.asarray(Subsampled(Gaussian(MU), P)(np.array(curves.FPR)))
    pulls = ((0.0, 1, "--"), (0.5, 2, "-."), (1.0, 3, ":"))
    drawn = [
        Curve(f"C_p(G(μ)), p = {exact(P)}, μ = {exact(MU)}", curves.FPR, bound.tolist(), 0),
        *(
            Curve(f"f^(λ), λ = {exact(share)}", *of_pull(share), colour=colour, dash=dash)
            for share, colour, dash in pulls
        ),
    ]
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


ARTEFACTS = {
    "figure-2": Artefact("Trade-off functions", f"{SOURCE}, Figure 2", _figure_2),
    "figure-4": Artefact("Sampling amplifies: C_p(G(μ))", f"{SOURCE}, Figure 4", _figure_4),
}
