"""δ(ε) of Gaussian pairs on arrays, in double precision with a margin that keeps it an upper bound.

With a = ε/μ - μ/2, b = ε/μ + μ/2 and the Mills ratio m(x) = (1 - Φ(x))/φ(x),

    δ(ε) = Φ(-a) - e^ε Φ(-b) = φ(a)·(m(a) - m(b)),

which needs no logarithms: φ(a) carries the whole magnitude. Three cases keep the error small: μ < 1
integrates -m'(x) = 1 - x·m(x) over [a, b] by Gauss-Legendre, the rest uses the difference of Mills ratios for
a > 0 and Φ(-a) - φ(a)·m(b) for a ≤ 0.

Measured against ball arithmetic for μ from 1e-9 to 1000, ε from 0 to where δ = 1e-300, the relative error
before the margin is at most 2e-14; the margin added is 1e-13.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import scipy

from pabi.numbers.gaussian import array
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, two_product_error, two_sum

MARGIN = 1e-13  # relative
FLOOR = 1e-321  # absolute: covers what underflow takes
TAIL_FLOOR = 1e-310  # absolute: a normal tail below it may be 0 in scipy
_FAR = 60.0  # Φ(-60) is below every positive double, 1 - Φ(-60) rounds up to 1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_SERIES_FROM = 10.0
_SERIES_TERMS = 21
_CHUNK = 8192


@overload
def gaussian_delta(mu: float, epsilon: float) -> float: ...
@overload
def gaussian_delta(mu: Array | float, epsilon: Array | float) -> Array | float: ...
def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """An upper bound on δ(ε) of G(μ), elementwise, less than 1e-12 (relative) above the truth.

    Below about 1e-308 the excess is absolute, 1e-321. `gdp_to_delta` gives one value with a proof.

    Parameters
    ----------
    mu : float or array
        μ in [0, ∞]; broadcast with `epsilon`.
    epsilon : float or array
        Any real ε, or +∞.

    Returns
    -------
    float or array
        In [0, 1]; of the common shape, a float for two numbers.

    Raises
    ------
    InvalidInput
        For a negative μ and for what is no number.

    References
    ----------
    Dong, Roth, Su 2022, Cor. 2.13.
    """
    m, e = np.broadcast_arrays(array("mu", mu, at_least=0.0), np.asarray(array("epsilon", epsilon)))
    result, _ = delta_and_slope(m.ravel(), np.abs(e.ravel()))
    result = both_signs(e, result.reshape(e.shape))
    return float(result) if result.ndim == 0 else result


def both_signs(epsilon: Array, delta: Array) -> Array:
    """Upper bounds on δ of a symmetric function at `epsilon`, from those at |epsilon|, `delta`.

    δ(-ε) = 1 - e^-ε·(1 - δ(ε)).
    """
    size = np.abs(epsilon)
    with np.errstate(under="ignore"):
        mirrored = (np.exp(-size) * delta - np.expm1(-size)) * (1.0 + EIGHT_ROUNDINGS)
    return np.minimum(1.0, np.where(epsilon < 0.0, mirrored, delta))


def delta_and_slope(mu: Array, epsilon: Array) -> tuple[Array, Array]:
    """(upper bound on δ, approximate -dδ/dε), for flat arrays of one length, epsilon ≥ 0."""
    delta, slope = np.zeros_like(epsilon), np.zeros_like(epsilon)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        rough = np.where(epsilon == 0.0, 0.0, epsilon / mu) - 0.5 * mu
        delta[(rough < -_FAR) | (mu == np.inf)] = 1.0
        delta[(rough > _FAR) & (mu > 0.0) & (epsilon < np.inf)] = FLOOR
        near = (np.abs(rough) <= _FAR) & (mu > 0.0) & (mu < np.inf)
        if near.any():
            delta[near], slope[near] = _near(mu[near], epsilon[near])
    return delta, slope


def _near(mu: Array, epsilon: Array) -> tuple[Array, Array]:
    """`delta_and_slope` where |a| is moderate."""
    scale = np.where(mu < 1e-100, 2.0**500, 1.0)  # keeps the residual below clear of underflow
    a, a_low, b = _arguments(mu * scale, epsilon * scale, mu)
    square = a * a
    square_low = two_product_error(a, a, square)
    density = np.exp(-0.5 * square) * np.exp(-0.5 * square_low - a * a_low)
    density *= 0.3989422804014326779  # 1/√(2π)
    mills_b = _mills(b)
    weighted = density * mills_b
    gap = np.empty_like(a)
    small = mu < 1.0
    gap[small] = _mills_drop(a[small], mu[small])
    right = ~small & (a > 0.0)
    gap[right] = _mills(a[right]) - mills_b[right]
    delta = density * gap
    left = ~small & ~right
    delta[left] = scipy.special.ndtr(-a[left]) - weighted[left]
    return np.minimum(1.0, delta * (1.0 + MARGIN) + FLOOR), weighted


def _arguments(scaled_mu: Array, scaled_epsilon: Array, mu: Array) -> tuple[Array, Array, Array]:
    """ε/μ - μ/2 as an unevaluated sum of two doubles, and ε/μ + μ/2."""
    quotient = scaled_epsilon / scaled_mu
    product = quotient * scaled_mu
    residual = (scaled_epsilon - product) - two_product_error(quotient, scaled_mu, product)
    half = -0.5 * mu
    total, lost = two_sum(quotient, half)
    low = lost + residual / scaled_mu
    a = total + low
    return a, low - (a - total), quotient - half


def _mills(x: Array) -> Array:
    return np.asarray(
        1.2533141373155002512 * scipy.special.erfcx(x * 0.70710678118654752440)
    )  # √(π/2), 1/√2


def _mills_drop(a: Array, mu: Array) -> Array:
    """m(a) - m(a + μ) for μ < 1 and a ≥ -1/2."""
    half, total = 0.5 * mu, np.empty_like(a)
    for start in range(0, len(a), _CHUNK):
        part = slice(start, start + _CHUNK)
        points = a[part] + half[part] * (1.0 + _NODES[:, None])
        total[part] = _WEIGHTS @ _minus_mills_slope(points)
    return half * total


def _minus_mills_slope(x: Array) -> Array:
    """1 - x·m(x), by its asymptotic series 1/x² - 3/x⁴ + 15/x⁶ - … where the difference cancels."""
    result = 1.0 - x * _mills(x)
    large = x >= _SERIES_FROM
    y = 1.0 / np.square(x[large])
    if y.size:
        series = np.ones_like(y)
        for k in range(_SERIES_TERMS, 0, -1):
            series = 1.0 - (2 * k + 1) * y * series
        result[large] = y * series
    return result
