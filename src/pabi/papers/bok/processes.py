"""Figures 3 and 5: shifted interpolated processes in one dimension, simulated without any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pabi.draw.paper_figures import Curve, Figure, Panel
from pabi.numbers.rounding import Array
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE

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


ARTEFACTS = {
    "figure-3": Artefact("The shifted interpolated process", f"{SOURCE}, Figure 3", _figure_3),
    "figure-5": Artefact("Shifted processes of random batches", f"{SOURCE}, Figure 5", _figure_5),
}
