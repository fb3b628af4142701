"""Which Gaussian lies below what is proven: G(μ) ≤ f (docs, "Theory", 16)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from flint import arb, fmpq

from pabi.verification.arithmetic import exact
from pabi.verification.bounds import JointBound
from pabi.verification.factors import Factor
from pabi.verification.factors.bounded_ranges import BoundedRanges
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.factors.laplaces import Laplaces
from pabi.verification.factors.pure import PureFactors
from pabi.verification.factors.sampled import SampledGaussians
from pabi.verification.limits import timed
from pabi.verification.products import whole_mu

_LARGE = 600.0


def square_below(bound: JointBound) -> Any:
    """A rational μ² with G(μ) below the bound; None where no finite one is known."""
    return _total([(1, _square(factor)) for factor in bound.factors])


def _square(factor: Factor) -> Any:
    match factor:
        case Gaussians(parts=parts):
            # The worst case of a mixture; claimed cases of no weight are left out.
            return _of_mu(max((mu for weight, mu in parts if weight > 0), default=math.inf))
        case SampledGaussians(entries=entries):
            # A record that is in the batch for sure reveals no less.
            used = [f for f in timed(entries) if f.times and f.probability > 0.0]
            return _total([(f.times, _of_mu(whole_mu(f))) for f in used])
        case BoundedRanges(entries=entries):
            return _total([(n, _of_mu(_between_logits(0.5 * e))) for e, n in timed(entries) if n])
        case PureFactors(entries=entries):
            return _total([(n, _of_mu(_between_logits(e))) for e, n in timed(entries) if n])
        case Laplaces(entries=entries):
            return _total([(n, _of_mu(_between_halves(e))) for e, n in timed(entries) if n])
        case _:  # a probability with which nothing is promised
            return None


def _total(squares: Sequence[tuple[int, Any]]) -> Any:
    """Σ times·μ², None where one is None."""
    if any(square is None for _, square in squares):
        return None
    return sum((times * square for times, square in squares), fmpq(0))


def _of_mu(mu: float) -> Any:
    return None if math.isinf(mu) else exact(mu) * exact(mu)


def _between_logits(x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ 1/(1 + e^x), which is what the pair of logit distance x lies above."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(−t) ≤ e^(−t²/2)/2 at t = √2x
        return math.nextafter(2.0 * math.sqrt(2.0 * x), math.inf)
    return _of_tail(1.0 / (1.0 + math.exp(x)), 1 / (1 + arb(x).exp()), x)


def _between_halves(x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ e^(−x/2)/2, which is what the Laplace pair of distance x lies above."""
    if x == 0.0:
        return 0.0
    if not x < _LARGE:  # Φ(−t) ≤ e^(−t²/2)/2 at t = √x
        return math.nextafter(2.0 * math.sqrt(x), math.inf)
    return _of_tail(0.5 * math.exp(-0.5 * x), (arb(x) / -2).exp() / 2, x)


def _of_tail(near: float, tail: Any, x: float) -> float:
    """A double μ with Φ(−μ/2) ≤ `tail`, a ball around `near`."""
    mu, step = -2.0 * NormalDist().inv_cdf(near), 1.0
    root8 = arb(8).sqrt()
    while not (arb(mu) / root8).erfc() / 2 <= tail:
        mu += step * math.ulp(max(mu, math.ulp(1.0) * x))
        step *= 2.0
    return mu
