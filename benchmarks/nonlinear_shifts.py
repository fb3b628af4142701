"""Shifts under any modulus: seconds beside their goals, and random mixed instances, each verified.

    python benchmarks/nonlinear_shifts.py [--instances 1000]

An instance has 2 to 2 000 steps of linear, square-root and affine moduli and minima of them, with or without
sensitivities and a diameter. Each bound is checked against composition, against the closed form where that
applies (Bravo, Flores-Mella, Guzmán, Thm 3.4, the best of all windows), and by the verifier.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi import Modulus, NoisyIteration
from pabi.account.analyses.nonlinear_shifts import of_iteration
from pabi.account.facts.step_moduli import shapes
from pabi.account.shifts.nonlinear import solve
from pabi.showing import plain, shown
from pabi.verification.arithmetic import Refused
from pabi.verification.granting import grant

DELTA = 1e-5


def mixed(rng: np.random.Generator, t: int, kind: str = "mixed") -> list[Modulus]:
    root: Callable[[], Modulus] = lambda: Modulus.sqrt(  # noqa: E731
        rng.uniform(0.95, 1.02), 10 ** rng.uniform(-6, -1)
    )
    if kind == "roots":
        return [root() for _ in range(t)]
    kinds: list[Callable[[], Modulus]] = [
        lambda: Modulus.linear(rng.uniform(0.95, 1.02)),
        root,
        lambda: Modulus.affine(rng.uniform(0.98, 1.0), 10 ** rng.uniform(-4, -1)),
        lambda: Modulus.minimum(Modulus.linear(rng.uniform(1.0, 1.1)), root()),
    ]
    return [kinds[rng.integers(4)]() for _ in range(t)]


def instance(rng: np.random.Generator) -> tuple[NoisyIteration, bool]:
    """A random iteration, and whether it is one of the closed form's."""
    t = int(np.exp(rng.uniform(math.log(2), math.log(2000))))
    closed = bool(rng.random() < 0.2)
    moduli = mixed(rng, t, "roots" if closed else "mixed")
    s = np.where(rng.random(t) < rng.choice([0.02, 0.2, 1.0]), rng.uniform(0.01, 0.5, t), 0.0)
    diameter = float(10 ** rng.uniform(-1, 1.5)) if closed or rng.random() < 0.5 else None
    start = float(min(rng.uniform(0.0, 2.0), diameter or 2.0)) if rng.random() < 0.3 else 0.0
    sigma = rng.uniform(0.3, 2.0, t)
    it = NoisyIteration(
        moduli=moduli,
        step_sensitivity=np.zeros(t) if closed else s,
        step_noise_std=sigma,
        diameter=diameter,
        start=diameter if closed else start,
    )
    return it, closed


def closed_form(it: NoisyIteration) -> float:
    """The least of D²·Πκ/S_0 + Σ h_k·Π_{l>k}κ_l/S_k over all windows of last steps, from the end."""
    squares, least = np.asarray(it.step_noise_std) ** 2, math.inf
    product, total, gaps = 1.0, 0.0, 0.0
    for modulus, square in zip(reversed(list(it.moduli)), squares[::-1].tolist(), strict=True):
        total += square * product
        gaps += modulus.h * product / total
        product *= modulus.kappa
        least = min(least, it.diameter**2 * product / total + gaps)
    return math.sqrt(least)


def check(instances: int) -> str:
    rng = np.random.default_rng(0)
    above_closed = above_composition = -math.inf
    refused, longest = 0, 0.0
    for _ in range(instances):
        it, closed = instance(rng)
        begin = time.perf_counter()
        try:
            proposal = of_iteration(it, DELTA)
        except pabi.NotApplicable:  # every modulus happens to be linear
            continue
        longest = max(longest, time.perf_counter() - begin)
        mu = proposal.curve.mu
        try:
            grant(it, proposal)
        except Refused:
            refused += 1
        if closed:
            above_closed = max(above_closed, mu / closed_form(it) - 1.0)
        elif it.start == 0.0:
            s, sigma = np.asarray(it.step_sensitivity), np.asarray(it.step_noise_std)
            composed = math.sqrt(float(np.sum((s / sigma) ** 2)))
            if composed > 0.0:
                above_composition = max(above_composition, mu / composed - 1.0)
    return (
        f"{instances} random instances of up to 2000 steps: {refused} refused by the verifier; above the "
        f"closed form by at most {shown(above_closed, 2)}, above composition by at most "
        f"{shown(above_composition, 2)}; the longest took {plain(longest, decimals=2)} s"
    )


def speeds() -> Table:
    rng = np.random.default_rng(1)
    table = Table("what", "seconds", "μ", "composition", "goal")

    def row(
        name: str, moduli: list[Modulus], s: np.ndarray, sigma: np.ndarray, d: float, goal: str
    ) -> None:
        shape = shapes(moduli)
        begin = time.perf_counter()
        found = solve(shape, s, sigma, d, d if not s.any() else 0.0)
        seconds = time.perf_counter() - begin
        composed = math.sqrt(float(np.sum((s / sigma) ** 2)))
        table.add_row(
            name,
            plain(seconds, decimals=1),
            shown(math.sqrt(found.square), 5),
            shown(composed, 5),
            goal,
        )

    for t in (10**4, 10**5):
        every, sigma = np.zeros(t), rng.uniform(0.5, 2.0, t)
        every[9::10] = 0.1
        goal = "5 s" if t == 10**5 else "—"
        row(f"mixed, cyclic, D = 3, {t} steps", mixed(rng, t), every, sigma, 3.0, goal)
        row(f"mixed, cyclic, {t} steps", mixed(rng, t), every, sigma, math.inf, goal)
        convex = [Modulus.sqrt(1.0, 1e-4)] * t
        row(f"nonsmooth, cyclic, {t} steps", convex, every, np.ones(t), math.inf, goal)
    t = 10**6
    roots = [Modulus.sqrt(1.0, float(h)) for h in 10 ** rng.uniform(-6, -3, t)]
    row(
        f"closed form, varying, D = 10, {t} steps",
        roots,
        np.zeros(t),
        rng.uniform(0.5, 2.0, t),
        10.0,
        "—",
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=1000)
    arguments = parser.parse_args()
    console = Console()
    console.print(speeds())
    console.print(check(arguments.instances))


if __name__ == "__main__":
    main()
