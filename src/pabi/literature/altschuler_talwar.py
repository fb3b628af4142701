"""Altschuler, Talwar 2022 and 2023, as Bravo, Flores-Mella, Guzmán state them.

*Privacy of Noisy Stochastic Gradient Descent* (2022); *Resolving the Mixing Time of the Langevin
Algorithm* (2023).
"""

from __future__ import annotations

import math

from pabi.literature.bravo import PAPER, sampled_gaussian_order, window
from pabi.literature.published import published, require
from pabi.numbers.showing import shown_down


@published("rdp", f"Altschuler, Talwar 2023, contractive steps (in {PAPER}, §3.3.2)")
def contractive(
    *, diameter: float, kappa: float, step_noise_std: float, steps: int, order: float = 2.0
) -> float:
    """The Rényi divergence α D² κ^T/(2σ²) of two iterations that differ in where they start.

    `kappa` < 1: the *squared* slope of every step.
    """
    require(kappa <= 1.0, "κ ≤ 1")
    return order * diameter**2 * kappa**steps / (2.0 * step_noise_std**2)


@published("rdp", f"Altschuler, Talwar 2023, Proposition 2.10 (in {PAPER}, §4)")
def proposition_2_10(
    *, diameter: float, step_noise_std: float, steps: int, order: float = 2.0
) -> float:
    """The Rényi divergence α D²/(2σ²T) of two nonexpansive iterations that differ in where they start."""
    return order * diameter**2 / (2.0 * step_noise_std**2 * steps)


@published(
    "rdp",
    f"Altschuler, Talwar 2022, Theorem 3.1 (constants of {PAPER}, Remark 5.3)",
    "unverified",
    "printed with an unspecified constant; with that of Bravo, Flores-Mella, Guzmán its proof, which "
    "conditions on noise that is correlated with the batch, carries the gap of their Theorem 5.2",
)
def theorem_3_1(
    *,
    L: float,
    b: int,
    n: int,
    diameter: float,
    step_size: float,
    noise_std: float,
    steps: int,
    order: float,
) -> float:
    """The Rényi divergence 16αL²/(n²σ²)·min{T, 2⌈Dn/(4ηL)⌉} of noisy SGD on smooth convex losses.

    Poisson batches of expected size b, gradients of norm at most L, noise of standard deviation
    `noise_std` on the gradient. The paper gives the rate α L²/(n²σ²)·min{T, Dn/(ηL)}; the constants are
    those of Remark 5.3 of Bravo, Flores-Mella, Guzmán at p = 1. Unverified: see there.
    """
    require(noise_std >= 8.0 * math.sqrt(2.0) * L / b, "noise_std ≥ 8√2·L/b")
    top = sampled_gaussian_order(b / n, b * noise_std / (2.0 * math.sqrt(2.0) * L))
    require(1.0 < order <= top, f"1 < order ≤ α* = {shown_down(top, 4)}")
    t = window(L=L, n=n, diameter=diameter, step_size=step_size)
    return 16.0 * order * L**2 / (n * noise_std) ** 2 * min(steps, 2 * t)
