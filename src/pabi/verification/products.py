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
3. *A little more to see.* A factor G(ν) with a small ν is added. It makes M(λ + iω) fall like e^(−ν²ω²/2), so
   that what is left out beyond the last ω is known.
4. *Rounding.* The sums of step 2 are taken in doubles, and their errors are bounded along with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Spacing of the normal variable behind a loss, and by how much step 3 may raise ε, relatively.
_LEVELS = ((0.06, 8e-4), (0.03, 2e-4), (0.012, 3e-5))
_MOST = 1_000_000_000  # sines to compute before giving up
_BITS = 128
_ULP = 2.0**-53


class Sampled(NamedTuple):
    """`count` factors C_p(G(μ)) (kind "subsampled") or O_p(μ) ("poisson_subsampled")."""

    kind: str
    probability: float
    mu: float
    count: int


def epsilon_bound(
    parts: Sequence[tuple[Any, float]],
    sampled: Iterable[Sampled],
    delta: float,
    enough: float = 0.0,
) -> float:
    """An ε with δ(ε) ≤ `delta` for the product; ∞ if none is found.

    `parts`: (probability, μ) of a mixture of Gaussians, which is one factor. Finer grids are tried as long
    as the ε found is above `enough`, but so little that they may help.
    """
    factors = [f for f in sampled if f.mu > 0.0 and f.probability > 0.0]
    if not 0.0 < delta < 1.0 or any(math.isinf(f.mu) for f in factors):
        return math.inf
    if not factors and all(mu == 0.0 for _, mu in parts):
        return 0.0
    tail = delta / max(1, sum(f.count for f in factors))
    best = math.inf
    for spacing, rise in _LEVELS:
        laws = [_law(f, tail, spacing) for f in factors if f.probability < 1.0]
        plain = math.fsum(f.count * f.mu**2 for f in factors if f.probability == 1.0)
        found = 0.0
        for turned in (False, True) if any(law.turns for law in laws) else (False,):
            facing = [law.turned() for law in laws] if turned else laws
            found = max(found, _Sum(facing, _mixture(parts, plain), delta, rise).epsilon)
        best = min(best, found)
        if best <= enough or best > 1.02 * enough:
            break
    return best


# Step 1.


class Law(NamedTuple):
    """Losses `y` of P-masses `p`, the mass of the infinite loss, and whether (Q, P) has another law."""

    y: Array
    p: Array
    infinity: float
    count: int
    turns: bool

    def turned(self) -> Law:
        """The law of (Q, P); its infinite loss has no mass."""
        if not self.turns:
            return self
        with np.errstate(under="ignore"):
            return self._replace(y=-self.y, p=_raised(self.p * np.exp(-self.y), 4), infinity=0.0)


def _law(factor: Sampled, tail: float, spacing: float) -> Law:
    """Finitely many losses that reveal no less than one factor, p < 1.

    P = p·N(μ, 1) + (1 − p)·N(0, 1), Q = N(0, 1) for O_p. The law of C_p has the same losses above 0, mirrored
    ones below, P(−y) = e^(−y)·P(y), and the rest at 0.
    """
    single = factor.kind == "poisson_subsampled"
    p, mu = factor.probability, factor.mu
    reach = math.sqrt(2.0 * math.log(1e7 / tail))
    z = np.arange(-reach if single else 0.5 * mu, mu + reach + spacing, spacing)
    with np.errstate(under="ignore"):
        g = mu * z - 0.5 * mu * mu
        low, high = np.minimum(g, 0.0), np.maximum(g, 0.0)
        y = np.where(g < 0.0, np.log1p(p * np.expm1(low)), g + np.log(p + (1.0 - p) * np.exp(-high)))
    lowest = math.nextafter(math.log1p(-p) * (1.0 + 1e-15), -math.inf) if single else 0.0
    edges = np.concatenate([[lowest], np.unique(y[y > lowest])])
    with ctx.workprec(_BITS):
        masses, infinity, rest = _split(mu, p, edges.tolist(), single)
    if not single:
        with np.errstate(under="ignore"):
            mirrored = _raised(masses * np.exp(-edges), 4)
        edges = np.concatenate([-edges[::-1], edges])
        masses = np.concatenate([mirrored[::-1], masses])
        masses[len(mirrored)] += rest
    return Law(edges, masses, infinity, factor.count, single)


