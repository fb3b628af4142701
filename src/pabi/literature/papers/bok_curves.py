"""Bok, Su and Altschuler: tables and figures of cyclic and random batches, processes and trade-offs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from pabi.convert import clt_mu
from pabi.describe.batches import Cyclic, FixedSize
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok
from pabi.literature.papers import Artefact, Entry, Part, Settings, printed
from pabi.literature.papers import bok_runs as curves
from pabi.literature.papers.bok_runs import BOK
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact
from pabi.show.themes import Curve, Figure, Panel
from pabi.tradeoff import Gaussian, Subsampled

# Cyclic batches: μ on strongly convex losses, and where it stops growing on a bounded domain.


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
STEP_SIZES_CYCLIC = (0.04, 0.02, 0.01)
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
        for step_size, (epochs, bound) in zip(STEP_SIZES_CYCLIC, row, strict=True):
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

# Figures 3 and 5: shifted interpolated processes in one dimension, simulated without any data.


SLOPE, PULL, NOISE = 0.9, 1.0, 0.45
STEPS = 14


class Paths(NamedTuple):
    """Points of every process at steps 0..t."""

    x: Array
    other: Array
    shifted: Array
    other_shifted: Array | None = None


def _noise() -> Array:
    return NOISE * np.random.default_rng(4).standard_normal(STEPS)


def _followed(start: int, taken: Array, move: Callable[[int, float, float], float]) -> Paths:
    """X is pulled up and X' down wherever the record takes part; X̃ begins on X' at `start`.

    `move`: (k, point of X, point of X̃) ↦ the next point of X̃ before its noise.
    """
    z = _noise()
    x, other, shifted = np.zeros(STEPS + 1), np.zeros(STEPS + 1), np.full(STEPS + 1, np.nan)
    for k in range(STEPS):
        x[k + 1] = SLOPE * x[k] + taken[k] * PULL + z[k]
        other[k + 1] = SLOPE * other[k] - taken[k] * PULL + z[k]
        if k + 1 == start:
            shifted[k + 1] = other[k + 1]
        if k >= start:
            shifted[k + 1] = move(k, x[k], shifted[k]) + z[k]
    return Paths(x, other, shifted)


def full_batches(start: int) -> Paths:
    """X is pulled up and X' down in every step; X̃ begins on X' at `start` and ends on X.

    The payments are the optimal ones without a bounded domain: a_k in proportion to c^(t−k).
    """
    apart = 2.0 * PULL
    distance = apart * (1.0 - SLOPE**start) / (1.0 - SLOPE)
    left = np.arange(STEPS - start - 1, -1, -1.0)
    demand = SLOPE ** (STEPS - start) * distance + apart * np.sum(SLOPE**left)
    payments = demand / np.sum(SLOPE ** (2 * left)) * SLOPE**left
    shares: list[float] = []
    for payment in payments.tolist():
        shares.append(payment / (SLOPE * distance + apart))
        distance = SLOPE * distance + apart - payment

    def move(k: int, x: float, shifted: float) -> float:
        share = shares[k - start]
        return share * (SLOPE * x + PULL) + (1.0 - share) * (SLOPE * shifted - PULL)

    return _followed(start, np.ones(STEPS), move)


def _taken() -> Array:
    """(t,) 1 where the record takes part in a step and 0 elsewhere; it takes part in the last one."""
    return np.array([1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1], dtype=float)


def two_sided(payment: float = 0.8) -> Paths:
    """Both runs are followed, each by a process that lags behind while the record takes part."""
    z, taken = _noise(), _taken()
    paths = np.zeros((4, STEPS + 1))
    distance = 0.0
    for k in range(STEPS):
        share = 1.0 if k == STEPS - 1 else payment * PULL / (SLOPE * distance + PULL)
        distance = SLOPE * distance + PULL - payment * PULL
        for run, sign in ((0, 1.0), (1, -1.0)):
            pulled = SLOPE * paths[run, k] + sign * taken[k] * PULL
            lagging = SLOPE * paths[run + 2, k]
            paths[run, k + 1] = pulled + z[k]
            if k == STEPS - 1:  # all that is left is paid
                paths[run + 2, k + 1] = pulled + z[k]
            else:
                paths[run + 2, k + 1] = lagging + share * taken[k] * (pulled - lagging) + z[k]
    x, other, shifted, other_shifted = paths
    return Paths(x=x, other=other, shifted=shifted, other_shifted=other_shifted)


def one_sided(start: int) -> Paths:
    """One process begins on X' at `start`, is pulled as X is, and pays off the distance in equal parts."""
    taken = _taken()

    def move(k: int, x: float, shifted: float) -> float:
        share = 1.0 / (STEPS - k)
        return share * SLOPE * x + (1.0 - share) * SLOPE * shifted + float(taken[k]) * PULL

    return _followed(start, taken, move)


