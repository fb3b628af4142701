"""Curves of one or two numbers: approximate and bounded-range DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from pabi.numbers import gaussian as balls
from pabi.numbers.gaussian import nonnegative
from pabi.numbers.rounding import EIGHT_ROUNDINGS, THREE_ROUNDINGS, Array, fraction_up
from pabi.numbers.validate import NONNEGATIVE, SHARE, keep, number
from pabi.numbers.vectorised import FLOOR, both_signs
from pabi.tradeoff.base import Readers, TradeOff, decode, support_lines
from pabi.tradeoff.law import Labelled
from pabi.tradeoff.pairs import ExponentialLoss, Pair, Response

_BITS = 400  # of ball arithmetic: no answer here is wider than one double
_DIFFERENCE = 2e-16  # absolute: one rounding of a number in [0, 1]


@dataclass(frozen=True, init=False)
class ApproxDP(TradeOff):
    """(ε, δ)-differential privacy: f(α) = max{0, 1 - δ - e^ε·α, e^-ε·(1 - δ - α)}.

    It is the trade-off function of "with probability δ the answer, else randomised response", where
    δ(e) = δ + (1 - δ)·max{0, (e^ε - e^e)/(e^ε + 1)} for e ≥ 0. The Rényi divergence of order α is ∞ unless
    δ = 0; then it is log((e^(αε) + e^((1-α)ε))/(e^ε + 1))/(α - 1).

    Parameters
    ----------
    epsilon : float
        ε in [0, ∞].
    delta : float
        δ in [0, 1].

    Attributes
    ----------
    epsilon_0, delta_0 : float
        The ε and δ given.

    References
    ----------
    Dong, Roth, Su 2022, Prop. 2.4; Kairouz, Oh, Viswanath 2017.
    """

    epsilon_0: float
    delta_0: float

    kind: ClassVar[str] = "approx_dp"
    _readers: ClassVar[Readers] = {"epsilon": decode}

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        keep(self, epsilon_0=nonnegative("epsilon", epsilon), delta_0=SHARE("delta", delta))

    def _rdp(self, order: float) -> float:
        order = number("order", order, above=1.0)
        if self.delta_0 > 0.0 or self.epsilon_0 == math.inf:
            return math.inf
        if self.epsilon_0 == 0.0:
            return 0.0
        with ctx.workprec(_BITS):
            e, a = arb(self.epsilon_0), arb(order)
            # Divided by e^(αε) above and e^ε below, so that no power overflows.
            ratio = ((1 - 2 * a) * e).exp()
            value = e + ((ratio.log1p() - (-e).exp().log1p()) / (a - 1))
            return min(self.epsilon_0, balls.upper(value))

    @property
    def zcdp(self) -> float:
        """The ρ = ε²/2, or ε where that is less; ∞ unless δ = 0.

        References
        ----------
        Bun, Steinke 2016, Prop. 3.3.
        """
        if self.delta_0 > 0.0:
            return math.inf
        if self.epsilon_0 == 0.0:
            return 0.0
        return min(self.epsilon_0, math.nextafter(0.5 * self.epsilon_0 * self.epsilon_0, math.inf))

    def losses(self) -> tuple[Pair, ...]:
        """The loss of randomised response, ∞ with probability δ."""
        if self.epsilon_0 == math.inf:
            return (Labelled((math.inf,), (1.0,)),)
        rest = 1.0 - self.delta_0
        if self.epsilon_0 == 0.0:
            return (Labelled((0.0, math.inf), (rest, self.delta_0)),)
        low = rest / (1.0 + math.exp(min(self.epsilon_0, 700.0)))
        values = np.array([-self.epsilon_0, self.epsilon_0])
        return (Response(values, np.array([low, rest - low]), self.delta_0),)

    def _compose(self, other: TradeOff) -> TradeOff | None:
        if not isinstance(other, ApproxDP) or min(self.epsilon_0, other.epsilon_0) > 0.0:
            return None
        # A pair (0, δ) either reveals everything or nothing, independently of the other.
        rest = (1 - Fraction(self.delta_0)) * (1 - Fraction(other.delta_0))
        delta = min(1.0, fraction_up(1 - rest))
        return ApproxDP(max(self.epsilon_0, other.epsilon_0), delta)

    def _tradeoff(self, alpha: Array) -> Array:
        if self.epsilon_0 == math.inf:
            return np.zeros_like(alpha)
        most = 1.0 - self.delta_0
        if self.delta_0 > 0.0:
            most = max(0.0, math.nextafter(most, 0.0))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            cost = np.where(alpha == 0.0, 0.0, np.exp(np.float64(self.epsilon_0)) * alpha)
            left = np.where(alpha == 0.0, most, most - cost - EIGHT_ROUNDINGS * (cost + 1.0))
            rest = np.maximum(np.where(alpha == 1.0, 0.0, most - alpha - _DIFFERENCE), 0.0)
            right = np.exp(-np.float64(self.epsilon_0)) * rest * (1.0 - EIGHT_ROUNDINGS)
        return np.asarray(np.maximum(0.0, np.maximum(left, right)))

    def _delta(self, epsilon: float) -> float:
        if epsilon == math.inf:
            return 1.0 if self.epsilon_0 == math.inf else self.delta_0
        if epsilon == -math.inf or self.epsilon_0 == math.inf:
            return 1.0
        with ctx.workprec(_BITS):
            e, top, delta = arb(abs(epsilon)), arb(self.epsilon_0), arb(self.delta_0)
            value = delta
            if abs(epsilon) < self.epsilon_0:
                # (e^ε - e^e)/(e^ε + 1) = (1 - e^(e-ε))/(1 + e^-ε)
                value = delta - (1 - delta) * (e - top).expm1() / (1 + (-top).exp())
            if epsilon < 0.0:
                value = value * (-e).exp() - (-e).expm1()
            return min(1.0, balls.upper(value))

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if delta >= 1.0:
            return 0.0, 0.0
        if delta < self.delta_0 or (self.epsilon_0 == math.inf):
            return math.inf, math.inf
        if delta == self.delta_0:
            return self.epsilon_0, self.epsilon_0
        with ctx.workprec(_BITS):
            top = arb(self.epsilon_0)
            share = (arb(delta) - arb(self.delta_0)) / (1 - arb(self.delta_0))
            inside = -share * (1 + (-top).exp())
            if not inside > -1:
                return 0.0, 0.0 if inside <= -1 else self.epsilon_0
            root = top + inside.log1p()
            return max(0.0, balls.lower(root)), max(0.0, min(self.epsilon_0, balls.upper(root)))


# Bounded range: what the exponential mechanism is.


_LEAST = 1e-290  # grids finer than that leave the range of doubles; a larger range is sound
_PROFILE = 2e-15  # relative: δ(e) takes two exponentials, of which one is squared


@dataclass(frozen=True, init=False)
class BoundedRange(TradeOff):
    """Bounded range: every log-likelihood ratio lies in an interval of length ε.

    δ(e) = (1 - e^(-(ε-e)/2))²/(1 - e^-ε) for |e| ≤ ε. The Rényi divergence of order α is
    log((e^(αε - ε) - e^-αε)/((2α - 1)(1 - e^-ε)))/(α - 1), with a margin of 1e-12.

    Parameters
    ----------
    epsilon : float
        ε in [0, ∞).

    Attributes
    ----------
    epsilon_0 : float
        The ε given.

    References
    ----------
    Dong, Durfee, Rogers 2020, Lemma 3.
    """

    epsilon_0: float

    kind: ClassVar[str] = "bounded_range"

    def __init__(self, epsilon: float) -> None:
        keep(self, epsilon_0=NONNEGATIVE("epsilon", epsilon))

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self.epsilon_0 == 0.0 or delta >= 1.0:
            return 0.0, 0.0
        with ctx.workprec(_BITS):
            e = arb(self.epsilon_0)
            inside = (arb(delta) * -(-e).expm1()).sqrt()
            if not inside < 1:
                return 0.0, 0.0
            root = e + 2 * (-inside).log1p()
            low, high = max(0.0, balls.lower(root)), max(0.0, balls.upper(root))
        return min(low, self.epsilon_0), min(high, self.epsilon_0)

    def _rdp(self, order: float) -> float:
        order = number("order", order, above=1.0)
        if self.epsilon_0 == 0.0:
            return 0.0
        # The loss of digits is that of ε²: what is left of a sum near 1.
        with ctx.workprec(_BITS + 2 * max(0, -math.frexp(self.epsilon_0)[1])):
            e, double = arb(self.epsilon_0), 2 * arb(order) - 1
            ratio = (-double * e).expm1() / (-e).expm1() / double
            return min(self.epsilon_0, balls.upper(e + ratio.log() / (arb(order) - 1)))

    @property
    def zcdp(self) -> float:
        """The ρ = ε²/8, or ε where that is less.

        References
        ----------
        Cesar, Rogers 2021, Lemma 3.4.
        """
        square = self.epsilon_0 * self.epsilon_0 / 8.0
        return min(self.epsilon_0, math.nextafter(square, math.inf))

    def losses(self) -> tuple[Pair, ...]:
        """The loss of the exponential mechanism with two outcomes, the same in both orders."""
        if self.epsilon_0 == 0.0:
            return (Labelled((0.0,), (1.0,)),)
        return (ExponentialLoss(max(self.epsilon_0, _LEAST)),)

    def _tradeoff(self, alpha: Array) -> Array:
        """The best of the supporting lines at the threshold that α belongs to and at a grid of others."""
        if self.epsilon_0 == 0.0:
            return (1.0 - alpha) * (1.0 - THREE_ROUNDINGS)
        whole = -math.expm1(-self.epsilon_0)
        result = np.zeros_like(alpha)
        # On the left α = Q(Y > y) = (e^(-(y+ε)/2) - e^-ε)/(1 - e^-ε), on the right 1 - α = P(Y > y).
        with np.errstate(divide="ignore"):
            left = -self.epsilon_0 - 2.0 * np.log(math.exp(-self.epsilon_0) + alpha * whole)
            right = self.epsilon_0 + 2.0 * np.log(np.maximum(1.0 - (1.0 - alpha) * whole, 1e-300))
        grid = np.linspace(0.0, self.epsilon_0, 257)
        for epsilon in (left, right, *(np.full_like(alpha, e) for e in grid)):
            epsilon = np.clip(epsilon, 0.0, self.epsilon_0)
            result = np.maximum(result, support_lines(alpha, epsilon, self._delta_array(epsilon)))
        return np.where(alpha == 0.0, 1.0, result)

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_0:
            return 0.0
        if epsilon == -math.inf:
            return 1.0
        with ctx.workprec(_BITS):
            e, size = arb(self.epsilon_0), arb(abs(epsilon))
            value = arb(0)
            if abs(epsilon) < self.epsilon_0:
                value = ((size - e) / 2).expm1() ** 2 / -(-e).expm1()
            if epsilon < 0.0:
                value = value * (-size).exp() - (-size).expm1()
            return min(1.0, balls.upper(value))

    def _delta_array(self, epsilon: Array) -> Array:
        if self.epsilon_0 == 0.0:
            return both_signs(epsilon, np.zeros_like(epsilon))
        size = np.abs(epsilon)
        gap = np.expm1(0.5 * np.minimum(size - self.epsilon_0, 0.0))
        # A square would underflow where δ does not.
        value = gap * (gap / -math.expm1(-self.epsilon_0)) * (1.0 + _PROFILE) + FLOOR
        return both_signs(epsilon, np.where(size < self.epsilon_0, value, 0.0))
