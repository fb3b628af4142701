"""Kong and Ribero; Bravo, Flores-Mella and Guzmán; Langevin universality: their tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pabi.describe.batches import Cyclic
from pabi.describe.files import to_dict
from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bravo, kong_ribero
from pabi.literature.papers import Artefact, Entry, Part, PrintedTable, Settings
from pabi.numbers.rounding import Array
from pabi.numbers.showing import as_printed, exact, plain
from pabi.show.themes import Curve, Figure, Panel, Surface

# Kong, Ribero, Table 1: rates of the Rényi divergence of cyclic DP-SGD, evaluated beside what is proven.


SOURCE = "Kong, Ribero"

ORDER, EPOCHS, BATCHES, SIZE = 2.0, 10, 50, 10
CLIP_NORM, STEP_SIZE, NOISE = 1.0, 0.05, 0.02  # C, λ, σ on the iterate
CONVEXITY, SMOOTHNESS, DIAMETER = 0.1, 1.0, 2.0  # m, M, d_h

RATE = "The paper has O(·) of this rate. Where it prints constants, they are larger."
REFUTED = (
    "This rate is refuted with any constant, as the errata in the docs show. The noise of one step has "
    "to hide a record of the last batch, however long the epoch is. The rate falls as 1/ℓ (nearly so "
    "for small m)."
)
UNVERIFIED = (
    "The proof of this rate needs a Lipschitz constant that clipped steps do not have (see the errata "
    "in the docs)."
)


def run(loss: Loss, *, diameter: float | None = None) -> NoisySGD:
    """Clipped, cyclic and unshuffled; `diameter` of the domain, None for all of R^d."""
    return NoisySGD(
        loss,
        n=BATCHES * SIZE,
        batches=Cyclic(SIZE),
        epochs=EPOCHS,
        step_size=STEP_SIZE,
        noise_std=NOISE / STEP_SIZE,
        clip_norm=CLIP_NORM,
        diameter=diameter,
    )


def _runs() -> dict[str, NoisySGD]:
    weakly = Loss.weakly_convex(weak_convexity=CONVEXITY, smoothness=SMOOTHNESS)
    return {
        "convex": run(Loss.convex(smoothness=SMOOTHNESS)),
        "nonconvex": run(weakly),
        "nonconvex, bounded": run(weakly, diameter=DIAMETER),
    }


def _parts(settings: Settings) -> Mapping[str, Part]:
    return {n: Part("renyi", {"run": to_dict(r), "order": ORDER}) for n, r in _runs().items()}


def _assemble(results: Mapping[str, Any]) -> PrintedTable:
    unit = (STEP_SIZE * CLIP_NORM / (SIZE * NOISE)) ** 2
    slope = kong_ribero.slope(CONVEXITY, SMOOTHNESS, STEP_SIZE)
    spread = sum(slope ** (2 * i) for i in range(BATCHES))
    moved = slope * DIAMETER + STEP_SIZE * CLIP_NORM / SIZE
    rows = [
        (
            "convex",
            "Feldman et al.",
            "αE/ℓ·(λQ/σ)²",
            ORDER * EPOCHS / BATCHES * unit * SIZE**2,
            RATE,
        ),
        ("convex", "the paper", "αE/ℓ·(λC/(bσ))²", ORDER * EPOCHS / BATCHES * unit, REFUTED),
        (
            "nonconvex",
            "the paper",
            "αE·L_λ^(2ℓ)/Σ_{i<ℓ} L_λ^(2i)·(λC/(bσ))²",
            ORDER * EPOCHS * slope ** (2 * BATCHES) / spread * unit,
            REFUTED,
        ),
        (
            "nonconvex, bounded",
            "the paper",
            "α/σ²·(L_λ d_h + λC/b)²",
            ORDER / NOISE**2 * moved**2,
            UNVERIFIED,
        ),
    ]
    entries = [
        Entry(
            {"losses": losses, "of": of, "rate": rate},
            "R₂",
            None,
            value,
            results[losses],
            remark=remark,
        )
        for losses, of, rate, value, remark in rows
    ]
    remark = (
        f"Rates evaluated with constant 1 at α = {exact(ORDER)}, E = {EPOCHS}, ℓ = {BATCHES}, b = {SIZE}, "
        f"C = Q = {exact(CLIP_NORM)}, λ = {exact(STEP_SIZE)}, σ = {exact(NOISE)} on the iterate, "
        f"m = {exact(CONVEXITY)}, "
        f'M = {exact(SMOOTHNESS)}, d_h = {exact(DIAMETER)}. The column "pabi" is proven '
        "of the clipped run, for the worst record."
    )
    return PrintedTable(tuple(entries), remark)


# Bravo, Flores-Mella, Guzmán.


BRAVO = "Bravo, Flores-Mella, Guzmán"

# Table 1: Rényi divergences of two iterations that differ in where they start, by class of losses.


ORDER_1, DIAMETER_1, STEPS, NOISE_1, STEP_SIZE_1 = 2.0, 4.0, 50, 1.0, 0.1
GRADIENT_1, EXPONENT, HOELDER = 1.0, 0.5, 1.0  # L, p, M
CONVEXITY_1, SMOOTHNESS_1 = 0.5, 2.0  # κ, β
OFFSET = 0.5  # λ


def _rows() -> list[tuple[str, str, Loss, float]]:
    """Class, the formula as printed, the loss, and the formula's value."""
    common: dict[str, Any] = {
        "diameter": DIAMETER_1,
        "step_noise_std": NOISE_1,
        "steps": STEPS,
        "order": ORDER_1,
    }
    nonsmooth = (2.0 * STEP_SIZE_1 * GRADIENT_1) ** 2
    rough = 4.0 * (1.0 - EXPONENT) / (1.0 + EXPONENT)
    hoelder = rough * (0.5 * STEP_SIZE_1 * HOELDER) ** (2.0 / (1.0 - EXPONENT))
    strong = 1.0 - 2.0 * STEP_SIZE_1 * CONVEXITY_1 + (STEP_SIZE_1 * SMOOTHNESS_1) ** 2
    expanding = (1.0 + STEP_SIZE_1 * SMOOTHNESS_1) ** 2
    flat = "α/(2σ²)·(D²/T + h·ln(Te)), "
    steep = "αD²c^T(1 − c)/(2σ²(1 − c^T)), "

    def with_h(h: float) -> float:
        return float(bravo.corollary_3_7(h=h, logarithm=True, **common))

    def with_c(c: float) -> float:
        return float(bravo.corollary_3_8(kappa=c, **common))

    dissipative = bravo.corollary_3_9(
        offset=OFFSET,
        rate=CONVEXITY_1,
        smoothness=SMOOTHNESS_1,
        step_size=STEP_SIZE_1,
        logarithm=True,
        **common,
    )
    losses = Loss.strongly_convex(strong_convexity=CONVEXITY_1, smoothness=SMOOTHNESS_1)
    return [
        (
            "convex, Lipschitz",
            flat + "h = (2ηL)²",
            Loss.lipschitz(constant=GRADIENT_1),
            with_h(nonsmooth),
        ),
        (
            "convex, weakly smooth",
            flat + "h = 4(1 − p)/(1 + p)·(ηM/2)^(2/(1−p))",
            Loss.weakly_smooth(pairs=[(EXPONENT, HOELDER)]),
            with_h(hoelder),
        ),
        ("κ-convex, β-smooth", steep + "c = 1 − 2ηκ + η²β²", losses, with_c(strong)),
        ("convex, smooth", "αD²/(2σ²T)", Loss.convex(smoothness=SMOOTHNESS_1), with_c(1.0)),
        (
            "nonconvex, smooth",
            steep + "c = (1 + ηβ)²",
            Loss.nonconvex(smoothness=SMOOTHNESS_1),
            with_c(expanding),
        ),
        (
            "strongly dissipative",
            steep + "+ α/(2σ²)·h·ln(e(1 − c^T)/(1 − c)), c as above, h = 2ηλ",
            Loss.dissipative(offset=OFFSET, rate=CONVEXITY_1, smoothness=SMOOTHNESS_1),
            float(dissipative),
        ),
    ]


