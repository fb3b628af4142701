"""Full batches: μ on strongly convex losses, and where it stops growing on a bounded domain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.batches import FullBatch
from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.literature import bok, ye_shokri
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact, Entry, printed
from pabi.papers.bok import SOURCE, curves


def composed(steps: int, *, sensitivity: float, noise_std: float = 1.0) -> float:
    """μ by composition. `sensitivity`: L/n."""
    return float(bok.theorem_4_1(L=sensitivity, n=1, noise_std=noise_std, steps=steps))


# Table 7 and Figure 6: strongly convex losses.

SENSITIVITY = 0.1  # L/(nσ)
SLOPES = (0.92, 0.96, 0.98, 0.99, 0.995)
TABLE_7 = {  # steps: composition, then by slope
    10: ("0.316", "0.308", "0.314", "0.316", "0.316", "0.316"),
    100: ("1.000", "0.490", "0.688", "0.871", "0.961", "0.990"),
    1000: ("3.162", "0.490", "0.700", "0.995", "1.411", "1.984"),
}


def contracting(steps: int, slope: float = 0.99) -> float:
    """μ of steps of this slope."""
    return curves.proven(
        NoisyIteration(
            contraction=slope, step_sensitivity=SENSITIVITY, step_noise_std=1.0, steps=steps
        )
    )


def _table_7(results: Mapping[str, Any]) -> Iterator[Entry]:
    for steps, (composition, *bounds) in TABLE_7.items():
        every = composed(steps, sensitivity=SENSITIVITY)
        where: dict[str, str | float] = {"steps": steps, "c": "any"}
        yield Entry(where, "μ, GDP composition", composition, every)
        for slope, bound in zip(SLOPES, bounds, strict=True):
            where = {"steps": steps, "c": slope}
            yield Entry(where, "μ, the last iterate", bound, contracting(steps, slope))


# Table 8 and Figure 7: convex losses on a bounded domain.

DIAMETER, NOISE_STD = 1.0, 8.0
STEP_SIZES = (0.2, 0.1, 0.05)
TABLE_8 = {  # L/n: (t*, μ*) by step size
    0.25: (("80", "0.280"), ("160", "0.395"), ("320", "0.559")),
    0.5: (("40", "0.395"), ("80", "0.559"), ("160", "0.791")),
    1.0: (("20", "0.559"), ("40", "0.791"), ("80", "1.118")),
}
FOREVER = 100_000
# μ for ever may differ from an earlier equal one by roundings.
_ALMOST = 1.0 - 1e-12


def bounded(steps: int, *, sensitivity: float, step_size: float) -> float:
    """μ of nonexpansive steps on the domain. `sensitivity`: L/n."""
    return curves.proven(
        NoisyIteration(
            contraction=1.0,
            step_sensitivity=step_size * sensitivity,
            step_noise_std=step_size * NOISE_STD,
            diameter=DIAMETER,
            steps=steps,
        )
    )


def threshold(sensitivity: float, step_size: float) -> int:
    """The least number of steps at which μ is what it is for ever, by bisection: μ never falls."""
    mu = partial(bounded, sensitivity=sensitivity, step_size=step_size)
    forever = mu(FOREVER) * _ALMOST
    return bisect_left(range(FOREVER), True, lo=1, key=lambda steps: mu(steps) >= forever)


def _table_8(results: Mapping[str, Any]) -> Iterator[Entry]:
    for sensitivity, row in TABLE_8.items():
        for step_size, (steps, bound) in zip(STEP_SIZES, row, strict=True):
            where = {"L/n": sensitivity, "η": step_size}
            settled = threshold(sensitivity, step_size)
            theorem = bok.theorem_4_3(
                L=sensitivity,
                n=1,
                noise_std=NOISE_STD,
                step_size=step_size,
                diameter=DIAMETER,
                steps=settled,
            )
            best = bounded(FOREVER, sensitivity=sensitivity, step_size=step_size)
            yield from (
                Entry(where, "t*, steps", steps, settled),
                Entry(where, "μ*", bound, float(theorem), best),
            )


_SETTLED = (
    'The column "ours" has the number of steps at which μ by optimal shifts stops growing, and μ by '
    'Theorem 4.3. The column "pabi" has μ by optimal shifts for any number of steps.'
)


# Figure 1: Rényi bounds beside them.

STEP_SIZE, CONVEXITY, SMOOTHNESS = 0.05, 1.0, 10.0
LENGTHS = (10, 20, 40, 80, 160)


def smooth(steps: int) -> float:
    """μ of the run of Figure 1."""
    loss = Loss.strongly_convex(strong_convexity=CONVEXITY, smoothness=SMOOTHNESS)
    return curves.proven(
        NoisySGD(
            loss,
            n=1,
            batches=FullBatch(),
            steps=steps,
            step_size=STEP_SIZE,
            noise_std=1.0,
            gradient_sensitivity=SENSITIVITY,
        )
    )


def epsilon_by_renyi(steps: int) -> float:
    """ε of the earlier Rényi bound."""
    divergence = ye_shokri.theorem_d_6(
        L=SENSITIVITY,
        n=1,
        noise_std=1.0,
        strong_convexity=CONVEXITY,
        step_size=STEP_SIZE,
        steps=steps,
        order=1.0,
    )
    return rdp_to_epsilon(rho=float(divergence), delta=curves.DELTA)


def _figure_1(results: Mapping[str, Any]) -> Figure:
    delta, every = curves.DELTA, partial(composed, sensitivity=SENSITIVITY)
    mus = [smooth(t) for t in LENGTHS]
    left = curves.tradeoffs(
        [
            curves.gaussian(0.0, "perfect privacy", None, ":"),
            curves.gaussian(mus[-1], "last iterate (exact)", 0),
            curves.gaussian(every(LENGTHS[-1]), "composition", 1, "--"),
            curves.gaussian(10.0, "no privacy", None, "-."),
        ]
    )
    lines = (
        ("last iterate (exact)", [gdp_to_epsilon(mu, delta) for mu in mus], 0, "-"),
        ("the same by Rényi", [rdp_to_epsilon(rho=0.5 * u**2, delta=delta) for u in mus], 2, "-."),
        ("earlier Rényi bound", [epsilon_by_renyi(t) for t in LENGTHS], 3, ":"),
        ("composition", [gdp_to_epsilon(every(t), delta) for t in LENGTHS], 1, "--"),
    )
    drawn = [
        Curve(name, LENGTHS, values, colour, dash, marker="o")
        for name, values, colour, dash in lines
    ]
    return Figure((left, Panel(f"ε at δ = {exact(delta)}", "iterations", "ε", drawn, log="x")))


STEPS = (10, 20, 40, 80, 160, 320, 640)
ARTEFACTS = {
    "table-7": Artefact(
        "μ of NoisyGD, strongly convex losses, L/(nσ) = 0.1",
        f"{SOURCE}, Table 7",
        printed(_table_7),
    ),
    "table-8": Artefact(
        "When μ of NoisyGD stops growing, D = 1, σ = 8",
        f"{SOURCE}, Table 8",
        printed(_table_8, _SETTLED),
    ),
    "figure-1": Artefact(
        "NoisyGD on strongly convex losses: exact against composition",
        f"{SOURCE}, Figure 1",
        _figure_1,
    ),
    "figure-6": curves.growth(
        contracting,
        partial(composed, sensitivity=SENSITIVITY),
        title="NoisyGD, strongly convex losses, c = 0.99, L/(nσ) = 0.1",
        figure=6,
        unit="steps t",
        left=(10, 100, 1000),
        right=STEPS,
    ),
    "figure-7": curves.growth(
        partial(bounded, sensitivity=0.5, step_size=0.1),
        partial(composed, sensitivity=0.5, noise_std=NOISE_STD),
        title="NoisyGD, convex losses, D = 1, σ = 8, L/n = 0.5, η = 0.1",
        figure=7,
        unit="steps t",
        left=(80, 160, 320),
        right=STEPS,
        limit=("last iterate, t ≥ 80", FOREVER),
        remark=(
            "At t = 80 the two curves on the left are the same. For more steps Theorem 4.3 has the "
            "smaller μ."
        ),
    ),
}
