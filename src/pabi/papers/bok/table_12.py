"""Where the privacy of cyclic batches stops growing, 40 batches an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, thresholds
from pabi.papers.results import Table

BATCHES = 40
PRINTED = {  # L/b: (E*, μ*) by step size
    0.25: (("8", "0.276"), ("16", "0.382"), ("31", "0.534")),
    0.5: (("5", "0.408"), ("9", "0.553"), ("17", "0.764")),
    1.0: (("3", "0.624"), ("5", "0.816"), ("10", "1.106")),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    return thresholds.table(BATCHES, PRINTED)


ARTEFACT = Artefact(
    "When μ of NoisyCGD stops growing, 40 batches an epoch, D = 1, σ = 3",
    f"{SOURCE}, Table 12",
    _assemble,
)
