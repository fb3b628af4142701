"""The Laplace mechanism, on all records or on a Poisson batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx, fmpq

from pabi.convert import balls
from pabi.convert.vectorised import FLOOR, both_signs
from pabi.numbers.fields import NONNEGATIVE, SHARE, convert
from pabi.numbers.margins import EIGHT_ROUNDINGS
from pabi.numbers.rounding import Array
from pabi.numbers.validate import number
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.directions import Orientation
from pabi.tradeoff.laplace_losses import LaplaceLoss, SampledLaplace, TurnedLaplace, sampled_loss
from pabi.tradeoff.pairs import Labelled, Pair, worst_divergence
from pabi.tradeoff.supports import support_lines, supported

_LEAST = 1e-290  # grids finer than that leave the range of doubles; a larger ε is sound
_BITS = 400  # of ball arithmetic: no answer here is wider than one double
_LARGE = 30.0  # e^30 + 1 is e^30 to 13 digits
_LARGEST_EXPONENT = 700.0  # whose power of e is a double
_PROFILE = (
    4e-15  # absolute, over p: δ(e) takes a power of e of an exponent that is less than 1e-15 wrong
)
_POINTS = 4001  # at which a sampled curve is supported


@dataclass(frozen=True)
class Laplace(TradeOff):
    """The Laplace mechanism: T(Lap(0), Lap(ε)), of noise whose scale is 1/ε of what a record moves.

    f(α) = 1 - e^ε·α up to α = e^-ε/2, then e^-ε/(4α) up to 1/2, then e^-ε·(1 - α); δ(e) = 1 - e^((e-ε)/2)
    for 0 ≤ e ≤ ε. A vector with independent noise in every entry that a record moves by as much in L1 norm
    reveals no more. On a Poisson batch, the worse of T(p·A + (1 - p)·B, B) and its inverse for Laplace A
    and B, each composed by itself; then δ(e) = p·δ_1(log(1 + (e^e - 1)/p)) for e ≥ 0, δ_1 that of p = 1.

    Parameters
    ----------
    epsilon : float
        ε in [0, ∞): the L1 sensitivity over the scale of the noise.
    probability : float
        p in [0, 1], with which the batch holds the record; 1 for all records.

    Attributes
    ----------
    epsilon_0 : float
        The ε given.

    References
    ----------
    Dong, Roth, Su 2022, Prop. A.6; docs, "Theory", 20.
    """

    epsilon_0: float
    probability: float = 1.0

    kind: ClassVar[str] = "laplace"

    def __init__(self, epsilon: float, probability: float = 1.0) -> None:
        object.__setattr__(self, "epsilon_0", epsilon)
        object.__setattr__(self, "probability", probability)
        convert(self, epsilon_0=lambda _, value: NONNEGATIVE("epsilon", value), probability=SHARE)

    @property
    def orientation(self) -> Orientation:
        """ "both"; "symmetric" where nothing is random or nothing revealed."""
        trivial = self.probability in (0.0, 1.0) or self.epsilon_0 == 0.0
        return "symmetric" if trivial else "both"

    @property
    def _nothing(self) -> bool:
        return self.epsilon_0 == 0.0 or self.probability == 0.0

    @property
    def _most(self) -> float:
        """The largest privacy loss, rounded up."""
        if self._nothing:
            return 0.0
        with ctx.workprec(_BITS):
            return balls.upper(_sampled(arb(self.epsilon_0), self.probability))

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        share = Fraction(delta) / Fraction(self.probability) if self.probability else Fraction(1)
        if share >= 1 or self._nothing:
            return 0.0, 0.0
        with ctx.workprec(_BITS):
            inner = (
                arb(self.epsilon_0) + 2 * (1 - arb(fmpq(share.numerator, share.denominator))).log()
            )
            if not inner > 0:
                return 0.0, 0.0 if inner <= 0 else self._most
            root = _sampled(inner, self.probability)
            return max(0.0, balls.lower(root)), min(self._most, balls.upper(root))

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        worst = worst_divergence((pair.log_moment(power) for pair in self.losses()), power)
        return min(worst, self._most)

    @property
    def zcdp(self) -> float:
        """The ρ = e²/2, or e where that is less; e is the largest privacy loss.

        References
        ----------
        Bun, Steinke 2016, Prop. 3.3.
        """
        most = self._most
        return min(most, 0.5 * most * most * (1.0 + EIGHT_ROUNDINGS))

    def losses(self) -> tuple[Pair, ...]:
        """The loss of the Laplace pair, or those of both orders of a sampled one."""
        if self._nothing:
            return (Labelled((0.0,), (1.0,)),)
        epsilon = max(self.epsilon_0, _LEAST)
        if self.probability == 1.0:
            return (LaplaceLoss(epsilon),)
        pair = SampledLaplace(epsilon, self.probability)
        return pair, TurnedLaplace(pair)

    def _tradeoff(self, alpha: Array) -> Array:
        """The best of supporting lines: of all records at the threshold that α belongs to, else on a grid."""
        if self.probability == 1.0:
            with np.errstate(divide="ignore"):
                turn = self.epsilon_0 + 2.0 * np.log(2.0 * alpha)
            result = np.zeros_like(alpha)
            for at in (-turn, turn, np.zeros_like(alpha)):
                at = np.clip(at, 0.0, min(self.epsilon_0, _LARGEST_EXPONENT))
                result = np.maximum(result, support_lines(alpha, at, self._delta_array(at)))
        else:
            grid = np.linspace(0.0, min(self._most, _LARGEST_EXPONENT), _POINTS)
            delta = self._delta_array(grid)
            result = supported(alpha, grid, left=delta, right=delta)
        return np.where(alpha == 0.0, 1.0, result)

    def _delta(self, epsilon: float) -> float:
        if epsilon == -math.inf:
            return 1.0
        if epsilon == math.inf:
            return 0.0
        with ctx.workprec(_BITS):
            size = arb(abs(epsilon))
            value = self._forward(size)
            if epsilon < 0.0:
                value = value * (-size).exp() - (-size).expm1()
            return min(1.0, max(0.0, balls.upper(value)))

    def _forward(self, size: Any) -> Any:
        """A ball of δ at a ball of ε ≥ 0."""
        if self._nothing or size >= self.epsilon_0:  # no loss is larger; powers of e may overflow
            return arb(0)
        inner = (size.expm1() / arb(self.probability)).log1p()
        gap = (inner - arb(self.epsilon_0)) / 2
        return -arb(self.probability) * gap.expm1() if not gap >= 0 else arb(0)

    def _delta_array(self, epsilon: Array) -> Array:
        p, size = self.probability, np.abs(epsilon)
        if self._nothing:
            return both_signs(epsilon, np.zeros_like(epsilon))
        with np.errstate(over="ignore", under="ignore"):
            near = np.log1p(np.expm1(np.minimum(size, _LARGE)) / p)
            far = size - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(size, 1.0)))
        near = np.minimum(near, _LARGEST_EXPONENT)  # of quotients that overflow
        inner = np.where(size > _LARGE, far, near) * (1.0 - EIGHT_ROUNDINGS)
        gap = np.minimum(0.5 * (inner - self.epsilon_0 * (1.0 + EIGHT_ROUNDINGS)), 0.0)
        value = -p * np.expm1(gap) * (1.0 + EIGHT_ROUNDINGS) + FLOOR
        beyond = size >= sampled_loss(self.epsilon_0, p) * (1.0 + EIGHT_ROUNDINGS) + _PROFILE
        return both_signs(epsilon, np.where(beyond, 0.0, np.minimum(1.0, value)))

    def _fields(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon_0, "probability": self.probability}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields.pop("epsilon"), fields.pop("probability"))


def _sampled(inner: Any, p: float) -> Any:
    """A ball of log(1 + p·(e^y - 1)), `inner` one of y ≥ 0."""
    return (arb(p) * inner.expm1()).log1p() if p < 1.0 else inner
