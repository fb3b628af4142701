"""Kong, Ribero, Table 1: rates of the Rényi divergence of cyclic DP-SGD, evaluated beside what is proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.describe.batches import Cyclic
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import kong_ribero
from pabi.numbers.showing import exact
from pabi.papers.artefact import Artefact, Entry, Part, PrintedTable, Settings

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


ARTEFACTS = {
    "table-1": Artefact(
        "Rates for clipped, cyclic DP-SGD, beside what is proven",
        f"{SOURCE}, Table 1",
        _assemble,
        _parts,
    )
}
