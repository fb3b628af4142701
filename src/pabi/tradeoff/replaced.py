"""The Gaussian mechanism on a Poisson batch, of which one record is replaced by another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded on first use
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.gdp import gdp_to_zcdp
from pabi.convert.inputs import nonnegative
from pabi.convert.vectorised import FLOOR, TAIL_FLOOR, both_signs
from pabi.numbers.fields import SHARE, convert
from pabi.numbers.margins import EIGHT_ROUNDINGS
from pabi.numbers.rounding import Array, up
from pabi.numbers.search import bisected
from pabi.numbers.validate import number
from pabi.tradeoff.base import TradeOff, decode, encode
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.pairs import Labelled, Pair, Symmetrised, worst_divergence
from pabi.tradeoff.replaced_losses import APART, ReplacedLoss, place_of
from pabi.tradeoff.supports import supported

_BITS = 400  # of ball arithmetic
_TAILS = 1e-12  # relative: scipy's normal tails, and their differences
_CLOSE = 1e-13  # relative: how far apart the bounds on ε may be
_POINTS = 4001  # at which the curve is supported
_FARTHEST = 600.0  # the largest ε of these: its power of e is a double
_LEAST_DELTA = 1e-17


@dataclass(frozen=True)
class PoissonReplaced(TradeOff):
    """T(p·N(μ, 1) + (1 - p)·N(0, 1), p·N(-μ, 1) + (1 - p)·N(0, 1)): its own inverse.

    A Poisson batch holds the record with probability p; the record moves the sum by μ standard deviations
    of the noise at most, and the one in its place, in the worst case, the other way. It is never below
    C_p(G(2μ)).

    Parameters
    ----------
    mu : float
        μ in [0, ∞].
    probability : float
        p in [0, 1].

    References
    ----------
    docs, "Theory", 20.
    """

    mu: float
    probability: float

    kind: ClassVar[str] = "poisson_replaced"

    def __post_init__(self) -> None:
        convert(self, mu=nonnegative, probability=SHARE)

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self.mu == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(2.0 * self.mu) if self.probability == 1.0 else None

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self._plain is not None:
            return self._plain.epsilon_bounds(delta, rtol)
        if delta >= 1.0 or self._delta(0.0) <= delta:
            return 0.0, 0.0
        if delta == 0.0 or self.mu == math.inf:
            return math.inf, math.inf
        # At twice the μ without sampling δ is never less.
        high = Gaussian(2.0 * self.mu).epsilon(delta)
        low, high = bisected(
            lambda e: self._delta(e) <= delta, 0.0, high, close=lambda a, b: b - a <= _CLOSE * b
        )
        return low * (1.0 - _CLOSE), high

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        return worst_divergence((pair.log_moment(power) for pair in self.losses()), power)

    @property
    def zcdp(self) -> float:
        """The ρ of G(2μ), which the function is never below."""
        return 0.0 if self.probability == 0.0 else gdp_to_zcdp(2.0 * self.mu)

    def losses(self) -> tuple[Pair, ...]:
        """The loss, the same in both orders."""
        mu, p = self.mu, self.probability
        if mu == 0.0 or p == 0.0:
            return (Labelled((0.0,), (1.0,)),)
        if mu > APART:  # where the record is seen, or was not drawn
            return (Labelled((0.0, math.inf), (1.0 - p, p)),)
        return (Symmetrised(2.0 * mu, 1.0) if p == 1.0 else ReplacedLoss(mu, p),)

    def _tradeoff(self, alpha: Array) -> Array:
        if self._plain is not None:
            return self._plain._tradeoff(alpha)
        end = self._epsilon(min(1.0, up(self._delta(math.inf)) + _LEAST_DELTA))
        grid = np.linspace(0.0, min(end, _FARTHEST), _POINTS)
        delta = self._delta_array(grid)
        return np.where(alpha == 0.0, 1.0, supported(alpha, grid, left=delta, right=delta))

    def _delta(self, epsilon: float) -> float:
        if self._plain is not None:
            return self._plain._delta(epsilon)
        if epsilon == -math.inf:
            return 1.0
        if self.mu > APART or epsilon == math.inf:
            forward = self.probability if self.mu > APART else 0.0
        else:
            forward = self._forward(abs(epsilon))
        return float(both_signs(np.array([epsilon]), np.array([forward]))[0])

    def _forward(self, size: float) -> float:
        """δ at ε = `size` ≥ 0, rounded up."""
        with ctx.workprec(_BITS):
            mu, p, e = arb(self.mu), arb(self.probability), arb(size)
            # Where the likelihood ratio is e^ε: sinh(μz - ε/2) = sinh(ε/2)·e^(μ²/2)·(1 - p)/p.
            z = (e / 2 + ((e / 2).sinh() * (mu * mu / 2).exp() * (1 - p) / p).asinh()) / mu
            middle = (1 - p) * e.expm1() * balls.normal_tail(z)
            value = p * (balls.normal_tail(z - mu) - e.exp() * balls.normal_tail(z + mu)) - middle
            return min(1.0, max(0.0, balls.upper(value)))

    def _delta_array(self, epsilon: Array) -> Array:
        if self._plain is not None:
            return self._plain._delta_array(epsilon)
        mu, p, size = self.mu, self.probability, np.minimum(np.abs(epsilon), _FARTHEST)
        if mu > APART:
            return both_signs(epsilon, np.full_like(epsilon, p))
        z = place_of(size, mu, p)
        with np.errstate(under="ignore"):
            above = p * scipy.special.ndtr(mu - z)
            below = p * np.exp(size) * np.maximum(scipy.special.ndtr(-z - mu) - FLOOR, 0.0)
            middle = (1.0 - p) * np.expm1(size) * np.maximum(scipy.special.ndtr(-z) - FLOOR, 0.0)
        value = above - below - middle + _TAILS * (above + below + middle)
        value = np.where(value > 0.0, value, 0.0) * (1.0 + EIGHT_ROUNDINGS)
        value = value + np.where(np.isinf(epsilon), 0.0, TAIL_FLOOR)
        return both_signs(epsilon, np.minimum(1.0, value))

    def _fields(self) -> dict[str, Any]:
        return {"mu": encode(self.mu), "probability": self.probability}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(decode("mu", fields.pop("mu")), fields.pop("probability"))
