"""Finitely many losses that reveal no less than one sampled Gaussian: step 1 of `sums`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from pabi.verification.arithmetic import BITS, Refused, in_time
from pabi.verification.factors.mixtures import DISPLACING, Sampled

Array = NDArray[np.float64]

ULP = 2.0**-53
_MOST_LOSSES = 20_000  # of one factor


class Law(NamedTuple):
    """Losses `y` of P-masses `p`, the mass of the infinite loss, and whether (Q, P) has another law."""

    y: Array
    p: Array
    infinity: float
    times: int
    turns: bool

    def turned(self, negligible: float) -> Law:
        """The law of (Q, P): e^(−y)·P(y) at −y. The infinite loss becomes one of no mass; the lowest, if
        its mass is `negligible`, is raised to ∞."""
        if not self.turns:
            return self
        p = reversed_masses(self)
        first = 1 if p[0] <= negligible else 0
        return self._replace(y=-self.y[first:], p=p[first:], infinity=first * float(p[0]))


def reversed_masses(law: Law) -> Array:
    """Q's masses at the losses of (P, Q)."""
    with np.errstate(under="ignore"):
        return raised(law.p * np.exp(-law.y))


def turned_law_of(factor: Sampled, law: Law, tail: float, spacing: float) -> Law:
    """The law of (Q, P) for a factor whose (P, Q) has `law`."""
    if law.turns and factor.kind == DISPLACING:
        return law_of(factor.turned(), tail, spacing)
    return law.turned(1e-6 * tail)


def law_of(factor: Sampled, tail: float, spacing: float) -> Law:
    """Finitely many losses that reveal no less than one factor, p < 1.

    O_p is the pair P = p·N(μ, 1) + (1 − p)·N(0, 1), Q = N(0, 1). The law of C_p has the same losses above
    0, their mirror image P(−y) = e^(−y)·P(y) below, and the rest at 0. R_p is P against its own mirror image
    around 0, p·N(−μ, 1) + (1 − p)·N(0, 1): its losses are odd in z, and mirrored as well.
    """
    in_time()
    match factor.kind:
        case "poisson_subsampled":
            single = True
        case "subsampled":
            if factor.sizes != (factor.mu, factor.mu):
                return _law_of_displaced(factor, tail, spacing)
            single = False
        case "poisson_replaced":
            return _law_of_replaced(factor, tail, spacing)
        case other:
            raise Refused(f"factors: nobody composes {other!r}")
    p, mu = float(factor.probability), factor.mu
    reach = reach_of(tail)
    spacing = max(spacing, (mu + 2.0 * reach) / _MOST_LOSSES)
    z = np.arange(-reach if single else 0.5 * mu, mu + reach + spacing, spacing)
    with np.errstate(under="ignore"):
        g = mu * z - 0.5 * mu * mu
        small = np.log1p(p * np.expm1(np.minimum(g, 0.0)))
        large = g + np.log(p + (1.0 - p) * np.exp(-np.maximum(g, 0.0)))
    y = np.where(g < 0.0, small, large)
    with ctx.workprec(BITS):
        if single:  # All losses of O_p are above log(1 − p), where z = −∞.
            lowest = -up_from_zero(-(1 - arb(p)).log())
            inner = [x for x in np.unique(y).tolist() if arb(x).expm1() + p > 1e-7 * p]
        else:
            lowest, inner = 0.0, np.unique(y[y > 0.0]).tolist()
        edges = np.array([lowest, *inner])
        masses, infinity, rest = _split(mu, p, edges.tolist(), single)
    law = Law(edges, masses, infinity, factor.times, single)
    return law if single else _mirrored(law, rest)


def reach_of(tail: float) -> float:
    """How far from its mean a normal variable is looked at."""
    return math.sqrt(2.0 * math.log(1e7 / tail))


def _mirrored(law: Law, rest: float) -> Law:
    """With the mirror image of the losses above 0 below it, and `rest` at 0."""
    mirrored = reversed_masses(law)[:0:-1]
    both = np.concatenate([mirrored, law.p])
    both[mirrored.size] += law.p[0] + rest
    return law._replace(y=np.concatenate([-law.y[:0:-1], law.y]), p=raised(both))


