"""What rounding adds to a trade-off function f, of releases whose steps are computed, not exact.

With r how far they are from exact ones, in units of the noise, the computed release on either data set is
G(r) away from the exact one. So f becomes f_r(α) = Φ(Φ^-1(f(Φ(Φ^-1(α) + r))) - r). For s = zr, z > r/2, and
any real ε its δ is at most e^s·δ(ε - 2s) + (1 + e^(ε - s))·η, where η, that of G(r) at s, is at most
r·φ(z - r/2). If z is at least 13.5 + r/2, and z² at least 196 + 2ε, the second summand is below
r·(e^-98 + e^-91.1)/√(2π), and so below r·1e-39. (Docs, "Theory", 9, Theorem 59.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, up

_LEAST_Z, _LEAST_SQUARE = 17.0, 200.0  # more than 13.5 and 196: a checker may take less
_TAIL = 1e-39  # times r
_TRIALS = 20  # of a larger z, where ε is large


def deltas(read: Callable[[Array], Array], epsilon: Array, r: float) -> Array:
    """Upper bounds on δ of f_r at any `epsilon`; `read` has those of f."""
    finite = np.where(np.isfinite(epsilon), np.maximum(epsilon, 0.0), 0.0)
    s = _product_up(np.maximum(_LEAST_Z + r, np.sqrt(_LEAST_SQUARE + 2.0 * finite)), r)
    own = read(np.where(np.isinf(epsilon), epsilon, np.nextafter(epsilon - 2.0 * s, -math.inf)))
    with np.errstate(over="ignore", invalid="ignore"):
        value = (own * np.exp(s) + _TAIL * r) * (1.0 + EIGHT_ROUNDINGS)
    # What never happens to an exact release never happens to a computed one.
    value = np.where(own > 0.0, value, np.where(epsilon == math.inf, 0.0, up(_TAIL * r)))
    return np.minimum(1.0, value)


def delta_of(read: Callable[[float], float], epsilon: float, r: float) -> float:
    """The same at one ε."""
    value = deltas(lambda at: np.array([read(float(at[0]))]), np.array([epsilon]), r)
    return float(value[0])


def failure_of(probability: float, r: float) -> float:
    """A failure that stands for one of the exact release: f - p widened is at least f_r - p'."""
    return delta_of(lambda _: probability, math.inf, r)


def epsilon_of(read: Callable[[float], float], delta: float, r: float) -> float:
    """An upper bound on ε of f_r at `delta`; `read` has those of f. ∞ where none is known."""
    if delta >= 1.0:
        return 0.0
    z = _LEAST_Z + r
    for _ in range(_TRIALS):
        s = float(_product_up(np.array([z]), r)[0])
        left = (delta - up(_TAIL * r)) * math.exp(-s) * (1.0 - EIGHT_ROUNDINGS)
        value = (read(left) + 2.0 * s) * (1.0 + EIGHT_ROUNDINGS) if left > 0.0 else math.inf
        if value == math.inf or _LEAST_SQUARE + 2.0 * value <= z * z:
            return value
        z = math.sqrt(_LEAST_SQUARE + 2.1 * value)
    return math.inf


def zcdp_of(rho: float, r: float) -> float:
    """ρ of f_r, whose root is at most that of f and twice r/√2.

    Of three laws, D_α(P‖Q) ≤ kα/(kα - 1)·D_β(P‖M) + D_kα(M‖Q), β = (kα - 1)/(k - 1): with ρ_1 and ρ_2 that is
    α·(ρ_1·k/(k - 1) + ρ_2·k), and the least over k > 1 is α·(√ρ_1 + √ρ_2)². Source: Bun, Steinke 2016, Lemma
    5.2 and Prop. 5.3.
    """
    return (math.sqrt(rho) + math.sqrt(2.0) * r) ** 2 * (1.0 + EIGHT_ROUNDINGS)


def rdp_of(read: Callable[[float], float], order: float, r: float) -> float:
    """The Rényi divergence of f_r; `read` has those of f, of either order of the data sets.

    The inequality of `zcdp_of`, with k = 1 + r for the first pair and k = 1 + 1/r for the last.
    """
    margin = 1.0 + EIGHT_ROUNDINGS
    own = read((1.0 + r) ** 2 * order * margin)
    return (1.0 + r) * (own + order * r * (1.0 + 0.5 * r)) * margin


def _product_up(z: Array, r: float) -> Array:
    return np.nextafter(z * r, math.inf)
