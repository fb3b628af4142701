"""Where the privacy of full batches on a bounded domain stops growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.iteration import NoisyIteration
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE
from pabi.papers.results import Entry, Table

DIAMETER, NOISE_STD = 1.0, 8.0
STEP_SIZES = (0.2, 0.1, 0.05)
PRINTED = {  # L/n: (t*, μ*) by step size
    0.25: (("80", "0.280"), ("160", "0.395"), ("320", "0.559")),
    0.5: (("40", "0.395"), ("80", "0.559"), ("160", "0.791")),
    1.0: (("20", "0.559"), ("40", "0.791"), ("80", "1.118")),
}
FOREVER = 100_000


def proven(sensitivity: float, step_size: float, steps: int) -> float:
    """μ by optimal shifts. `sensitivity`: L/n."""
    it = NoisyIteration(
        contraction=1.0,
        step_sensitivity=step_size * sensitivity,
        step_noise_std=step_size * NOISE_STD,
        diameter=DIAMETER,
        steps=steps,
    )
    mu = it.guarantee(1e-5).mu
    assert mu is not None
    return mu


def threshold(sensitivity: float, step_size: float) -> int:
    """The least number of steps at which μ is what it is for ever, by bisection: μ never falls."""
    forever = proven(sensitivity, step_size, FOREVER) * (1.0 - 1e-12)
    low, high = 0, FOREVER
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if proven(sensitivity, step_size, middle) >= forever else (middle, high)
        )
    return high


def _assemble(found: Mapping[str, Any]) -> Table:
    entries = []
    for sensitivity, row in PRINTED.items():
        for step_size, (steps, bound) in zip(STEP_SIZES, row, strict=True):
            where = {"L/n": sensitivity, "η": step_size}
            settled = threshold(sensitivity, step_size)
            printed = bok.theorem_4_3(
                L=sensitivity,
                n=1,
                noise_std=NOISE_STD,
                step_size=step_size,
                diameter=DIAMETER,
                steps=settled,
            )
            best = proven(sensitivity, step_size, FOREVER)
            entries += [
                Entry(where, "t*, steps", steps, settled),
                Entry(where, "μ*", bound, float(printed), best),
            ]
    return Table(
        tuple(entries),
        "ours: Theorem 4.3, and where optimal shifts stop growing; pabi: optimal shifts for ever.",
    )


ARTEFACT = Artefact(
    "When μ of NoisyGD stops growing, D = 1, σ = 8", f"{SOURCE}, Table 8", _assemble
)
