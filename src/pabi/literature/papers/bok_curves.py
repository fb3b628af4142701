"""Cyclic batches: μ on strongly convex losses, and where it stops growing on a bounded domain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pabi.describe.batches import Cyclic
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok
from pabi.papers.artefact import Artefact, Entry, printed
from pabi.papers.bok import SOURCE, curves


def composed(epochs: int, *, ratio: float, noise_std: float = 1.0) -> float:
    """μ by composition. `ratio`: L/b."""
    return float(bok.theorem_4_4(L=ratio, b=1, noise_std=noise_std, epochs=epochs))


# Table 9 and Figure 8: strongly convex losses.

RATIO = 0.2  # L/(bσ)
BATCHES = (10, 20, 40)
SLOPES = (0.98, 0.99, 0.995)
TABLE_9 = {  # epochs: composition, then by l and c
    5: ("0.447", "0.229 0.233 0.235", "0.211 0.215 0.217", "0.202 0.205 0.208"),
    50: ("1.414", "0.270 0.334 0.410", "0.216 0.237 0.275", "0.203 0.208 0.219"),
    500: ("4.472", "0.270 0.336 0.439", "0.216 0.237 0.276", "0.203 0.208 0.219"),
}


def contracting(epochs: int, batches: int = 20, slope: float = 0.99) -> float:
    """μ of steps of size 1 that contract by `slope`; `batches` an epoch, of one record each."""
    return curves.proven(
        NoisySGD(
            Loss.strongly_convex(strong_convexity=1.0 - slope, smoothness=1.0),
            n=batches,
            batches=Cyclic(1),
            epochs=epochs,
            step_size=1.0,
            noise_std=1.0,
            gradient_sensitivity=RATIO,
        )
    )


def _table_9(results: Mapping[str, Any]) -> Iterator[Entry]:
    for epochs, (composition, *rows) in TABLE_9.items():
        where: dict[str, str | float] = {"epochs": epochs, "l": "any", "c": "any"}
        every = composed(epochs, ratio=RATIO)
        yield Entry(where, "μ, GDP composition", composition, every)
        for batches, row in zip(BATCHES, rows, strict=True):
            for slope, bound in zip(SLOPES, row.split(), strict=True):
                where = {"epochs": epochs, "l": batches, "c": slope}
                mu = contracting(epochs, batches, slope)
                yield Entry(where, "μ, the last iterate", bound, mu)


# Tables 10 to 12 and Figure 9: convex losses on a bounded domain.

DIAMETER, NOISE_STD = 1.0, 3.0
STEP_SIZES = (0.04, 0.02, 0.01)
FOREVER = 2_000  # epochs, beyond every threshold here
TABLES_10_TO_12 = {  # batches an epoch: L/b: (E*, μ*) by step size
    10: {
        0.25: (("31", "0.534"), ("62", "0.750"), ("123", "1.057")),
        0.5: (("17", "0.764"), ("33", "1.067"), ("65", "1.500")),
        1.0: (("10", "1.106"), ("20", "1.528"), ("40", "2.134")),
    },
    20: {
        0.25: (("16", "0.382"), ("31", "0.534"), ("62", "0.750")),
        0.5: (("9", "0.553"), ("17", "0.764"), ("33", "1.067")),
        1.0: (("5", "0.816"), ("10", "1.106"), ("20", "1.528")),
    },
    40: {
        0.25: (("8", "0.276"), ("16", "0.382"), ("31", "0.534")),
        0.5: (("5", "0.408"), ("9", "0.553"), ("17", "0.764")),
        1.0: (("3", "0.624"), ("5", "0.816"), ("10", "1.106")),
    },
}
# Numbers of epochs that are integers in exact arithmetic must not be rounded up.
_BELOW = 1.0 - 1e-12

SLIP = (
    "The printed number is refuted: its computation has a product in place of a sum. Theorem 4.6 is no "
    "more than composition from ⌈(σμ*b/L)²⌉ epochs on. See the errata in the docs; "
    "pabi.literature.bok.tables_10_to_12 returns the printed numbers."
)


def bounded(epochs: int, *, batches: int, ratio: float, step_size: float) -> float:
    """μ of `batches` an epoch of one record each, curved so much that they just do not expand.

    `ratio`: L/b.
    """
    return curves.proven(
        NoisySGD(
            Loss.convex(smoothness=1.0 / step_size),
            n=batches,
            batches=Cyclic(1),
            epochs=epochs,
            step_size=step_size,
            noise_std=NOISE_STD,
            gradient_sensitivity=ratio,
            diameter=DIAMETER,
        )
    )


def _thresholds(batches: int, results: Mapping[str, Any]) -> Iterator[Entry]:
    for ratio, row in TABLES_10_TO_12[batches].items():
        for step_size, (epochs, bound) in zip(STEP_SIZES, row, strict=True):
            where = {"L/b": ratio, "η": step_size}
            theorem = bok.theorem_4_6(
                L=ratio,
                b=1,
                noise_std=NOISE_STD,
                step_size=step_size,
                diameter=DIAMETER,
                batches_per_epoch=batches,
                epochs=FOREVER,
            )
            right = math.ceil((NOISE_STD * float(theorem) / ratio) ** 2 * _BELOW)
            best = bounded(FOREVER, batches=batches, ratio=ratio, step_size=step_size)
            yield from (
                Entry(where, "E*, epochs", epochs, right, remark=SLIP),
                Entry(where, "μ*", bound, float(theorem), best),
            )


_BY_THEOREM = (
    'The numbers in the column "ours" are those of Theorem 4.6. The column "pabi" has μ by optimal '
    "shifts, for any number of epochs."
)


EPOCHS = (5, 10, 20, 40, 80, 160, 320)
ARTEFACTS = {
    "table-9": Artefact(
        "μ of NoisyCGD, strongly convex losses, L/(bσ) = 0.2",
        f"{SOURCE}, Table 9",
        printed(_table_9),
    ),
    **{
        f"table-{number}": Artefact(
            f"When μ of NoisyCGD stops growing, {batches} batches an epoch, D = 1, σ = 3",
            f"{SOURCE}, Table {number}",
            printed(partial(_thresholds, batches), _BY_THEOREM),
        )
        for number, batches in zip((10, 11, 12), TABLES_10_TO_12, strict=True)
    },
    "figure-8": curves.growth(
        contracting,
        partial(composed, ratio=RATIO),
        title="NoisyCGD, strongly convex losses, c = 0.99, l = 20, L/(bσ) = 0.2",
        figure=8,
        unit="epochs E",
        left=(5, 50, 500),
        right=EPOCHS,
    ),
    "figure-9": curves.growth(
        partial(bounded, batches=20, ratio=0.5, step_size=0.02),
        partial(composed, ratio=0.5, noise_std=NOISE_STD),
        title="NoisyCGD, convex losses, D = 1, σ = 3, η = 0.02, L/b = 0.5, l = 20",
        figure=9,
        unit="epochs E",
        left=(25, 50, 100),
        right=EPOCHS,
        limit=("last iterate, any number of epochs", FOREVER),
        remark="The last iterate's μ is by optimal shifts. It is a little below that of Theorem 4.6.",
    ),
}
