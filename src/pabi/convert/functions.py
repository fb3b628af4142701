"""Trade-off functions and privacy profiles given as plain callables; the CLT approximation."""

from __future__ import annotations

import math
from collections.abc import Callable

from pabi.convert.inputs import extended, real_line
from pabi.numbers.validate import integer, number

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def tradeoff_to_delta(
    f: Callable[[float], float], epsilon: float, *, symmetric: bool = True
) -> float:
    """The least δ at `epsilon` of a trade-off function, sup over α of 1 - α·e^ε - f(α): numerical.

    `f`: convex, nonincreasing on [0, 1], called with one float at a time. `epsilon`: any real if
    `f` is symmetric; ≥ 0 otherwise, when f^-1 is taken as well (1 - α - e^ε·f(α)). The optimum is
    searched, so that the result is not rounded and may be too small by about 1e-15 times
    max(1, the error of `f`): no guarantee, and nothing below 1e-15 is resolved. The classes of
    `pabi.tradeoff` give proven values. Raises InvalidInput.
    Source: Dong, Roth, Su 2022, Prop. 2.12.
    """
    if symmetric:
        epsilon = real_line("epsilon", epsilon)
    else:
        epsilon = extended("epsilon", epsilon, at_least=0.0)
    factor = math.exp(epsilon) if epsilon < 700.0 else math.inf

    def gain(logit: float) -> float:
        alpha = _alpha(logit)
        return 1.0 - alpha * factor - f(alpha) if alpha * factor <= 1.0 else -math.inf

    def inverse_gain(logit: float) -> float:
        alpha = _alpha(logit)
        value = f(alpha)
        return 1.0 - alpha - factor * value if value > 0.0 else 1.0 - alpha

    best = max(0.0, 1.0 - f(0.0), 1.0 - factor - f(1.0))
    if epsilon < math.inf:
        top = min(37.0, -epsilon) if epsilon > 1.0 else 37.0
        best = max(best, _maximum(gain, -740.0, max(top, -739.0)))
    if not symmetric:
        best = max(best, _maximum(inverse_gain, -740.0, 37.0))
        if f(1.0) > 0.0 and epsilon == math.inf:
            return best
    return min(1.0, best)


def delta_to_tradeoff(delta_fn: Callable[[float], float], alpha: float) -> float:
    """A lower bound on the symmetric trade-off function at `alpha` from upper bounds δ(ε).

    f(α) = sup over ε ≥ 0 of max{0, 1 - δ(ε) - e^ε·α, e^-ε·(1 - δ(ε) - α)}. `delta_fn`: δ at one
    ε ≥ 0, for both orders of the pair. `alpha`: in [0, 1]. Every ε gives a valid bound, so the
    search decides only how tight the result is; rounding is taken off. Raises InvalidInput.
    Source: Dong, Roth, Su 2022, Prop. 2.11.
    """
    alpha = number("alpha", alpha, at_least=0.0, at_most=1.0)
    ulp = 2.0**-52

    def left(epsilon: float) -> float:
        cost = math.exp(epsilon) * alpha
        return 1.0 - delta_fn(epsilon) - cost - ulp * (2.0 + 2.0 * cost)

    def right(epsilon: float) -> float:
        value = 1.0 - delta_fn(epsilon) - alpha
        return math.exp(-epsilon) * (value - 2.0 * ulp - 2.0 * ulp * abs(value))

    top = min(700.0, -math.log(alpha)) if alpha > 0.0 else 700.0
    return max(0.0, _maximum(left, 0.0, top), _maximum(right, 0.0, 700.0))


def clt_mu(probability: float, mu: float, steps: int) -> float:
    """The μ that `steps` subsampled Gaussian steps tend to: an approximation, never a guarantee.

    C_p(G(μ)) composed t times ≈ G(p·√(2t)·√(e^(μ²)Φ(1.5μ) + 3Φ(-0.5μ) - 2)) as t grows with p·√t
    fixed. It may lie on either side of the truth; use it to guess where to search. `probability` in
    [0, 1], `mu` ≥ 0, `steps` ≥ 0. ∞ on overflow. Raises InvalidInput.
    Source: Dong, Roth, Su 2022, Cor. 5.4; Bok, Su, Altschuler 2024, A.5.
    """
    p = number("probability", probability, at_least=0.0, at_most=1.0)
    mu = extended("mu", mu, at_least=0.0)
    t = integer("steps", steps, at_least=0)
    if p == 0.0 or mu == 0.0 or t == 0:
        return 0.0
    # Written so that nothing cancels to first order for small μ: Φ(x) = (1 + erf(x/√2))/2.
    wide, narrow = math.erf(1.5 * mu / math.sqrt(2.0)), math.erf(0.5 * mu / math.sqrt(2.0))
    growth = math.expm1(mu * mu) if mu < 26.0 else math.inf
    variance = 0.5 * growth * (1.0 + wide) + 0.5 * wide - 1.5 * narrow
    return p * math.sqrt(2.0 * t) * math.sqrt(variance)


def _alpha(logit: float) -> float:
    if logit < 0.0:
        return math.exp(logit) / (1.0 + math.exp(logit))
    return 1.0 / (1.0 + math.exp(-logit))


def _maximum(function: Callable[[float], float], low: float, high: float) -> float:
    """The maximum of a unimodal function: a grid, then golden section around its best point."""
    points = 65
    grid = [low + (high - low) * k / (points - 1) for k in range(points)]
    values = [function(x) for x in grid]
    k = max(range(points), key=values.__getitem__)
    best = values[k]
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, points - 1)]
    x, y = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_x, at_y = function(x), function(y)
    for _ in range(70):
        best = max(best, at_x, at_y)
        if at_x >= at_y:
            high, y, at_y = y, x, at_x
            x = high - _GOLDEN * (high - low)
            at_x = function(x)
        else:
            low, x, at_x = x, y, at_y
            y = low + _GOLDEN * (high - low)
            at_y = function(y)
    return max(best, at_x, at_y)
