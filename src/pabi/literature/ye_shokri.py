"""Ye, Shokri 2022, *Differentially Private Learning Needs Hidden State (or Much Faster Convergence)*.

As Bok, Su, Altschuler compare with it (their Tables 1 and 4).
"""

from __future__ import annotations

import math

from pabi.literature.published import published, require


@published("rdp", "Ye, Shokri 2022, Theorem 3.3")
def theorem_3_3(
    *,
    L: float,
    b: int,
    noise_std: float,
    slope: float,
    batches_per_epoch: int,
    epochs: int,
    order: float = 2.0,
) -> float:
    """The Rényi divergence of noisy cyclic gradient descent on smooth, strongly convex losses.

    It is α·(L/(bσ))²/2·(1 + c^(l−2)·(1 − c²)/(1 − c^l)²·(1 − c^(l(E−1)))).

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    slope : float, in (0, 1)
        c, the Lipschitz constant of a gradient step.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of passes over the data.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless 0 < c < 1.

    References
    ----------
    Ye, Shokri 2022, Theorem 3.3.
    """
    require(0.0 < slope < 1.0, "0 < slope < 1")
    log = math.log(slope)
    l = batches_per_epoch  # noqa: E741
    memory = -math.expm1(2.0 * log) / math.expm1(l * log) ** 2 * -math.expm1(l * (epochs - 1) * log)
    return 0.5 * order * (L / (b * noise_std)) ** 2 * (1.0 + slope ** (l - 2) * memory)


@published("rdp", "Ye, Shokri 2022, Theorem D.6 (as Bok, Su, Altschuler 2024 evaluate it)")
def theorem_d_6(
    *,
    L: float,
    n: int,
    noise_std: float,
    strong_convexity: float,
    step_size: float,
    steps: int,
    order: float = 2.0,
) -> float:
    """The Rényi divergence of noisy gradient descent with full batches on smooth, strongly convex
    losses.

    It is α·(L/(nσ))²·(2 − ηm)/(ηm)·(1 − (1 − ηm/2)^t) for η ≤ 2/(m + M). Sound for such steps: it
    exceeds the exact divergence of Bok, Su, Altschuler, Theorem 4.2.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    strong_convexity : float, above 0
        m, the strong convexity of the losses.
    step_size : float, above 0
        η, the size of a step.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless 0 < ηm < 1.

    References
    ----------
    Ye, Shokri 2022, Theorem D.6 (as Bok, Su, Altschuler 2024 evaluate it).
    """
    shrink = step_size * strong_convexity
    require(0.0 < shrink < 1.0, "0 < ηm < 1")
    settled = -math.expm1(steps * math.log1p(-0.5 * shrink))
    return order * (L / (n * noise_std)) ** 2 * (2.0 - shrink) / shrink * settled
