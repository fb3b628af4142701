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
from functools import lru_cache
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import scipy  # its parts are loaded on first use
from numpy.typing import NDArray

from pabi.convert.vectorised import gaussian_delta
from pabi.numbers.rounding import HALF_ULP, MANY_ROUNDINGS, THREE_ROUNDINGS, Array

_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(16)
SQRT_2PI = math.sqrt(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
MOMENT = 1e-8  # relative: more than the quadrature of a moment errs
_UNDERFLOW = 1e-320  # absolute: covers what underflow takes
BEYOND = 1e-9  # relative: the edge of a cell that holds the largest loss despite rounding
_LEAST_DEPTH = 1e-12  # where the doubling starts that finds the least loss of a reversed pair
# e^30 + 1 is e^30 to 13 digits: beyond it logarithms of sums are taken in another form.
_LARGE = 30.0
_LONG = 1.0  # of a cell, in nats
# The μ from which the two parts of a sampled Gaussian are apart: e^(-μ²/8) is less than 1e-540.
_APART = 100.0
_FAINT = 1e-3  # μ below which grids down to the least loss would be empty but for a few cells
_OVERFLOWS = 600.0  # nats: the square of a density times a power of e beyond it is no double
_SERIES, _SERIES_TERMS = 2.0, 13  # up to x the terms of sinh x/x beyond x^24 are less than an ulp
_SUM = 4e-15  # relative: more than a sum of probabilities and their own rounding err
_VAST = 1e6  # μ of a Gaussian, whose losses are about μ²/2


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

    symmetric = False  # whether (Q, P) has the same loss: then only losses ≥ 0 need to be known

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
        """The end of the support at which much of the mass may lie, close together."""
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
class SampledGaussian(Pair):
    """P = p·N(μ, 1) + (1 - p)·N(0, 1) against Q = N(0, 1), whose likelihood ratio at z is
    L(z) = 1 - p + p·e^(μz - μ²/2). `mu` > 0, `p` in (0, 1]."""

    mu: float
    p: float

    @property
    def _vast(self) -> bool:
        return self.mu > (_APART if self.p < 1.0 else _VAST)

    @property
    def edge(self) -> float | None:
        """The least loss log(1 - p), near which most of the mass lies."""
        return math.log1p(-self.p)

    @property
    def simplified(self) -> Pair:
        """That of μ = ∞, where the record is not drawn or seen, from a loss of some 5000 on."""
        if not self._vast:
            return self
        return Discrete(np.array([math.log1p(-self.p)]), np.array([1.0 - self.p]), self.p)

    def cells(self, edges: Array) -> LossCells:
        """The cells by quadrature, wide ones by differences of normal probabilities."""
        mu, p = self.mu, self.p
        z, _ = _place(mu, p, edges)
        left = z[:-1]
        with np.errstate(invalid="ignore"):
            width = np.diff(z)
            size = width * (np.maximum(np.abs(left), np.abs(z[1:])) + mu + 1.0)

        def quadrature(now: Indices, rule: Rule) -> tuple[Array, Array]:
            return _by_quadrature(mu, p, left=left[now], width=width[now], rule=rule)

        def difference(wide: Indices) -> tuple[Array, Array]:
            return _by_difference(mu, p, left[wide], z[1:][wide], edges[:-1][wide])

        return cells_of(size, quadrature, difference)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`: (P(Y > y), p·δ_G at the place of `y`)."""
        mu, p = self.mu, self.p
        z, gaussian = _place(mu, p, np.array([y]))
        mass = p * float(scipy.special.ndtr(mu - z[0])) + (1.0 - p) * float(
            scipy.special.ndtr(-z[0])
        )
        if math.isinf(gaussian[0]):
            return mass, -math.expm1(y) if gaussian[0] < 0.0 else 0.0
        return mass, p * float(gaussian_delta(mu, float(gaussian[0])))

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high), where low is the least loss, or that at z = -38, below which hardly anything lies."""
        return _low(self.mu, self.p), self.high(tail)

    def high(self, tail: float) -> float:
        """A loss above which there is about the mass `tail` at most: that of p times N(μ, 1)."""
        mu, p = self.mu, self.p
        share = tail / p
        z = mu - float(scipy.special.ndtri(max(share, 1e-305))) if share < 0.5 else mu
        return max(_loss(mu, p, z), 0.0)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return log_moment(self.mu, self.p, power, self.symmetric)


class Symmetrised(SampledGaussian):
    """The pair of C_p(G(μ)): δ(ε) = p·δ_G(log(1 + (e^ε - 1)/p)) for ε ≥ 0, the same both ways.

    Losses above 0 are those of the sampled Gaussian, those below their mirror image, and the rest
    of the mass, (1 - p)·erf(μ/√8), lies at 0. Source: Bok, Su, Altschuler 2024, Prop. D.4.
    """

    symmetric = True

    @property
    def simplified(self) -> Pair:
        """The same, in both orders."""
        if not self._vast:
            return self
        if self.p == 1.0:
            return Labelled((math.inf,), (1.0,))
        return Labelled((0.0, math.inf), (1.0 - self.p, self.p))

    @property
    def edge(self) -> None:
        """None: the mass near the least loss is at 0 here, an atom."""

    @property
    def atom(self) -> float:
        """P(Y = 0)."""
        return (1.0 - self.p) * math.erf(self.mu / math.sqrt(8.0))

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, high): losses below 0 are known from those above."""
        return 0.0, self.high(tail)


@dataclass(frozen=True)
class Labelled(Pair):
    """The pair (j, G(μ_j)) with P(j) = w_j: the mixture of losses N(μ_j²/2, μ_j²)."""

    mus: tuple[float, ...]
    weights: tuple[float, ...]

    symmetric = True

    @property
    def _parts(self) -> list[tuple[float, float]]:
        """(μ_j, w_j) of all parts."""
        return list(zip(self.mus, self.weights, strict=True))

    @property
    def _proper(self) -> list[tuple[SampledGaussian, float]]:
        """(the pair G(μ_j), w_j) of the parts that neither reveal nothing nor everything."""
        return [(SampledGaussian(m, 1.0), w) for m, w in self._parts if 0.0 < m < math.inf]

    @property
    def infinity(self) -> float:
        """The weight of μ = ∞."""
        return math.fsum(w for m, w in self._parts if m == math.inf)

    @property
    def atom(self) -> float:
        """The weight of μ = 0."""
        return math.fsum(w for m, w in self._parts if m == 0.0)

    @property
    def simplified(self) -> Pair:
        """With μ = ∞ for every part of a loss over some 10¹¹."""
        if not any(_VAST < m < math.inf for m in self.mus):
            return self
        return Labelled(tuple(m if m <= _VAST else math.inf for m in self.mus), self.weights)

    def cells(self, edges: Array) -> LossCells:
        """The weighted sum of the parts' cells."""
        mass, excess = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
        for pair, weight in self._proper:
            part = pair.cells(edges)
            mass, excess = mass + weight * part.mass, excess + weight * part.excess
        return LossCells(mass, excess)

    def above(self, y: float) -> tuple[float, float]:
        """The weighted sums of the parts' (mass, excess)."""
        parts = [(w, *pair.above(y)) for pair, w in self._proper]
        return math.fsum(w * a for w, a, _ in parts), math.fsum(w * b for w, _, b in parts)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, the largest high of the parts, of each for its share of the tail)."""
        proper = self._proper
        shares = ((pair, tail / (w * len(proper))) for pair, w in proper)
        return 0.0, max((pair.high(share) for pair, share in shares if share < 1.0), default=0.0)

    @property
    def most(self) -> float:
        """The largest possible loss: ∞, or 0 where no part has a finite loss but 0."""
        return math.inf if self._proper else 0.0

    def finite_log_moment(self, power: float) -> float:
        """log E[e^(power·Y); Y < ∞], in closed form; -∞ where every loss is infinite."""
        scale = 0.5 * power * (power + 1.0)  # ∞ from 1e154 on
        terms = [(scale * m * m if m else 0.0, w) for m, w in self._parts if m < math.inf]
        top = max((e for e, _ in terms), default=0.0)
        if top == math.inf or not terms:
            return top if terms else -math.inf
        if top < 1.0:
            return math.log1p(math.fsum(w * math.expm1(e) for e, w in terms) - self.infinity)
        return top + math.log(math.fsum(w * math.exp(e - top) for e, w in terms))


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
        left, width = edges[:-1], np.diff(edges)
        level = np.exp(0.5 * (left - self.epsilon)) / -math.expm1(-self.epsilon)
        mass = level * np.expm1(0.5 * width)
        return LossCells(mass, level * 4.0 * np.square(np.sinh(0.25 * width)))

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


@dataclass(frozen=True)
class Reversed(Pair):
    """(Q, P) of a sampled Gaussian: its loss is -log L(z) with z ~ N(0, 1), at most -log(1 - p)."""

    pair: SampledGaussian

    @property
    def most(self) -> float:
        """The largest loss, -log(1 - p)."""
        return -math.log1p(-self.pair.p)

    @property
    def simplified(self) -> Pair:
        """That of μ = ∞, whose loss is the largest."""
        if not self.pair._vast:
            return self
        return Discrete(np.array([self.most]), np.array([1.0]))

    @property
    def edge(self) -> float:
        """The largest loss, near which most of the mass lies."""
        return self.most

    def cells(self, edges: Array) -> LossCells:
        """The mirrored cells of the pair."""
        return mirrored(self.pair.cells, self._masses, edges)

    def _masses(self, low: Array, high: Array) -> Masses:
        mu, p = self.pair.mu, self.pair.p
        left, right = (_place(mu, p, loss)[0] for loss in (low, high))
        plain, shifted = normal_mass(left, right), normal_mass(left - mu, right - mu)
        return Masses(p * shifted + (1.0 - p) * plain, plain, p * (shifted - plain))

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        mu, p, loss, begin = self.pair.mu, self.pair.p, np.array([y]), np.array([-np.inf])
        z, _ = _place(mu, p, -loss)
        mass = normal_mass(begin, z)
        other = p * normal_mass(begin, z - mu) + (1.0 - p) * mass
        excess = excess_of(p * normal_mass(z - mu, z), loss, own=mass, other=other)
        return float(mass[0]), float(excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high), low found by doubling, high the largest loss or what hardly anything lies above."""
        mu, p, depth = self.pair.mu, self.pair.p, _LEAST_DEPTH
        while (1.0 + mu) * float(
            scipy.special.ndtr(-_place(mu, p, np.array([depth]))[0][0])
        ) > slack:
            depth *= 2.0
        return -depth, -_low(mu, p)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), a moment of the pair of a negative order."""
        return log_moment(self.pair.mu, self.pair.p, -power - 1.0)


# The sampled Gaussian.


def _loss(mu: float, p: float, z: float) -> float:
    """log L(z) of a sampled Gaussian."""
    gaussian = mu * z - 0.5 * mu * mu
    if gaussian > 0.0:
        return gaussian + math.log(p + (1.0 - p) * math.exp(-gaussian))
    return math.log1p(p * math.expm1(gaussian)) if p < 1.0 else gaussian


def _low(mu: float, p: float) -> float:
    """The least loss, or that at z = -38 for a Gaussian, and where all losses but those of far tails are much
    smaller than the least one."""
    return _loss(mu, p, -38.0) if p == 1.0 or mu < _FAINT else math.log1p(-p)


def _place(mu: float, p: float, edges: Array) -> tuple[Array, Array]:
    """(z, log of (L(z) - 1 + p)/p = μz - μ²/2) where the loss is `edges`; -∞ below the support."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if p == 1.0:
            gaussian = edges.copy()
        else:
            small = np.log1p(np.maximum(np.expm1(np.minimum(edges, _LARGE)) / p, -1.0))
            large = edges - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(edges, 1.0)))
            gaussian = np.where(edges > _LARGE, large, small)
        return gaussian / mu + 0.5 * mu, gaussian


def _by_quadrature(
    mu: float, p: float, *, left: Array, width: Array, rule: Rule
) -> tuple[Array, Array]:
    step = rule.nodes[:, None] * width
    z, share = left + step, width / SQRT_2PI
    # P's Gaussian part is φ(z - μ) = φ(z)·e^(μz - μ²/2), which neither over- nor underflows alone.
    shifted = p * np.exp(-0.5 * np.square(z - mu))
    density = shifted + (1.0 - p) * np.exp(-0.5 * np.square(z)) if p < 1.0 else shifted
    excess = shifted * -np.expm1(-mu * step)
    return rule.weights @ density * share, rule.weights @ excess * share


def _by_difference(
    mu: float, p: float, left: Array, right: Array, edges: Array
) -> tuple[Array, Array]:
    shifted, plain = normal_mass(left - mu, right - mu), normal_mass(left, right)
    mass = p * shifted + (1.0 - p) * plain
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        level = (np.expm1(edges) + p) * plain
        level = np.where(plain == 0.0, 0.0, level)
    return mass, np.clip(p * shifted - level, 0.0, mass)


def normal_mass(left: Array, right: Array) -> Array:
    """P(left < Z < right) of a standard normal Z, elementwise, from the nearer tail."""
    flip = left > 0.0
    a, b = np.where(flip, -right, left), np.where(flip, -left, right)
    mass = scipy.special.ndtr(b) - scipy.special.ndtr(a)
    around = (a < 0.0) & (b > 0.0)  # 0, from where both halves are measured
    if around.any():
        low, high = scipy.special.erf(np.stack([a, b])[:, around] * _SQRT_HALF)
        mass[around] = 0.5 * (high - low)
    return np.asarray(np.maximum(mass, 0.0))


def excess_of(gap: Array, loss: Array, *, own: Array, other: Array) -> Array:
    """P - e^loss·Q of masses `own` of P and `other` of Q, whose difference is `gap`: it keeps its digits
    where P and Q are nearly the same."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        near = np.expm1(np.minimum(loss, _LARGE)) * other
        far = np.exp(loss + np.log(other)) - other  # whose power of e alone may be no double
    return np.clip(gap - np.where(loss > _LARGE, far, near), 0.0, own)


# Moments.


def worst_divergence(log_moments: Iterable[float], power: float) -> float:
    """The largest of the Rényi divergences of order 1 + `power` > 1 whose losses have these log moments.

    It is rounded up past the errors of quadrature.
    """
    moments = list(log_moments)
    worst = math.inf if any(map(math.isnan, moments)) else max(moments)  # nothing is known of ∞ - ∞
    return worst / power * (1.0 + MOMENT) + _UNDERFLOW if worst > 0.0 else 0.0


def log_moments(mus: Array, p: float, power: float, symmetrised: bool = False) -> Array:
    """`log_moment` of sampled Gaussians, `mus` (m,) > 0."""
    return np.array([log_moment(mu, p, power, symmetrised) for mu in mus.tolist()])


def log_moment(mu: float, p: float, power: float, symmetrised: bool = False) -> float:
    """log E_Q L^(1 + power) of a sampled Gaussian, `mu` > 0, any power but 0 and -1; or
    log E e^(power·Y) of the symmetrised pair, for power > 0. ∞ on overflow.

    Quadrature, good to 1e-8 where they are tiny and to 1e-12 elsewhere: Gauss-Legendre on panels over
    which the integrands are analytic.
    """
    if p == 1.0:
        return 0.5 * power * (power + 1.0) * mu * mu
    share, exact = order_above(power)
    return share * _log_moment(mu, p, exact, symmetrised)


def order_above(power: float) -> tuple[float, float]:
    """(s, λ') with K(λ) ≤ s·K(λ') for convex K that are 0 at 0, λ = `power`: where 1 + λ would lose digits
    of λ, the next λ' that keeps them."""
    if not 0.0 < power < 1.0:
        return 1.0, power
    exact = (1.0 + power) - 1.0
    exact = exact if exact >= power else exact + 2.0 * HALF_ULP
    return power / exact, exact


@lru_cache(maxsize=65536)
def _log_moment(mu: float, p: float, power: float, symmetrised: bool) -> float:
    order = 1.0 + power
    whole = 0.5 * order * power * mu * mu  # what all records would give: never less
    if whole > 1e12:
        return whole
    if mu > _APART:
        return _log_moment_apart(p, power, whole, symmetrised)
    z, weight = _nodes(mu, p, order=order, low=0.5 * mu if symmetrised else -math.inf)
    ratio = log_ratio(mu, p, z)
    exponent = order * ratio - 0.5 * z * z
    top = float(exponent.max())
    density = np.exp(-0.5 * z * z)
    if top > 1.0:  # the sum is far from 1
        total = float(weight @ np.exp(exponent - top))
        if symmetrised:
            rest = density * (np.exp(-power * ratio) - np.exp(np.minimum(ratio, 600.0)) - 1.0)
            total += (1.0 + float(weight @ rest)) * math.exp(-top)
        return top + math.log(total)
    # Far out the terms would overflow, and the difference of two great powers is taken as such.
    far = (np.abs(order * ratio) > 40.0) | (ratio > _OVERFLOWS)
    near = np.where(far, 0.0, ratio)
    x = np.expm1(near)
    if symmetrised:  # (1 + x)^(λ+1) - (1 + x) - 1 + (1 + x)^-λ, as a product
        terms, tangent = np.expm1(power * near) * (x - np.expm1(-power * near)), 1.0
    else:
        terms, tangent = convex_part(x, near, order), order
    plain = np.exp(np.minimum(ratio - 0.5 * z * z, 1.0))
    close = plain * (np.expm1(np.minimum(power * ratio, 1.0)) + (1.0 - tangent))
    great = np.exp(np.minimum(exponent, 1.0)) - tangent * plain
    beyond = np.where(power * ratio < 1.0, close, great) + (tangent - 1.0) * density
    return math.log1p(float(weight @ np.where(far, beyond, density * terms)))


def _log_moment_apart(p: float, power: float, whole: float, symmetrised: bool) -> float:
    """The same where no outcome is likely both with and without the record.

    L is 1 - p where it is not seen and p·e^(μz - μ²/2) where it is. What lies between changes a moment
    by a relative e^(-μ²/8)/√p at most.
    """
    seen = whole + power * math.log(p)
    if power < -1.0:
        return (1.0 + power) * math.log1p(-p)
    if seen > _LARGE:
        return seen + math.log(p + (1.0 - p) * math.exp(-seen))
    unseen = 0.0 if symmetrised else (1.0 - p) * math.expm1(power * math.log1p(-p))
    return math.log1p(p * math.expm1(seen) + unseen)


def _nodes(mu: float, p: float, *, order: float, low: float) -> tuple[Array, Array]:
    """Nodes and weights (over √2π) of panels that cover where L^order·φ matters, and L·φ and φ beside it.

    What is taken from L^order so that small moments do not cancel has to be seen whole: of a negative order
    L^order·φ alone ends where L·φ begins.
    """
    far = max(61.0, abs(order) * mu + 12.0)
    outer = np.geomspace(60.0, far, 60)
    scan = np.concatenate([-outer[::-1], np.linspace(-60.0, 60.0, 161), outer])
    scan = scan[scan > low]
    ratio = log_ratio(mu, p, scan)
    exponent = np.maximum(np.maximum(order * ratio, ratio), 0.0) - 0.5 * scan * scan
    near = np.flatnonzero(exponent >= max(0.0, float(exponent.max())) - 50.0)
    first, last = max(0, near[0] - 1), min(scan.size - 1, near[-1] + 1)
    begin, end = (max(float(scan[first]), low) if near[0] else low), float(scan[last])
    begin = begin if math.isfinite(begin) else float(scan[0])
    panels = min(20_000, max(8, math.ceil((end - begin) * max(1.0, 0.5 * mu))))
    half = 0.5 * (end - begin) / panels
    left = begin + 2.0 * half * np.arange(panels)
    z = (left[:, None] + half * (1.0 + _PANEL_NODES)).ravel()
    return z, np.tile(half * _PANEL_WEIGHTS, panels) / SQRT_2PI


def log_ratio(mu: float, p: float, z: Array) -> Array:
    """log L(z) of a sampled Gaussian, elementwise."""
    gaussian = mu * z - 0.5 * mu * mu
    # For a small p·e^g the first form alone keeps its digits; it alone overflows, too.
    near = np.log1p(p * np.expm1(np.minimum(gaussian, _LARGE)))
    if float(gaussian.max(initial=0.0)) <= _LARGE:
        return near
    far = gaussian + np.log(p + (1.0 - p) * np.exp(-np.maximum(gaussian, _LARGE)))
    return np.where(gaussian > _LARGE, far, near)


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