def proven(loss: Loss) -> float:
    """What optimal shifts prove of the same iteration."""
    it = NoisyIteration(
        moduli=loss.modulus(STEP_SIZE_1),
        step_sensitivity=0.0,
        step_noise_std=NOISE_1,
        steps=STEPS,
        start=DIAMETER_1,
        diameter=DIAMETER_1,
    )
    return float(it.guarantee(1e-5).rdp(ORDER_1))


def _assemble_classes(results: Mapping[str, Any]) -> PrintedTable:
    entries = [
        Entry({"losses": name, "bound": formula}, "R₂", None, value, proven(loss))
        for name, formula, loss, value in _rows()
    ]
    remark = (
        f"Formulas evaluated at α = {exact(ORDER_1)}, D = {exact(DIAMETER_1)}, T = {STEPS}, "
        f"σ = {exact(NOISE_1)} on the iterate, η = {exact(STEP_SIZE_1)}, L = {exact(GRADIENT_1)}, "
        f"p = {exact(EXPONENT)}, M = {exact(HOELDER)}, κ = {exact(CONVEXITY_1)}, "
        f'β = {exact(SMOOTHNESS_1)}, λ = {exact(OFFSET)}. All of them are sound. The column "pabi" has '
        "optimal shifts of the same iteration, with its own modulus where that is smaller. Points that "
        "are equal stay equal, ω(0) = 0."
    )
    return PrintedTable(tuple(entries), remark)


