"""Where the privacy of cyclic batches stops growing, 20 batches an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, thresholds
from pabi.papers.results import Table

BATCHES = 20
PRINTED = {  # L/b: (E*, μ*) by step size
    0.25: (("16", "0.382"), ("31", "0.534"), ("62", "0.750")),
    0.5: (("9", "0.553"), ("17", "0.764"), ("33", "1.067")),
    1.0: (("5", "0.816"), ("10", "1.106"), ("20", "1.528")),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    return thresholds.table(BATCHES, PRINTED)


ARTEFACT = Artefact(
    "When μ of NoisyCGD stops growing, 20 batches an epoch, D = 1, σ = 3",
    f"{SOURCE}, Table 11",
    _assemble,
)