def lines(paths: Paths) -> list[Curve]:
    """X, X' and the shifted ones."""
    steps = np.arange(STEPS + 1)
    processes = (
        ("X", paths.x, 2, "-", "o"),
        ("X'", paths.other, 1, "-", "s"),
        ("X̃", paths.shifted, 0, "-.", "^"),
        ("X̃'", paths.other_shifted, 3, "-.", "v"),
    )
    curves = []
    for label, points, colour, dash, marker in processes:
        if points is None:
            continue
        seen = np.isfinite(points)
        x, y = steps[seen].tolist(), points[seen].tolist()
        curves.append(Curve(label, x, y, colour, dash, marker=marker))
    return curves


def untaken(paths: Paths) -> list[Curve]:
    """Where the next step would have led, had the record taken part when it did not, or the reverse."""
    taken, curves = _taken(), []
    for points, sign in ((paths.x, 1.0), (paths.other, -1.0)):
        for k in range(STEPS):
            other_way = points[k + 1] + sign * (1.0 - 2.0 * taken[k]) * PULL
            curves.append(Curve("", [k, k + 1], [float(points[k]), float(other_way)], None, ":"))
    return curves


START = 6  # τ


def _figure_3(results: Mapping[str, Any]) -> Figure:
    panel = Panel(
        f"from X' at τ = {START} to X at t = {STEPS}", "step k", "", lines(full_batches(START))
    )
    remark = (
        "Simulated with the same noise for all three processes, c = 0.9, and the optimal payments from "
        "step τ on."
    )
    return Figure((panel,), remark, columns=1, size=(8.0, 4.8))


def _figure_5(results: Mapping[str, Any]) -> Figure:
    panels = [
        Panel(title, "step k", "", lines(paths) + untaken(paths))
        for title, paths in (
            ("Theorem 4.9: both runs are followed", two_sided()),
            (f"Theorem 4.10: from X' at τ = {START} to X", one_sided(START)),
        )
    ]
    remark = (
        "Simulated with the same noise and the same batches for all processes. A dotted line is the "
        "step that was not taken: with the record where the step was without it, or without the record "
        "where the step was with it."
    )
    return Figure(tuple(panels), remark, size=(12.0, 5.2))


# Figures 2 and 4: trade-off functions of a mechanism, and of sampled batches.


# Figure 2: a mechanism that is 1-GDP and not ½-GDP.

_ROUNDINGS = 1e-12  # above those of a trade-off function
FIXED_POINT = 0.37  # where type I and type II error of the mechanism are equal


def mechanism(fpr: Any) -> Any:
    """A symmetric trade-off function of two straight pieces."""
    x = FIXED_POINT
    return np.where(fpr <= x, 1.0 - (1.0 - x) / x * fpr, x / (1.0 - x) * (1.0 - fpr))


def _figure_2(results: Mapping[str, Any]) -> Figure:
    fpr = np.array(curves.FPR)
    values = mechanism(fpr)
    if not np.all(values >= Gaussian(1.0)(fpr) - _ROUNDINGS) or np.all(
        values >= Gaussian(0.5)(fpr)
    ):
        raise AssertionError("the mechanism is to be 1-GDP and not ½-GDP")
    drawn = [
        curves.gaussian(0.0, "G(0) = Id, full privacy", None, ":"),
        curves.gaussian(0.5, "G(0.5)", 2),
        curves.gaussian(1.0, "G(1)", 0),
        curves.gaussian(5.0, "G(5), next to no privacy", 1),
        Curve("T(A(S), A(S'))", curves.FPR, values.tolist(), 3, "--"),
    ]
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


# Figure 4: C_p(G(μ)) and the trade-off functions of batches that it bounds.

P, MU = 0.25, 2.5


def of_pull(share: float) -> tuple[list[float], list[float]]:
    """Points of f^(λ), λ = `share`: both runs share the other records' pull, and the record moves it by μ.

    α = 1 − (1 − p)Φ(z) − pΦ(z + (1 − λ)μ) and f = (1 − p)Φ(z) + pΦ(z − λμ) for all real z.
    """
    z = np.linspace(-8.0, 8.0, 321)
    alpha = 1.0 - (1.0 - P) * ndtr(z) - P * ndtr(z + (1.0 - share) * MU)
    values = (1.0 - P) * ndtr(z) + P * ndtr(z - share * MU)
    return alpha[::-1].tolist(), values[::-1].tolist()


def _figure_4(results: Mapping[str, Any]) -> Figure:
    bound = np.asarray(Subsampled(Gaussian(MU), P)(np.array(curves.FPR)))
    pulls = ((0.0, 1, "--"), (0.5, 2, "-."), (1.0, 3, ":"))
    drawn = [
        Curve(f"C_p(G(μ)), p = {exact(P)}, μ = {exact(MU)}", curves.FPR, bound.tolist(), 0),
        *(
            Curve(f"f^(λ), λ = {exact(share)}", *of_pull(share), colour=colour, dash=dash)
            for share, colour, dash in pulls
        ),
    ]
    return Figure((curves.tradeoffs(drawn),), columns=1, size=(6.4, 5.6))


# Figure 10: random batches on a bounded domain, Theorem 4.10 against composition, and what pabi proves.


