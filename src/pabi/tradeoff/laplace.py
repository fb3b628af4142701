"""The Laplace mechanism, on all records or on a Poisson batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from flint import arb, ctx, fmpq

from pabi.numbers import gaussian
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array
from pabi.numbers.validate import NONNEGATIVE, SHARE, keep, number
from pabi.numbers.vectorised import FLOOR, both_signs
from pabi.tradeoff.base import Orientation, TradeOff, support_lines, supported
from pabi.tradeoff.law import Labelled
from pabi.tradeoff.pairs import (
    BEYOND,
    LARGE,
    LARGEST_EXPONENT,
    Discrete,
    LossCells,
    Pair,
    convex_part,
    order_above,
    undrawn,
    worst_divergence,
)

# Privacy losses of the Laplace mechanism, of all records or of a Poisson batch.
#
# The pair of distance ε is A = Lap(0), B = Lap(ε) with densities e^-|x|/2. Its loss has atoms at ±ε and
# the density e^((y-ε)/2)/4 in between. Of a batch that holds the record with probability p, P = p·A + (1
# - p)·B and Q = B: a loss of y becomes log(1 - p + p·e^y), and the excess of a cell p times what it was
# (docs, "Theory", 20).


_VAST = 300.0  # beyond which a loss serves no reader: e^300 is far from the largest double
_NEAR = 1e-2  # |x| up to which e^x - 1 - x is summed as a series
_TERMS = 9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_MOST_PANELS = 20_000
_FAR = 20.0  # log of a power beyond which the sum is far from 1


class _Masses(NamedTuple):
    """Of every cell the masses under A and B, A - e^left·B and B - e^-right·A, each computed by itself."""

    a: Array
    b: Array
    above_left: Array
    below_right: Array


def _masses(epsilon: float, edges: Array) -> _Masses:
    """The cells of losses of (A, B) between finite increasing edges, in closed form."""
    inner = np.clip(edges, -epsilon, epsilon)
    left, right, width = inner[:-1], inner[1:], np.diff(inner)
    a, b = np.exp(0.5 * (left - epsilon)), np.exp(-0.5 * (right + epsilon))
    mass, excess = 0.5 * np.expm1(0.5 * width), 2.0 * np.square(np.sinh(0.25 * width))
    # Relative to the ends of the support, where these lie within the cell.
    low = np.expm1(np.minimum(edges[:-1] - left, 0.0))
    high = np.expm1(np.minimum(right - edges[1:], 0.0))
    masses = _Masses(
        a=a * mass,
        b=b * mass,
        above_left=a * ((1.0 + low) * excess - low * mass),
        below_right=b * ((1.0 + high) * excess - high * mass),
    )
    for loss, of_a in ((-epsilon, 0.5 * math.exp(-epsilon)), (epsilon, 0.5)):
        i = int(np.searchsorted(edges, loss, side="right")) - 1
        if 0 <= i < width.size:
            of_b = of_a * math.exp(-loss)
            masses.a[i] += of_a
            masses.b[i] += of_b
            masses.above_left[i] -= of_a * math.expm1(float(edges[i]) - loss)
            masses.below_right[i] -= of_b * math.expm1(loss - float(edges[i + 1]))
    return masses


class _LaplacePair(Pair):
    """A pair of Laplace distributions, on which all losses are finite."""

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses from `y` on: of the cell to a little above the largest one."""
        if y > self.most:
            return 0.0, 0.0
        cell = self.cells(np.array([y, self.most + BEYOND * (1.0 + abs(self.most))]))
        return float(cell.mass[0]), float(cell.excess[0])


