"""Tables 10 to 12: where the privacy of cyclic batches on a bounded domain stops growing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pabi.describe.batches import Cyclic
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok
from pabi.papers.results import Entry, Table

DIAMETER, NOISE_STD = 1.0, 3.0
STEP_SIZES = (0.04, 0.02, 0.01)
FOREVER = 2_000  # epochs, beyond every threshold here

SLIP = (
    "Refuted: a product stands for a sum in what was computed. The E from which Theorem 4.6 is no more than "
    "composition is ⌈(σμ*b/L)²⌉ (errata in the docs; pabi.literature.bok.tables_10_to_12 returns the "
    "printed values)."
)


def run(batches: int, ratio: float, step_size: float, epochs: int) -> NoisySGD:
    """`ratio`: L/b. One record a batch; curvature that just does not expand."""
    return NoisySGD(
        Loss.convex(smoothness=1.0 / step_size),
        n=batches,
        batches=Cyclic(1),
        epochs=epochs,
        step_size=step_size,
        noise_std=NOISE_STD,
        gradient_sensitivity=ratio,
        diameter=DIAMETER,
    )


def table(batches: int, printed: Mapping[float, Sequence[tuple[str, str]]]) -> Table:
    """`printed`: (E*, μ*) by L/b and step size."""
    entries = []
    for ratio, row in printed.items():
        for step_size, (epochs, bound) in zip(STEP_SIZES, row, strict=True):
            where = {"L/b": ratio, "η": step_size}
            settled = float(
                bok.theorem_4_6(
                    L=ratio,
                    b=1,
                    noise_std=NOISE_STD,
                    step_size=step_size,
                    diameter=DIAMETER,
                    batches_per_epoch=batches,
                    epochs=FOREVER,
                )
            )
            square = (NOISE_STD * settled / ratio) ** 2
            # Integers in exact arithmetic must not be rounded up.
            right = math.ceil(square * (1.0 - 1e-12))
            best = run(batches, ratio, step_size, FOREVER).guarantee(1e-5).mu
            entries += [
                Entry(where, "E*, epochs", epochs, right, remark=SLIP),
                Entry(where, "μ*", bound, settled, best),
            ]
    return Table(tuple(entries), "ours: Theorem 4.6; pabi: optimal shifts, however many epochs.")
