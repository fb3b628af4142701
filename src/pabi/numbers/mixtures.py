"""Mixtures of Gaussian pairs with a public label: P(label = j) = w_j, then G(μ_j).

And the law of how often a private selection tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
from flint import arb, ctx

from pabi.numbers import gaussian as balls
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.gaussian import Ball, array, nonnegative, real_line, start_epsilon
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import (
    EIGHT_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    bisected,
    fraction_up,
    neighbours,
)
from pabi.numbers.showing import exact
from pabi.numbers.validate import number
from pabi.numbers.vectorised import delta_and_slope

# How often a private selection tries: the truncated negative binomial law of the number of trials.
#
# P(K = k) is proportional to (1 - γ)^k·Π_{l<k} (l + η)/(l + 1) for k ≥ 1, with the shape η > -1 and γ in
# (0, 1): geometric for η = 1, logarithmic for η = 0. Its mean falls as γ grows.


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
    """The γ at which E[K] is `mean_trials`, rounded up, so that the mean is proven to be not above it.

    Source: Papernot, Steinke 2022, Definition 1.
    """
    mean, eta = checked_mean(mean_trials), checked_shape(shape)
    _, gamma = bisected(lambda g: balls.upper(mean_of(g, eta)) <= mean, 0.0, 1.0)
    require(
        gamma >= _LEAST, "shape", f"expected one that {exact(mean)} trials allow, got {exact(eta)}"
    )
    return gamma


_DOUBLE_RANGE = 1e-290  # smaller δ are searched in ball arithmetic
TOTAL = 1e-9  # how far the sum of the weights may be from 1: weights are often written in decimals


def mixture_to_delta(mus: Any, weights: Any, epsilon: float) -> float:
    """The sum over j of w_j times δ of G(μ_j) at `epsilon`, rounded up to a double and proven.

    It is the least δ of the pair that releases the label as well, and an upper bound when the label stays
    secret (joint convexity of the hockey-stick divergence).

    Parameters
    ----------
    mus : array of shape (parts,)
        μ_j in [0, ∞].
    weights : array of shape (parts,)
        w_j ≥ 0, summing to 1 within 1e-9; the doubles are taken to be exact.
    epsilon : float
        Any real ε or infinity.

    Returns
    -------
    float
        δ, in [0, 1].

    Raises
    ------
    InvalidInput
        For arguments out of range or of different lengths, and for weights that do not sum to 1.

    References
    ----------
    docs, "Theory", 1.
    """
    parts = _checked(mus, weights)
    epsilon = real_line("epsilon", epsilon)
    return min(1.0, balls.upper(parts.ball(epsilon, 0.0)[0]))


def mixture_to_epsilon(mus: Any, weights: Any, delta: float) -> float:
    """The least ε ≥ 0 at which the mixture's δ is at most `delta`, rounded up and proven.

    It is sought in double precision, refined by Newton steps in ball arithmetic, then proven there; the
    slack is at most 1e-12.

    Parameters
    ----------
    mus : array of shape (parts,)
        μ_j in [0, ∞].
    weights : array of shape (parts,)
        w_j ≥ 0, summing to 1 within 1e-9; the doubles are taken to be exact.
    delta : float
        δ ≥ 0.

    Returns
    -------
    float
        ε, in [0, ∞]; ∞ where the parts with μ = ∞ alone exceed `delta`.

    Raises
    ------
    InvalidInput
        For arguments out of range or of different lengths, and for weights that do not sum to 1.

    References
    ----------
    docs, "Theory", 1.
    """
    return _least_epsilon(_checked(mus, weights), nonnegative("delta", delta))


def mixture_epsilon_bounds(mus: Any, weights: Any, delta: float) -> tuple[float, float]:
    """Proven bounds (lower, upper) on the least ε of `mixture_to_epsilon`, a few ulps apart."""
    parts, delta = _checked(mus, weights), nonnegative("delta", delta)
    top = _least_epsilon(parts, delta)
    if top == 0.0 or (top == math.inf and parts.exceeds_everywhere(delta)):
        return top, top
    return balls.refute_downward(top, parts.delta_at(delta), delta), top


@overload
def mixture_to_rdp(mus: Any, weights: Any, order: float) -> float: ...
@overload
def mixture_to_rdp(mus: Any, weights: Any, order: Array) -> Array: ...
def mixture_to_rdp(mus: Any, weights: Any, order: Any) -> Any:
    """log(sum of w_j·exp(α(α-1)μ_j²/2))/(α-1), the mixture's Rényi divergence, rounded up.

    Parameters
    ----------
    mus : array of shape (parts,)
        μ_j in [0, ∞].
    weights : array of shape (parts,)
        w_j ≥ 0, summing to 1 within 1e-9; the doubles are taken to be exact.
    order : float or array
        Orders α in (1, ∞].

    Returns
    -------
    float or array
        In [0, ∞]; of the shape of `order`.

    Raises
    ------
    InvalidInput
        For arguments out of range or of different lengths, and for weights that do not sum to 1.

    References
    ----------
    docs, "Theory", 1.
    """
    parts, orders = _checked(mus, weights), array("order", order, above=1.0)
    total = sum((Fraction(w) for group in parts.exact for w in group), Fraction(0))
    excess = max(0.0, fraction_up(total - 1))
    result = np.array([_renyi(parts, excess, a) for a in orders.ravel().tolist()])
    return float(result[0]) if np.ndim(order) == 0 else result.reshape(orders.shape)


@dataclass(frozen=True)
class _Parts:
    """Distinct `mus` in increasing order, with the weights of each as exact sums."""

    mus: Array
    weights: Array  # doubles near the sums, for the search
    exact: tuple[tuple[float, ...], ...]

    def ball(self, epsilon: float, delta: float) -> tuple[balls.Ball, balls.Ball]:
        """Balls of δ(ε) and -δ'(ε); parts far below `delta` (if positive) enter as [0, bound]."""
        skip = self._negligible(epsilon, delta)
        with ctx.workprec(192):
            total, slope, skipped = arb(0), arb(0), arb(0)
            parts = zip(self.mus.tolist(), self.exact, skip, strict=True)
            for mu, group, small in ticking(parts):
                weight = sum(map(arb, group), arb(0))
                if small:
                    skipped += weight
                else:
                    value, down = balls.gaussian(mu, epsilon)
                    total += weight * value
                    slope += weight * down
            half = skipped * arb(delta) * arb(2) ** -91
            return total + arb(1, 1) * half, slope + arb(1, 1) * half * 8

    def delta_at(self, delta: float) -> Callable[[float], balls.Ball]:
        """The ball of δ(ε) as a function of ε, good enough to compare with `delta`."""
        return lambda epsilon: self.ball(epsilon, delta)[0]

    def _negligible(self, epsilon: float, delta: float) -> list[bool]:
        """Which parts have δ_j < 2^-90·delta: Φ(-a) ≤ exp(-a²/2) for a = ε/μ - μ/2 > 0."""
        if not (0.0 < delta < 1.0 and 0.0 < epsilon < math.inf):
            return [False] * len(self.exact)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            quotient = epsilon / self.mus
            a = quotient - 0.5 * self.mus
            # What is subtracted exceeds the rounding error of a, and 64 exceeds 90·log 2 by 1.6.
            a = np.where(np.isfinite(a), a - EIGHT_ROUNDINGS * (quotient + self.mus), a)
        far = (a > 0.0) & (0.5 * np.square(np.minimum(a, 1e100)) > 64.0 - math.log(delta))
        return [bool(x) for x in far & (self.mus < math.inf)]

    def search(self, epsilon: float) -> tuple[float, float]:
        """δ(ε) and -δ'(ε) in doubles."""
        value, slope = delta_and_slope(self.mus, np.full_like(self.mus, epsilon))
        return float(self.weights @ value), float(self.weights @ slope)

    def exceeds_everywhere(self, delta: float) -> bool:
        """Whether δ(ε) > `delta` for every finite ε."""
        infinite = Fraction(0)
        if self.mus[-1] == math.inf:
            infinite = sum(map(Fraction, self.exact[-1]), infinite)
        some_finite = bool(np.any((self.mus > 0.0) & (self.mus < math.inf)))
        return infinite > delta or (infinite == delta and some_finite)


