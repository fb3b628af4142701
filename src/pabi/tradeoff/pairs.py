"""Privacy losses: the law of Y = log dP/dQ under P, for the pairs that dominate a mechanism.

With h(α) = E(1 - α·e^-Y)⁺ the hockey-stick divergence is δ(ε) = h(e^ε), and losses of independent
releases add. What a discretisation needs of a pair are its cells: for an interval [l, r] of losses

    mass = P(l < Y < r),    excess = E[1 - e^(l-Y); l < Y < r] = mass - e^l·Q(l < Y < r),

the excess without cancellation, because it is what decides between the two ends of the interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import scipy  # its parts are loaded on first use
from numpy.typing import NDArray

from pabi.numbers.rounding import EIGHT_ROUNDINGS, HALF_ULP, MANY_ROUNDINGS, THREE_ROUNDINGS, Array

SQRT_2PI = math.sqrt(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
MOMENT = 1e-8  # relative: more than the quadrature of a moment errs
_UNDERFLOW = 1e-320  # absolute: covers what underflow takes
BEYOND = 1e-9  # relative: the edge of a cell that holds the largest loss despite rounding
# e^30 ± 1 is e^30 to 13 digits: beyond it logarithms of sums are taken in another form.
LARGE = 30.0
LARGEST_EXPONENT = 700.0  # whose power of e is a double
_LONG = 1.0  # of a cell, in nats
_OVERFLOWS = 600.0  # nats: the square of a density times a power of e beyond it is no double
_SERIES, _SERIES_TERMS = 2.0, 13  # up to x the terms of sinh x/x beyond x^24 are less than an ulp
_SUM = 4e-15  # relative: more than a sum of probabilities and their own rounding err


Indices: TypeAlias = NDArray[np.intp]


class LossCells(NamedTuple):
    """Mass and excess of every interval between consecutive edges."""

    mass: Array
    excess: Array


class Rule(NamedTuple):
    """Gauss-Legendre nodes and weights on [0, 1], and the width·(|z| + μ + 1) up to which they are exact to a
    few ulps."""

    limit: float
    nodes: Array
    weights: Array


def _rule(limit: float, count: int) -> Rule:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return Rule(limit, 0.5 * (1.0 + nodes), 0.5 * weights)


_AT_ONCE = 4096  # cells in one quadrature, all nodes of which stand in one array
_RULES = _rule(0.06, 4), _rule(0.5, 6), _rule(2.0, 10)


def cells_of(
    size: Array,
    quadrature: Callable[[Indices, Rule], tuple[Array, Array]],
    difference: Callable[[Indices], tuple[Array, Array]],
) -> LossCells:
    """Cells of which the narrow ones are found by quadrature, the others by differences of probabilities.

    `size` (k,): width·(|z| + μ + 1) of each. Both functions return (mass, excess) of the cells of these
    indices, which for a quadrature are not many at a time.
    """
    mass, excess = np.zeros(size.size), np.zeros(size.size)
    wide = np.ones(size.size, dtype=bool)
    for rule in _RULES:
        now = np.flatnonzero(wide & (size <= rule.limit))
        for part in (now[i : i + _AT_ONCE] for i in range(0, now.size, _AT_ONCE)):
            mass[part], excess[part] = quadrature(part, rule)
        wide[now] = False
    if wide.any():
        rest = np.flatnonzero(wide)
        mass[rest], excess[rest] = difference(rest)
    return LossCells(mass, excess)


class Masses(NamedTuple):
    """Masses of losses under P and under Q, and their difference without cancellation."""

    p: Array
    q: Array
    gap: Array


def mirrored(
    cells: Callable[[Array], LossCells], masses: Callable[[Array, Array], Masses], edges: Array
) -> LossCells:
    """The cells of (Q, P) from those of (P, Q) at the negated edges, weighted by e^-Y; long ones, in which Q
    is lost in the rounding of P, by their `masses` between such losses."""
    ends = -edges[::-1]
    mass, excess = cells(ends)
    left, width = ends[:-1], np.diff(ends)
    # Mirrored, the mass is Q's, and the excess what is left of P's over the other end.
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.exp(np.where(mass > 0.0, -left, 0.0))
        own, rest = scale * (mass - excess), scale * (mass * -np.expm1(-width) - excess)
    if (far := width > _LONG).any():
        p, own[far], gap = masses(left[far], ends[1:][far])
        rest[far] = excess_of(-gap, -ends[1:][far], own=own[far], other=p)
    return LossCells(own[::-1], np.maximum(rest, 0.0)[::-1])


class Pair(ABC):
    """A pair (P, Q), by its privacy loss. Immutable and hashable."""

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same loss: then only losses ≥ 0 need to be known."""
        return False

    @property
    def infinity(self) -> float:
        """P(Y = ∞), in [0, 1]."""
        return 0.0

    @property
    def atom(self) -> float:
        """P(Y = 0), only where the pair is symmetric (others have their atoms in the cells)."""
        return 0.0

    @property
    def most(self) -> float:
        """The largest possible finite loss."""
        return math.inf

    @property
    def top(self) -> float:
        """P(Y = the largest finite loss), or less."""
        return 0.0

    @property
    def raised(self) -> float:
        """By how much its losses may be above the true ones, beyond rounding."""
        return 0.0

    @property
    def edge(self) -> float | None:
        """The loss, as a rule an end of the support, at which much of the mass may lie, close together."""
        return None

    @property
    def simplified(self) -> Pair:
        """This pair; or where losses are so large that a grid serves no reader, one that reveals no
        less and has them infinite."""
        return self

    def log_moment(self, power: float) -> float:
        """log E e^(power·Y) for `power` > 0: power times the Rényi divergence of 1 + power."""
        return math.inf if self.infinity > 0.0 else self.finite_log_moment(power)

    @abstractmethod
    def cells(self, edges: Array) -> LossCells:
        """The cells between finite increasing edges; of losses ≥ 0 only if the pair is symmetric."""

    @abstractmethod
    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the finite losses above `y`."""

    @abstractmethod
    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high): `above(high)` has excess ≤ `tail`, and raising all losses to `low` raises their
        mean by about `slack` or less."""

    @abstractmethod
    def finite_log_moment(self, power: float) -> float:
        """log E[e^(power·Y); Y < ∞] for `power` > 0, to 1e-12."""

    @classmethod
    def finite_log_moments(cls, pairs: Sequence[Self], power: float) -> list[float]:
        """Those of many pairs of one kind."""
        return [pair.finite_log_moment(power) for pair in pairs]


