"""The Gaussian trade-off function that lies below a given one, where there is one.

Whoever adds up μ², as budgets do, charges a release by it (docs, "Theory", 16).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from flint import arb, ctx

from pabi.numbers.rounding import root_of_fraction_up
from pabi.tradeoff.allocation import RandomAllocation
from pabi.tradeoff.approx_dp import ApproxDP, BoundedRange
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian, widened_mu
from pabi.tradeoff.kinds import known_curve
from pabi.tradeoff.laplace import Laplace
from pabi.tradeoff.mixture import Mixture
from pabi.tradeoff.product import Product
from pabi.tradeoff.subsampled import FixedSizeSubsampled
from pabi.tradeoff.two_halves import OfLaw

_BITS = 200
_LARGE = 600.0  # e^-600 is a double with room to spare


def gaussian_below(curve: TradeOff) -> float:
    """A μ with G(μ) ≤ f, rounded up; ∞ where no finite one is known. Source: docs, "Theory", 16.

    That of a Gaussian, the largest of a mixture, secret or not, and of a sampled Gaussian, twice that of one
    of which a record is replaced or whose means are opposite, the largest size of one that displaces others,
    of one in a secret batch that with the batch in sight, the least of several bounds, of a product the root
    of the sum of squares, and twice what it is rounded by.
    """
    match known_curve(curve):
        case Gaussian(mu=mu):
            return mu
        case Mixture(parts=parts):
            return parts[-1].mu
        case FixedSizeSubsampled(apart=apart, _largest=mu):
            return max(mu, apart) if mu > 0.0 else 0.0
        case OfLaw(_largest=mu):
            return mu
        case RandomAllocation(_seen=seen):
            return gaussian_below(seen)
        case Laplace(epsilon_0=epsilon, probability=p):
            return _between_halves(epsilon) if p > 0.0 else 0.0
        case BoundedRange(epsilon_0=length):
            return _between_logits(0.5 * length)
        case ApproxDP(epsilon_0=epsilon, delta_0=0.0):
            return _between_logits(epsilon)
        case Best(parts=parts):
            return min(map(gaussian_below, parts))
        case Product(factors=factors, failure=0.0, rounding=r):
            mu = _together((gaussian_below(factor), k) for factor, k in factors)
            return widened_mu(mu, r)
        case _:  # what may fail, or is known by numbers alone, lies above no Gaussian that we know
            return math.inf


def _together(factors: Iterable[tuple[float, int]]) -> float:
    """μ of G(μ_1)^⊗k_1 ⊗ …, rounded up."""
    every = list(factors)
    if any(math.isinf(mu) for mu, _ in every):
        return math.inf
    return root_of_fraction_up(sum((k * Fraction(mu) ** 2 for mu, k in every), Fraction(0)))


def _between_logits(x: float) -> float:
    """A double not below 2Φ⁻¹(1/(1 + e^-x)), the least but for a few units of its last place; x ≥ 0."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(-t) ≤ e^(-t²/2)/2 ≤ 1/(1 + e^x) at t = √2x
        return math.nextafter(2.0 * math.sqrt(2.0 * x), math.inf)
    with ctx.workprec(_BITS):
        return _of_tail(1.0 / (1.0 + math.exp(x)), 1 / (1 + arb(x).exp()), x)


def _between_halves(x: float) -> float:
    """A double not below 2Φ⁻¹(1 - e^(-x/2)/2), the least but for a few units of its last place; x ≥ 0."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(-t) ≤ e^(-t²/2)/2 at t = √x
        return math.nextafter(2.0 * math.sqrt(x), math.inf)
    with ctx.workprec(_BITS):
        return _of_tail(0.5 * math.exp(-0.5 * x), (arb(x) / -2).exp() / 2, x)


def _of_tail(near: float, tail: Any, x: float) -> float:
    """A double μ with Φ(-μ/2) ≤ `tail`, a ball around `near`."""
    mu, step = -2.0 * NormalDist().inv_cdf(near), 1.0
    root8 = arb(8).sqrt()
    while not (arb(mu) / root8).erfc() / 2 <= tail:
        mu += step * math.ulp(max(mu, math.ulp(1.0) * x))
        step *= 2.0
    return mu