# Figure 2: the cost of two shifts is not convex.


DIAMETER_SHAPE, STEP_SIZE_SHAPE, GRADIENT_SHAPE = 5.0, 1.0, 1.0
NOISE_SHAPE = (1.0, 0.01, 0.4)
H = (2.0 * STEP_SIZE_SHAPE * GRADIENT_SHAPE) ** 2
_VALLEY = ((0.0, H**0.5), (5.0, float(np.hypot(5.0, H**0.5))))


def cost(first: Array, second: Array) -> Array:
    """E(u₁, u₂) = Σ (ω(u_{k−1}) − u_k)²/σ_{k−1}², u₀ = D and u₃ = 0, ω(u) = √(u² + h)."""
    start = np.hypot(DIAMETER_SHAPE, H**0.5)
    terms = (start - first, np.hypot(first, H**0.5) - second, np.hypot(second, H**0.5))
    total: Array = np.sum([(t / s) ** 2 for t, s in zip(terms, NOISE_SHAPE, strict=True)], axis=0)
    return total


def least() -> float:
    """The least value, in closed form: the Rényi divergence of order 2 is μ²."""
    return float(bravo.theorem_3_4([1.0] * 3, [H] * 3, NOISE_SHAPE, DIAMETER_SHAPE))


def _assemble_shape(results: Mapping[str, Any]) -> Figure:
    x, y = np.linspace(-6.0, 6.0, 121), np.linspace(-6.0, 8.0, 141)
    values = np.log10(cost(*np.meshgrid(x, y)))
    surface = Surface("log₁₀ E", x.tolist(), y.tolist(), values.tolist())
    # From the bottom of the valley at u₁ = 0 to that at u₁ = 5: between them it is bent.
    (first, second), share = _VALLEY, np.linspace(0.0, 1.0, 101)
    along = cost(*(a + share * (b - a) for a, b in zip(first, second, strict=True)))
    chord = along[0] + share * (along[-1] - along[0])
    plane = Curve("the segment on the right", [first[0], second[0]], [first[1], second[1]], 1, "--")
    line = [
        Curve("E on the segment", share.tolist(), along.tolist(), 1, "--"),
        Curve("its chord", share.tolist(), chord.tolist(), None, ":"),
    ]
    panels = (
        Panel("E(u₁, u₂)", "u₁", "u₂", [plane], surface=surface),
        Panel("above its chord: not convex", "share of the way", "E", line, log="y"),
    )
    remark = (
        "The paper shows the surface. The segment shows that it is not convex. The least value of E is "
        f"{as_printed(least(), 4)}, by Theorem 3.4."
    )
    return Figure(panels, remark, size=(12.0, 5.0))


# Figure 1: where the privacy curve of noisy SGD stops, for losses between nonsmooth and smooth.


N_STEPS, GRADIENT, CONSTANT, DIAMETER_STEPS = 1_000, 1.0, 2.0, 1.0
EXPONENTS = (0.2, 0.4, 0.6, 1.0)
STEP_SIZES = np.geomspace(N_STEPS**-1.0, N_STEPS**-0.25, 121)


def steps(exponent: float, step_size: float) -> float:
    """2T̄ + V, in steps."""
    return bravo.remark_5_3_steps(
        L=GRADIENT,
        n=N_STEPS,
        diameter=DIAMETER_STEPS,
        step_size=step_size,
        exponent=exponent,
        constant=CONSTANT,
    )


def _assemble_steps(results: Mapping[str, Any]) -> Figure:
    sizes = STEP_SIZES.tolist()
    drawn = [
        Curve(f"p = {exact(p)}", sizes, [float(np.log(steps(p, h))) for h in sizes], colour, dash)
        for p, colour, dash in zip(EXPONENTS, (1, 3, 2, 0), (":", "-.", "--", "-"), strict=True)
    ]
    panel = Panel("n = 1000, L = 1, M = 2, D = 1", "step size η", "ln(2T̄ + V)", drawn, log="x")
    remark = (
        "The copy of the figure that pabi has is hardly legible. The range of η, 1/n to n^(−1/4), and "
        "the logarithm are those that give its marks, 10^0.9 to 10^1.2. The bound is unverified (see "
        "the errata in the docs)."
    )
    return Figure((panel,), remark, columns=1, size=(8.0, 5.2))