@dataclass(frozen=True)
class ExponentialLoss(Pair):
    """Bounded range: Y has density e^((y-ε)/2)/(2(1 - e^-ε)) on (-ε, ε)."""

    epsilon: float

    symmetric = True

    @property
    def most(self) -> float:
        """The largest possible loss, ε."""
        return self.epsilon

    def cells(self, edges: Array) -> LossCells:
        """The cells in closed form, empty above ε."""
        edges = np.minimum(edges, self.epsilon)
        # From the right end, at which nothing overflows; a square would underflow where ε is tiny.
        part = -np.expm1(-0.5 * np.diff(edges))
        mass = np.exp(0.5 * (edges[1:] - self.epsilon)) * (part / -math.expm1(-self.epsilon))
        return LossCells(mass, mass * part)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the cell from `y` to ε."""
        if y >= self.epsilon:
            return 0.0, 0.0
        cell = self.cells(np.array([y, self.epsilon]))
        return float(cell.mass[0]), float(cell.excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, ε), whatever the tail."""
        return 0.0, self.epsilon

    def finite_log_moment(self, power: float) -> float:
        """log of E e^(λY) = (sinh x/x)/(sinh y/y), x = (λ + 1/2)ε, y = ε/2, λ = `power`; rounded up."""
        e, shift = self.epsilon, power * self.epsilon
        x, y = shift + 0.5 * e, 0.5 * e
        if x < _SERIES:
            # Σ (x^2k - y^2k)/(2k + 1)! is what sinh x/x has more, and no term is negative.
            square, least = x * x, y * y
            more, first = shift * (power + 1.0) * e, least
            gap, total = more, more / 6.0
            for k in range(2, _SERIES_TERMS):
                gap, first = square * gap + first * more, first * least
                total += gap / math.factorial(2 * k + 1)
            value = math.log1p(total * (y / math.sinh(y) if y > 0.0 else 1.0))
        else:
            rise = -math.expm1(-2.0 * shift) * math.exp(-e) / -math.expm1(-e)
            value = shift + math.log1p(rise) - math.log1p(2.0 * power)
        return value * (1.0 + MANY_ROUNDINGS) + _UNDERFLOW


