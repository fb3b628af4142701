"""Privacy losses of Gaussians on random batches into which a record comes in the place of another.

P = p·N(a, 1) + (1 - p)·N(0, 1) against Q = p·N(b, 1) + (1 - p)·N(0, 1), a > 0 and b < a. Only losses above 0
are asked for. With z = (a + b)/2 + t and κ = e^(-ab/2)·(1 - p)/p the loss is log((κ + e^(at))/(κ + e^(bt))):
0 at t = 0, and growing with t from there on (docs, "Theory", 10.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    LossCells,
    Mask,
    Pair,
    Rule,
    cells_of,
    convex_part,
    normal_mass,
)

APART = 100.0  # the size from which the parts are: e^(-100²/8) is less than 1e-540
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_PANELS = 40_000
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
_FAR = 700.0  # whose power of e is a double
_LARGE = 30.0  # e^30 - 1 is e^30 to 13 digits
_LEAST_POWER = 1e-9  # whose 1 + λ still tells λ to seven digits
_MOST_SIZE = 2000.0  # of (λ + 1) times a size: beyond it a moment is that of a Gaussian but for 1 %
# Around a mode, which is no wider than that of a normal density.
_WINDOW = np.linspace(-12.0, 12.0, 49)
_POINTS = 1500  # of a table from which a place is first guessed
_NEWTON = 4  # steps from the guess


@dataclass(frozen=True)
class Half:
    """The losses above 0 of P against Q, b = `norm` - `apart`. `norm`, `apart` > 0 and at most 100 or so;
    `p` in (0, 1)."""

    norm: float
    apart: float
    p: float

    @property
    def other(self) -> float:
        """b, Q's place."""
        return self.norm - self.apart

    @property
    def origin(self) -> float:
        """z where the loss is 0."""
        return 0.5 * (self.norm + self.other)

    @property
    def log_kappa(self) -> float:
        """log κ."""
        return math.log1p(-self.p) - math.log(self.p) - 0.5 * self.norm * self.other

    def log_rise(self, t: Array) -> Array:
        """log(e^Y - 1) at `t` ≥ 0."""
        b, k = self.other, self.log_kappa
        with np.errstate(divide="ignore"):
            rise = np.log(-np.expm1(-self.apart * t)) + self.apart * t
        return np.asarray(rise + b * t - np.logaddexp(k, b * t))

    def loss(self, t: Array) -> Array:
        """The loss at `t` ≥ 0."""
        return np.asarray(np.logaddexp(0.0, self.log_rise(t)))

    def place(self, losses: Array) -> Array:
        """The t of these losses ≥ 0."""
        with np.errstate(divide="ignore", over="ignore"):
            rise = np.where(losses > _LARGE, losses, np.log(np.expm1(np.minimum(losses, _LARGE))))
        # Near 0 the loss is a line, beyond the table nobody asks.
        b, k = self.other, self.log_kappa
        line = rise - math.log(self.apart) + float(np.logaddexp(0.0, k))
        levels, table = _table(self)
        guess = np.where(
            rise < levels[0], np.minimum(line, table[0]), np.interp(rise, levels, table)
        )
        finite = rise > -math.inf
        x = np.where(finite, guess, 0.0)
        for _ in range(_NEWTON):
            t = np.exp(x)
            with np.errstate(invalid="ignore"):
                # d log_rise/dt · t: of e^(at) - e^(bt), less that of κ + e^(bt).
                grown = self.apart * t / -np.expm1(-self.apart * t)
                slope = grown + b * t * scipy.special.expit(k - b * t)
                x = x - np.where(finite, (self.log_rise(t) - rise) / slope, 0.0)
        return np.where(finite, np.exp(x), 0.0)

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, by quadrature; wide ones by differences of normal probabilities."""
        t = self.place(edges)
        left, width = t[:-1], np.diff(t)
        z = self.origin + left
        size = width * (np.abs(z) + width + abs(self.norm) + abs(self.other) + 1.0)

        def quadrature(now: Mask, rule: Rule) -> tuple[Array, Array]:
            return self._by_quadrature(left[now], width[now], rule)

        def difference(wide: Mask) -> tuple[Array, Array]:
            return self._by_difference(left[wide], t[1:][wide], edges[:-1][wide])

        return cells_of(size, quadrature, difference)

    def _by_quadrature(self, left: Array, width: Array, rule: Rule) -> tuple[Array, Array]:
        a, b, p, k = self.norm, self.other, self.p, self.log_kappa
        # The shares of the record's part in the two densities, at the left end.
        own, opposite = scipy.special.expit(a * left - k), scipy.special.expit(b * left - k)
        mass, excess = np.zeros_like(left), np.zeros_like(left)
        for node, weight in rule.points:
            step = 0.5 * (1.0 + node) * width
            z = self.origin + (left + step)
            with np.errstate(under="ignore"):
                density = p * np.exp(-0.5 * np.square(z - a)) + (1.0 - p) * np.exp(-0.5 * z * z)
            rise = np.log1p(own * np.expm1(a * step)) - np.log1p(opposite * np.expm1(b * step))
            mass += weight * density
            excess -= weight * density * np.expm1(-rise)
        share = 0.5 * width / SQRT_2PI
        return mass * share, np.maximum(excess, 0.0) * share

    def _by_difference(self, left: Array, right: Array, edges: Array) -> tuple[Array, Array]:
        p, low, high = self.p, self.origin + left, self.origin + right
        plain = (1.0 - p) * normal_mass(low, high)
        mass = p * normal_mass(low - self.norm, high - self.norm) + plain
        under_q = p * normal_mass(low - self.other, high - self.other) + plain
        with np.errstate(over="ignore", invalid="ignore"):
            level = np.where(under_q == 0.0, 0.0, np.exp(edges) * under_q)
        return mass, np.clip(mass - level, 0.0, mass)

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y` ≥ 0."""
        z = self.origin + float(self.place(np.array([y]))[0])
        mass, under_q = self._beyond(z, self.norm), self._beyond(z, self.other)
        level = math.exp(y + math.log(under_q)) if under_q > 0.0 else 0.0
        return mass, min(mass, max(0.0, mass - level))

    def _beyond(self, z: float, place: float) -> float:
        """The mass above `z` under p·N(place, 1) + (1 - p)·N(0, 1)."""
        return self.p * _tail(z - place) + (1.0 - self.p) * _tail(z)

    def high(self, tail: float) -> float:
        """A loss above which there is about the mass `tail` at most."""
        z = self.norm - float(scipy.special.ndtri(min(0.5, max(tail, 1e-305))))
        return float(self.loss(np.array([max(0.0, z - self.origin)]))[0])

    def depth(self, slack: float) -> float:
        """A loss beyond which Q's mass is so small that raising it to there adds about `slack` or less."""
        share = min(0.5, max(slack / (1.0 + self.norm), 1e-300))
        z = max(self.other, 0.0) - float(scipy.special.ndtri(share))
        return min(float(self.loss(np.array([max(0.0, z - self.origin)]))[0]), _FAR)

    def log_density(self, t: Array, place: float) -> Array:
        """log of the density of p·N(place, 1) + (1 - p)·N(0, 1) over that of N(0, 1) at 0."""
        z = self.origin + t
        shifted = math.log(self.p) + place * z - 0.5 * place * place
        return np.asarray(np.logaddexp(math.log1p(-self.p), shifted) - 0.5 * z * z)


