"""GDP parameters of full batches on strongly convex losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.iteration import NoisyIteration
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE
from pabi.papers.results import Entry, Table

SENSITIVITY = 0.1  # L/(nσ)
SLOPES = (0.92, 0.96, 0.98, 0.99, 0.995)
PRINTED = {  # steps: composition, then by slope
    10: ("0.316", "0.308", "0.314", "0.316", "0.316", "0.316"),
    100: ("1.000", "0.490", "0.688", "0.871", "0.961", "0.990"),
    1000: ("3.162", "0.490", "0.700", "0.995", "1.411", "1.984"),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    entries = []
    for steps, (composed, *bounds) in PRINTED.items():
        every = float(bok.theorem_4_1(L=SENSITIVITY, n=1, noise_std=1.0, steps=steps))
        entries.append(Entry({"steps": steps, "c": "any"}, "μ, GDP composition", composed, every))
        for slope, bound in zip(SLOPES, bounds, strict=True):
            it = NoisyIteration(
                contraction=slope, step_sensitivity=SENSITIVITY, step_noise_std=1.0, steps=steps
            )
            mu = it.guarantee(1e-5).mu
            assert mu is not None
            entries.append(Entry({"steps": steps, "c": slope}, "μ, the last iterate", bound, mu))
    return Table(tuple(entries))


ARTEFACT = Artefact(
    "μ of NoisyGD, strongly convex losses, L/(nσ) = 0.1", f"{SOURCE}, Table 7", _assemble
)