@dataclass(frozen=True, eq=False)
class Discrete(Pair):
    """Finitely many losses `values` (increasing) of probabilities `masses`, and that of ∞, `infinity`;
    by up to `raised` the losses are above the true ones."""

    values: Array
    masses: Array
    infinity: float = 0.0
    raised: float = 0.0

    def cells(self, edges: Array) -> LossCells:
        """The cells by counting; an atom on an edge is in the cell on its right, where its excess is 0."""
        index = np.searchsorted(edges, self.values, side="right") - 1
        inside = (index >= 0) & (index < edges.size - 1)
        index, masses = index[inside], self.masses[inside]
        share = -np.expm1(edges[index] - self.values[inside])
        count = edges.size - 1
        return LossCells(
            np.bincount(index, masses, count).astype(np.float64),
            np.bincount(index, masses * share, count).astype(np.float64),
        )

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the finite losses from `y` on."""
        high = self.values >= y
        masses = self.masses[high]
        return float(masses.sum()), float(masses @ -np.expm1(y - self.values[high]))

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(the least, the largest) finite loss, whatever the tail."""
        return float(self.values[0]), float(self.values[-1])

    @property
    def most(self) -> float:
        """The largest finite loss."""
        return float(self.values[-1])

    @property
    def top(self) -> float:
        """The mass of the largest finite loss."""
        return float(self.masses[-1])

    def finite_log_moment(self, power: float) -> float:
        """log E[e^(power·Y); Y < ∞] by its sum, rounded up."""
        scaled = power * self.values
        top = float(scaled.max())
        if -1.0 < top < _OVERFLOWS:
            terms = self.masses * np.expm1(scaled)
            total = float(terms.sum()) - self.infinity
            total += float(np.abs(terms) @ (_SUM + THREE_ROUNDINGS * np.abs(scaled)))
            return math.log1p(total) if total > -1.0 else -math.inf
        total = float(self.masses @ np.exp(scaled - top))
        return top + math.log(total) if total > 0.0 else -math.inf


class Response(Discrete):
    """Randomised response, or nothing hidden: the losses -ε and ε, and that of ∞, `infinity`."""

    def finite_log_moment(self, power: float) -> float:
        """log of (1 - infinity)·cosh((λ + 1/2)ε)/cosh(ε/2), λ = `power`, rounded up: the two masses
        differ by less than their roundings where ε is small."""
        e, shift = self.most, power * self.most
        # cosh x - cosh y = 2·sinh((x + y)/2)·sinh((x - y)/2), over e^x and e^y.
        rise = math.expm1(-shift) * math.expm1(-(power + 1.0) * e) / (1.0 + math.exp(-e))
        low = math.log1p(-self.infinity) if self.infinity < 1.0 else -math.inf
        if shift < 1.0:
            value = math.log1p(rise * math.exp(shift))
        else:
            far = math.exp(-(2.0 * power + 1.0) * e)
            value = shift + math.log1p(far) - math.log1p(math.exp(-e))
        return value * (1.0 + MANY_ROUNDINGS) + _UNDERFLOW + low * (1.0 - THREE_ROUNDINGS)


