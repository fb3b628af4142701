"""Random batches of Gaussian mechanisms: fixed-size sampling (C_p) and Poisson sampling (O_p)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, assert_never

import numpy as np
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.gdp import gdp_epsilon_bounds, gdp_to_delta, gdp_to_zcdp
from pabi.convert.inputs import extended
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, fraction_down, fraction_up
from pabi.numbers.validate import choice, number
from pabi.tradeoff.base import TradeOff, decode, encode
from pabi.tradeoff.directions import DIRECTIONS, Direction, Orientation, chosen, opposite
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.pairs import Discrete, Labelled, Pair, SampledGaussian, Symmetrised, log_ratio
from pabi.tradeoff.supports import support_lines

_MOMENT = 1e-8  # relative: more than the quadrature of a moment errs
_SMALLEST = 1e-300


@dataclass(frozen=True, init=False)
class Subsampled(TradeOff):
    """C_p(f) = min{f_p, f_p^-1}**, f_p = p·f + (1 - p)·Id, of a Gaussian f: `base` = G(μ), p = `probability`.

    A mechanism that is f-DP under replacement of a record, run on a uniformly random subset of the
    share p of the records. δ(ε) = p·δ_f(log(1 + (e^ε - 1)/p)) for ε ≥ 0.
    Source: Dong, Roth, Su 2022, Thm 4.2 and Prop. 4.3; Bok, Su, Altschuler 2024, Def. 4.7, Prop. D.4.
    """

    base: Gaussian
    probability: float

    kind: ClassVar[str] = "subsampled"

    def __init__(self, base: Gaussian, probability: float) -> None:
        if type(base) is not Gaussian:
            raise InvalidInput("base", f"expected a Gaussian, got {base!r}")
        object.__setattr__(self, "base", base)
        p = number("probability", probability, at_least=0.0, at_most=1.0)
        object.__setattr__(self, "probability", p)

    def epsilon(self, delta: float) -> float:
        return self.epsilon_bounds(delta)[1]

    def epsilon_bounds(self, delta: float, rtol: float = 1e-3) -> tuple[float, float]:
        delta = extended("delta", delta, at_least=0.0)
        mu, p = self.base.mu, self.probability
        if delta >= 1.0 or p == 0.0 or mu == 0.0:
            return 0.0, 0.0
        if p == 1.0:
            return gdp_epsilon_bounds(mu, delta)
        share = Fraction(delta) / Fraction(p)
        if share >= 1:
            return 0.0, 0.0
        low = gdp_epsilon_bounds(mu, fraction_up(share))[0]
        high = gdp_epsilon_bounds(mu, fraction_down(share))[1]
        return _amplified(low, p)[0], _amplified(high, p)[1]

    def rdp(self, order: float) -> float:
        """By quadrature, with a margin of 1e-8 (relative)."""
        order = number("order", order, above=1.0)
        return _rdp(self, order)

    @property
    def zcdp(self) -> float:
        """That of the Gaussian, which C_p(G(μ)) is never below; no smaller ρ suits large orders."""
        return 0.0 if self.probability == 0.0 else gdp_to_zcdp(self.base.mu)

    def losses(self) -> tuple[Pair, ...]:
        return (_symmetric(self.base.mu, self.probability),)

    def _tradeoff(self, alpha: Array) -> Array:
        """The two lines at the ε where the likelihood-ratio test has type I error α, or its mirror."""
        from scipy.special import ndtr, ndtri

        mu, p = self.base.mu, self.probability
        if p == 1.0 or mu == 0.0 or p == 0.0:
            return (self.base if p else Gaussian(0.0))._tradeoff(alpha)
        if mu == math.inf:
            return np.maximum(0.0, (1.0 - p) * (1.0 - alpha) * (1.0 - 4e-16) - 4e-16 * p)
        with np.errstate(divide="ignore", over="ignore"):
            z = -ndtri(alpha)  # on the left, α = Q(Z > z)
            left = log_ratio(mu, p, z)
            # On the right f = x and α = p·f(x) + (1 - p)(1 - x): a bisection in z finds x.
            low, high = np.full_like(z, -40.0), np.full_like(z, 40.0 + mu)
            for _ in range(60):
                middle = 0.5 * (low + high)
                enough = p * ndtr(middle - mu) + (1.0 - p) * ndtr(middle) < alpha
                low, high = np.where(enough, middle, low), np.where(enough, high, middle)
            right = log_ratio(mu, p, low)
        result = np.zeros_like(alpha)
        for epsilon in (left, right, np.zeros_like(alpha)):
            epsilon = np.clip(np.nan_to_num(epsilon, posinf=700.0), 0.0, 700.0)
            result = np.maximum(result, support_lines(alpha, epsilon, self._delta_array(epsilon)))
        return np.where(alpha == 0.0, 1.0, result)

    def _delta(self, epsilon: float) -> float:
        mu, p = self.base.mu, self.probability
        if epsilon == -math.inf:
            return 1.0
        if p == 0.0 or mu == 0.0:
            return max(0.0, -math.expm1(epsilon)) if epsilon < 0.0 else 0.0
        if epsilon >= 0.0:
            return _forward_delta(mu, p, epsilon)
        # δ(-ε) = 1 - e^-ε·(1 - δ(ε))
        mirrored = Fraction(_forward_delta(mu, p, -epsilon))
        factor = Fraction(math.nextafter(math.exp(epsilon), 0.0))
        return min(1.0, fraction_up(1 - factor * (1 - mirrored)))

    def _delta_array(self, epsilon: Array) -> Array:
        return _delta_array(self.base.mu, self.probability, epsilon)

    def _fields(self) -> dict[str, Any]:
        return {"mu": encode(self.base.mu), "probability": self.probability}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(Gaussian(decode("mu", fields["mu"])), fields["probability"])


@dataclass(frozen=True)
class PoissonSubsampled(TradeOff):
    """The Gaussian mechanism on a Poisson batch that holds the record with probability `probability`:
    O_p(μ) = T(p·N(μ, 1) + (1 - p)·N(0, 1), N(0, 1)), `mu` in [0, ∞].

    `direction`: "remove" is O_p(μ) itself, the first data set holding the record; "add" its inverse;
    "both" (default) the worse of the two. Of one release the worse is C_p(G(μ)); of several it is
    not, and each direction is composed by itself.
    Source: Zhu, Dong, Wang 2022, Thm 11; docs, "Random batches".
    """

    mu: float
    probability: float
    direction: Direction = "both"

    kind: ClassVar[str] = "poisson_subsampled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", extended("mu", self.mu, at_least=0.0))
        p = number("probability", self.probability, at_least=0.0, at_most=1.0)
        object.__setattr__(self, "probability", p)
        choice("direction", self.direction, DIRECTIONS)

    @property
    def orientation(self) -> Orientation:
        trivial = self.probability in (0.0, 1.0) or self.mu == 0.0
        return "symmetric" if trivial else self.direction

    @property
    def _worse(self) -> Subsampled:
        return Subsampled(Gaussian(self.mu), self.probability)

    def inverse(self) -> PoissonSubsampled:
        return PoissonSubsampled(self.mu, self.probability, opposite(self.direction))

    def symmetrised(self) -> PoissonSubsampled:
        return PoissonSubsampled(self.mu, self.probability)

    def epsilon(self, delta: float) -> float:
        return self.epsilon_bounds(delta)[1]

    def epsilon_bounds(self, delta: float, rtol: float = 1e-3) -> tuple[float, float]:
        match self.direction:
            case "both" | "remove":  # at ε ≥ 0 removal is the worse one
                return self._worse.epsilon_bounds(delta)
            case "add":
                return self._single.epsilon_bounds(delta, rtol)
            case _:
                assert_never(self.direction)

    def rdp(self, order: float) -> float:
        """By quadrature, with a margin of 1e-8 (relative)."""
        return _rdp(self, number("order", order, above=1.0))

    @property
    def zcdp(self) -> float:
        return self._worse.zcdp

    def losses(self) -> tuple[Pair, ...]:
        mu, p = self.mu, self.probability
        if self.orientation == "symmetric":
            return (_symmetric(mu, p),)
        pair: Pair
        if mu == math.inf:  # the record is seen, or was not drawn
            absent = math.log1p(-p)
            pair = Discrete(np.array([absent]), np.array([1.0 - p]), p)
            swapped: Pair = Discrete(np.array([-absent]), np.array([1.0]))
        else:
            pair = SampledGaussian(mu, p)
            swapped = pair.reversed()
        return chosen(self.direction, pair, swapped)

    @property
    def _single(self) -> TradeOff:
        return TradeOff._table.product(((self, 1),))

    def _tradeoff(self, alpha: Array) -> Array:
        match self.direction:
            case "both":
                return self._worse._tradeoff(alpha)
            case "remove" | "add":
                return self._single._tradeoff(alpha)
            case _:
                assert_never(self.direction)

    def _delta(self, epsilon: float) -> float:
        match self.direction:
            case "both":
                return self._worse._delta(epsilon)
            case "remove":  # at ε ≥ 0 the worse one
                return (self._worse if epsilon >= 0.0 else self._single)._delta(epsilon)
            case "add":
                return self._single._delta(epsilon)
            case _:
                assert_never(self.direction)

    def _delta_array(self, epsilon: Array) -> Array:
        match self.direction:
            case "both":
                return self._worse._delta_array(epsilon)
            case "remove" | "add":
                return super()._delta_array(epsilon)
            case _:
                assert_never(self.direction)

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"mu": encode(self.mu), "probability": self.probability}
        return fields if self.direction == "both" else fields | {"direction": self.direction}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        direction = fields.get("direction", "both")
        return cls(decode("mu", fields["mu"]), fields["probability"], direction)


def _symmetric(mu: float, p: float) -> Pair:
    if p == 0.0 or mu == 0.0:
        return Labelled((0.0,), (1.0,))
    if mu == math.inf:
        return Labelled((0.0, math.inf), (1.0 - p, p))
    return Symmetrised(mu, p)


def _rdp(curve: TradeOff, order: float) -> float:
    power = order - 1.0
    worst = max(pair.log_moment(power) for pair in curve.losses())
    return worst / power * (1.0 + _MOMENT) + 1e-320 if worst > 0.0 else 0.0


def _amplified(epsilon: float, p: float) -> tuple[float, float]:
    """log(1 + p·(e^ε - 1)), rounded down and up."""
    if epsilon in (0.0, math.inf):
        return epsilon, epsilon
    with ctx.workprec(200):
        value = (arb(p) * arb(epsilon).expm1()).log1p()
        return balls.lower(value), balls.upper(value)


def _forward_delta(mu: float, p: float, epsilon: float) -> float:
    """p·δ_G(log(1 + (e^ε - 1)/p)) for ε ≥ 0, rounded up."""
    if epsilon == math.inf:
        return p if mu == math.inf else 0.0
    with ctx.workprec(200):
        place = balls.lower((arb(epsilon).expm1() / arb(p)).log1p())
    return min(1.0, fraction_up(Fraction(p) * Fraction(gdp_to_delta(mu, place))))


def _delta_array(mu: float, p: float, epsilon: Array) -> Array:
    from pabi.convert.vectorised import gaussian_delta

    if p == 0.0 or mu == 0.0:
        return np.where(epsilon >= 0.0, 0.0, -np.expm1(np.minimum(epsilon, 0.0)))
    size = np.abs(epsilon)
    with np.errstate(over="ignore", under="ignore"):
        near = np.log1p(np.expm1(np.minimum(size, 30.0)) / p)
        far = size - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(size, 1.0)))
        place = np.where(size > 30.0, far, near)
        value = p * np.asarray(gaussian_delta(mu, place * (1.0 - 1e-15))) * (1.0 + 4e-16)
        mirrored = (np.exp(-size) * value - np.expm1(-size)) * (1.0 + 1e-15)
    result = np.where(epsilon < 0.0, mirrored, value)
    return np.minimum(1.0, result)
