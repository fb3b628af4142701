"""Accuracies of NoisyCGD on MNIST, λ = 0.002."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact, Part, Settings
from pabi.papers.bok import SOURCE, accuracies
from pabi.papers.results import Table

CELL: tuple[accuracies.Algorithm, float] = ("NoisyCGD", 0.002)
TRAIN = {50: "89.36 ± 0.03", 100: "90.24 ± 0.03", 200: "90.85 ± 0.02"}
TEST = {50: "90.12 ± 0.04", 100: "90.94 ± 0.07", 200: "91.37 ± 0.08"}


def _parts(settings: Settings) -> Mapping[str, Part]:
    return accuracies.parts(settings, ("NoisyCGD",), (0.002,))


def _assemble(found: Mapping[str, Any]) -> Table:
    train = accuracies.table(found, "train", {e: {CELL: v} for e, v in TRAIN.items()})
    test = accuracies.table(found, "test", {e: {CELL: v} for e, v in TEST.items()})
    return Table(train.entries + test.entries, accuracies.REMARK)


ARTEFACT = Artefact(
    "Accuracy of NoisyCGD on MNIST", f"{SOURCE}, Table 2", _assemble, _parts, trains=True
)
