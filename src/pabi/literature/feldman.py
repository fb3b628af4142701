"""Feldman, Mironov, Talwar, Thakurta 2018, *Privacy Amplification by Iteration*.

As Bravo, Flores-Mella, Guzmán, Bok, Su, Altschuler and Kong, Ribero cite it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pabi.literature.published import published, require


@published("rdp", "Feldman, Mironov, Talwar, Thakurta 2018, Theorem 22")
def theorem_22(
    *,
    sensitivities: Sequence[float],
    payments: Sequence[float],
    step_noise_std: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence α/(2σ²)·Σ a_k² of nonexpansive iterations, from shifts that end at zero.

    `sensitivities` s_k and `payments` a_k ≥ 0 with Σ_{j≤k} (s_j − a_j) ≥ 0 for every k, and = 0 for the
    last (NotApplicable otherwise, up to rounding). `step_noise_std`: of the noise on the iterate.
    """
    left, size = 0.0, math.fsum(sensitivities)
    for s, a in zip(sensitivities, payments, strict=True):
        require(a >= 0.0, "payments ≥ 0")
        left += s - a
        require(left >= -1e-12 * size, "payments that never exceed what is owed")
    require(abs(left) <= 1e-12 * size, "payments that add up to what is owed")
    return order / (2.0 * step_noise_std**2) * math.fsum(a * a for a in payments)


@published("rdp", "Feldman, Mironov, Talwar, Thakurta 2018, Theorem 23")
def theorem_23(*, L: float, n: int, position: int, noise_std: float, order: float = 2.0) -> float:
    """The Rényi divergence 2αL²/(σ²(n + 1 − t)) of one pass over n records, batches of one record.

    Of the record at `position` t in 1..n; losses convex, smooth with η ≤ 2/M, with gradients of norm at
    most L, noise of standard deviation σ = `noise_std` on the gradient. It is `theorem_22` with the
    shift 2ηL paid in equal parts.
    """
    require(1 <= position <= n, "position in 1..n")
    return 2.0 * order * L**2 / (noise_std**2 * (n + 1 - position))
