"""Bounded range: what the exponential mechanism is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.inputs import extended
from pabi.numbers.rounding import Array
from pabi.numbers.validate import number
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.pairs import ExponentialLoss, Labelled, Pair
from pabi.tradeoff.supports import support_lines

_LEAST = 1e-290  # grids finer than that leave the range of doubles; a larger range is sound


@dataclass(frozen=True, init=False)
class BoundedRange(TradeOff):
    """Every log-likelihood ratio lies in an interval of length ε, kept as `epsilon_0` in [0, ∞).

    δ(e) = (1 - e^(-(ε-e)/2))²/(1 - e^-ε) for |e| ≤ ε. Source: Dong, Durfee, Rogers 2020, Lemma 3.
    """

    epsilon_0: float

    kind: ClassVar[str] = "bounded_range"

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "epsilon_0", number("epsilon", epsilon, at_least=0.0))

    def epsilon(self, delta: float) -> float:
        return self.epsilon_bounds(delta)[1]

    def epsilon_bounds(self, delta: float, rtol: float = 1e-3) -> tuple[float, float]:
        delta = extended("delta", delta, at_least=0.0)
        if self.epsilon_0 == 0.0 or delta >= 1.0:
            return 0.0, 0.0
        with ctx.workprec(400):
            e = arb(self.epsilon_0)
            inside = (arb(delta) * -(-e).expm1()).sqrt()
            if not inside < 1:
                return 0.0, 0.0
            root = e + 2 * (-inside).log1p()
            low, high = max(0.0, balls.lower(root)), max(0.0, balls.upper(root))
        return min(low, self.epsilon_0), min(high, self.epsilon_0)

    def rdp(self, order: float) -> float:
        """log of (e^(αε - ε) - e^-αε)/((2α - 1)(1 - e^-ε)) over α - 1, with a margin of 1e-12."""
        order = number("order", order, above=1.0)
        if self.epsilon_0 == 0.0:
            return 0.0
        value = ExponentialLoss(self.epsilon_0).log_moment(order - 1.0) / (order - 1.0)
        return min(self.epsilon_0, max(0.0, value) * (1.0 + 1e-12) + 1e-15)

    @property
    def zcdp(self) -> float:
        """ε²/8, or ε where that is less. Source: Cesar, Rogers 2021, Lemma 3.4."""
        square = self.epsilon_0 * self.epsilon_0 / 8.0
        return min(self.epsilon_0, math.nextafter(square, math.inf))

    def losses(self) -> tuple[Pair, ...]:
        if self.epsilon_0 == 0.0:
            return (Labelled((0.0,), (1.0,)),)
        return (ExponentialLoss(max(self.epsilon_0, _LEAST)),)

    def _tradeoff(self, alpha: Array) -> Array:
        """The best of the supporting lines at the threshold that α belongs to and at a grid of others."""
        if self.epsilon_0 == 0.0:
            return (1.0 - alpha) * (1.0 - 4e-16)
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
        with ctx.workprec(400):
            e, size = arb(self.epsilon_0), arb(abs(epsilon))
            value = arb(0)
            if abs(epsilon) < self.epsilon_0:
                value = ((size - e) / 2).expm1() ** 2 / -(-e).expm1()
            if epsilon < 0.0:
                value = value * (-size).exp() - (-size).expm1()
            return min(1.0, balls.upper(value))

    def _delta_array(self, epsilon: Array) -> Array:
        if self.epsilon_0 == 0.0:
            return np.where(epsilon >= 0.0, 0.0, -np.expm1(np.minimum(epsilon, 0.0)))
        size = np.abs(epsilon)
        gap = np.expm1(0.5 * np.minimum(size - self.epsilon_0, 0.0))
        value = np.square(gap) / -math.expm1(-self.epsilon_0) * (1.0 + 2e-15)
        mirrored = (value * np.exp(-size) - np.expm1(-size)) * (1.0 + 1e-15)
        return np.minimum(1.0, np.where(epsilon < 0.0, mirrored, value))

    def _fields(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon_0}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields["epsilon"])
