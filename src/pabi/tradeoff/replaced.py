"""The Gaussian mechanism on a Poisson batch, of which one record is replaced by another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.gdp import gdp_to_zcdp, nonnegative
from pabi.convert.vectorised import FLOOR, TAIL_FLOOR, both_signs
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, up
from pabi.numbers.search import bisected
from pabi.numbers.validate import SHARE, convert, number
from pabi.tradeoff.base import TradeOff, decode, encode, supported
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    Indices,
    Labelled,
    LossCells,
    Pair,
    Rule,
    Symmetrised,
    cells_of,
    excess_of,
    normal_mass,
    worst_divergence,
)

# Privacy losses of Gaussians on Poisson batches of which one record is replaced.
#
# P = p·N(μ, 1) + (1 - p)·N(0, 1) against Q = p·N(-μ, 1) + (1 - p)·N(0, 1): the loss is odd in z and grows
# with it. With c = e^(μ²/2)·(1 - p)/p it is log((c + e^(μz))/(c + e^(-μz))) (docs, "Theory", 20).


# The μ from which the parts are apart: e^(-μ²/8) is less than 1e-540.
APART = 100.0
_LARGE = 20.0  # sinh(x) is e^x/2 to 17 digits
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_PANELS = 40_000
_FARTHEST_LOSS = 5_000.0  # λμ: how far out modes are told apart by 2 000 places
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
_FAR = 700.0  # whose power of e is a double
_ONE = 20.0  # log of a moment beyond which it is far from 1


@dataclass(frozen=True)
class ReplacedLoss(Pair):
    """The pair of `mu` in (0, 100] and `p` in (0, 1)."""

    mu: float
    p: float

    symmetric = True

    def cells(self, edges: Array) -> LossCells:
        """The cells by quadrature, wide ones by differences of normal probabilities; of losses ≥ 0."""
        z = place_of(edges, self.mu, self.p)
        left, width = z[:-1], np.diff(z)
        size = width * (left + 2.0 * self.mu + 1.0)

        def quadrature(now: Indices, rule: Rule) -> tuple[Array, Array]:
            return self._by_quadrature(left[now], width[now], rule)

        def difference(wide: Indices) -> tuple[Array, Array]:
            return self._by_difference(left[wide], z[1:][wide], edges[:-1][wide])

        return cells_of(size, quadrature, difference)

    def _by_quadrature(self, left: Array, width: Array, rule: Rule) -> tuple[Array, Array]:
        mu, p = self.mu, self.p
        # The shares of the record's part in the two densities, at the left end.
        own = scipy.special.expit(mu * left - self._log_c)
        other = scipy.special.expit(-mu * left - self._log_c)
        step = rule.nodes[:, None] * width
        with np.errstate(under="ignore"):
            density = p * np.exp(-0.5 * np.square(left - mu)) + (1.0 - p) * np.exp(-0.5 * left**2)
            fall = np.exp(-step * (left + 0.5 * step))
        # P over `density` is (1 + grown)·fall, and P less e^l·Q, l the loss at the left end, is the rest.
        grown = own * np.expm1(mu * step)
        rest = grown - other * np.expm1(-mu * step)
        share = density * width / SQRT_2PI
        return rule.weights @ (fall * (1.0 + grown)) * share, rule.weights @ (fall * rest) * share

    def _by_difference(self, left: Array, right: Array, edges: Array) -> tuple[Array, Array]:
        mu, p = self.mu, self.p
        plain = (1.0 - p) * normal_mass(left, right)
        own, other = (p * normal_mass(left + m, right + m) for m in (-mu, mu))
        return own + plain, excess_of(own - other, edges, own=own + plain, other=other + plain)

    @property
    def _log_c(self) -> float:
        return log_c(self.mu, self.p)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y` ≥ 0."""
        mu, p = self.mu, self.p
        loss, end = np.array([y]), np.array([np.inf])
        z = place_of(loss, mu, p)
        own, other = (
            (1.0 - p) * normal_mass(z, end) + p * normal_mass(z + m, end) for m in (-mu, mu)
        )
        excess = excess_of(p * normal_mass(z - mu, z + mu), loss, own=own, other=other)
        return float(own[0]), float(excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, a loss above which is about the mass `tail`): losses below 0 follow from those above."""
        z = self.mu - float(scipy.special.ndtri(min(0.5, max(tail, 1e-305))))
        return 0.0, float(loss_at(np.array([z]), self.mu, self.p)[0])

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return _log_moment(self.mu, self.p, power)


def log_moments(mus: Array, p: float, power: float) -> Array:
    """log E e^(power·Y) for each of `mus` (m,) > 0, power > 0; where the parts are apart or p is 1, that of
    G(2μ), which is never less."""

    def one(mu: float) -> float:
        if p == 1.0 or mu > APART:
            return 2.0 * power * (power + 1.0) * mu * mu
        return _log_moment(mu, p, power)

    return np.array([one(mu) for mu in mus.tolist()])


def log_c(mu: float, p: float) -> float:
    """log of e^(μ²/2)·(1 - p)/p."""
    return 0.5 * mu * mu + math.log1p(-p) - math.log(p)


def place_of(losses: Array, mu: float, p: float) -> Array:
    """The z ≥ 0 of these losses ≥ 0: sinh(μz - y/2) = c·sinh(y/2), in logarithms."""
    half = 0.5 * losses
    with np.errstate(divide="ignore", under="ignore"):
        log_sinh = half + np.log(-0.5 * np.expm1(-2.0 * half))
        log_right = log_c(mu, p) + log_sinh
        small = np.arcsinh(np.exp(np.minimum(log_right, _LARGE)))
    return np.asarray((half + np.where(log_right > _LARGE, log_right + math.log(2.0), small)) / mu)


def loss_at(z: Array, mu: float, p: float) -> Array:
    """The loss at `z` ≥ 0: log1p of (e^(μz) - e^(-μz))/(c + e^(-μz))."""
    log_size = np.log(-np.expm1(-2.0 * mu * z)) + mu * z - np.logaddexp(log_c(mu, p), -mu * z)
    return np.asarray(np.logaddexp(0.0, log_size))


@lru_cache(maxsize=65536)
def _log_moment(mu: float, p: float, power: float) -> float:
    """log E_P e^(λY) of the pair, λ = `power` > 0.

    Beyond 1 it is the integral over z > 0 of Q·(1 - e^(-λY))·(e^((λ + 1)Y) - 1), which has no negative part.
    Where it lies too far out for the nodes it is that of G(2μ), which is never less.
    """
    if power * mu > _FARTHEST_LOSS:
        return 2.0 * power * (power + 1.0) * mu * mu
    z, weight = _nodes(mu, p, power)
    y, log_q = loss_at(z, mu, p), _log_q(z, mu, p)
    low = np.minimum((power + 1.0) * y, _FAR)
    with np.errstate(divide="ignore"):
        rise = np.where((power + 1.0) * y > _ONE, (power + 1.0) * y, np.log(np.expm1(low)))
        exponent = log_q + rise + np.log(-np.expm1(-power * y))
    top = float(exponent.max())
    if top == -math.inf:
        return 0.0  # less than the square of the least double
    with np.errstate(under="ignore"):
        log_more = top + math.log(float(weight @ np.exp(exponent - top)))
    return float(np.logaddexp(0.0, log_more)) if log_more > -1.0 else math.log1p(math.exp(log_more))


def _log_q(z: Array, mu: float, p: float) -> Array:
    """log of Q's density over that of N(0, 1) at 0."""
    with np.errstate(under="ignore"):
        share = (1.0 - p) + p * np.exp(-mu * z - 0.5 * mu * mu)
    return np.asarray(np.log(share) - 0.5 * z * z)


def _nodes(mu: float, p: float, power: float) -> tuple[Array, Array]:
    """Nodes and weights (over √2π) of panels that cover where the integrand matters."""
    far = (1.0 + 2.0 * power) * mu + 40.0
    scan = np.unique(np.concatenate([np.linspace(0.0, 40.0, 400), np.linspace(0.0, far, 2000)]))[1:]
    exponent = (power + 1.0) * loss_at(scan, mu, p) + _log_q(scan, mu, p)
    near = np.flatnonzero(exponent >= max(0.0, float(exponent.max())) - _MATTERS)
    begin = float(scan[near[0] - 1]) if near[0] > 0 else 0.0
    end = float(scan[min(near[-1] + 1, scan.size - 1)])
    panels = min(_MOST_PANELS, max(16, math.ceil((end - begin) * max(1.0, 2.0 * mu))))
    half = 0.5 * (end - begin) / panels
    left = begin + 2.0 * half * np.arange(panels)
    return (left[:, None] + half * (1.0 + _NODES)).ravel(), np.tile(
        half * _WEIGHTS, panels
    ) / SQRT_2PI


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