@dataclass(frozen=True)
class DisplacedLoss(Pair):
    """The pair with the losses of `upper` above 0 and, below 0, those of `lower` in the other order; the
    rest of the mass lies at 0."""

    upper: Half
    lower: Half

    @property
    def rest(self) -> float:
        """P(Y = 0): the mass of N(0, 1) between the two places where a loss is 0, times 1 - p."""
        ends = np.array([-self.upper.origin]), np.array([self.lower.origin])
        return (1.0 - self.upper.p) * float(normal_mass(*ends)[0])

    def cells(self, edges: Array) -> LossCells:
        """The cells of both halves; what lies at 0 is in the cell on its right."""
        split = int(np.searchsorted(edges, 0.0))
        inside = 0 < split < edges.size and edges[split] > 0.0
        cut = np.insert(edges, split, 0.0) if inside else edges
        below, above = cut[cut <= 0.0], cut[cut >= 0.0]
        mass, excess = np.zeros(cut.size - 1), np.zeros(cut.size - 1)
        if above.size > 1:
            first = cut.size - above.size
            mass[first:], excess[first:] = self.upper.cells(above)
            if above[0] == 0.0:
                mass[first] += self.rest
        if below.size > 1:
            count = below.size - 1
            mass[:count], excess[:count] = _mirrored(self.lower, below)
        if not inside:
            return LossCells(mass, excess)
        # The cell around 0 from its parts: seen from its left end, those on the right have grown.
        left, right, level = split - 1, split, math.exp(edges[split - 1])
        excess[left] += mass[right] - level * (mass[right] - excess[right])
        mass[left] += mass[right]
        return LossCells(np.delete(mass, right), np.delete(excess, right))

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        if y >= 0.0:
            return self.upper.above(y)
        mass, excess = self.upper.above(0.0)
        cell = self.cells(np.array([y, 0.0]))
        mass, level = mass + self.rest, math.exp(y)
        own = mass - level * (mass - excess)
        return float(cell.mass[0]) + mass, float(cell.excess[0]) + own

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high)."""
        return -self.lower.depth(slack), self.upper.high(tail)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return log_moment(self.upper, self.lower, power)


class SymmetricDisplacedLoss(DisplacedLoss):
    """The same of two equal halves."""

    symmetric = True

    @property
    def atom(self) -> float:
        """P(Y = 0)."""
        return self.rest

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, without what lies at 0."""
        return self.upper.cells(edges)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, high): losses below 0 follow from those above."""
        return 0.0, self.upper.high(tail)


def _mirrored(half: Half, edges: Array) -> tuple[Array, Array]:
    """(mass, excess) of losses ≤ 0 between `edges`, those of `half` in the other order."""
    ends = -edges[::-1]
    mass, excess = half.cells(ends)
    left, width = ends[:-1], np.diff(ends)
    # Mirrored, the mass is Q's, and the excess what is left of P's over the other end.
    scale = np.exp(np.where(mass > 0.0, -left, 0.0))
    other = scale * (mass * -np.expm1(-width) - excess)
    return (scale * (mass - excess))[::-1], np.maximum(other, 0.0)[::-1]


@lru_cache(maxsize=1024)
def _table(half: Half) -> tuple[Array, Array]:
    """(log(e^Y - 1), log t) at increasing t, up to where P's mass is below every double."""
    far = math.log(2.0 * (abs(half.norm) + abs(half.other)) + 80.0)
    x = np.linspace(far - 60.0, far, _POINTS)
    return np.maximum.accumulate(half.log_rise(np.exp(x))), x