def normal_mass(left: Array, right: Array) -> Array:
    """P(left < Z < right) of a standard normal Z, elementwise, from the nearer tail."""
    flip = left > 0.0
    a, b = np.where(flip, -right, left), np.where(flip, -left, right)
    mass = np.asarray(scipy.special.ndtr(b) - scipy.special.ndtr(a))
    around = (a < 0.0) & (b > 0.0)  # 0, from where both halves are measured
    if around.any():
        low, high = scipy.special.erf(np.stack([a, b])[:, around] * _SQRT_HALF)
        mass[around] = 0.5 * (high - low)
    return np.asarray(np.maximum(mass, 0.0))


def short_mass(left: Array, width: float) -> Array:
    """P(left < Z < left + width) of a standard normal Z, `width` at most 1e-3, where differences cancel."""
    z = left + width * _RULES[0].nodes[:, None]
    return np.asarray(_RULES[0].weights @ np.exp(-0.5 * z * z) * width / SQRT_2PI)


def excess_of(gap: Array, loss: Array, *, own: Array, other: Array) -> Array:
    """P - e^loss·Q of masses `own` of P and `other` of Q, whose difference is `gap`: it keeps its digits
    where P and Q are nearly the same."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        near = np.expm1(np.minimum(loss, LARGE)) * other
        far = np.exp(loss + np.log(other)) - other  # whose power of e alone may be no double
    return np.clip(gap - np.where(loss > LARGE, far, near), 0.0, own)


def undrawn(loss: Array, p: float) -> Array:
    """log(1 + (e^y - 1)/p), rounded down, at losses y ≥ 0 of a pair that is drawn with probability p:
    what they would be of one that is always drawn."""
    with np.errstate(over="ignore", under="ignore"):
        near = np.log1p(np.expm1(np.minimum(loss, LARGE)) / p)
        far = loss - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(loss, 1.0)))
        near = np.minimum(near, LARGEST_EXPONENT)  # of quotients that overflow
        return np.asarray(np.where(loss > LARGE, far, near) * (1.0 - EIGHT_ROUNDINGS))


# Moments.


def worst_divergence(log_moments: Iterable[float], power: float) -> float:
    """The largest of the Rényi divergences of order 1 + `power` > 1 whose losses have these log moments.

    It is rounded up past the errors of quadrature.
    """
    moments = list(log_moments)
    worst = math.inf if any(map(math.isnan, moments)) else max(moments)  # nothing is known of ∞ - ∞
    return worst / power * (1.0 + MOMENT) + _UNDERFLOW if worst > 0.0 else 0.0


def order_above(power: float) -> tuple[float, float]:
    """(s, λ') with K(λ) ≤ s·K(λ') for convex K that are 0 at 0, λ = `power`: where 1 + λ would lose digits
    of λ, the next λ' that keeps them."""
    if not 0.0 < power < 1.0:
        return 1.0, power
    exact = (1.0 + power) - 1.0
    exact = exact if exact >= power else exact + 2.0 * HALF_ULP
    return power / exact, exact


def convex_part(x: Array, ratio: Array, order: float) -> Array:
    """(1 + x)^a - 1 - a·x, by its series where it would cancel."""
    if order > 0.5:  # near 1, too, the first powers of x cancel
        direct = (1.0 + x) * np.expm1((order - 1.0) * ratio) - (order - 1.0) * x
    else:
        direct = np.expm1(order * ratio) - order * x
    small = np.abs(x) * (abs(order) + 4.0) < 0.02
    term = np.where(small, x, 0.0)
    series, power, coefficient = np.zeros_like(x), term.copy(), order
    for k in range(2, 9):
        coefficient *= (order - k + 1.0) / k
        power = power * term
        series += coefficient * power
    return np.where(small, series, direct)
