"""ε of regularised logistic regression on MNIST, λ = 0.002."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, logistic
from pabi.papers.results import Table

PRINTED = {  # epochs: GDP composition, RDP, the paper's bound
    50: ("30.51", "5.82", "4.34"),
    100: ("49.88", "7.61", "5.60"),
    200: ("83.83", "9.88", "7.58"),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    entries = []
    for epochs, (composed, renyi, bound) in PRINTED.items():
        entries += [
            logistic.entry(
                epochs,
                0.002,
                "ε, GDP composition",
                composed,
                logistic.epsilon_of_composition(epochs),
            ),
            logistic.entry(
                epochs, 0.002, "ε, RDP", renyi, logistic.epsilon_of_renyi(epochs, 0.002)
            ),
            logistic.entry(
                epochs, 0.002, "ε, the last iterate", bound, found[f"{epochs} 0.002"]["epsilon"]
            ),
        ]
    return Table(tuple(entries), logistic.CLIPPED)


ARTEFACT = Artefact(
    "ε of NoisyCGD on MNIST at δ = 1e-5", f"{SOURCE}, Table 1", _assemble, logistic.parts
)
