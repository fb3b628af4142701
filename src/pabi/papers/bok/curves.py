"""What the figures have in common: trade-off curves on the left, ε on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pabi.convert import gdp_to_epsilon
from pabi.draw.figures import Curve, Panel
from pabi.numbers.showing import exact
from pabi.tradeoff import Gaussian

FPR = np.unique(np.concatenate([np.geomspace(1e-4, 0.04, 12), np.linspace(0.0, 1.0, 51)])).tolist()
DELTAS = (1e-3, 1e-5)
DASHES = ("-", "--", ":", "-.")


def gaussian(mu: float, label: str, colour: int | None, dash: str = "-") -> Curve:
    """The trade-off curve G(μ)."""
    values = np.asarray(Gaussian(mu)(np.array(FPR)))
    return Curve(label, FPR, values.tolist(), colour, dash)


def tradeoffs(curves: Sequence[Curve]) -> Panel:
    """Type II against type I error."""
    return Panel("f-DP", "type I error", "type II error", curves, equal=True)


def epsilons(
    lengths: Sequence[int],
    unit: str,
    ours: Callable[[int], float],
    composition: Callable[[int], float],
    deltas: Sequence[float] = DELTAS,
) -> Panel:
    """ε at each δ against the number of `unit`; `ours` and `composition`: μ of a run of that length."""
    curves = []
    for name, mu, colour in (("last iterate", ours, 0), ("composition", composition, 1)):
        for delta, dash in zip(deltas, DASHES, strict=False):
            values = [gdp_to_epsilon(mu(k), delta) for k in lengths]
            label = f"{name}, δ = {exact(delta)}"
            curves.append(Curve(label, list(lengths), values, colour, dash, marker="o"))
    return Panel("(ε, δ)-DP", unit, "ε", curves, log="x")


def by_length(
    lengths: Sequence[int],
    unit: str,
    ours: Callable[[int], float],
    composition: Callable[[int], float],
) -> list[Curve]:
    """Trade-off curves of runs of several lengths, with their composition."""
    pairs = list(zip(lengths, DASHES, strict=False))
    curves = [gaussian(ours(k), f"last iterate, {unit} = {k}", 0, dash) for k, dash in pairs]
    curves += [gaussian(composition(k), f"composition, {unit} = {k}", 1, dash) for k, dash in pairs]
    return curves
