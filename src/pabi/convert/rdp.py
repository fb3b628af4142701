"""Rényi differential privacy to (ε, δ)-DP: four published conversions and their least."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pabi.convert.inputs import array, nonnegative
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP, THREE_ROUNDINGS
from pabi.numbers.rounding import TINY, Array
from pabi.numbers.search import bisected
from pabi.numbers.validate import choice, number

_METHODS = ("best", "mironov", "bun_steinke", "balle", "asoodeh")
_ULPS = 8 * HALF_ULP  # more than the relative error of a sum of terms, against their absolute sum
_LOGARITHM = 4e-15  # relative and absolute: more than the logarithm in `_bun_steinke` errs
_BRACKET = 1e-14  # relative: keeps the end of a bracket above the root despite rounding


def rdp_to_epsilon(
    *,
    delta: float,
    rho: float | None = None,
    orders: Any = None,
    rdp: Any = None,
    method: str = "best",
) -> float:
    """An ε such that (ε, `delta`)-DP follows from Rényi DP.

    Give either `rho`, or `orders` with `rdp`; the best order is taken. All conversions are upper bounds
    and never negative. Every order gives a valid one, so that the optimisation decides only how good the
    result is (to 1e-10 relative).

    Parameters
    ----------
    delta : float
        δ in (0, 1).
    rho : float, optional
        ρ in [0, ∞], for RDP(α) = ρα at every α > 1: zero-concentrated DP. α is then optimised.
    orders : array of shape (m,), optional
        Finite orders α > 1.
    rdp : array of shape (m,), optional
        The Rényi divergence in [0, ∞] at each order.
    method : str
        The conversion: "mironov", "bun_steinke" (for `rho` only), "balle", "asoodeh", or "best", the
        least of those that apply.

    Returns
    -------
    float
        ε, in [0, ∞].

    Raises
    ------
    InvalidInput
        For arguments out of range, of different lengths, or both of `rho` and `orders`.

    References
    ----------
    - "mironov": Mironov 2017, Prop. 3;
    - "bun_steinke": Bun, Steinke 2016, Lemmas 3.5 and 3.6;
    - "balle": Balle, Barthe, Gaboardi, Hsu, Sato 2020, Thm 21;
    - "asoodeh": Asoodeh, Liao, Calmon, Kosut, Sankar 2021, Lemma 1.
    """
    delta = number("delta", delta, above=0.0, below=1.0)
    method = choice("method", method, _METHODS)
    if rho is not None:
        if orders is not None or rdp is not None:
            raise InvalidInput("rho", "expected either rho or orders with rdp, got both")
        return _from_rho(nonnegative("rho", rho), delta, method)
    if orders is None or rdp is None:
        raise InvalidInput("rho" if orders is None else "rdp", "expected rho, or orders with rdp")
    if method == "bun_steinke":
        raise InvalidInput("method", '"bun_steinke" needs zero-concentrated DP: give rho')
    a, r = array("orders", orders, above=1.0).ravel(), array("rdp", rdp, at_least=0.0).ravel()
    if a.size == 0 or a.shape != r.shape:
        raise InvalidInput("rdp", f"expected one value per order ({a.size}), got {r.size}")
    if np.isinf(a).any():
        raise InvalidInput("orders", "expected finite orders")
    log_inverse = -math.log(delta)
    if method == "best":
        return min(float(f(a, r, log_inverse).min()) for f in _BY_ORDER.values())
    return float(_BY_ORDER[method](a, r, log_inverse).min())


def _mironov(alpha: Array, rdp: Array, log_inverse_delta: float) -> Array:
    tail = log_inverse_delta / (alpha - 1.0)
    return (rdp + tail) * (1.0 + _ULPS)


def _balle(alpha: Array, rdp: Array, log_inverse_delta: float) -> Array:
    tail = log_inverse_delta / (alpha - 1.0)
    entropy = np.log(alpha) / (alpha - 1.0)
    gain = np.log(alpha) - np.log(alpha - 1.0)  # -log((α-1)/α)
    gain = np.where(alpha > 2.0, -np.log1p(-1.0 / alpha), gain)
    size = rdp + tail + entropy + np.log(alpha) + np.abs(np.log(alpha - 1.0))
    size = np.where(alpha > 2.0, rdp + tail + entropy + gain, size)
    value = rdp + tail - entropy - gain
    return np.maximum(0.0, np.where(np.isinf(rdp), np.inf, value + _ULPS * size))


def _asoodeh(alpha: Array, rdp: Array, log_inverse_delta: float) -> Array:
    """The lesser of Balle's expression and log(1 + (e^((α-1)·rdp) - 1)/(αδ))/(α-1).

    The second: L^α - 1 - α(L-1) ≥ α(λ^(α-1) - 1)·max(0, L-λ) for L ≥ 0, λ ≥ 1; take expectations.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        x = (alpha - 1.0) * rdp * (1.0 + THREE_ROUNDINGS)
        x = np.where(rdp > 0.0, np.maximum(x, TINY), 0.0)  # below, digits are lost
        log_moment = x + np.log(-np.expm1(-x))
        shifted = log_moment - np.log(alpha) + log_inverse_delta
        size = np.abs(x) + np.abs(np.log(-np.expm1(-x))) + np.log(alpha) + log_inverse_delta
        shifted = np.where(x == 0.0, -np.inf, shifted + _ULPS * size)
        second = np.logaddexp(0.0, shifted) / (alpha - 1.0) * (1.0 + _ULPS)
        second = np.where(np.isnan(second), np.inf, second)
    return np.minimum(_balle(alpha, rdp, log_inverse_delta), second)


