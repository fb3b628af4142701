"""GDP parameters of cyclic batches on strongly convex losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.batches import Cyclic
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE
from pabi.papers.results import Entry, Table

RATIO = 0.2  # L/(bσ)
BATCHES = (10, 20, 40)
SLOPES = (0.98, 0.99, 0.995)
PRINTED = {  # epochs: composition, then by l and c
    5: ("0.447", "0.229 0.233 0.235", "0.211 0.215 0.217", "0.202 0.205 0.208"),
    50: ("1.414", "0.270 0.334 0.410", "0.216 0.237 0.275", "0.203 0.208 0.219"),
    500: ("4.472", "0.270 0.336 0.439", "0.216 0.237 0.276", "0.203 0.208 0.219"),
}


def run(batches: int, slope: float, epochs: int) -> NoisySGD:
    """Steps of size 1 that contract by `slope`; `batches` an epoch, of one record each."""
    loss = Loss.strongly_convex(strong_convexity=1.0 - slope, smoothness=1.0)
    return NoisySGD(
        loss,
        n=batches,
        batches=Cyclic(1),
        epochs=epochs,
        step_size=1.0,
        noise_std=1.0,
        gradient_sensitivity=RATIO,
    )


def _assemble(found: Mapping[str, Any]) -> Table:
    entries = []
    for epochs, (composed, *rows) in PRINTED.items():
        every = float(bok.theorem_4_4(L=RATIO, b=1, noise_std=1.0, epochs=epochs))
        where: dict[str, str | float] = {"epochs": epochs, "l": "any", "c": "any"}
        entries.append(Entry(where, "μ, GDP composition", composed, every))
        for batches, row in zip(BATCHES, rows, strict=True):
            for slope, bound in zip(SLOPES, row.split(), strict=True):
                mu = run(batches, slope, epochs).guarantee(1e-5).mu
                assert mu is not None
                where = {"epochs": epochs, "l": batches, "c": slope}
                entries.append(Entry(where, "μ, the last iterate", bound, mu))
    return Table(tuple(entries))


ARTEFACT = Artefact(
    "μ of NoisyCGD, strongly convex losses, L/(bσ) = 0.2", f"{SOURCE}, Table 9", _assemble
)
