"""Gaussian differential privacy (μ-GDP) to (ε, δ), Rényi and zero-concentrated DP."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, TypeAlias, overload

import numpy as np
from flint import arb, ctx

from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact
from pabi.numbers.validate import number, reals

# δ of Gaussian pairs in ball arithmetic: what a proof of an ε or δ rests on.
#
# A ball is a midpoint and a radius around it that contains the exact value whatever the working precision
# was; the precision only decides how small the radius is. python-flint (Arb) supplies the balls.


Ball: TypeAlias = Any  # flint.arb, which carries no type information

FAR = 1000.0  # Φ(-1000) < 2^-721000: below every positive double
_MAX_PRECISION = 20_000


def upper(ball: Ball) -> float:
    """The least double not below any point of `ball`; ∞ when the ball says nothing."""
    if not ball.is_finite():
        return math.inf
    top = ball.upper()
    x = float(top)
    while arb(x) < top:
        x = math.nextafter(x, math.inf)
    return x


def lower(ball: Ball) -> float:
    """The greatest double not above any point of `ball`."""
    return -upper(-ball)


def normal_tail(z: Ball) -> Ball:
    """A ball of Φ(-z)."""
    return (z / arb(2).sqrt()).erfc() / 2


def tiny() -> Ball:
    """A ball that holds [0, 2^-1999]."""
    return arb(arb(2) ** -2000, arb(2) ** -2000)


def _right_half(mu: float, epsilon: float, bits: int) -> tuple[Ball, Ball]:
    """Balls of δ and of -dδ/dε for 0 < mu < ∞, 0 ≤ epsilon < ∞."""
    # Rounding in ε/μ - μ/2 costs about 2·log2(μ) bits when μ is large, the difference of two nearby
    # tails about -log2(μ) when it is small. A wrong guess here only costs one more round.
    exponent = math.frexp(mu)[1]
    precision = bits + 40 + max(0, -exponent, 2 * exponent)
    while True:
        with ctx.workprec(precision):
            m, e = arb(mu), arb(epsilon)
            a = e / m - m / 2
            if a > FAR:
                return tiny(), tiny()
            if a < -FAR:
                return 1 - tiny(), tiny()
            b = e / m + m / 2
            above = normal_tail(a)
            if b > FAR:  # e^ε and Φ(-b) would be too extreme apart
                weighted = (-a * a / 2).exp() / (2 * arb.pi()).sqrt() * _far_mills(b, precision)
            else:
                weighted = e.exp() * normal_tail(b)
            delta = above - weighted
            if delta.rel_accuracy_bits() >= bits or precision > _MAX_PRECISION:
                return delta, weighted
        precision *= 2


def _far_mills(b: Ball, precision: int) -> Ball:
    """The Mills ratio (1 - Φ(b))/φ(b), b ≥ 1000: two successive sums of its series enclose it."""
    square, total, term, k = b * b, arb(0), 1 / b, 0
    while k < 1000 and not abs(term * b) < arb(2) ** -precision:
        total += term
        k += 1
        term = -term * (2 * k - 1) / square
    return total + term * arb(0.5, 0.5)


def gaussian(mu: float, epsilon: float, bits: int = 96) -> tuple[Ball, Ball]:
    """Balls of δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) and of -dδ/dε.

    `mu`: in [0, ∞]; `epsilon`: any real or infinity. `bits`: relative accuracy of the ball of δ.
    Source: Dong, Roth, Su 2022, Cor. 2.13; for ε < 0 the identity δ(-ε) = 1 - e^-ε (1 - δ(ε)) of
    symmetric trade-off functions.
    """
    if mu == math.inf or epsilon == -math.inf:
        return arb(1), arb(0)
    if epsilon == math.inf:
        return arb(0), arb(0)
    if epsilon >= 0.0:
        return (arb(0), arb(0)) if mu == 0.0 else _right_half(mu, epsilon, bits)
    if epsilon < -2.0 * FAR:
        return 1 - tiny(), tiny()
    mirrored, slope = (arb(0), arb(0)) if mu == 0.0 else _right_half(mu, -epsilon, bits)
    with ctx.workprec(bits + 40):
        e = arb(epsilon)
        return mirrored * e.exp() - e.expm1(), e.exp() * (1 - mirrored - slope)


def prove_upward(guess: float, delta_at: Callable[[float], Ball], delta: float) -> float:
    """The first ε at or above `guess` with δ(ε) ≤ `delta` proven, in steps of 1, 2, 4, … ulps."""
    epsilon, step = guess, 1.0
    while epsilon < math.inf and not delta_at(epsilon) <= delta:
        epsilon += step * math.ulp(epsilon)
        step *= 2.0
    return epsilon


def refute_downward(epsilon: float, delta_at: Callable[[float], Ball], delta: float) -> float:
    """The first ε below `epsilon` with δ(ε) > `delta` proven, in steps of 1, 2, 4, … ulps; or 0."""
    candidate = math.nextafter(epsilon, 0.0)
    step = 2.0
    while candidate > 0.0 and not delta_at(candidate) > delta:
        candidate = max(0.0, candidate - step * math.ulp(candidate))
        step *= 2.0
    return candidate


# Gaussian differential privacy (μ-GDP) to (ε, δ), Rényi and zero-concentrated DP.


# Checks of arguments in which infinity is a meaning, not a mistake.


def extended(field: str, value: Any, **bounds: float) -> float:
    """`value` as a float within the bounds of `number`, +∞ allowed. Raises InvalidInput naming `field`."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and value == math.inf:
        return math.inf
    return number(field, value, **bounds)


