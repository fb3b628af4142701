"""Trade-off functions from privacy profiles: every ε gives two lines that support f from below."""

from __future__ import annotations

import numpy as np

from pabi.numbers.margins import EIGHT_ROUNDINGS, THREE_ROUNDINGS
from pabi.numbers.rounding import Array

_ROWS = 1 << 21  # entries of the working arrays


def supported(alpha: Array, epsilon: Array, *, left: Array, right: Array) -> Array:
    """Lower bounds on f = T(P, Q) at `alpha` (n,), from upper bounds on δ of (Q, P), `left`, and of
    (P, Q), `right`, both (m,), at `epsilon` ≥ 0: max over them of 0, 1 - left - e^ε·α and
    e^-ε·(1 - right - α). Source: Dong, Roth, Su 2022, Prop. 2.11."""
    result = np.zeros_like(alpha)
    size = max(1, _ROWS // max(1, epsilon.size))
    for start in range(0, alpha.size, size):
        part = slice(start, start + size)
        lines = support_lines(
            alpha[part, None], epsilon[None, :], left[None, :], delta_right=right[None, :]
        )
        result[part] = lines.max(axis=1, initial=0.0)
    return result


def support_lines(
    alpha: Array, epsilon: Array, delta: Array, *, delta_right: Array | None = None
) -> Array:
    """The better of the two lines of `supported`, elementwise, rounded down; at least 0.

    `delta_right`: δ of the pair in the other order, or None where f is symmetric.
    """
    right = delta if delta_right is None else delta_right
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        cost = np.exp(epsilon) * alpha
        upper = (1.0 - delta) - cost - THREE_ROUNDINGS * (1.0 + cost)
        value = (1.0 - right) - alpha - THREE_ROUNDINGS
        lower = np.exp(-epsilon) * value * (1.0 - EIGHT_ROUNDINGS)
    return np.fmax(np.fmax(upper, lower), 0.0)
