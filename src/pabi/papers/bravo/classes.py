"""Table 1: Rényi divergences of two iterations that differ in where they start, by class of losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.literature import bravo
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact, Entry, PrintedTable
from pabi.papers.bravo import SOURCE

ORDER, DIAMETER, STEPS, NOISE, STEP_SIZE = 2.0, 4.0, 50, 1.0, 0.1
GRADIENT, EXPONENT, HOELDER = 1.0, 0.5, 1.0  # L, p, M
CONVEXITY, SMOOTHNESS = 0.5, 2.0  # κ, β
OFFSET = 0.5  # λ


def _rows() -> list[tuple[str, str, Loss, float]]:
    """Class, the formula as printed, the loss, and the formula's value."""
    common: dict[str, Any] = {
        "diameter": DIAMETER,
        "step_noise_std": NOISE,
        "steps": STEPS,
        "order": ORDER,
    }
    nonsmooth = (2.0 * STEP_SIZE * GRADIENT) ** 2
    rough = 4.0 * (1.0 - EXPONENT) / (1.0 + EXPONENT)
    hoelder = rough * (0.5 * STEP_SIZE * HOELDER) ** (2.0 / (1.0 - EXPONENT))
    strong = 1.0 - 2.0 * STEP_SIZE * CONVEXITY + (STEP_SIZE * SMOOTHNESS) ** 2
    expanding = (1.0 + STEP_SIZE * SMOOTHNESS) ** 2
    flat = "α/(2σ²)·(D²/T + h·ln(Te)), "
    steep = "αD²c^T(1 − c)/(2σ²(1 − c^T)), "

    def with_h(h: float) -> float:
        return float(bravo.corollary_3_7(h=h, logarithm=True, **common))

    def with_c(c: float) -> float:
        return float(bravo.corollary_3_8(kappa=c, **common))

    dissipative = bravo.corollary_3_9(
        offset=OFFSET,
        rate=CONVEXITY,
        smoothness=SMOOTHNESS,
        step_size=STEP_SIZE,
        logarithm=True,
        **common,
    )
    losses = Loss.strongly_convex(strong_convexity=CONVEXITY, smoothness=SMOOTHNESS)
    return [
        (
            "convex, Lipschitz",
            flat + "h = (2ηL)²",
            Loss.lipschitz(constant=GRADIENT),
            with_h(nonsmooth),
        ),
        (
            "convex, weakly smooth",
            flat + "h = 4(1 − p)/(1 + p)·(ηM/2)^(2/(1−p))",
            Loss.weakly_smooth(pairs=[(EXPONENT, HOELDER)]),
            with_h(hoelder),
        ),
        ("κ-convex, β-smooth", steep + "c = 1 − 2ηκ + η²β²", losses, with_c(strong)),
        ("convex, smooth", "αD²/(2σ²T)", Loss.convex(smoothness=SMOOTHNESS), with_c(1.0)),
        (
            "nonconvex, smooth",
            steep + "c = (1 + ηβ)²",
            Loss.nonconvex(smoothness=SMOOTHNESS),
            with_c(expanding),
        ),
        (
            "strongly dissipative",
            steep + "+ α/(2σ²)·h·ln(e(1 − c^T)/(1 − c)), c as above, h = 2ηλ",
            Loss.dissipative(offset=OFFSET, rate=CONVEXITY, smoothness=SMOOTHNESS),
            float(dissipative),
        ),
    ]


def proven(loss: Loss) -> float:
    """What optimal shifts prove of the same iteration."""
    it = NoisyIteration(
        moduli=loss.modulus(STEP_SIZE),
        step_sensitivity=0.0,
        step_noise_std=NOISE,
        steps=STEPS,
        start=DIAMETER,
        diameter=DIAMETER,
    )
    return float(it.guarantee(1e-5).rdp(ORDER))


def _assemble(results: Mapping[str, Any]) -> PrintedTable:
    entries = [
        Entry({"losses": name, "bound": formula}, "R₂", None, value, proven(loss))
        for name, formula, loss, value in _rows()
    ]
    remark = (
        f"Formulas evaluated at α = {exact(ORDER)}, D = {exact(DIAMETER)}, T = {STEPS}, "
        f"σ = {exact(NOISE)} on the iterate, η = {exact(STEP_SIZE)}, L = {exact(GRADIENT)}, "
        f"p = {exact(EXPONENT)}, M = {exact(HOELDER)}, κ = {exact(CONVEXITY)}, "
        f'β = {exact(SMOOTHNESS)}, λ = {exact(OFFSET)}. All of them are sound. The column "pabi" has '
        "optimal shifts of the same iteration, with its own modulus where that is smaller. Points that "
        "are equal stay equal, ω(0) = 0."
    )
    return PrintedTable(tuple(entries), remark)


ARTEFACTS = {
    "table-1": Artefact(
        "Rényi divergence of the last iterate, by class of losses", f"{SOURCE}, Table 1", _assemble
    )
}
