"""Trade-off functions and privacy profiles given as plain callables; the CLT approximation."""

from __future__ import annotations

import math
from collections.abc import Callable

from pabi.convert.inputs import nonnegative, real_line
from pabi.numbers.fields import SHARE
from pabi.numbers.search import largest
from pabi.numbers.validate import integer

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
