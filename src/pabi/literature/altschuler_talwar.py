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
    """The Rényi divergence α D² κ^T/(2σ²) of two contracting iterations that differ in where they
    start.

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set; it bounds the distance of the starts.
    kappa : float, in [0, 1]
        κ, the *squared* slope of every step.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
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
        For κ > 1.

    References
    ----------
    Altschuler, Talwar 2023, contractive steps (in Bravo, Flores-Mella, Guzmán, §3.3.2).
    """
    require(kappa <= 1.0, "κ ≤ 1")
    return order * diameter**2 * kappa**steps / (2.0 * step_noise_std**2)


@published("rdp", f"Altschuler, Talwar 2023, Proposition 2.10 (in {PAPER}, §4)")
def proposition_2_10(
    *, diameter: float, step_noise_std: float, steps: int, order: float = 2.0
) -> float:
    """The Rényi divergence α D²/(2σ²T) of two nonexpansive iterations that differ in where they
    start.

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set; it bounds the distance of the starts.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
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
    ZeroDivisionError
        For a noise of 0, or no steps.

    References
    ----------
    Altschuler, Talwar 2023, Proposition 2.10 (in Bravo, Flores-Mella, Guzmán, §4).
    """
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

    Batches are Poisson, of expected size b. The paper gives the rate α L²/(n²σ²)·min{T, Dn/(ηL)};
    the constants are those of Remark 5.3 of Bravo, Flores-Mella, Guzmán at p = 1. Unverified: see
    there.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, at least 1
        Expected number of records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set; it bounds the distance of the starts.
    step_size : float, above 0
        η, the size of a step.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence; at most α* of `pabi.literature.bravo.theorem_5_2`.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless σ ≥ 8√2·L/b and 1 < α ≤ α*.

    References
    ----------
    Altschuler, Talwar 2022, Theorem 3.1 (constants of Bravo, Flores-Mella, Guzmán, Remark 5.3);
    docs, "Errata".
    """
    require(noise_std >= 8.0 * math.sqrt(2.0) * L / b, "noise_std ≥ 8√2·L/b")
    top = sampled_gaussian_order(b / n, b * noise_std / (2.0 * math.sqrt(2.0) * L))
    require(1.0 < order <= top, f"1 < order ≤ α* = {shown_down(top, 4)}")
    t = window(L=L, n=n, diameter=diameter, step_size=step_size)
    return 16.0 * order * L**2 / (n * noise_std) ** 2 * min(steps, 2 * t)
