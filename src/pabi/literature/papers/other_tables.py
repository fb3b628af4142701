"""Table 1: rates of the excess risk of private optimisation, evaluated beside proven bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pabi.numbers.showing import exact, plain
from pabi.papers.artefact import Artefact, Entry, Part, PrintedTable, Settings
from pabi.papers.langevin_universality import SOURCE

N, P, EPSILON, DELTA, LIPSCHITZ, CONVEXITY = 100_000, 10, 1.0, 1e-6, 1.0, 1.0
PURE, APPROXIMATE = "ε-DP", "(ε, δ)-DP"
LOSSES = {"convex": "convex", "m-SC": "strongly_convex", "non-convex": "nonconvex"}

_LOG = math.log(1.0 / DELTA)
_ONE = P / (EPSILON * N)
_ROOT = math.sqrt(P * _LOG) / (EPSILON * N)
_SQUARE = 1.0 / (CONVEXITY * (EPSILON * N) ** 2)
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
        _LOG * _POLYLOG**4 * _SQUARE / CONVEXITY,
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
        1.0 / (CONVEXITY * N) + P**2 * math.log(N) * _SQUARE,
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
        1.0 / (CONVEXITY * N) + P * _LOG * _POLYLOG**2 * _SQUARE,
        "L² ln(1/δ) ln⁴(pεn)/(m²ε²n²)",
        _LOG * _POLYLOG**4 * _SQUARE / CONVEXITY,
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
        "strong_convexity": CONVEXITY if losses == "m-SC" else None,
    }


def _parts(settings: Settings) -> Mapping[str, Part]:
    return {" ".join(row[:3]): Part("planned", _problem(*row[:3])) for row in ROWS}


def _assemble(results: Mapping[str, Any]) -> PrintedTable:
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
        f"Rates and times evaluated with constant 1 at n = {N}, p = {P}, ε = {exact(EPSILON)}, δ = "
        f'{exact(DELTA)}, L = {exact(LIPSCHITZ)}, m = {exact(CONVEXITY)}, diameter 1. The column "pabi" '
        "has the bound that pabi.erm.plan proves, constants included, for the algorithm that it "
        "chooses (adjacency: one record is replaced), and its T where that is a diffusion of finite "
        "time. The rates of Theorems F.2 and E.6 are not proven (see the errata in the docs)."
    )
    return PrintedTable(tuple(entries), remark)


ARTEFACTS = {
    "table-1": Artefact(
        "Excess risk of private optimisation: rates beside proven bounds",
        f"{SOURCE}, Table 1",
        _assemble,
        _parts,
    )
}
