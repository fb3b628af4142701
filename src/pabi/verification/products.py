"""What a product of Gaussians and sampled Gaussians is worth at one δ, computed anew.

None of this is how the accountant computes. The privacy loss is Y = log dP/dQ under P; losses of
independent releases add; δ(ε) = E(1 − e^(ε−Y))⁺. Every step errs upwards.

1. *Finitely many losses.* A piece of (P, Q) whose likelihood ratios lie between e^l and e^r is the image,
   under a random map, of two outcomes of ratios e^l and e^r that have the same P and the same Q
   together. So these two reveal no less, in either direction. Their masses are computed in balls.
2. *Inversion.* With M(s) = E e^(sY) and any λ > 0,

       e^(λε)·δ(ε) = 1/(2π)·∫ e^(−iωε)·M(λ + iω)/((λ + iω)(λ + iω + 1)) dω.

   Summed over the multiples ω of 2π/T in place of the integral, this is the sum of e^(λx)·δ(x) over all
   x = ε + mT, which is no less, because no term is negative.
3. *A little more to see.* If need be, a factor G(ν) with a small ν is added. It makes M(λ + iω) fall like
   e^(−ν²ω²/2), so that what is left out beyond the last ω is known.
4. *Rounding.* The sums of step 2 are taken in doubles, and their errors are bounded along with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from pabi.verification.arithmetic import BITS, Refused, in_time, timed

Array = NDArray[np.float64]

# Spacing of the normal variable behind a loss, and by how much step 3 may raise ε, relatively. Where ε is
# near 0, the error of a spacing is relative to δ.
_LEVELS = ((0.06, 8e-4), (0.03, 1e-4), (0.012, 3e-5), (0.004, 3e-6), (0.0015, 5e-7))
_MOST = 4_000_000_000  # terms to add up before giving up
_MOST_FREQUENCIES = 2_000_000  # of one sum: 300 MB
_MOST_LOSSES = 20_000  # of one factor
_FAR = 0.8  # of the ε around which a sum was taken: one below is looked at anew
_SECTION = (3.0 - math.sqrt(5.0)) / 2.0
_ULP = 2.0**-53
_BLOCK, _STRIDE = 128, 16_384  # terms that are added one after the other; columns at once
_SUMMED = 1.0 + 1e-12  # more than the rounding errors of a sum of probabilities
_WHOLE = 1.0 - 1e-9  # less than the masses of a law, each rounded up, add to
_ADDED = 1.0 + 1e-14  # more than the rounding errors of two additions


PRESENT, REPLACED, DISPLACING = "poisson_subsampled", "poisson_replaced", "subsampled"


class Sampled(NamedTuple):
    """`times` factors of a kind: O_p(μ) ("poisson_subsampled"), R_p(μ) ("poisson_replaced"), or that of a
    record that displaces others ("subsampled").

    Of the latter μ is how far apart the sums are, `norm` how far the record moves the one sum, and `other`
    how far the other is moved; None: no more than μ, which is C_p(G(μ)).
    """

    kind: str
    probability: Fraction | float
    mu: float
    times: int
    norm: float | None = None
    other: float | None = None

    @property
    def sizes(self) -> tuple[float, float]:
        """(norm, other)."""
        norm = self.mu if self.norm is None else self.norm
        return norm, self.mu if self.other is None else self.other

    def turned(self) -> Sampled:
        """The same with the data sets exchanged, of a record that displaces others."""
        return self._replace(norm=self.sizes[1], other=self.sizes[0])


class Refined:
    """The least of the ε that are found at `delta` on finer and finer grids, as far as they are asked for."""

    def __init__(self, finer: Iterator[float], delta: float, coarse: bool = False) -> None:
        """`coarse`: whether the first grid says little, as of what is hidden among labels."""
        self._finer, self._delta = finer, delta
        self._best, self._at_least = math.inf, 2 if coarse else 1  # grids

    def least(self, enough: float) -> float:
        """The least so far: finer grids are tried as long as it is above `enough`, but so little that they
        may help. ∞ if none is found."""
        far = 1.02 * enough + 0.01 * self._delta
        while enough < self._best and (self._best <= far or self._at_least > 0):
            epsilon = next(self._finer, None)
            if epsilon is None:
                break
            self._best, self._at_least = min(self._best, epsilon), self._at_least - 1
        return self._best


def epsilons(
    parts: Sequence[tuple[Any, float]],
    sampled: Iterable[Sampled],
    delta: float,
    others: Sequence[tuple[Callable[[float, float], tuple[Law, Law]], int]] = (),
) -> Iterator[float]:
    """ε with δ(ε) ≤ `delta` for the product, one for each of finer and finer grids; none if none is found.

    `parts`: (probability, μ) of a mixture of Gaussians, which is one factor. `others`: of further factors
    the losses, from (tail, spacing), those with the data sets exchanged, and how many there are.
    """
    factors = [f._replace(probability=_double(f.probability)) for f in sampled if f.mu > 0.0]
    if not 0.0 < delta < 1.0 or any(math.isinf(max(f.mu, *f.sizes)) for f in factors):
        return
    if not factors and not others and all(mu == 0.0 for _, mu in parts):
        yield 0.0
        return
    tail = delta / max(1, sum(f.times for f in factors) + sum(n for _, n in others))
    for spacing, rise in _LEVELS:
        drawn = [f for f in factors if f.probability < 1.0]
        laws = [_law(f, tail, spacing) for f in drawn]
        plain = math.fsum(f.times * whole_mu(f) ** 2 for f in factors if f.probability == 1.0)
        more = [(law(tail, spacing), times) for law, times in others]
        turns = any(law.turns for law in laws) or any(law.turns for (law, _), _ in more)
        epsilon = 0.0
        for turned in (False, True) if turns else (False,):
            facing = laws
            if turned:
                facing = [
                    _turned(f, law, tail, spacing) for f, law in zip(drawn, laws, strict=True)
                ]
            facing = [*facing, *(both[turned]._replace(times=n) for both, n in more)]
            epsilon = max(epsilon, _Sum(facing, _mixture(parts, plain)).epsilon(delta, rise))
        yield epsilon


def whole_mu(factor: Sampled) -> float:
    """The μ of the Gaussian that a factor is if the record is drawn for sure."""
    return 2.0 * factor.mu if factor.kind == REPLACED else factor.mu


def _double(p: Fraction | float) -> float:
    """A double not below `p`, nor above 1."""
    value = float(p)
    return value if value >= p else math.nextafter(value, 1.0)


# Step 1.


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
        return _up(law.p * np.exp(-law.y))


def _turned(factor: Sampled, law: Law, tail: float, spacing: float) -> Law:
    """The law of (Q, P) for a factor whose (P, Q) has `law`."""
    if law.turns and factor.kind == DISPLACING:
        return _law(factor.turned(), tail, spacing)
    return law.turned(1e-6 * tail)


def _law(factor: Sampled, tail: float, spacing: float) -> Law:
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
            lowest = -_above(-(1 - arb(p)).log())
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
    return law._replace(y=np.concatenate([-law.y[:0:-1], law.y]), p=_up(both))


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
    return np.array([_above(m) for m in masses]), _above(infinity)


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
        above[0] += _above(rest)
    p = np.concatenate([below[::-1], above[1:]])
    p[below.size - 1] += above[0]
    return Law(y, _up(p), infinity, factor.times, norm != other)


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
        ceilings = np.array([0.0, *(_above(y) for y in losses[1:])])
        floors = np.array([0.0, *(max(0.0, -_above_any(-y)) for y in losses[1:])])
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
        return np.array([_above(m) for m in masses]), _above(self.last.p - finite)

    def split_below(self) -> Array:
        """Q-mass at minus the floors, where Q and P have changed roles."""
        masses = [arb(0)] * len(self.losses)
        for i, cell in enumerate(self.cells):
            seen = _Tail(cell.q, cell.p)
            upper = _upper(seen, -self.losses[i + 1].upper(), -arb(self.floors[i]))
            masses[i + 1] += seen.p - upper
            masses[i] += upper
        masses[-1] += self.last.q
        return np.array([_above(m) for m in masses])


def _mixed(p: float, plain: Any, own: Any, other: Any) -> _Tail:
    """P's and Q's part of masses under N(0, 1), N(a, 1) and N(b, 1)."""
    return _Tail(p * own + (1 - arb(p)) * plain, p * other + (1 - arb(p)) * plain)


def _upper(cell: _Tail, low: Any, high: Any) -> Any:
    """P's mass at the upper of two losses between which a cell's are; the rest is at the lower."""
    return (cell.p - low.exp() * cell.q) / -(low - high).expm1()


def _above_any(ball: Any) -> float:
    """A double not below a ball; ∞ if it is no number."""
    value = math.nextafter(float(arb(ball).upper()), math.inf)
    return value if value == value else math.inf


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
    return np.array([_above(m) for m in masses]), _above(infinity), _above(rest)


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


def _above(ball: Any) -> float:
    """A double ≥ 0 not below a ball; ∞ if it is no number."""
    value = math.nextafter(float(arb(ball).upper()), math.inf)
    return max(0.0, value) if value == value else math.inf


def _up(x: Array) -> Array:
    """`x` ≥ 0 raised by more than a few roundings."""
    return np.asarray(x * (1.0 + 16.0 * _ULP) + 1e-315 * (x > 0.0))


# Steps 2 to 4.


class _Mixture(NamedTuple):
    """Gaussian pairs: the least μ², by how much the others are larger, weights, and that of μ = ∞."""

    least: float
    more: Array
    weights: Array
    infinity: float


def _mixture(parts: Sequence[tuple[Any, float]], plain: float) -> _Mixture:
    """Of (probability, μ), with `plain` added to every μ²; rounded up."""
    mus, weights = np.array([mu for _, mu in parts]), np.array([float(w) for w, _ in parts])
    with np.errstate(over="ignore"):
        squares = np.square(mus)
    finite = np.isfinite(squares)
    infinity = float(weights[~finite].sum()) * _SUMMED
    possible = finite & (weights > 0.0)
    squares = squares[possible]
    least = float(squares.min()) if squares.size else 0.0
    total = (least + plain) * _ADDED
    return _Mixture(total, _up(squares - least), _up(weights[possible]), infinity)


class _Sum:
    """The sum of all losses, in one direction."""

    def __init__(self, laws: Sequence[Law], mixture: _Mixture) -> None:
        for law in laws:
            if not float(law.p.sum()) + law.infinity >= _WHOLE:
                raise Refused("factors: some of the probability of a law is missing")
        self.laws, self.mixture = laws, mixture
        self.infinity = mixture.infinity + math.fsum(law.times * law.infinity for law in laws)

    def log_moment(self, power: float) -> float:
        """K(λ) = log E e^(λY), over the finite losses."""
        in_time()
        half = 0.5 * power * (power + 1.0)
        total = half * self.mixture.least
        total += log_sum(half * self.mixture.more, self.mixture.weights)
        return total + math.fsum(law.times * log_sum(power * law.y, law.p) for law in self.laws)

    def epsilon(self, delta: float, rise: float) -> float:
        """The least ε for which δ(ε) ≤ `delta` can be shown; ∞ if there is none."""

        def chernoff(power: float) -> float:
            """The ε that follows from δ(ε) ≤ e^(K − λε)·λ^λ/(1 + λ)^(1 + λ)."""
            gain = -power * math.log1p(1.0 / power) - math.log1p(power)
            return (self.log_moment(power) + gain - math.log(delta)) / power

        def delta_there(power: float) -> float:
            """log of the δ that follows at the ε found so far."""
            return power * chernoff(power) - power * best

        if not self.infinity <= delta:
            return math.inf
        power = minimiser(chernoff)
        best, around = math.inf, max(1.01 * chernoff(power), 0.1 / power)
        # Moments are far from the truth where rare outcomes reveal much: then again, around what was found.
        while best == math.inf or best < _FAR * around:
            around = min(around, best)
            epsilon = self._least(power, around, delta, rise=rise)
            if epsilon is None or not epsilon < best:
                break
            best = epsilon
            if best == 0.0:
                break
            power = minimiser(delta_there)
        return best

    def _least(self, power: float, most: float, delta: float, *, rise: float) -> float | None:
        """The least ε up to `most` for which δ(ε) ≤ `delta` can be shown with one tilt; None if none can."""
        bound = self._inverted(power, most, delta, rise=rise)
        if bound is None or not bound(most) <= delta:
            return None
        low, high = 0.0, most
        if bound(low) <= delta:
            return low
        while high - low > 1e-6 * high:
            in_time()
            middle = 0.5 * (low + high)
            low, high = (low, middle) if bound(middle) <= delta else (middle, high)
        return high

    def _inverted(
        self, power: float, epsilon: float, delta: float, *, rise: float
    ) -> Callable[[float], float] | None:
        """An upper bound on δ, sharp around `epsilon`; None where it would take too long."""
        square = max(self.mixture.least, 2.0 * rise * epsilon / (power + 1.0))  # step 3
        half = 0.5 * power * (power + 1.0)
        base = self.log_moment(power) + half * (square - self.mixture.least)
        step = 2.0 * math.pi / self._period(power, epsilon, delta)
        last = math.ceil(math.sqrt((50.0 + 4.0 * math.log1p(power)) / square) / step)
        nodes = sum(law.y.size for law in self.laws) + self.mixture.weights.size
        if not (last < _MOST_FREQUENCIES and last * (nodes + 100.0) < _MOST):
            return None
        omega: Array = step * np.arange(last + 1.0)
        s = power + 1j * omega
        size: Any = -0.5 * square * omega**2 - np.log(np.abs(s * (s + 1.0)))
        angle = square * (power + 0.5) * omega - np.angle(s) - np.angle(s + 1.0)
        weight, angle, error, doubt = Spectrum.of(size, angle, self._transforms(power, omega), step)
        slack = 8.0 * half * square + doubt
        beyond = math.exp(-0.5 * square * omega[-1] ** 2) / (math.pi * omega[-1])

        def bound(epsilon: float) -> float:
            total = float(weight @ np.cos(angle - omega * epsilon)) + beyond
            total += error + float(weight @ omega) * (4.0 * _ULP * epsilon)
            log_scale = base - power * epsilon
            log_scale += _ULP * (slack + 16.0 + 8.0 * (abs(base) + power * epsilon))
            if log_scale > 700.0:
                return 1.0
            return float((math.exp(log_scale) * total + self.infinity) * _SUMMED)

        return bound

    def _period(self, power: float, epsilon: float, delta: float) -> float:
        """A T for which all but the term m = 0 of step 2 are small."""
        small = 25.0 + 4.0 * math.log1p(power)
        base = self.log_moment(power)
        after = min(
            (self.log_moment(power + more) - base - more * epsilon + small) / more
            for more in (power * f for f in (0.2, 0.5, 1.0, 2.0, 4.0))
        )
        return 1.05 * max((small - math.log(delta)) / power, after)

    def _transforms(self, power: float, omega: Array) -> Iterable[tuple[Any, Array, int]]:
        """For every factor, E e^((λ + iω)Y)/E e^(λY) at every ω, a bound on its error, and how often."""
        _, more, weights, _ = self.mixture
        if more.any():
            y = (power + 0.5) * more
            w, error = tilted(
                0.5 * power * (power + 1.0) * more, y, weights, omega=omega, power=power
            )
            value = [w @ np.exp(1j * o * y - 0.5 * more * o * o) for o in omega.tolist()]
            yield np.array(value), error, 1
        for law in self.laws:
            in_time()
            w, error = tilted(power * law.y, law.y, law.p, omega=omega, power=power)
            yield characteristic(law.y, w, omega), error, law.times


class Spectrum(NamedTuple):
    """What stands at every frequency, times the distance of two over π: sizes and angles; a bound on the
    error of all together, and how many ulps the logarithm of the whole is off by."""

    weight: Any
    angle: Any
    error: float
    slack: float

    @classmethod
    def of(
        cls, size: Any, angle: Any, transforms: Iterable[tuple[Any, Array, int]], step: float
    ) -> Spectrum:
        """That of a factor, given by the logarithms of its sizes and by its angles, and of characteristic
        functions, each with a bound on its error and how often it occurs."""
        doubt, turn, slack = np.zeros(size.size), 8.0 + 4.0 * np.abs(angle), 0.0
        for value, error, times in transforms:
            modulus = np.maximum(np.abs(value), 1e-300)
            size = size + times * np.log(modulus)
            angle = angle + times * np.angle(value)
            # |(v + e)^n − v^n| ≤ (|v| + |e|)^n − |v|^n
            doubt += times * (np.log1p(error / modulus) + _ULP * (4.0 - 2.0 * np.log(modulus)))
            turn += times * 16.0
            slack += times * 2.0 * float(error[0]) / _ULP
        with np.errstate(under="ignore"):
            weight = np.exp(size) * step / math.pi
            wrong = np.exp(size + doubt) * -np.expm1(-doubt) * step / math.pi
        weight[0], wrong[0] = 0.5 * weight[0], 0.5 * wrong[0]
        wrong += weight * _ULP * (turn + size.size)
        return cls(weight, angle, float(wrong.sum()), slack)


def tilted(
    exponent: Array, y: Array, p: Array, *, omega: Array, power: float
) -> tuple[Array, Array]:
    """p·e^exponent, normalised, and a bound on the error of its characteristic function."""
    top = _largest(exponent, p)
    with np.errstate(under="ignore"):
        w = p * np.exp(np.minimum(exponent - top, 0.0))
    w = w / w.sum()
    mean = float(w @ np.abs(y))
    terms = _BLOCK + y.size / _BLOCK  # one after the other, in `characteristic`
    return w, _ULP * (4.0 * terms + 100.0 + 8.0 * abs(top) + 16.0 * (power + omega) * mean)


def characteristic(y: Array, w: Array, omega: Array) -> Any:
    """Σ w·e^(iωy) at the multiples ω of a step, as products of e^(iωy) at few and at many steps."""
    few, step = 64, float(omega[1])
    many = np.arange(0, omega.size, few)
    value: Any = np.zeros((few, many.size), dtype=np.complex128)
    for first in timed(range(0, y.size, _BLOCK)):
        part, weight = y[first : first + _BLOCK], w[first : first + _BLOCK, None]
        near = np.exp(1j * step * np.outer(np.arange(few), part))
        for i in range(0, many.size, _STRIDE):
            far = weight * np.exp(1j * step * np.outer(part, many[i : i + _STRIDE]))
            value[:, i : i + _STRIDE] += near @ far
    return value.T.ravel()[: omega.size]


def log_sum(exponent: Array, p: Array) -> float:
    """log Σ p·e^exponent."""
    if p.size == 0:
        return 0.0
    top = _largest(exponent, p)
    with np.errstate(under="ignore"):
        terms = p * np.exp(np.minimum(exponent - top, 0.0))
    return top + math.log(float(np.sum(terms)))  # in pairs


def _largest(exponent: Array, p: Array) -> float:
    """The largest exponent of those with some mass: the others, however large, add nothing."""
    return float(exponent[p > 0.0].max())


def minimiser(function: Callable[[float], float]) -> float:
    """About where a function of λ > 0 that falls and then rises is least."""
    grid = np.exp(np.arange(-14.0, 36.0, 2.0)).tolist()
    best = min(range(len(grid)), key=lambda i: function(grid[i]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    a, b = low * (high / low) ** _SECTION, high * (low / high) ** _SECTION
    at_a, at_b = function(a), function(b)
    while high > 1.02 * low:  # one of the two inner points is one of the next two
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = low * (high / low) ** _SECTION
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = high * (low / high) ** _SECTION
            at_b = function(b)
    return math.sqrt(low * high)