def nonnegative(field: str, value: Any) -> float:
    """`value` as a float ≥ 0, +∞ allowed. Raises InvalidInput naming `field`."""
    return extended(field, value, at_least=0.0)


def real_line(field: str, value: Any) -> float:
    """`value` as a float that is not NaN, both infinities allowed. Raises InvalidInput naming `field`."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and value == -math.inf:
        return -math.inf
    return extended(field, value)


def array(
    field: str, value: Any, *, at_least: float = -math.inf, above: float = -math.inf
) -> Array:
    """`value` as an array of doubles of its shape, all ≥ `at_least` and > `above`; +∞ is allowed, not NaN."""
    try:
        result = reals(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(field, f"expected numbers, got {value!r:.60}") from None
    bad = np.isnan(result) | (result < at_least)
    if above > -math.inf:
        bad |= result <= above
    if bad.any():
        first = float(result[bad].flat[0])
        bound = f" > {exact(above)}" if above > -math.inf else f" ≥ {exact(at_least)}"
        expected = "numbers" if bound == " ≥ -inf" else f"numbers{bound}"
        raise InvalidInput(field, f"expected {expected}, got {first!r}")
    return result


def gdp_to_delta(mu: float, epsilon: float) -> float:
    """The least δ such that a `mu`-GDP mechanism is (`epsilon`, δ)-DP, rounded up to a double.

    Proven in ball arithmetic: the value is the least double not below Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2),
    up to one unit in the last place. A positive δ below the range of doubles becomes the smallest
    positive double.

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    epsilon : float
        Any real ε, negative ones and infinities included.

    Returns
    -------
    float
        δ, in [0, 1].

    Raises
    ------
    InvalidInput
        For a negative μ and for what is no number.

    References
    ----------
    Dong, Roth, Su 2022, Cor. 2.13.
    """
    delta, _ = gaussian(nonnegative("mu", mu), real_line("epsilon", epsilon))
    return min(1.0, upper(delta))


def gdp_to_epsilon(mu: float, delta: float) -> float:
    """The least ε ≥ 0 such that a `mu`-GDP mechanism is (ε, `delta`)-DP, rounded up to a double.

    δ(ε) ≤ `delta` is proven in ball arithmetic for the value returned.

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    delta : float
        δ ≥ 0; 0 gives ∞ unless μ is 0, and 1 or more gives 0.

    Returns
    -------
    float
        ε, in [0, ∞]; ∞ beyond the range of doubles.

    Raises
    ------
    InvalidInput
        For negative arguments and for what is no number.

    References
    ----------
    Dong, Roth, Su 2022, Cor. 2.13.
    """
    return _least_epsilon(nonnegative("mu", mu), nonnegative("delta", delta))


def gdp_epsilon_bounds(mu: float, delta: float) -> tuple[float, float]:
    """Proven bounds (lower, upper) on the least ε of `gdp_to_epsilon`, usually adjacent doubles."""
    mu, delta = nonnegative("mu", mu), nonnegative("delta", delta)
    top = _least_epsilon(mu, delta)
    if top == 0.0 or (top == math.inf and (delta == 0.0 or mu == math.inf)):
        return top, top
    return refute_downward(top, lambda e: gaussian(mu, e)[0], delta), top


def start_epsilon(mu: float, delta: float) -> float:
    """An ε (up to rounding) with δ(ε) ≤ `delta`: δ(ε) ≤ Φ(-a) ≤ exp(-a²/2) at a = ε/μ - μ/2 ≥ 0."""
    return mu * (0.5 * mu + math.sqrt(-2.0 * math.log(delta)))


def _least_epsilon(mu: float, delta: float) -> float:
    def delta_at(e: float) -> Ball:
        return gaussian(mu, e)[0]

    if delta >= 1.0 or mu == 0.0:
        return 0.0
    if delta == 0.0 or mu == math.inf:
        return math.inf
    if delta_at(0.0) <= delta:
        return 0.0
    epsilon = start_epsilon(mu, delta)
    if epsilon == math.inf:
        return math.inf
    # log δ is concave in ε (a convolution of log-concave functions), so that Newton's steps on
    # log δ descend to the root from the right and never cross it, rounding apart.
    for _ in range(200):
        value, slope = gaussian(mu, epsilon)
        with ctx.workprec(160):
            if not (value > 0 and slope > 0):
                break
            following = max(0.0, float(arb(epsilon) + value / slope * (value / delta).log()))
        if not following < epsilon:
            break
        converged = epsilon - following <= 4.0 * math.ulp(epsilon)
        epsilon = following
        if converged:
            break

    epsilon = prove_upward(epsilon, delta_at, delta)
    for _ in range(8):
        below = math.nextafter(epsilon, 0.0)
        if epsilon == math.inf or not delta_at(below) <= delta:
            break
        epsilon = below
    return epsilon


@overload
def gdp_to_rdp(mu: float, order: float) -> float: ...
@overload
def gdp_to_rdp(mu: float, order: Array) -> Array: ...
def gdp_to_rdp(mu: float, order: Any) -> Any:
    """The Rényi divergence `order`·μ²/2 of `mu`-GDP, rounded up.

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    order : float or array
        Orders in (1, ∞].

    Returns
    -------
    float or array
        In [0, ∞]; of the shape of `order`.

    Raises
    ------
    InvalidInput
        For a negative μ, and for an order of at most 1.

    References
    ----------
    Dong, Roth, Su 2022, Cor. B.6; Mironov 2017, Prop. 7.
    """
    mu, orders = nonnegative("mu", mu), array("order", order, above=1.0)
    if mu == 0.0:
        result = np.zeros_like(orders)
    else:
        with np.errstate(over="ignore", under="ignore"):
            # Two roundings; two steps up outweigh them.
            result = np.nextafter(np.nextafter((0.5 * orders * mu) * mu, np.inf), np.inf)
    return float(result) if np.ndim(order) == 0 else result


def gdp_to_zcdp(mu: float) -> float:
    """The ρ = μ²/2 of zero-concentrated DP for `mu`-GDP, rounded up.

    Parameters
    ----------
    mu : float
        μ in [0, ∞].

    Returns
    -------
    float
        ρ, in [0, ∞].

    Raises
    ------
    InvalidInput
        For a negative μ and for what is no number.

    References
    ----------
    Bun, Steinke 2016, Lemma 2.4.
    """
    mu = nonnegative("mu", mu)
    return 0.0 if mu == 0.0 else math.nextafter(0.5 * mu * mu, math.inf)