def _law_of_replaced(factor: Sampled, tail: float, spacing: float) -> Law:
    """The same of R_p, p < 1: the loss at z is log (c + e^(μz))/(c + e^(−μz)), c = e^(μ²/2)·(1 − p)/p."""
    p, mu = float(factor.probability), factor.mu
    reach = reach_of(tail)
    spacing = max(spacing, (mu + reach) / _MOST_LOSSES)
    z = np.arange(0.0, mu + reach + spacing, spacing)
    log_c = 0.5 * mu * mu + math.log1p(-p) - math.log(p)
    y = np.logaddexp(log_c, mu * z) - np.logaddexp(log_c, -mu * z)
    with ctx.workprec(BITS):
        edges = np.array([0.0, *np.unique(y[y > 0.0]).tolist()])
        masses, infinity = _split_replaced(mu, p, edges.tolist())
    return _mirrored(Law(edges, masses, infinity, factor.times, False), 0.0)


def _split_replaced(mu: float, p: float, edges: Sequence[float]) -> tuple[Array, float]:
    """(P-mass at every edge of the losses above 0, that of the infinite loss), rounded up."""
    share, masses = arb(p), [arb(0)] * len(edges)
    constant = (arb(mu) ** 2 / 2).exp() * (1 - share) / share
    left = _around(arb(0), mu)
    for i in range(1, len(edges)):
        low, high = arb(edges[i - 1]), arb(edges[i])
        # Where the loss is `high`: sinh(μz − high/2) = c·sinh(high/2).
        z = (high / 2 + (constant * (high / 2).sinh()).asinh()) / mu
        right = _around(z, mu)
        plain, towards, away = (_between(a, b) for a, b in zip(left, right, strict=True))
        mass = share * towards + (1 - share) * plain
        other = share * away + (1 - share) * plain
        upper = (mass - low.exp() * other) / -(low - high).expm1()
        masses[i - 1] += mass - upper
        masses[i] += upper
        left = right
    plain, towards, away = (place.above for place in left)
    finite = arb(edges[-1]).exp() * (share * away + (1 - share) * plain)
    masses[-1] += finite
    infinity = share * towards + (1 - share) * plain - finite
    return np.array([up_from_zero(m) for m in masses]), up_from_zero(infinity)


def _law_of_displaced(factor: Sampled, tail: float, spacing: float) -> Law:
    """The same of a record that displaces others, p < 1.

    The losses above 0 are those of p·N(a, 1) + (1 − p)·N(0, 1) against p·N(a − m, 1) + (1 − p)·N(0, 1) with
    a = `norm` and m = μ; those below are such losses with `other` for a, seen from their second law; the rest
    lies at 0. Losses are raised, by roundings.
    """
    norm, other = factor.sizes
    with ctx.workprec(BITS):
        upper, lower = (_Half.of(a, factor, tail, spacing) for a in (norm, other))
        above, infinity = upper.split_above()
        below = lower.split_below()
        rest = 1 - upper.first.p - lower.first.q
        y = np.array([*(-lower.floors[::-1]), *upper.ceilings[1:]])
        above[0] += up_from_zero(rest)
    p = np.concatenate([below[::-1], above[1:]])
    p[below.size - 1] += above[0]
    return Law(y, raised(p), infinity, factor.times, norm != other)


class _Tail(NamedTuple):
    """What lies above a place under P and under Q."""

    p: Any
    q: Any


class _Half(NamedTuple):
    """The losses from 0 on of P against Q: at increasing places, from that of the loss 0 on, balls of the
    losses, doubles above and below them, and what lies between places and above the last."""

    losses: list[Any]
    ceilings: Array
    floors: Array
    cells: list[_Tail]
    first: _Tail
    last: _Tail

    @classmethod
    def of(cls, a: float, factor: Sampled, tail: float, spacing: float) -> _Half:
        """That of p·N(a, 1) + (1 − p)·N(0, 1) against p·N(a − μ, 1) + (1 − p)·N(0, 1)."""
        p, b = float(factor.probability), arb(a) - factor.mu
        origin, end = a - 0.5 * factor.mu, a + reach_of(tail)
        count = math.ceil((end - origin) / max(spacing, (end - origin) / _MOST_LOSSES))
        kappa = (-a * b / 2).exp() * (1 - arb(p)) / p
        losses, cells, places = [arb(0)], [], []
        for i in range(count + 1):
            t = arb((end - origin) * i / count)
            z = (arb(a) + b) / 2 + t
            places.append((_place(z), _place(z - a), _place(z - b)))
            if i:
                losses.append(((kappa + (a * t).exp()) / (kappa + (b * t).exp())).log())
                plain, own, other = map(_between, places[-2], places[-1])
                cells.append(_mixed(p, plain, own, other))
        first, last = (_mixed(p, *(x.above for x in places[i])) for i in (0, -1))
        ceilings = np.array([0.0, *(up_from_zero(y) for y in losses[1:])])
        floors = np.array([0.0, *(max(0.0, -up(-y)) for y in losses[1:])])
        return cls(losses, ceilings, floors, cells, first, last)

    def split_above(self) -> tuple[Array, float]:
        """(P-mass at the ceilings, that of the infinite loss)."""
        masses = [arb(0)] * len(self.losses)
        for i, cell in enumerate(self.cells):
            upper = _upper(cell, self.losses[i].lower(), arb(self.ceilings[i + 1]))
            masses[i] += cell.p - upper
            masses[i + 1] += upper
        finite = self.losses[-1].lower().exp() * self.last.q
        masses[-1] += finite
        return np.array([up_from_zero(m) for m in masses]), up_from_zero(self.last.p - finite)

    def split_below(self) -> Array:
        """Q-mass at minus the floors, where Q and P have changed roles."""
        masses = [arb(0)] * len(self.losses)
        for i, cell in enumerate(self.cells):
            seen = _Tail(cell.q, cell.p)
            upper = _upper(seen, -self.losses[i + 1].upper(), -arb(self.floors[i]))
            masses[i + 1] += seen.p - upper
            masses[i] += upper
        masses[-1] += self.last.q
        return np.array([up_from_zero(m) for m in masses])


