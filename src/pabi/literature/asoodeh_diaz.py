"""Asoodeh, Diaz 2023, as Bravo, Flores-Mella, Guzmán, section 5.2, state it.

*Privacy Loss of Noisy Stochastic Gradient Descent Might Converge Even for Non-Convex Losses.*
"""

from __future__ import annotations

import math

from pabi.literature.bravo import PAPER
from pabi.literature.published import published


def _distance(*, L: float, diameter: float, step_size: float, noise_std: float) -> float:
    """(D/η + 2L)/σ: how far one step can take two points apart, in units of its noise."""
    return (diameter / step_size + 2.0 * L) / noise_std


@published("epsilon", f"Asoodeh, Diaz 2023, Theorem 2 (in {PAPER}, before (24))")
def theorem_2(
    *, L: float, b: int, n: int, diameter: float, step_size: float, noise_std: float, delta: float
) -> float:
    """ε at δ of noisy SGD after any number of steps, for any losses with bounded gradients.

    The value is r²/2 + r·Φ⁻¹(b(1 − δ)/(b(1 − δ) + nδ)) with r = (D/η + 2L)/σ. Batches have a fixed
    size b. The formula is garbled in the scan; it was recovered and proven anew: one step contracts
    every hockey-stick divergence by θ = 1 − Φ(ε/r − r/2) or more, and so δ_t ≤ θ·(b/n + (1 −
    b/n)·δ_{t−1}), whose fixed point is δ.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    delta : float, in (0, 1)
        δ of the guarantee.

    Returns
    -------
    Published
        `value` is ε.

    Raises
    ------
    ZeroDivisionError
        For a step size or a noise of 0.

    References
    ----------
    Asoodeh, Diaz 2023, Theorem 2 (in Bravo, Flores-Mella, Guzmán, before (24)).
    """
    from scipy.special import ndtri

    r = _distance(L=L, diameter=diameter, step_size=step_size, noise_std=noise_std)
    theta = delta / (b / n + (1.0 - b / n) * delta)
    return max(0.0, 0.5 * r * r - r * float(ndtri(theta)))


@published("epsilon", f"Asoodeh, Diaz 2023, with a tail bound (in {PAPER}, (24))")
def equation_24(
    *, L: float, b: int, n: int, diameter: float, step_size: float, noise_std: float, delta: float
) -> float:
    """ε at δ of noisy SGD by a tail bound: r²/2 + r·√(2 ln(1 + b(1 − δ)/(nδ))), r = (D/η + 2L)/σ.

    As `theorem_2`, by the tail bound Φ(−x) ≤ exp(−x²/2). The argument of the logarithm is garbled
    in the scan and was derived.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    delta : float, in (0, 1)
        δ of the guarantee.

    Returns
    -------
    Published
        `value` is ε.

    Raises
    ------
    ZeroDivisionError
        For a step size, a noise or a δ of 0.

    References
    ----------
    Asoodeh, Diaz 2023, with a tail bound (in Bravo, Flores-Mella, Guzmán, (24)).
    """
    r = _distance(L=L, diameter=diameter, step_size=step_size, noise_std=noise_std)
    return 0.5 * r * r + r * math.sqrt(2.0 * math.log1p(b * (1.0 - delta) / (n * delta)))
