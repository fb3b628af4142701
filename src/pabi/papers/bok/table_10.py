"""Where the privacy of cyclic batches stops growing, 10 batches an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, thresholds
from pabi.papers.results import Table

BATCHES = 10
PRINTED = {  # L/b: (E*, μ*) by step size
    0.25: (("31", "0.534"), ("62", "0.750"), ("123", "1.057")),
    0.5: (("17", "0.764"), ("33", "1.067"), ("65", "1.500")),
    1.0: (("10", "1.106"), ("20", "1.528"), ("40", "2.134")),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    return thresholds.table(BATCHES, PRINTED)


ARTEFACT = Artefact(
    "When μ of NoisyCGD stops growing, 10 batches an epoch, D = 1, σ = 3",
    f"{SOURCE}, Table 10",
    _assemble,
)