def _mixed(p: float, plain: Any, own: Any, other: Any) -> _Tail:
    """P's and Q's part of masses under N(0, 1), N(a, 1) and N(b, 1)."""
    return _Tail(p * own + (1 - arb(p)) * plain, p * other + (1 - arb(p)) * plain)


def _upper(cell: _Tail, low: Any, high: Any) -> Any:
    """P's mass at the upper of two losses between which a cell's are; the rest is at the lower."""
    return (cell.p - low.exp() * cell.q) / -(low - high).expm1()


def _around(z: Any, mu: float) -> tuple[_Place, _Place, _Place]:
    """z under N(0, 1), N(μ, 1) and N(−μ, 1)."""
    return _place(z), _place(z - mu), _place(z + mu)


def _split(mu: float, p: float, edges: Sequence[float], single: bool) -> tuple[Array, float, float]:
    """(P-mass at every edge, that of the infinite loss, that at 0 of C_p besides), rounded up."""
    share, masses = arb(p), [arb(0)] * len(edges)
    left = _NOWHERE if single else _places(arb(mu) / 2, mu)
    rest = (1 - share) * (1 - 2 * left[0].above)
    for i in range(1, len(edges)):
        low, high = arb(edges[i - 1]), arb(edges[i])
        right = _places(((high.expm1() + share) / share).log() / mu + arb(mu) / 2, mu)
        q, shifted = _between(left[0], right[0]), _between(left[1], right[1])
        mass = share * shifted + (1 - share) * q
        # u at the upper end, where Q has e^(−high)·u, and the rest at the lower.
        upper = (mass - low.exp() * q) / -(low - high).expm1()
        masses[i - 1] += mass - upper
        masses[i] += upper
        left = right
    q, shifted = left[0].above, left[1].above
    finite = arb(edges[-1]).exp() * q
    masses[-1] += finite
    infinity = share * shifted + (1 - share) * q - finite
    return np.array([up_from_zero(m) for m in masses]), up_from_zero(infinity), up_from_zero(rest)


class _Place(NamedTuple):
    """A place under the normal distribution: the probabilities below and above it."""

    positive: bool
    below: Any
    above: Any


_NOWHERE = (_Place(False, 0, 1), _Place(False, 0, 1))  # −∞


def _places(z: Any, mu: float) -> tuple[_Place, _Place]:
    """z under N(0, 1) and under N(μ, 1)."""
    return _place(z), _place(z - mu)


def _place(z: Any) -> _Place:
    small = (abs(z) / arb(2).sqrt()).erfc() / 2
    return _Place(True, 1 - small, small) if z > 0 else _Place(False, small, 1 - small)


def _between(a: _Place, b: _Place) -> Any:
    return a.above - b.above if a.positive else b.below - a.below


def up(ball: Any) -> float:
    """A double above a ball; ∞ if it is no number."""
    value = math.nextafter(float(arb(ball).upper()), math.inf)
    return value if value == value else math.inf


def up_from_zero(ball: Any) -> float:
    """A double ≥ 0 not below a ball; ∞ if it is no number."""
    return max(0.0, up(ball))


def raised(x: Array) -> Array:
    """`x` ≥ 0 raised by more than a few roundings."""
    return np.asarray(x * (1.0 + 16.0 * ULP) + 1e-315 * (x > 0.0))