def _checked(mus: Any, weights: Any) -> _Parts:
    m, w = array("mus", mus, at_least=0.0), array("weights", weights, at_least=0.0)
    if m.ndim != 1 or m.size == 0:
        raise InvalidInput("mus", f"expected a nonempty list of numbers, got shape {m.shape}")
    if w.shape != m.shape:
        raise InvalidInput("weights", f"expected one weight per μ ({m.size}), got shape {w.shape}")
    total = math.fsum(w.tolist())
    if not abs(total - 1.0) <= TOTAL:
        raise InvalidInput("weights", f"expected weights that sum to 1, got the sum {total!r}")
    groups: dict[float, list[float]] = {}
    for mu, weight in sorted(zip(m.tolist(), w.tolist(), strict=True)):
        if weight > 0.0:
            groups.setdefault(mu, []).append(weight)
    sums = np.array([math.fsum(g) for g in groups.values()])
    return _Parts(np.array(list(groups)), sums, tuple(tuple(g) for g in groups.values()))


def _least_epsilon(parts: _Parts, delta: float) -> float:
    if delta >= 1.0:
        return 0.0
    if parts.exceeds_everywhere(delta):
        return math.inf
    delta_at = parts.delta_at(delta)
    if delta_at(0.0) <= delta:
        return 0.0
    if delta == 0.0:
        return math.inf  # unreachable but for μ = 0 alone, which the line above answers
    epsilon = _searched(parts, delta) if delta > _DOUBLE_RANGE else _bisected(parts, delta)
    for _ in range(20):
        value, slope = parts.ball(epsilon, delta)
        with ctx.workprec(192):
            if not (epsilon < math.inf and value > 0 and slope > 0):
                break
            refined = float((arb(epsilon) + value / slope * (value / delta).log()).mid())
        if not 0.0 < refined <= 2.0 * epsilon:
            break
        converged = abs(refined - epsilon) <= 1e-10 * epsilon  # then the error is 1e-16 or so
        epsilon = refined
        if converged:
            break
    return balls.prove_upward(epsilon, delta_at, delta)


