"""Accuracies on the training set of MNIST, for two algorithms and two regularisers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, accuracies
from pabi.papers.results import Table

PRINTED = {  # epochs: NoisyCGD at both λ, NoisySGD at both
    50: ("89.36 ± 0.03", "89.23 ± 0.02", "89.36 ± 0.04", "89.22 ± 0.04"),
    100: ("90.24 ± 0.03", "90.00 ± 0.03", "90.25 ± 0.02", "89.99 ± 0.03"),
    200: ("90.85 ± 0.02", "90.39 ± 0.04", "90.84 ± 0.03", "90.37 ± 0.02"),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    return accuracies.by_columns(found, "train", PRINTED)


ARTEFACT = Artefact(
    "Training accuracy on MNIST", f"{SOURCE}, Table 5", _assemble, accuracies.parts, trains=True
)
