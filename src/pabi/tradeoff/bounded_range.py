"""Bounded range: what the exponential mechanism is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.vectorised import FLOOR, both_signs
from pabi.numbers.rounding import THREE_ROUNDINGS, Array
from pabi.numbers.validate import NONNEGATIVE, keep, number
from pabi.tradeoff.base import TradeOff, support_lines
from pabi.tradeoff.law import Labelled
from pabi.tradeoff.pairs import ExponentialLoss, Pair

_LEAST = 1e-290  # grids finer than that leave the range of doubles; a larger range is sound
_BITS = 400  # of ball arithmetic: no answer here is wider than one double
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

    def _fields(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon_0}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields.pop("epsilon"))