def _searched(parts: _Parts, delta: float) -> float:
    """The root of log δ(ε) = log delta in doubles: Newton's steps inside a shrinking bracket."""
    finite = parts.mus[parts.mus < math.inf]
    target = math.log(delta)
    low, high = 0.0, start_epsilon(float(finite[-1]), delta)
    while high < math.inf and parts.search(high)[0] > delta:
        low, high = high, 2.0 * high
    epsilon = high
    for _ in range(200):
        value, slope = parts.search(epsilon)
        if value <= delta:
            high = epsilon
        else:
            low = epsilon
        following = math.nan
        if value > 0.0 and slope > 0.0:
            following = epsilon + (math.log(value) - target) * (value / slope)
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - epsilon) <= 1e-7 * epsilon:
            return following
        epsilon = following
    return high


def _bisected(parts: _Parts, delta: float) -> float:
    """An ε with δ(ε) ≤ delta, to a factor 1.001, where doubles would underflow."""

    def holds(epsilon: float) -> bool:
        return bool(parts.ball(epsilon, delta)[0] <= delta)

    def close(low: float, high: float) -> bool:
        return high <= 1.001 * low or neighbours(low, high)

    low, high = 0.0, start_epsilon(float(parts.mus[parts.mus < math.inf][-1]), delta)
    while high < math.inf and not holds(high):
        low, high = high, 2.0 * high
    return bisected(holds, low, high, close=close)[1]


def _renyi(parts: _Parts, excess: float, order: float) -> float:
    """One order; `excess`: how far the weights sum to more than 1.

    The exponents are first rounded up, then every later error is added on top.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t = np.where(parts.mus == 0.0, 0.0, ((0.5 * order) * (order - 1.0) * parts.mus) * parts.mus)
        t *= 1.0 + EIGHT_ROUNDINGS
        top = float(t[-1])
        if top == math.inf:
            return math.inf
        slack = EIGHT_ROUNDINGS * (len(t) + 10.0)
        if top < 600.0:  # log(1 + sum of w·(e^t - 1)): no cancellation where all t are small
            rise = (float(parts.weights @ np.expm1(t)) + excess) * (1.0 + slack)
            value = math.log1p(rise) * (1.0 + THREE_ROUNDINGS)
        else:
            logarithm = math.log(float(parts.weights @ np.exp(t - top)))
            value = top + logarithm + slack + EIGHT_ROUNDINGS * top
        result = value / (order - 1.0)
    return 0.0 if result == 0.0 else result * (1.0 + THREE_ROUNDINGS)
