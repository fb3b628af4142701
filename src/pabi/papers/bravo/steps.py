"""Figure 1: where the privacy curve of noisy SGD stops, for losses between nonsmooth and smooth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.literature import bravo
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact
from pabi.papers.bravo import SOURCE

N, GRADIENT, CONSTANT, DIAMETER = 1_000, 1.0, 2.0, 1.0
EXPONENTS = (0.2, 0.4, 0.6, 1.0)
STEP_SIZES = np.geomspace(N**-1.0, N**-0.25, 121)


def steps(exponent: float, step_size: float) -> float:
    """2T̄ + V, in steps."""
    return bravo.remark_5_3_steps(
        L=GRADIENT,
        n=N,
        diameter=DIAMETER,
        step_size=step_size,
        exponent=exponent,
        constant=CONSTANT,
    )


def _assemble(results: Mapping[str, Any]) -> Figure:
    sizes = STEP_SIZES.tolist()
    drawn = [
        Curve(f"p = {exact(p)}", sizes, [float(np.log(steps(p, h))) for h in sizes], colour, dash)
        for p, colour, dash in zip(EXPONENTS, (1, 3, 2, 0), (":", "-.", "--", "-"), strict=True)
    ]
    panel = Panel("n = 1000, L = 1, M = 2, D = 1", "step size η", "ln(2T̄ + V)", drawn, log="x")
    remark = (
        "The copy of the figure that pabi has is hardly legible. The range of η, 1/n to n^(−1/4), and "
        "the logarithm are those that give its marks, 10^0.9 to 10^1.2. The bound is unverified (see "
        "the errata in the docs)."
    )
    return Figure((panel,), remark, columns=1, size=(8.0, 5.2))


ARTEFACTS = {
    "figure-1": Artefact(
        "Steps at which the privacy curve stops, 2T̄ + V(D, M, T̄, n, p)",
        f"{SOURCE}, Figure 1",
        _assemble,
    )
}