def _split(mu: float, p: float, edges: Sequence[float], single: bool) -> tuple[Array, float, float]:
    """(P-mass at every edge, that of the infinite loss, that of no loss in C_p), rounded up."""
    ps, masses = arb(p), [arb(0)] * len(edges)
    left = _normal(None, mu) if single else _normal(arb(mu) / 2, mu)
    begin = left
    for i, y in enumerate(edges):
        ratio = arb(y).exp() - 1 + ps  # = p·e^(μz − μ²/2) where the loss is y
        if i == 0:
            continue
        right = _normal((ratio / ps).log() / mu + arb(mu) / 2, mu)
        q, shifted = _between(left[0], right[0]), _between(left[1], right[1])
        mass = ps * shifted + (1 - ps) * q
        upper = (mass - arb(edges[i - 1]).exp() * q) / -(arb(edges[i - 1]) - y).expm1()
        masses[i] += upper
        masses[i - 1] += mass - upper
        left = right
    q, shifted = left[0].upper_tail, left[1].upper_tail
    lower = arb(edges[-1]).exp() * q
    masses[-1] += lower
    infinity = ps * shifted + (1 - ps) * q - lower
    rest = (1 - ps) * (1 - 2 * begin[0].upper_tail)
    return np.array([_above(m) for m in masses]), _above(infinity), _above(rest)


class _Tails(NamedTuple):
    """A place of the normal distribution, by the probabilities below and above it."""

    right: bool
    lower_tail: Any
    upper_tail: Any


def _normal(z: Any, mu: float) -> tuple[_Tails, _Tails]:
    """`z` (None: −∞) as a place of N(0, 1) and of N(μ, 1)."""
    if z is None:
        nowhere = _Tails(False, arb(0), arb(1))
        return nowhere, nowhere
    return _place(z), _place(z - mu)


def _place(z: Any) -> _Tails:
    small = (abs(z) / arb(2).sqrt()).erfc() / 2
    return _Tails(True, 1 - small, small) if z > 0 else _Tails(False, small, 1 - small)


def _between(a: _Tails, b: _Tails) -> Any:
    return a.upper_tail - b.upper_tail if a.right else b.lower_tail - a.lower_tail


def _above(ball: Any) -> float:
    """A double ≥ 0 not below a ball."""
    return max(0.0, math.nextafter(float(ball.upper()), math.inf))


def _raised(x: Array, ulps: int) -> Array:
    return x * (1.0 + ulps * 2.0 * _ULP) + 1e-320


# Steps 2 to 4.


class Mixture(NamedTuple):
    """Gaussian pairs: the least μ², the other squares above it, their weights, and that of μ = ∞."""

    least: float
    squares: Array
    weights: Array
    infinity: float


def _mixture(parts: Sequence[tuple[Any, float]], plain: float) -> Mixture:
    """Of (probability, μ), `plain` added to every μ²; squares and weights rounded up."""
    mus = np.array([mu for _, mu in parts])
    weights = _raised(np.array([float(w) for w, _ in parts]), 1)
    finite = np.isfinite(mus)
    squares = _raised(np.square(mus[finite]), 1)
    least = float(squares.min(initial=math.inf)) if finite.any() else 0.0
    if len(parts) == 1 and finite.all() and parts[0][0] <= 1:
        weights = np.ones(1)
    above = _raised(squares - least, 1) * (squares > least)
    total = (least + plain) * (1.0 + 1e-14 * (1.0 + len(parts)))
    return Mixture(total, above, weights[finite], float(weights[~finite].sum()) * (1.0 + 1e-12))


@dataclass(frozen=True)
class _Sum:
    """The sum of all losses in one direction."""

    laws: Sequence[Law]
    mixture: Mixture
    delta: float
    rise: float

    @cached_property
    def epsilon(self) -> float:
        """The least ε found with a bound on δ(ε) within `delta`; ∞ if there is none."""
        log_delta = math.log(self.delta)

        def chernoff(power: float) -> float:  # δ(ε) ≤ e^(K − λε)·λ^λ/(1 + λ)^(1 + λ)
            gain = -power * math.log1p(1.0 / power) - math.log1p(power)
            return (self.log_moment(power) + gain - log_delta) / power

        power = _least(chernoff)
        high = max(0.0, chernoff(power))
        bound = _Inversion.of(self, power, max(high, 1e-300))
        if bound is None:
            return math.inf
        if bound.delta(0.0) <= self.delta:
            return 0.0
        low = 0.0
        for _ in range(40):
            if bound.delta(high) <= self.delta:
                break
            low, high = high, 1.001 * high + 1e-300
        else:
            return math.inf
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if bound.delta(middle) <= self.delta else (middle, high)
        return high
