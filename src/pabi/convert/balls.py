"""δ of Gaussian pairs in ball arithmetic: what a proof of an ε or δ rests on.

A ball is a midpoint and a radius around it that contains the exact value whatever the working
precision was; the precision only decides how small the radius is. python-flint (Arb) supplies the balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from flint import arb, ctx

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