# Moments.


class Nodes(NamedTuple):
    """Losses, logs of Q's density, and weights, at nodes that cover where an integrand matters."""

    loss: Array
    log_q: Array
    weight: Array


@lru_cache(maxsize=65536)
def log_moment(upper: Half, lower: Half, power: float) -> float:
    """log E e^(λY) of the pair, λ = `power` > 0.

    Beyond 1 it is an integral over each half, of Q·(x^(λ+1) - 1 - (λ+1)(x - 1)) and of
    Q·(x^-λ - 1 + λ(x - 1)), x = P/Q: what they add to E e^(λY) cancels, as both halves have the same δ(0).
    """
    size = max(abs(upper.norm), abs(lower.norm), upper.apart)
    if (power + 1.0) * size > _MOST_SIZE:  # that of the Gaussian, which is never less
        return 0.5 * power * (power + 1.0) * size * size
    if power < _LEAST_POWER:  # K is convex and 0 at 0
        return power / _LEAST_POWER * log_moment(upper, lower, _LEAST_POWER)
    parts = _log_integral(upper, power + 1.0), _log_integral(lower, -power)
    log_more = float(np.logaddexp(*parts))
    return float(np.logaddexp(0.0, log_more)) if log_more > -1.0 else math.log1p(math.exp(log_more))


