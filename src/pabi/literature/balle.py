"""Balle, Barthe, Gaboardi, Geumlek 2019, as Bravo, Flores-Mella, Guzmán, section 3.3.2, state it.

*Privacy Amplification by Mixing and Diffusion Mechanisms.*
"""

from __future__ import annotations

import math

from pabi.literature.published import published


@published(
    "rdp",
    "Balle, Barthe, Gaboardi, Geumlek 2019, Lipschitz steps (in Bravo, Flores-Mella, Guzmán, §3.3.2)",
)
def iterated_lipschitz(
    *, diameter: float, kappa: float, step_noise_std: float, steps: int, order: float = 2.0
) -> float:
    """The Rényi divergence α D² κ^((T+1)/2)/(2σ²T) of two iterations that differ in where they
    start.

    κ^((T+1)/2) is the slope to the power T + 1. The exponent is garbled in the scan; this one
    follows by the means of geometric sums from the optimum of Corollary 3.8, and so never is below
    it. It diverges with T for κ > 1.

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set; it bounds the distance of the starts.
    kappa : float, above 0
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
    ValueError
        For κ ≤ 0, which has no logarithm.

    References
    ----------
    Balle, Barthe, Gaboardi, Geumlek 2019, Lipschitz steps (in Bravo, Flores-Mella, Guzmán, §3.3.2).
    """
    exponent = 0.5 * (steps + 1) * math.log(kappa)
    if exponent > 700.0:
        return math.inf
    scale = order * diameter**2 / (2.0 * step_noise_std**2 * steps)
    return scale * math.exp(exponent)