_BY_ORDER: dict[str, Callable[[Array, Array, float], Array]] = {
    "mironov": _mironov,
    "balle": _balle,
    "asoodeh": _asoodeh,
}


def _from_rho(rho: float, delta: float, method: str) -> float:
    if rho == 0.0:
        return 0.0
    if rho == math.inf:
        return math.inf
    log_inverse = -math.log(delta)
    if method == "bun_steinke":
        return _bun_steinke(rho, log_inverse)
    if method == "best":
        least = min(_best_order(convert, rho, log_inverse) for convert in _BY_ORDER.values())
        return min(_bun_steinke(rho, log_inverse), least)
    return _best_order(_BY_ORDER[method], rho, log_inverse)


def _best_order(
    convert: Callable[[Array, Array, float], Array], rho: float, log_inverse: float
) -> float:
    """The minimum over α, found by zooming into a grid of log(α-1) around Mironov's best order."""
    centre, width = 0.5 * (math.log(log_inverse) - math.log(rho)), 40.0
    best = math.inf
    for points, zoom in ((1601, 0.05),) + 5 * ((33, 0.1),):
        grid = np.linspace(centre - width, centre + width, points)
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            alpha = 1.0 + np.exp(grid)
            alpha = np.where(alpha > 1.0, alpha, np.nextafter(1.0, 2.0))
            alpha = np.minimum(alpha, 1e300)
            rdp = rho * alpha * (1.0 + THREE_ROUNDINGS)
            values = convert(alpha, rdp, log_inverse)
        values = np.where(np.isnan(values), np.inf, values)
        k = int(np.argmin(values))
        best = min(best, float(values[k]))
        centre, width = float(grid[k]), width * zoom
    return best


def _bun_steinke(rho: float, log_inverse: float) -> float:
    """The ε ≥ ρ at which exp(-(ε-ρ)²/4ρ)·2/(1+x+√((1+x)²+4/(πρ))), x = (ε-ρ)/2ρ, is δ.

    The published factor is the least of this one, 1, √(πρ) and 1/(1+x), and this one is never above
    the others. Bisection on y = ε - ρ; the upper end is kept.
    """

    def log_inverse_at(y: float) -> float:
        x1 = 1.0 + y / (2.0 * rho)
        # Of a ρ near 0 the squares overflow, and π·ρ loses digits.
        root = math.hypot(x1, 2.0 / (math.sqrt(math.pi) * math.sqrt(rho)))
        return y * (y / (4.0 * rho)) + math.log(0.5 * (x1 + root))

    target = log_inverse * (1.0 + _LOGARITHM) + _LOGARITHM
    if log_inverse_at(0.0) >= target:
        return rho
    top = 2.0 * math.sqrt(rho) * math.sqrt(target) * (1.0 + _BRACKET)
    _, high = bisected(lambda y: log_inverse_at(y) >= target, 0.0, top)
    return (rho + high) * (1.0 + _ULPS)