@dataclass(frozen=True)
class LaplaceLoss(_LaplacePair):
    """The pair (A, B) of distance `epsilon` > 0."""

    epsilon: float

    @property
    def most(self) -> float:
        """The largest loss, ε."""
        return self.epsilon

    top = 0.5  # P(Y = ε)

    @property
    def simplified(self) -> Pair:
        """That of ε = ∞, which reveals everything, from a loss of 300 on."""
        return self if self.epsilon <= _VAST else Labelled((math.inf,), (1.0,))

    def cells(self, edges: Array) -> LossCells:
        """The cells in closed form."""
        masses = _masses(self.epsilon, edges)
        return LossCells(masses.a, masses.above_left)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(-ε, ε), whatever the tail."""
        return -self.epsilon, self.epsilon

    def finite_log_moment(self, power: float) -> float:
        """log of ((λ + 1)·e^(λε) + λ·e^(-(λ + 1)ε))/(2λ + 1), λ = `power`."""
        e, both = self.epsilon, 2.0 * power + 1.0
        if power * e < 1.0:
            # (λ + 1)·λε and λ·(λ + 1)ε cancel: what is left are two positive terms.
            parts = (power + 1.0) * _beyond_tangent(power * e)
            parts += power * _beyond_tangent(-(power + 1.0) * e)
            return math.log1p(parts / both)
        return power * e + math.log1p(power * math.expm1(-both * e) / both)


@dataclass(frozen=True)
class SampledLaplace(_LaplacePair):
    """P = p·A + (1 - p)·B against Q = B, of `probability` p in (0, 1)."""

    epsilon: float
    probability: float

    @property
    def most(self) -> float:
        """The largest loss, log(1 - p + p·e^ε)."""
        return sampled_loss(self.epsilon, self.probability)

    @property
    def top(self) -> float:
        """The mass of the largest loss: half of A's, and B's."""
        p = self.probability
        return 0.5 * p + 0.5 * (1.0 - p) * math.exp(-self.epsilon)

    @property
    def edge(self) -> float:
        """The least loss, where half of Q's mass lies."""
        return sampled_loss(-self.epsilon, self.probability)

    @property
    def simplified(self) -> Pair:
        """That of ε = ∞, where the record is not drawn or seen, from a loss of 300 on."""
        if self.epsilon <= _VAST:
            return self
        p = self.probability
        return Discrete(np.array([math.log1p(-p)]), np.array([1.0 - p]), p)

    def cells(self, edges: Array) -> LossCells:
        """P has p·A + (1 - p)·B, and P - e^l·Q is p·(A - e^y·B), y the loss of (A, B) at l."""
        p, places = self.probability, self.places(edges)
        masses = _masses(self.epsilon, places)
        # What a cell has beside that where it begins below the support.
        short = np.maximum((1.0 - p) + p * np.exp(places[:-1]) - np.exp(edges[:-1]), 0.0)
        more = np.where(places[:-1] < -self.epsilon, short * masses.b, 0.0)
        return LossCells(p * masses.a + (1.0 - p) * masses.b, p * masses.above_left + more)

    def places(self, edges: Array) -> Array:
        """The losses of (A, B) at these losses; outside of the support a little more than ε from 0."""
        p, e = self.probability, self.epsilon
        with np.errstate(divide="ignore", invalid="ignore"):
            grown, least = np.expm1(np.minimum(edges, LARGE)) / p, math.log1p(-p)
            # e^l and 1 - p cancel near the least loss.
            left = np.log(np.expm1(np.maximum(edges - least, 0.0)))
            small = np.log1p(np.maximum(grown, -1.0))
            small = np.where(grown < -0.5, least + left - math.log(p), small)
            large = edges - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(edges, 1.0)))
        outside = e + BEYOND * (1.0 + e)
        return np.clip(np.where(edges > LARGE, large, small), -outside, outside)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(the least, the largest) loss, whatever the tail."""
        return self.edge, self.most

    def finite_log_moment(self, power: float) -> float:
        """log E_P L^λ = log E_Q L^(1 + λ), λ = `power`."""
        share, exact = order_above(power)
        return share * _log_power(self.epsilon, self.probability, 1.0 + exact)


@dataclass(frozen=True)
class TurnedLaplace(_LaplacePair):
    """(Q, P) of a sampled Laplace pair."""

    pair: SampledLaplace

    @property
    def most(self) -> float:
        """The largest loss, -log(1 - p + p·e^-ε)."""
        return -self.pair.edge

    top = 0.5  # Q's mass where the loss of the pair is least

    @property
    def edge(self) -> float:
        """The largest loss, of which half of Q's mass is."""
        return self.most

    @property
    def simplified(self) -> Pair:
        """That of ε = ∞, whose loss is the largest."""
        if self.pair.epsilon <= _VAST:
            return self
        return Discrete(np.array([-math.log1p(-self.pair.probability)]), np.array([1.0]))

    def cells(self, edges: Array) -> LossCells:
        """Of the mirrored cells Q has B, and Q - e^-r·P is p·e^(y - r)·(B - e^-y·A), y the loss at r."""
        p, mirrored = self.pair.probability, -edges[::-1]
        places = self.pair.places(mirrored)
        masses = _masses(self.pair.epsilon, places)
        right, top = mirrored[1:], places[1:]
        excess = p * np.exp(np.minimum(top - right, LARGEST_EXPONENT)) * masses.below_right
        # What a cell has beside that where it ends above the support.
        with np.errstate(over="ignore"):
            short = -np.expm1(np.log((1.0 - p) + p * np.exp(top)) - right)
        more = np.where(top > self.pair.epsilon, np.maximum(short, 0.0) * masses.b, 0.0)
        return LossCells(masses.b[::-1], (excess + more)[::-1])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(the least, the largest) loss, whatever the tail."""
        return -self.pair.most, self.most

    def finite_log_moment(self, power: float) -> float:
        """log E_Q L^-λ, λ = `power`."""
        return _log_power(self.pair.epsilon, self.pair.probability, -power)


def sampled_loss(y: float, p: float) -> float:
    """log(1 - p + p·e^y), p in (0, 1]."""
    return y if p == 1.0 else float(_sampled_losses(np.array([y]), p)[0])


def _sampled_losses(y: Array, p: float) -> Array:
    """The same of every y, p < 1, with all digits: also where e^y is large and p·e^y small."""
    grown = p * np.expm1(np.minimum(y, LARGEST_EXPONENT))
    near = np.where(
        grown > -0.5,
        np.log1p(np.maximum(grown, -0.5)),
        np.log((1.0 - p) + p * np.exp(np.minimum(y, 0.0))),
    )
    with np.errstate(under="ignore"):
        far = np.logaddexp(0.0, y + math.log(p))  # beside e^y, 1 - p is 1
    return np.where(y > LARGEST_EXPONENT, far, near)


def _beyond_tangent(x: float) -> float:
    """e^x - 1 - x, by its series where it would cancel."""
    if abs(x) > _NEAR:
        return math.expm1(x) - x
    return math.fsum(x**k / math.factorial(k) for k in range(2, _TERMS))


@lru_cache(maxsize=65536)
def _log_power(epsilon: float, p: float, order: float) -> float:
    """log E_Q L^a of a sampled Laplace pair, `order` a any real but 0 and 1; ∞ on overflow.

    Q has the atoms 1/2 and e^-ε/2 at the ends and the density e^((-y-ε)/2)/4 between: by quadrature.
    """
    panels = min(_MOST_PANELS, max(4, math.ceil(epsilon * (1.0 + abs(order)))))
    half = epsilon / panels
    left = -epsilon + 2.0 * half * np.arange(panels)
    inner = (left[:, None] + half * (1.0 + _NODES)).ravel()
    y = np.concatenate([[-epsilon, epsilon], inner])
    density = -0.5 * (inner + epsilon) + np.log(0.25 * np.tile(half * _WEIGHTS, panels))
    # The weights themselves may be no doubles where powers of the ratio still count.
    log_weight = np.concatenate([np.log(0.5) - np.array([0.0, epsilon]), density])
    ratio = _sampled_losses(y, p)
    exponent = order * ratio + log_weight
    top = float(exponent.max())
    if top > _FAR:
        with np.errstate(under="ignore"):
            return top + math.log(float(np.exp(exponent - top).sum()))
    # E_Q L = 1, so that the tangent of L^a at 1 may be taken off; of great powers their difference is.
    far = np.abs(order * ratio) > _FAR
    near = np.where(far, 0.0, ratio)
    with np.errstate(under="ignore"):
        weight = np.exp(log_weight)
    terms = weight * convex_part(np.expm1(near), near, order)
    with np.errstate(under="ignore"):
        plain, power = np.exp(ratio + log_weight), (order - 1.0) * ratio
    great = np.exp(exponent) - order * plain
    if order > 1.0:  # the two are close to each other where the order is near 1
        close = plain * (np.expm1(np.minimum(power, 1.0)) - (order - 1.0))
        great = np.where(power < 1.0, close, great)
    return math.log1p(float(np.where(far, great + (order - 1.0) * weight, terms).sum()))


_LEAST = 1e-290  # grids finer than that leave the range of doubles; a larger ε is sound
_BITS = 400  # of ball arithmetic: no answer here is wider than one double
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
        keep(
            self,
            epsilon_0=NONNEGATIVE("epsilon", epsilon),
            probability=SHARE("probability", probability),
        )

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
            return gaussian.upper(_sampled(arb(self.epsilon_0), self.probability))

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
            return max(0.0, gaussian.lower(root)), min(self._most, gaussian.upper(root))

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
                at = np.clip(at, 0.0, min(self.epsilon_0, LARGEST_EXPONENT))
                result = np.maximum(result, support_lines(alpha, at, self._delta_array(at)))
        else:
            grid = np.linspace(0.0, min(self._most, LARGEST_EXPONENT), _POINTS)
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
            return min(1.0, max(0.0, gaussian.upper(value)))

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
        largest = self.epsilon_0 * (1.0 + EIGHT_ROUNDINGS)
        gap = np.minimum(0.5 * (undrawn(size, p) - largest), 0.0)
        value = -p * np.expm1(gap) * (1.0 + EIGHT_ROUNDINGS) + FLOOR
        beyond = size >= sampled_loss(self.epsilon_0, p) * (1.0 + EIGHT_ROUNDINGS) + _PROFILE
        return both_signs(epsilon, np.where(beyond, 0.0, np.minimum(1.0, value)))


def _sampled(inner: Any, p: float) -> Any:
    """A ball of log(1 + p·(e^y - 1)), `inner` one of y ≥ 0."""
    return (arb(p) * inner.expm1()).log1p() if p < 1.0 else inner
