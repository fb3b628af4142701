"""Rényi differential privacy to (ε, δ)-DP, and trade-off functions given as plain callables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.gaussian import array, nonnegative, real_line
from pabi.numbers.rounding import HALF_ULP, THREE_ROUNDINGS, TINY, Array, bisected, largest
from pabi.numbers.validate import SHARE, choice, integer, number

# Trade-off functions and privacy profiles given as plain callables; the CLT approximation.


_LOGITS = -740.0, 37.0  # of the least positive double and of the greatest below 1
_LARGEST_EXPONENT = 700.0  # whose power of e is a double


def tradeoff_to_delta(
    f: Callable[[float], float], epsilon: float, *, symmetric: bool = True
) -> float:
    """The least δ at `epsilon` of a trade-off function, sup over α of 1 - α·e^ε - f(α): numerical.

    The optimum is searched, so that the result is not rounded and may be too small by about 1e-15 times
    max(1, the error of `f`): no guarantee, and nothing below 1e-15 is resolved. The classes of
    `pabi.tradeoff` give proven values.

    Parameters
    ----------
    f : callable
        The trade-off function, convex and nonincreasing on [0, 1]; called with one float at a time.
    epsilon : float
        Any real ε if `f` is symmetric; ≥ 0 otherwise. Infinities are allowed.
    symmetric : bool
        Whether `f` is its own inverse. Otherwise f^-1 is taken as well: 1 - α - e^ε·f(α).

    Returns
    -------
    float
        δ, in [0, 1].

    Raises
    ------
    InvalidInput
        For an ε that is no number or out of range.

    References
    ----------
    Dong, Roth, Su 2022, Prop. 2.12.
    """
    epsilon = (real_line if symmetric else nonnegative)("epsilon", epsilon)
    factor = math.exp(epsilon) if epsilon < _LARGEST_EXPONENT else math.inf

    def gain(logit: float) -> float:
        alpha = _alpha(logit)
        return 1.0 - alpha * factor - f(alpha) if alpha * factor <= 1.0 else -math.inf

    def inverse_gain(logit: float) -> float:
        alpha = _alpha(logit)
        value = f(alpha)
        return 1.0 - alpha - factor * value if value > 0.0 else 1.0 - alpha

    best = max(0.0, 1.0 - f(0.0), 1.0 - factor - f(1.0))
    least, most = _LOGITS
    if epsilon < math.inf:
        top = min(most, -epsilon) if epsilon > 1.0 else most
        best = max(best, _maximum(gain, least, max(top, least + 1.0)))
    if not symmetric:
        best = max(best, _maximum(inverse_gain, least, most))
        if f(1.0) > 0.0 and epsilon == math.inf:
            return best
    return min(1.0, best)


def delta_to_tradeoff(delta_fn: Callable[[float], float], alpha: float) -> float:
    """A lower bound on the symmetric trade-off function at `alpha` from upper bounds δ(ε).

    f(α) = sup over ε ≥ 0 of max{0, 1 - δ(ε) - e^ε·α, e^-ε·(1 - δ(ε) - α)}. Every ε gives a valid
    bound, so the search decides only how tight the result is; rounding is taken off.

    Parameters
    ----------
    delta_fn : callable
        δ at one ε ≥ 0, a float, for both orders of the pair.
    alpha : float
        The type I error, in [0, 1].

    Returns
    -------
    float
        A lower bound on the type II error, in [0, 1].

    Raises
    ------
    InvalidInput
        For an α out of range.

    References
    ----------
    Dong, Roth, Su 2022, Prop. 2.11.
    """
    alpha = SHARE("alpha", alpha)
    ulp = 2.0**-52

    def left(epsilon: float) -> float:
        cost = math.exp(epsilon) * alpha
        return 1.0 - delta_fn(epsilon) - cost - ulp * (2.0 + 2.0 * cost)

    def right(epsilon: float) -> float:
        value = 1.0 - delta_fn(epsilon) - alpha
        return math.exp(-epsilon) * (value - 2.0 * ulp - 2.0 * ulp * abs(value))

    far = _LARGEST_EXPONENT
    top = min(far, -math.log(alpha)) if alpha > 0.0 else far
    return max(0.0, _maximum(left, 0.0, top), _maximum(right, 0.0, far))


def clt_mu(probability: float, mu: float, steps: int) -> float:
    """The μ that `steps` subsampled Gaussian steps tend to: an approximation, never a guarantee.

    C_p(G(μ)) composed t times ≈ G(p·√(2t)·√(e^(μ²)Φ(1.5μ) + 3Φ(-0.5μ) - 2)) as t grows with p·√t
    fixed. It may lie on either side of the truth; use it to guess where to search.

    Parameters
    ----------
    probability : float
        p in [0, 1], the share of the records in a batch.
    mu : float
        μ in [0, ∞] of one step.
    steps : int
        t ≥ 0.

    Returns
    -------
    float
        μ of all steps; ∞ on overflow.

    Raises
    ------
    InvalidInput
        For arguments out of range.

    References
    ----------
    Dong, Roth, Su 2022, Cor. 5.4; Bok, Su, Altschuler 2024, A.5.
    """
    p: float = SHARE("probability", probability)
    mu = nonnegative("mu", mu)
    t = integer("steps", steps, at_least=0)
    if p == 0.0 or mu == 0.0 or t == 0:
        return 0.0
    # Written so that nothing cancels to first order for small μ: Φ(x) = (1 + erf(x/√2))/2.
    wide, narrow = math.erf(1.5 * mu / math.sqrt(2.0)), math.erf(0.5 * mu / math.sqrt(2.0))
    growth = math.expm1(mu * mu) if mu < 26.0 else math.inf
    variance = 0.5 * growth * (1.0 + wide) + 0.5 * wide - 1.5 * narrow
    return p * math.sqrt(2.0 * t) * math.sqrt(variance)


def _alpha(logit: float) -> float:
    """The α of log(α/(1 - α))."""
    if logit < 0.0:
        return math.exp(logit) / (1.0 + math.exp(logit))
    return 1.0 / (1.0 + math.exp(-logit))


def _maximum(function: Callable[[float], float], low: float, high: float) -> float:
    """The largest value of a unimodal function, to a relative 1e-15 of the bracket."""
    return largest(function, low, high, points=65, rounds=70)


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
    require(method != "bun_steinke", "method", '"bun_steinke" needs zero-concentrated DP: give rho')
    a, r = array("orders", orders, above=1.0).ravel(), array("rdp", rdp, at_least=0.0).ravel()
    if a.size == 0 or a.shape != r.shape:
        raise InvalidInput("rdp", f"expected one value per order ({a.size}), got {r.size}")
    require(not np.isinf(a).any(), "orders", "expected finite orders")
    log_inverse = -math.log(delta)
    return min(float(bound(a, r, log_inverse).min()) for bound in _by_order(method))


def _by_order(method: str) -> Iterable[Callable[[Array, Array, float], Array]]:
    """The bound of a method, of "best" all of them."""
    return _BY_ORDER.values() if method == "best" else (_BY_ORDER[method],)


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
    least = min(_best_order(bound, rho, log_inverse) for bound in _by_order(method))
    return min(least, _bun_steinke(rho, log_inverse)) if method == "best" else least


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
