"""Feldman, Mironov, Talwar, Thakurta 2018, *Privacy Amplification by Iteration*.

As Bravo, Flores-Mella, Guzmán, Bok, Su, Altschuler and Kong, Ribero cite it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pabi.literature.published import ROUNDED, published, require


@published("rdp", "Feldman, Mironov, Talwar, Thakurta 2018, Theorem 22")
def theorem_22(
    *,
    sensitivities: Sequence[float],
    payments: Sequence[float],
    step_noise_std: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence α/(2σ²)·Σ a_k² of nonexpansive iterations, from shifts that end at zero.

    What is owed after k steps is Σ_{j≤k} (s_j − a_j). It is at least 0 after every step, and 0
    after the last, both up to rounding.

    Parameters
    ----------
    sensitivities : sequence of float, at least 0, one a step
        s_k, how far the record can move step k.
    payments : sequence of float, at least 0, one a step
        a_k, the length that the noise of step k hides.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        For a negative payment, for payments that exceed what is owed, and for others than add up to
        it.
    ValueError
        For sequences of different lengths.

    References
    ----------
    Feldman, Mironov, Talwar, Thakurta 2018, Theorem 22.
    """
    left, size = 0.0, math.fsum(sensitivities)
    for s, a in zip(sensitivities, payments, strict=True):
        require(a >= 0.0, "payments ≥ 0")
        left += s - a
        require(left >= -ROUNDED * size, "payments that never exceed what is owed")
    require(abs(left) <= ROUNDED * size, "payments that add up to what is owed")
    return order / (2.0 * step_noise_std**2) * math.fsum(a * a for a in payments)


@published("rdp", "Feldman, Mironov, Talwar, Thakurta 2018, Theorem 23")
def theorem_23(*, L: float, n: int, position: int, noise_std: float, order: float = 2.0) -> float:
    """The Rényi divergence 2αL²/(σ²(n + 1 − t)) of one pass over n records, in batches of one
    record.

    Losses are convex and smooth with η ≤ 2/M. It is `theorem_22` with the shift 2ηL paid in equal
    parts.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    n : int, at least 1
        Records of the data set.
    position : int, in 1..n
        t, the place of the record in the pass.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        For a position outside of 1..n.

    References
    ----------
    Feldman, Mironov, Talwar, Thakurta 2018, Theorem 23.
    """
    require(1 <= position <= n, "position in 1..n")
    return 2.0 * order * L**2 / (noise_std**2 * (n + 1 - position))