def _log_integral(half: Half, order: float) -> float:
    """log of the integral over P > Q of Q·(x^s - 1 - s(x - 1)), x = P/Q, s = `order` > 1 or < 0."""
    y, log_q, weight = _nodes(half, math.ceil(math.log2(order)) if order > 1.0 else 0)
    near = y < min(1.0, _LARGE / abs(order))
    small, power = np.where(near, y, 0.0), order - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        close = np.log(np.maximum(convex_part(np.expm1(small), small, order), 0.0))
        if order > 1.0:
            rest = power * np.exp(-power * y) * np.expm1(-y) - np.expm1(-power * y)
            far = order * y + np.log(np.maximum(rest, 0.0))
        else:
            rest = order * np.expm1(-y) + np.exp(-y) * np.expm1(order * y)
            far = y + np.log(np.maximum(rest, 0.0))
        exponent = log_q + np.where(near, close, far)
        top = float(exponent.max())
        if top == -math.inf:
            return top  # less than the least double
        return top + math.log(float(weight @ np.exp(exponent - top)))


def _centres(half: Half, order: float) -> list[float]:
    """Where Q·x^order may have a mode: x grows as e^(at), e^(mt) or not at all, and changes from one to the
    next where e^(at) or e^(bt) is κ."""
    a, b, k = half.norm, half.other, half.log_kappa
    tops = [order * a - half.origin, order * half.apart + b - half.origin, k / a]
    return [c for c in (*tops, *([k / b] if b > 0.0 else [])) if math.isfinite(c)]


@lru_cache(maxsize=8192)
def _nodes(half: Half, level: int) -> Nodes:
    """Panels for all orders s from 2^(`level` - 1) to 2^`level`, or of level 0 for those below 1."""
    size = max(abs(half.norm), abs(half.other))
    orders = (2.0 ** (level - 1), 2.0**level) if level else (1.0,)
    far = (1.0 + 2.0 * (orders[-1] - 1.0)) * size + 40.0
    scan = np.concatenate([np.linspace(0.0, 40.0, 80), np.linspace(0.0, far, 160)])
    close = [c + _WINDOW for order in orders for c in _centres(half, order)]
    scan = np.unique(np.maximum(np.concatenate([scan, *close]), 0.0))
    y, log_q = half.loss(scan[1:]), half.log_density(scan[1:], half.other)
    exponents = [order * y + log_q for order in orders]
    near = np.concatenate([np.flatnonzero(e >= float(e.max()) - _MATTERS) for e in exponents])
    begin, end = float(scan[near.min()]), float(scan[min(near.max() + 2, scan.size - 1)])
    panels = math.ceil(0.5 * (end - begin) * max(1.0, half.norm + size))
    panels = min(_MOST_PANELS, max(6, panels))
    width = 0.5 * (end - begin) / panels
    left = begin + 2.0 * width * np.arange(panels)
    t = (left[:, None] + width * (1.0 + _NODES)).ravel()
    weight = np.tile(width * _WEIGHTS, panels) / SQRT_2PI
    return Nodes(half.loss(t), half.log_density(t, half.other), weight)


def log_moments(aparts: Array, p: float, power: float) -> Array:
    """log E e^(power·Y) for each m of `aparts` (k,) > 0, of sizes 2m and m in the order of the larger; where
    the parts are apart, that of G(2m), which is never less."""

    def one(m: float) -> float:
        if p == 1.0:
            return 0.5 * power * (power + 1.0) * m * m
        if 2.0 * m > APART:
            return 2.0 * power * (power + 1.0) * m * m
        return log_moment(Half(2.0 * m, m, p), Half(m, m, p), power)

    return np.array([one(m) for m in aparts.tolist()])


def _tail(z: float) -> float:
    return float(scipy.special.ndtr(-z))
