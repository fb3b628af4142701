"""Trade-off functions, and a mechanism that is 1-GDP and not ½-GDP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.draw.figures import Curve, Figure
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, curves
from pabi.tradeoff import Gaussian

FIXED_POINT = 0.37  # where type I and type II error of the mechanism are equal


def mechanism(fpr: Any) -> Any:
    """A symmetric trade-off function of two straight pieces."""
    x = FIXED_POINT
    return np.where(fpr <= x, 1.0 - (1.0 - x) / x * fpr, x / (1.0 - x) * (1.0 - fpr))


def _assemble(found: Mapping[str, Any]) -> Figure:
    fpr = np.array(curves.FPR)
    values = mechanism(fpr)
    if not np.all(values >= Gaussian(1.0)(fpr) - 1e-12) or np.all(values >= Gaussian(0.5)(fpr)):
        raise AssertionError("the mechanism is to be 1-GDP and not ½-GDP")
    drawn = [
        curves.gaussian(0.0, "G(0) = Id, full privacy", None, ":"),
        curves.gaussian(0.5, "G(0.5)", 2),
        curves.gaussian(1.0, "G(1)", 0),
        curves.gaussian(5.0, "G(5), next to no privacy", 1),
        Curve("T(A(S), A(S'))", curves.FPR, values.tolist(), 3, "--"),
    ]
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


ARTEFACT = Artefact("Trade-off functions", f"{SOURCE}, Figure 2", _assemble)