PROBABILITIES = (0.0025, 0.005, 0.01, 0.02, 0.04)  # b/n
RATIOS = (0.125, 0.25, 0.5, 1.0, 2.0)  # L/b
STEP_SIZES = (0.2, 0.1, 0.05)
LENGTHS = (5_000, 20_000, 80_000)
WINDOWS = np.arange(100, 5_000, 100)  # t − τ
ALPHA, BETA = 10.0**0.5, 10.0**0.5 / 3.0  # 1/α² + 1/β² = 1

# The panels in which pabi's own curve is drawn: it is no approximation, and takes seconds.
PROVEN = ((0.01, 0.5), (0.02, 1.0), (0.04, 2.0))
PROVEN_STEP_SIZE = 0.1


def theorem_4_10(probability: float, ratio: float, step_size: float) -> float:
    """μ by the central limit theorem: the least over the windows, as the figure has it."""
    start = ALPHA * DIAMETER / (step_size * NOISE_STD)
    pull = 2.0 * BETA * ratio / NOISE_STD
    pulls = np.array([clt_mu(probability, pull, int(k)) for k in WINDOWS])
    return float(np.sqrt(start**2 / WINDOWS + pulls**2).min())


def run(probability: float, ratio: float) -> NoisySGD:
    """The longest run, in batches of one record, as curved as its step size allows."""
    loss = Loss.convex(smoothness=2.0 / PROVEN_STEP_SIZE, gradient_bound=0.5 * ratio)
    return NoisySGD(
        loss,
        n=round(1.0 / probability),
        batches=FixedSize(1),
        steps=LENGTHS[-1],
        step_size=PROVEN_STEP_SIZE,
        noise_std=NOISE_STD,
        diameter=DIAMETER,
    )


def _parts(settings: Settings) -> Mapping[str, Part]:
    at = {"delta": curves.DELTA, "fpr": curves.FPR}
    return {f"{p} {r}": Part("tradeoff", {"run": to_dict(run(p, r)), **at}) for p, r in PROVEN}


def _assemble(results: Mapping[str, Any]) -> Figure:
    panels = [_panel(results, p, ratio) for p in PROBABILITIES for ratio in RATIOS]
    remark = (
        "The paper's curves use the central limit theorem, which is an approximation and no guarantee. "
        f"pabi's curves are proven. They are for {LENGTHS[-1]} steps of η = {exact(PROVEN_STEP_SIZE)}, "
        "and are drawn in the panels on the diagonal from the middle on."
    )
    return Figure(tuple(panels), remark, columns=5, legend=True, size=(16.0, 15.5))


def _panel(results: Mapping[str, Any], probability: float, ratio: float) -> Panel:
    drawn = [
        curves.gaussian(
            theorem_4_10(probability, ratio, step_size),
            f"Theorem 4.10, η = {exact(step_size)}",
            2,
            dash,
        )
        for step_size, dash in zip(STEP_SIZES, curves.DASHES, strict=False)
    ]
    for steps, dash in zip(LENGTHS, curves.DASHES, strict=False):
        mu = clt_mu(probability, ratio / NOISE_STD, steps)
        drawn.append(curves.gaussian(mu, f"composition, t = {steps}", 1, dash))
    # Drawn in every panel, if only in the legend.
    proven = results.get(f"{probability} {ratio}")
    fpr, values = (curves.FPR, proven) if proven else ([], [])
    drawn.append(Curve(f"pabi, t = {LENGTHS[-1]}, η = {exact(PROVEN_STEP_SIZE)}", fpr, values, 0))
    return Panel(f"b/n = {exact(probability)}, L/b = {exact(ratio)}", "", "", drawn, equal=True)


ARTEFACTS = {
    "bok/table-9": Artefact(
        "μ of NoisyCGD, strongly convex losses, L/(bσ) = 0.2",
        f"{BOK}, Table 9",
        printed(_table_9),
    ),
    **{
        f"bok/table-{number}": Artefact(
            f"When μ of NoisyCGD stops growing, {batches} batches an epoch, D = 1, σ = 3",
            f"{BOK}, Table {number}",
            printed(partial(_thresholds, batches), _BY_THEOREM),
        )
        for number, batches in zip((10, 11, 12), TABLES_10_TO_12, strict=True)
    },
    "bok/figure-8": curves.growth(
        contracting,
        partial(composed, ratio=RATIO),
        title="NoisyCGD, strongly convex losses, c = 0.99, l = 20, L/(bσ) = 0.2",
        figure=8,
        unit="epochs E",
        left=(5, 50, 500),
        right=EPOCHS,
    ),
    "bok/figure-9": curves.growth(
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
    "bok/figure-3": Artefact("The shifted interpolated process", f"{BOK}, Figure 3", _figure_3),
    "bok/figure-5": Artefact("Shifted processes of random batches", f"{BOK}, Figure 5", _figure_5),
    "bok/figure-2": Artefact("Trade-off functions", f"{BOK}, Figure 2", _figure_2),
    "bok/figure-4": Artefact("Sampling amplifies: C_p(G(μ))", f"{BOK}, Figure 4", _figure_4),
    "bok/figure-10": Artefact(
        "NoisySGD, convex losses, D = 1, σ = 3: type II against type I error",
        f"{BOK}, Figure 10",
        _assemble,
        _parts,
    ),
}
