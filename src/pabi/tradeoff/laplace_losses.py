"""Privacy losses of the Laplace mechanism, of all records or of a Poisson batch.

The pair of distance ε is A = Lap(0), B = Lap(ε) with densities e^-|x|/2. Its loss has atoms at ±ε and the
density e^((y-ε)/2)/4 in between. Of a batch that holds the record with probability p, P = p·A + (1 - p)·B
and Q = B: a loss of y becomes log(1 - p + p·e^y), and the excess of a cell p times what it was (docs,
"Theory", 20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    BEYOND,
    Discrete,
    LossCells,
    Pair,
    convex_part,
    turned_cells,
)

_LARGE = 30.0  # e^30 + 1 is e^30 to 13 digits
_NEAR = 1e-2  # |x| up to which e^x - 1 - x is summed as a series
_TERMS = 9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_MOST_PANELS = 20_000
_FAR = 20.0  # log of a power beyond which the sum is far from 1


@dataclass(frozen=True)
class LaplaceLoss(Pair):
    """The pair (A, B) of distance `epsilon` > 0."""

    epsilon: float

    @property
    def most(self) -> float:
        """The largest loss, ε."""
        return self.epsilon

    @property
    def top(self) -> float:
        """P(Y = ε), one half."""
        return 0.5

    @cached_property
    def _atoms(self) -> Discrete:
        values = np.array([-self.epsilon, self.epsilon])
        return Discrete(values, np.array([0.5 * math.exp(-self.epsilon), 0.5]))

    def cells(self, edges: Array) -> LossCells:
        """The cells in closed form, those of the atoms added."""
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        left, width = inner[:-1], np.diff(inner)
        level = np.exp(0.5 * (left - self.epsilon))
        mass = 0.5 * level * np.expm1(0.5 * width)
        # Relative to the end of the support, where that lies within the cell.
        short = np.expm1(np.minimum(edges[:-1] - left, 0.0))
        excess = level * 2.0 * np.square(np.sinh(0.25 * width))
        excess = (1.0 + short) * excess - short * mass
        atoms = self._atoms.cells(edges)
        return LossCells(mass + atoms.mass, np.where(width > 0.0, excess, 0.0) + atoms.excess)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses from `y` on."""
        if y > self.epsilon:
            return 0.0, 0.0
        cell = self.cells(np.array([y, self.epsilon + BEYOND * (1.0 + self.epsilon)]))
        return float(cell.mass[0]), float(cell.excess[0])

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
class SampledLaplace(Pair):
    """P = p·A + (1 - p)·B against Q = B, of `probability` p in (0, 1)."""

    epsilon: float
    probability: float

    @property
    def most(self) -> float:
        """The largest loss, log(1 - p + p·e^ε)."""
        return sampled_loss(self.epsilon, self.probability)

    @property
    def top(self) -> float:
        """The mass of the largest loss: half of P's own, and Q's."""
        p = self.probability
        return 0.5 * p + 0.5 * (1.0 - p) * math.exp(-self.epsilon)

    def cells(self, edges: Array) -> LossCells:
        """Of a cell of (A, B): P has p·mass + (1 - p)·Q, and the excess is p times its own."""
        places = self._places(edges)
        mass, excess = LaplaceLoss(self.epsilon).cells(places)
        under_q = np.exp(-places[:-1]) * (mass - excess)
        return LossCells(
            self.probability * mass + (1.0 - self.probability) * under_q,
            self._own(edges, mass, excess),
        )

    def _places(self, edges: Array) -> Array:
        """The loss of (A, B) at these losses; below the support a little less than -ε."""
        p, e = self.probability, self.epsilon
        with np.errstate(divide="ignore", invalid="ignore"):
            small = np.log1p(np.maximum(np.expm1(np.minimum(edges, _LARGE)) / p, -1.0))
            large = edges - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(edges, 1.0)))
        outside = e + BEYOND * (1.0 + e)
        return np.clip(np.where(edges > _LARGE, large, small), -outside, outside)

    def _own(self, edges: Array, mass: Array, excess: Array) -> Array:
        """P(cell) - e^l·Q(cell), where the cell begins below the support as well."""
        p, places = self.probability, self._places(edges)[:-1]
        # e^l of the cell, over 1 - p + p·e^y of its place: 1, or less where the place was cut off.
        with np.errstate(over="ignore"):
            level = np.exp(edges[:-1])
            there = (1.0 - p) + p * np.exp(places)
        under_q = np.exp(-places) * (mass - excess)
        return np.asarray(
            p * excess + np.maximum(there - level, 0.0) * under_q * (places < -self.epsilon)
        )

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses from `y` on."""
        if y > self.most:
            return 0.0, 0.0
        cell = self.cells(np.array([y, self.most + BEYOND * (1.0 + self.most)]))
        return float(cell.mass[0]), float(cell.excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(the least, the largest) loss, whatever the tail."""
        return sampled_loss(-self.epsilon, self.probability), self.most

    def finite_log_moment(self, power: float) -> float:
        """log E_P L^λ = log E_Q L^(1 + λ), λ = `power`."""
        return _log_power(self.epsilon, self.probability, 1.0 + power)


@dataclass(frozen=True)
class TurnedLaplace(Pair):
    """(Q, P) of a sampled Laplace pair."""

    pair: SampledLaplace

    @property
    def most(self) -> float:
        """The largest loss, -log(1 - p + p·e^-ε)."""
        return -sampled_loss(-self.pair.epsilon, self.pair.probability)

    @property
    def top(self) -> float:
        """Q's mass where the loss of the pair is least, one half."""
        return 0.5

    def cells(self, edges: Array) -> LossCells:
        """The cells of the pair at the negated edges, weighted by e^-Y."""
        return turned_cells(self.pair, edges)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses from `y` on."""
        if y > self.most:
            return 0.0, 0.0
        cell = self.cells(np.array([y, self.most + BEYOND * (1.0 + self.most)]))
        return float(cell.mass[0]), float(cell.excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(the least, the largest) loss, whatever the tail."""
        return -self.pair.most, self.most

    def finite_log_moment(self, power: float) -> float:
        """log E_Q L^-λ, λ = `power`."""
        return _log_power(self.pair.epsilon, self.pair.probability, -power)


def sampled_loss(y: float, p: float) -> float:
    """log(1 - p + p·e^y), p in (0, 1]."""
    if y > _LARGE:
        return y + math.log(p + (1.0 - p) * math.exp(-y))
    return math.log1p(p * math.expm1(y)) if p < 1.0 else y


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
    density = 0.25 * np.exp(-0.5 * (inner + epsilon)) * np.tile(half * _WEIGHTS, panels)
    weight = np.concatenate([[0.5, 0.5 * math.exp(-epsilon)], density])
    near = np.log1p(p * np.expm1(np.minimum(y, _LARGE)))
    with np.errstate(under="ignore"):
        far = y + np.log(p + (1.0 - p) * np.exp(-np.maximum(y, _LARGE)))
    ratio = np.where(y > _LARGE, far, near)
    exponent = order * ratio + np.log(weight)
    top = float(exponent.max())
    if float(np.abs(order * ratio).max()) > _FAR:
        with np.errstate(under="ignore"):
            return top + math.log(float(np.exp(exponent - top).sum()))
    # E_Q L = 1, so that the tangent of L^a at 1 may be taken off.
    return math.log1p(float(weight @ convex_part(np.expm1(ratio), ratio, order)))
