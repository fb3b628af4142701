"""GDP parameters of regularised logistic regression on MNIST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, logistic
from pabi.papers.results import Table

PRINTED = {  # epochs: composition of NoisyCGD and of NoisySGD; the paper's bound by λ
    50: ("4.71", "1.03", {0.002: "0.99", 0.004: "0.99"}),
    100: ("6.67", "1.45", {0.002: "1.24", 0.004: "1.22"}),
    200: ("9.43", "2.05", {0.002: "1.59", 0.004: "1.51"}),
}


def _assemble(found: Mapping[str, Any]) -> Table:
    entries = []
    for epochs, (cyclic, sampled, bounds) in PRINTED.items():
        entries += [
            logistic.entry(
                epochs, "any", "μ, GDP composition, NoisyCGD", cyclic, logistic.composition(epochs)
            ),
            logistic.entry(
                epochs,
                "any",
                "μ, GDP composition, NoisySGD",
                sampled,
                logistic.approximate_mu(epochs),
                logistic.SAMPLED,
            ),
        ]
        entries += [
            logistic.entry(
                epochs, l2, "μ, the last iterate, NoisyCGD", bound, found[f"{epochs} {l2}"]["mu"]
            )
            for l2, bound in bounds.items()
        ]
    return Table(tuple(entries), logistic.CLIPPED)


ARTEFACT = Artefact("GDP parameters on MNIST", f"{SOURCE}, Table 3", _assemble, logistic.parts)
