"""What the tables and figures have in common: μ as proven, trade-off curves on the left, ε on the right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pabi.convert import gdp_to_epsilon
from pabi.describe.iteration import NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE
from pabi.tradeoff import Gaussian

Length = Callable[[int], float]

FPR = np.unique(np.concatenate([np.geomspace(1e-4, 0.04, 12), np.linspace(0.0, 1.0, 51)])).tolist()
DELTA = 1e-5
DELTAS = (1e-3, DELTA)
DASHES = ("-", "--", ":", "-.")


def proven(run: NoisySGD | NoisyIteration) -> float:
    """μ of the best guarantee of a run, by optimal shifts."""
    mu = run.guarantee(DELTA).mu
    assert mu is not None
    return mu


def gaussian(mu: float, label: str, colour: int | None, dash: str = "-") -> Curve:
    """The trade-off curve G(μ)."""
    values = np.asarray(Gaussian(mu)(np.array(FPR)))
    return Curve(label, FPR, values.tolist(), colour, dash)


def tradeoffs(curves: Sequence[Curve]) -> Panel:
    """Type II against type I error."""
    return Panel("f-DP", "type I error", "type II error", curves, equal=True)


def epsilons(lengths: Sequence[int], unit: str, ours: Length, composition: Length) -> Panel:
    """ε at each δ against the number of `unit`; `ours` and `composition`: μ of a run of that length."""
    curves = []
    for name, mu, colour in (("last iterate", ours, 0), ("composition", composition, 1)):
        for delta, dash in zip(DELTAS, DASHES, strict=False):
            values = [gdp_to_epsilon(mu(k), delta) for k in lengths]
            label = f"{name}, δ = {exact(delta)}"
            curves.append(Curve(label, list(lengths), values, colour, dash, marker="o"))
    return Panel("(ε, δ)-DP", unit, "ε", curves, log="x")


def compositions(lengths: Sequence[int], unit: str, composition: Length) -> list[Curve]:
    """Trade-off curves of the composition of runs of several lengths."""
    pairs = zip(lengths, DASHES, strict=False)
    return [gaussian(composition(k), f"composition, {unit} = {k}", 1, dash) for k, dash in pairs]


def growth(
    ours: Length,
    composition: Length,
    *,
    title: str,
    figure: int,
    unit: str,
    left: Sequence[int],
    right: Sequence[int],
    limit: tuple[str, int] | None = None,
    remark: str = "",
) -> Artefact:
    """A figure of how privacy is spent with a run's length, by the last iterate and by composition.

    `unit`: name and letter of a length, "steps t". `left`, `right`: the lengths that are drawn. `limit`:
    label and length of the one curve of the last iterate on the left; by default one for each length.
    """

    def assemble(results: Mapping[str, Any]) -> Figure:
        letter = unit[-1]
        if limit is None:
            pairs = zip(left, DASHES, strict=False)
            drawn = [
                gaussian(ours(k), f"last iterate, {letter} = {k}", 0, dash) for k, dash in pairs
            ]
        else:
            drawn = [gaussian(ours(limit[1]), limit[0], 0)]
        drawn += compositions(left, letter, composition)
        return Figure((tradeoffs(drawn), epsilons(right, unit, ours, composition)), remark)

    return Artefact(title, f"{SOURCE}, Figure {figure}", assemble)