# Ganesh, Thakurta, Upadhyay.


LANGEVIN = "Ganesh, Thakurta, Upadhyay"

# Figure 1: how drift and Brownian motion balance in Langevin diffusion on L(θ) = ‖θ‖.


BETA, TIME, DIMENSION = 4.0, 0.06, 3
DRIFT = BETA * TIME
SPREAD = (2.0 * TIME * (DIMENSION - 1)) ** 0.5  # typical length, across the drift
# (r − drift)² + spread² = r²: at this distance the two leave the distance as it is.
EQUILIBRIUM = (DRIFT**2 + SPREAD**2) / (2.0 * DRIFT)
DISTANCES = {"near the minimiser": 0.3, "in equilibrium": EQUILIBRIUM, "far from it": 0.98}


def after(distance: float) -> float:
    """The distance from the minimiser after both."""
    return float(np.hypot(distance - DRIFT, SPREAD))


def _assemble_balance(results: Mapping[str, Any]) -> Figure:
    turn = np.linspace(0.0, 2.0 * np.pi, 121)
    panels = []
    for name, r in DISTANCES.items():
        x, y = r - DRIFT, SPREAD
        across, up = (r * np.cos(turn)).tolist(), (r * np.sin(turn)).tolist()
        drawn = [
            Curve("the set C", np.cos(turn).tolist(), np.sin(turn).tolist(), None),
            Curve("distance from the minimiser before", across, up, None, ":"),
            Curve("distance after", [0.0, x], [0.0, y], 2, "--"),
            Curve("drift, β·time", [r, x], [0.0, 0.0], 0, kind="arrow"),
            Curve("Brownian motion", [x, x], [0.0, y], 1, kind="arrow"),
        ]
        title = f"{name}: {plain(r, decimals=2)} to {plain(after(r), decimals=2)}"
        panels.append(Panel(title, "", "", drawn, equal=True, limits=[-1.1, 1.1, -1.1, 1.1]))
    remark = (
        f"Drawn to scale for β = {exact(BETA)}, time {exact(TIME)} and p = {DIMENSION}: "
        f"a drift of {plain(DRIFT, decimals=2)}, and Brownian motion of typical length "
        f"√(2·time·(p − 1)) = {plain(SPREAD, decimals=2)} across it. The distance in equilibrium, "
        f"{plain(EQUILIBRIUM, decimals=2)} here, grows with the dimension."
    )
    return Figure(tuple(panels), remark, columns=3, legend=True, size=(14.0, 6.0))


# Table 1: rates of the excess risk of private optimisation, evaluated beside proven bounds.


N, P, EPSILON, DELTA, LIPSCHITZ, CONVEXITY_RISKS = 100_000, 10, 1.0, 1e-6, 1.0, 1.0
PURE, APPROXIMATE = "ε-DP", "(ε, δ)-DP"
LOSSES = {"convex": "convex", "m-SC": "strongly_convex", "non-convex": "nonconvex"}

