"""Accuracies on the test set of MNIST, for two algorithms and two regularisers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, accuracies
from pabi.papers.results import Table

PRINTED = {  # epochs: NoisyCGD at both λ, NoisySGD at both
    50: ("90.12 ± 0.04", "90.03 ± 0.07", "90.12 ± 0.08", "90.00 ± 0.06"),
    100: ("90.94 ± 0.07", "90.70 ± 0.05", "90.97 ± 0.04", "90.75 ± 0.03"),
    200: ("91.37 ± 0.08", "91.02 ± 0.07", "91.40 ± 0.07", "91.01 ± 0.04"),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    return accuracies.by_columns(found, "test", PRINTED)


ARTEFACT = Artefact(
    "Test accuracy on MNIST", f"{SOURCE}, Table 6", _assemble, accuracies.parts, trains=True
)
