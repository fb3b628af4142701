"""Chien, Li 2024: noisy gradient descent on a bounded domain, for gradients that are Hölder and not convex.

*Convergent Privacy Loss of Noisy-SGD without Convexity and Smoothness.* Full-batch steps
X ← Π(X − η·g(X) + N(0, σ²I)) on a set of diameter D; two data sets' steps from one place are at most
s = `step_sensitivity` apart, and ‖g(x) − g(y)‖ ≤ M‖x − y‖^p, M = `constant`, p = `exponent`. The two runs are
tracked forward to a distance w_τ, and from τ on the shifts a_t lead one onto the other, z ← ω(z) − a with
ω(z) = z + ηMz^p, while every step also pays for s: a share of its noise for each. With the best shares that
is α/(2σ²)·Σ_{t > τ} (s + a_t)² at the order α.

The bound is a minimum over τ and over all shifts. Here it is searched over τ and over equal shifts, so
that the number is never below the one of the theorem. Any τ and shifts are those of docs, "Shifts imply
GDP", with payments s + a_t, so that the bound is sound; it pays for s at once, where the best payments
wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pabi.literature.published import published, require
from pabi.numbers.rounding import bisected

PAPER = "Chien, Li 2024"
_BISECTIONS = 60


@published("rdp", f"{PAPER}, Theorem 3.1")
def theorem_3_1(
    *,
    exponent: float,
    constant: float,
    step_size: float,
    step_sensitivity: float,
    step_noise_std: float,
    diameter: float,
    steps: int,
    order: float,
) -> float:
    """The Rényi divergence of noisy gradient descent on a bounded set, for Hölder gradients.

    It is the least found over the start τ and equal shifts, and never below the minimum of the
    theorem. All lengths are those of the iterate.

    Parameters
    ----------
    exponent : float, in (0, 1]
        p, the Hölder exponent of the gradient.
    constant : float, at least 0
        M, the Hölder constant of the gradient.
    step_size : float, above 0
        η, the size of a step.
    step_sensitivity : float, at least 0
        s, how far apart two data sets' steps from one place are at most.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
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
        For an exponent outside of (0, 1], or no steps.

    References
    ----------
    Chien, Li 2024, Theorem 3.1.
    """
    require(0.0 < exponent <= 1.0, "a Hölder exponent in (0, 1]")
    require(steps >= 1, "a step")

    def omega(z: float) -> float:
        return z + step_size * constant * z**exponent if z > 0.0 else 0.0

    distances = [0.0]
    for _ in range(steps - 1):
        distances.append(min(diameter, omega(distances[-1]) + step_sensitivity))
    least, window = math.inf, 1
    while True:
        window = min(window, steps)
        shift = _equal_shift(omega, distances[steps - window], window)
        least = min(least, window * (step_sensitivity + shift) ** 2)
        if window == steps:
            return 0.5 * order * least / step_noise_std**2
        window = max(window + 1, round(1.25 * window))


def _equal_shift(omega: Callable[[float], float], distance: float, steps: int) -> float:
    """A shift that, paid in every one of so many steps, brings `distance` to 0, next to the least."""

    def arrives(shift: float) -> bool:
        z = distance
        for _ in range(steps):
            z = max(0.0, omega(z) - shift)
            if z == 0.0:
                return True
        return False

    if arrives(0.0):
        return 0.0
    return bisected(arrives, 0.0, omega(distance), rounds=_BISECTIONS)[1]
