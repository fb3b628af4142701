"""How often a private selection tries: the truncated negative binomial law of the number of trials.

P(K = k) is proportional to (1 - γ)^k·Π_{l<k} (l + η)/(l + 1) for k ≥ 1, with the shape η > -1 and γ in
(0, 1): geometric for η = 1, logarithmic for η = 0. Its mean falls as γ grows.
"""

from __future__ import annotations

from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.balls import Ball
from pabi.numbers.errors import InvalidInput
from pabi.numbers.search import bisected
from pabi.numbers.showing import exact
from pabi.numbers.validate import number

LEAST_MEAN, GREATEST_MEAN = 1.01, 1e6
GREATEST_SHAPE = 10.0
_NEAR_ZERO = 1e-6  # shapes nearer to 0 than that are refused, but for 0 itself
_BITS = 256
_LEAST = 1e-300  # γ below it would leave the range of doubles


def checked_shape(shape: float) -> float:
    """η in (-1, 10], 0 or no nearer to 0 than 1e-6. Raises InvalidInput."""
    eta = number("shape", shape, above=-1.0, at_most=GREATEST_SHAPE)
    if 0.0 < abs(eta) < _NEAR_ZERO:
        raise InvalidInput("shape", f"expected 0 or a number of size ≥ 1e-06, got {exact(eta)}")
    return eta


def checked_mean(mean_trials: float) -> float:
    """E[K] in [1.01, 10⁶]. Raises InvalidInput."""
    return number("mean_trials", mean_trials, at_least=LEAST_MEAN, at_most=GREATEST_MEAN)


def mean_of(gamma: float, shape: float) -> Ball:
    """A ball of E[K] = η(1 - γ)/(γ(1 - γ^η)), for η = 0 of (1 - γ)/(γ·log(1/γ))."""
    with ctx.workprec(_BITS):
        g, eta = arb(gamma), arb(shape)
        log = g.log()
        falling = -log if shape == 0.0 else -(eta * log).expm1() / eta
        return (1 - g) / (g * falling)


def gamma_of(mean_trials: float, shape: float) -> float:
    """The γ at which E[K] is `mean_trials`, rounded up, so that the mean is not above it.

    Parameters
    ----------
    mean_trials : float
        E[K], in [1.01, 10⁶].
    shape : float
        η in (-1, 10].

    Returns
    -------
    float
        γ in (0, 1): a double at which E[K] is proven to be at most `mean_trials`.

    Raises
    ------
    InvalidInput
        For numbers out of range, and for a shape so near to -1 that γ is no double.

    References
    ----------
    Papernot, Steinke 2022, Definition 1.
    """
    mean, eta = checked_mean(mean_trials), checked_shape(shape)
    _, gamma = bisected(lambda g: balls.upper(mean_of(g, eta)) <= mean, 0.0, 1.0)
    if gamma < _LEAST:
        raise InvalidInput(
            "shape", f"expected one that {exact(mean)} trials allow, got {exact(eta)}"
        )
    return gamma
