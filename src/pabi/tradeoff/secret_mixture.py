"""Mixtures of Gaussians whose label stays secret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx, fmpq

from pabi.convert import balls
from pabi.convert.gdp import gdp_to_zcdp
from pabi.convert.mixtures import TOTAL
from pabi.convert.vectorised import TAIL_FLOOR, both_signs
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, fraction_up
from pabi.numbers.search import bisected, sectioned
from pabi.numbers.validate import NONNEGATIVE, keep, number
from pabi.tradeoff.base import Orientation, TradeOff, supported
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.pairs import Labelled, Pair, worst_divergence
from pabi.tradeoff.secret_losses import FAR, OppositeLoss, SecretLoss, SwappedLoss

LARGEST_MEAN = 20.0
_BITS = 400  # of ball arithmetic
_TAILS = 1e-12  # relative: scipy's normal tails, and their differences
_CLOSE = 1e-12  # relative: how far a double's place is from where a likelihood ratio is as stated
_CLOSER = 2  # Newton's steps from there, in balls
_SURE, _WIDER = (
    2.0**-100,
    2**20,
)  # relative: the first half width of an enclosed place, and by what it grows
_LOSS = 2e-12  # more than a loss of up to 1600 is off by
_NEARLY = 1e-9  # relative: how near to the least ε that of the arrays is as a rule
_POINTS = 4001  # at which the curve is supported
_FARTHEST = 600.0  # the largest ε of these: its power of e is a double
_LEAST_DELTA = 1e-17
_DENSITY = 0.4  # more than any density of N(0, 1)


@dataclass(frozen=True, init=False)
class SecretMixture(TradeOff):
    """T(Σ w_j·N(m_j, 1), N(0, 1)), the worse of it and its inverse; or T(Σ w_j·N(m_j, 1), Σ w_j·N(-m_j, 1)).

    One number with Gaussian noise, moved by m_j standard deviations with probability w_j, and nobody sees
    by which; on the other data set it is not moved, or moved the other way. With the label j in sight it
    would be a `Mixture`, which reveals more. Rényi divergences are computed by quadrature, with a margin of
    1e-8 (relative).

    Parameters
    ----------
    means : sequence of float
        m_j in [0, 20]. As a field they are sorted, equal ones merged (their weight rounded up) and those of
        weight 0 dropped.
    weights : sequence of float
        w_j ≥ 0, one for each mean, summing to 1 within 1e-9.
    opposite : bool
        Whether the other data set's number is moved the other way, by a label of its own.

    References
    ----------
    docs, "Theory", 6.1.
    """

    means: tuple[float, ...]
    weights: tuple[float, ...]
    opposite: bool

    kind: ClassVar[str] = "secret_mixture"

    def __init__(
        self, means: Sequence[float], weights: Sequence[float], opposite: bool = False
    ) -> None:
        places = [number("means", m, at_least=0.0, at_most=LARGEST_MEAN) for m in means]
        values = [NONNEGATIVE("weights", w) for w in weights]
        if type(opposite) is not bool:
            raise InvalidInput("opposite", f"expected True or False, got {opposite!r}")
        if not places or len(places) != len(values):
            raise InvalidInput("weights", f"expected one weight per mean, got {len(values)}")
        if not abs(fsum(values) - 1.0) <= TOTAL:
            raise InvalidInput("weights", f"expected weights that sum to 1, got {fsum(values)!r}")
        groups: dict[float, Fraction] = {}
        for m, w in zip(places, values, strict=True):
            if w > 0.0:
                groups[m] = groups.get(m, Fraction(0)) + Fraction(w)
        ordered = sorted(groups)
        keep(
            self,
            means=tuple(ordered),
            weights=tuple(fraction_up(groups[m]) for m in ordered),
            opposite=opposite,
        )

    @cached_property
    def _shares(self) -> tuple[tuple[float, Fraction], ...]:
        """(m_j, w_j) with weights that add to 1 exactly: what is missing goes to the lowest mean, and what is
        too much is taken from there, as moving weight to larger means reveals no less."""
        left, shares = Fraction(1), []
        for m, w in zip(reversed(self.means), reversed(self.weights), strict=True):
            share = min(Fraction(w), left)
            left -= share
            shares.append((m, share))
        m, share = shares.pop()
        return tuple(pair for pair in [(m, share + left), *reversed(shares)] if pair[1])

    @property
    def orientation(self) -> Orientation:
        """Whether both orders are one, as where the means are opposite or nothing is secret."""
        return "symmetric" if self.opposite or self._plain is not None else "both"

    @cached_property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where there is only one mean."""
        if len(self._shares) > 1:
            return None
        return Gaussian((2.0 if self.opposite else 1.0) * self._shares[0][0])

    @cached_property
    def _pair(self) -> SecretLoss:
        means, weights = zip(*((m, float(w)) for m, w in self._shares), strict=True)
        return (OppositeLoss if self.opposite else SecretLoss)(means, weights)

    def losses(self) -> tuple[Pair, ...]:
        """The losses of both orders, which are one where the means are opposite."""
        if self._plain is not None:
            return (Labelled((self._plain.mu,), (1.0,)),)
        return (self._pair,) if self.opposite else (self._pair, SwappedLoss(self._pair))

    # Readings.

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self._plain is not None:
            return self._plain.epsilon_bounds(delta, rtol)
        if delta >= 1.0 or self._delta(0.0) <= delta:
            return 0.0, 0.0
        if delta == 0.0:
            return math.inf, math.inf
        # With the label in sight, and the largest mean for sure, δ is never less.
        most = Gaussian((2.0 if self.opposite else 1.0) * self.means[-1]).epsilon(delta)
        # Twelve rounds of 32 sections are 60 halvings.
        _, high = sectioned(
            lambda e: self._delta_array(e) > delta, 0.0, min(most, _FARTHEST), points=31, rounds=12
        )

        def holds(epsilon: float) -> bool:
            return self._delta(epsilon) <= delta

        # Where δ is less than the arrays' margin, what they say is too large; and they may be too small by
        # their rounding.
        low, step = high * (1.0 - _NEARLY), _CLOSE
        if holds(low):
            low, high = 0.0, low
        while not holds(high):
            low, high = high, high * (1.0 + step)
            if high >= _FARTHEST:
                return 0.0, most
            step *= 2.0
        low, high = bisected(holds, low, high, close=lambda a, b: b - a <= 1e3 * _CLOSE * b)
        return low, min(most, high)

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        return worst_divergence((pair.log_moment(power) for pair in self.losses()), power)

    @property
    def zcdp(self) -> float:
        """The ρ of the Gaussian of the largest mean, which the function is never below."""
        return gdp_to_zcdp((2.0 if self.opposite else 1.0) * self.means[-1])

    def _tradeoff(self, alpha: Array) -> Array:
        if self._plain is not None:
            return self._plain._tradeoff(alpha)
        end = self._epsilon(_LEAST_DELTA)
        grid = np.linspace(0.0, min(end, _FARTHEST), _POINTS)
        delta = self._delta_array(grid)
        return np.where(alpha == 0.0, 1.0, supported(alpha, grid, left=delta, right=delta))

    def _delta(self, epsilon: float) -> float:
        if self._plain is not None:
            return self._plain._delta(epsilon)
        if epsilon == -math.inf:
            return 1.0
        if epsilon == math.inf:
            return 0.0
        worst = self._largest(min(abs(epsilon), _FARTHEST))
        return float(both_signs(np.array([epsilon]), np.array([worst]))[0])

    def _delta_array(self, epsilon: Array) -> Array:
        if self._plain is not None:
            return self._plain._delta_array(epsilon)
        size = np.minimum(np.abs(epsilon), _FARTHEST)
        pair, infinite = self._pair, np.full_like(size, np.inf)
        # Beyond z, where the loss is ℓ ≤ ε, every loss is ℓ or more: so δ(ε) ≤ P(> z) - e^ℓ·Q(> z).
        z = pair.places(size - _LOSS)
        level = np.minimum(pair.losses_at(z), size)
        worst = _difference(pair.mass_p(z, infinite), level, pair.mass_q(z, infinite))
        if not self.opposite:
            z = pair.places(_LOSS - size)
            level = np.minimum(-pair.losses_at(z), size)
            swapped = _difference(pair.mass_q(-infinite, z), level, pair.mass_p(-infinite, z))
            worst = np.maximum(worst, swapped)
        worst = worst + np.where(np.isinf(epsilon), 0.0, TAIL_FLOOR)
        return both_signs(epsilon, np.minimum(1.0, worst))

    def _largest(self, size: float) -> float:
        """The larger δ of both orders at ε = `size` ≥ 0, rounded up: at the place where the likelihood ratio
        is e^ε or e^-ε, which is found in doubles and enclosed in balls."""
        with ctx.workprec(_BITS):
            deltas = [self._forward(arb(size))]
            if not self.opposite:
                deltas.append(self._backward(arb(size)))
            return min(1.0, max(0.0, *map(balls.upper, deltas)))

    def _forward(self, size: Any) -> Any:
        """A ball around or above sup_z P(> z) - e^ε·Q(> z)."""
        low, high = self._enclosed(size)
        value = self._above_p(low) - size.exp() * self._above_q(low)
        # Up to the supremum it grows by the integral of q·(e^ε - L) at most, and q falls beyond 0.
        density = self._density_q(low) if low > 0 else arb(_DENSITY)
        return value + (high - low) * density * (size.exp() - self._ratio(low))

    def _backward(self, size: Any) -> Any:
        """A ball around or above sup_z Q(< z) - e^ε·P(< z)."""
        if self._ratio(arb(-FAR)) >= (-size).exp():
            return balls.normal_tail(arb(FAR))  # and the supremum is before that
        low, high = self._enclosed(-size)
        value = (1 - self._above_q(low)) - size.exp() * (1 - self._above_p(low))
        if low < 0:  # the same without cancellation
            below = sum((w * balls.normal_tail(m - low) for w, m, _ in self._balls), arb(0))
            value = balls.normal_tail(-low) - size.exp() * below
        density = self._density_q(high) if high < 0 else arb(_DENSITY)
        return value + (high - low) * density * (1 - size.exp() * self._ratio(low))

    def _enclosed(self, loss: Any) -> tuple[Any, Any]:
        """Places between which the loss is reached."""
        near = self._pair.places(np.array([float(loss.mid())]))
        slope = float((self._pair.slope_p(near) - self._pair.slope_q(near))[0])
        z, ratio = arb(float(near[0])), loss.exp()
        size = 1 + abs(z)
        for _ in range(_CLOSER):
            move = (self._ratio(z).log() - loss) / slope if slope > 0.0 else arb(1)
            if not abs(move) < _CLOSE * size:
                break
            z = (z - move).mid()
        ends = []
        for sign in (-1, 1):
            step = size * _SURE
            while not sign * (self._ratio(z + sign * step) - ratio) >= 0:
                step *= _WIDER
            ends.append((z + sign * step).mid())
        return ends[0], ends[1]

    def _ratio(self, z: Any) -> Any:
        """A ball around the likelihood ratio at z."""
        up = sum((level * (m * z).exp() for _, m, level in self._balls), arb(0))
        if not self.opposite:
            return up
        return up / sum((level * (-m * z).exp() for _, m, level in self._balls), arb(0))

    @cached_property
    def _balls(self) -> list[tuple[Any, Any, Any]]:
        """Balls of w_j, m_j and w_j·e^(-m_j²/2)."""
        with ctx.workprec(_BITS):
            shares = [(arb(fmpq(w.numerator, w.denominator)), arb(m)) for m, w in self._shares]
            return [(w, m, w * (-m * m / 2).exp()) for w, m in shares]

    def _above_p(self, z: Any) -> Any:
        return sum((w * balls.normal_tail(z - m) for w, m, _ in self._balls), arb(0))

    def _above_q(self, z: Any) -> Any:
        if not self.opposite:
            return balls.normal_tail(z)
        return sum((w * balls.normal_tail(z + m) for w, m, _ in self._balls), arb(0))

    def _density_q(self, z: Any) -> Any:
        if not self.opposite:
            return _density(z)
        return sum((w * _density(z + m) for w, m, _ in self._balls), arb(0))

    def _fields(self) -> dict[str, Any]:
        return {
            "means": list(self.means),
            "weights": list(self.weights),
            "opposite": self.opposite,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(fields.pop("means"), fields.pop("weights"), fields.pop("opposite"))


def _density(z: Any) -> Any:
    """A ball of the density of N(0, 1)."""
    return (-(z**2) / 2).exp() / (2 * arb.pi()).sqrt()


def _difference(mass: Array, level: Array, other: Array) -> Array:
    """`mass` - e^level·`other` and more than its rounding errors, at least 0."""
    with np.errstate(under="ignore"):
        scaled = np.exp(level) * np.maximum(other - TAIL_FLOOR, 0.0)
    value = mass - scaled + (_TAILS + _LOSS) * (mass + scaled)
    return np.where(value > 0.0, value, 0.0) * (1.0 + EIGHT_ROUNDINGS)