_LOG = math.log(1.0 / DELTA)
_ONE = P / (EPSILON * N)
_ROOT = math.sqrt(P * _LOG) / (EPSILON * N)
_SQUARE = 1.0 / (CONVEXITY_RISKS * (EPSILON * N) ** 2)
_POLYLOG = math.log(P * EPSILON * N)
# Excess risk, then time of the diffusion, as printed and with constant 1.
ROWS: list[tuple[str, str, str, str, float, str, float]] = [
    ("erm", "convex", PURE, "Lp/(εn)", _ONE, "∞", math.inf),
    (
        "erm",
        "m-SC",
        PURE,
        "L²(p² + p ln n)/(mε²n²)",
        (P**2 + P * math.log(N)) * _SQUARE,
        "∞",
        math.inf,
    ),
    ("erm", "non-convex", PURE, "Lp/(εn)·ln(εn/p)", _ONE * math.log(1.0 / _ONE), "∞", math.inf),
    ("erm", "convex", APPROXIMATE, "L√(p ln(1/δ))/(εn)", _ROOT, "1/p", 1.0 / P),
    (
        *("erm", "m-SC", APPROXIMATE, "L²p ln(1/δ)/(mε²n²)·ln²(pεn)"),
        P * _LOG * _SQUARE * _POLYLOG**2,
        "L² ln(1/δ) ln⁴(pεn)/(m²ε²n²)",
        _LOG * _POLYLOG**4 * _SQUARE / CONVEXITY_RISKS,
    ),
    (
        "erm",
        "non-convex",
        APPROXIMATE,
        "Lp/(εn)·ln(εn/p)",
        _ONE * math.log(1.0 / _ONE),
        "∞",
        math.inf,
    ),
    ("sco", "convex", PURE, "L/√n + Lp/(εn)", N**-0.5 + _ONE, "∞", math.inf),
    (
        *("sco", "m-SC", PURE, "L²/(mn) + L²p² ln n/(mε²n²)"),
        1.0 / (CONVEXITY_RISKS * N) + P**2 * math.log(N) * _SQUARE,
        "∞",
        math.inf,
    ),
    (
        *("sco", "convex", APPROXIMATE, "L/√n + L√(p ln(1/δ))/(εn)", N**-0.5 + _ROOT),
        "min{1/p, ln(1/δ)/(ε²n)}",
        min(1.0 / P, _LOG / (EPSILON**2 * N)),
    ),
    (
        *("sco", "m-SC", APPROXIMATE, "L²/(mn) + L²p ln(1/δ) ln²(pεn)/(mε²n²)"),
        1.0 / (CONVEXITY_RISKS * N) + P * _LOG * _POLYLOG**2 * _SQUARE,
        "L² ln(1/δ) ln⁴(pεn)/(m²ε²n²)",
        _LOG * _POLYLOG**4 * _SQUARE / CONVEXITY_RISKS,
    ),
]


def _problem(objective: str, losses: str, notion: str) -> dict[str, Any]:
    return {
        "objective": objective,
        "losses": LOSSES[losses],
        "n": N,
        "dimension": P,
        "lipschitz": LIPSCHITZ,
        "diameter": 1.0,
        "epsilon": EPSILON,
        "delta": 0.0 if notion == PURE else DELTA,
        "strong_convexity": CONVEXITY_RISKS if losses == "m-SC" else None,
    }


def _parts_risks(settings: Settings) -> Mapping[str, Part]:
    return {" ".join(row[:3]): Part("planned", _problem(*row[:3])) for row in ROWS}


def _assemble_risks(results: Mapping[str, Any]) -> PrintedTable:
    entries = []
    for objective, losses, notion, rate, value, _, time in ROWS:
        plan = results[f"{objective} {losses} {notion}"]
        where: dict[str, str | float] = {
            "objective": objective.upper(),
            "losses": losses,
            "privacy": notion,
            "rate": rate,
            "T": plain(time, 3) if math.isfinite(time) else "∞",
            "pabi's algorithm": plan["algorithm"],
            "its T": "—" if plan["time"] is None else plain(plan["time"], 3),
        }
        entries.append(Entry(where, "excess risk", None, value, plan["risk"]))
    remark = (
        f"Rates and times evaluated with constant 1 at n = {N}, p = {P}, ε = {exact(EPSILON)}, "
        f"δ = {exact(DELTA)}, L = {exact(LIPSCHITZ)}, m = {exact(CONVEXITY_RISKS)}, diameter 1. "
        'The column "pabi" has the bound that pabi.erm.plan proves, constants included, for the algorithm '
        "that it chooses (adjacency: one record is replaced), and its T where that is a diffusion of finite "
        "time. The rates of Theorems F.2 and E.6 are not proven (see the errata in the docs)."
    )
    return PrintedTable(tuple(entries), remark)


ARTEFACTS = {
    "kong-ribero/table-1": Artefact(
        "Rates for clipped, cyclic DP-SGD, beside what is proven",
        f"{SOURCE}, Table 1",
        _assemble,
        _parts,
    ),
    "bravo/table-1": Artefact(
        "Rényi divergence of the last iterate, by class of losses",
        f"{BRAVO}, Table 1",
        _assemble_classes,
    ),
    "bravo/figure-2": Artefact(
        "E for D = 5, η = L = 1, σ = (1, 0.01, 0.4)", f"{BRAVO}, Figure 2", _assemble_shape
    ),
    "bravo/figure-1": Artefact(
        "Steps at which the privacy curve stops, 2T̄ + V(D, M, T̄, n, p)",
        f"{BRAVO}, Figure 1",
        _assemble_steps,
    ),
    "langevin-universality/figure-1": Artefact(
        "Drift against Brownian motion", f"{LANGEVIN}, Figure 1", _assemble_balance
    ),
    "langevin-universality/table-1": Artefact(
        "Excess risk of private optimisation: rates beside proven bounds",
        f"{LANGEVIN}, Table 1",
        _assemble_risks,
        _parts_risks,
    ),
}
