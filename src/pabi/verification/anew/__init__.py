"""The ε of a product composed once more, by code that shares nothing with what reads guarantees.

No guarantee rests on it. `verify(…, again=True)` compares with it what `pabi.tradeoff` has read, and so do
tests; certificates of older files that state the ε of a product are checked by it. Every step errs upwards.

- `sums` composes finitely many losses; `laws` has those of sampled Gaussians, `secret_laws` those of mixtures
  whose label stays secret, `allocations` those of one record in one of many secret batches;
- `label_sums` and `common_moves` are what `allocations` sums up.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from pabi.verification.anew import allocations
from pabi.verification.anew.secret_laws import advantage, epsilon_alone, laws_of, orders_of
from pabi.verification.anew.sums import epsilons, least_of
from pabi.verification.arithmetic import (
    BITS,
    Refused,
    above,
    closed,
    double_above,
    double_below,
    fraction_of,
    nonnegative,
    timed,
)
from pabi.verification.bounds import JointBound
from pabi.verification.factors.allocations import Allocations
from pabi.verification.factors.closed_forms import Failure, Gaussians, Rounding
from pabi.verification.factors.divergences import Divergences
from pabi.verification.factors.mixtures import SampledGaussians, SecretMixtures, whole_mu

# An ε up to which the same shift will do, and one that is not looked for.
_USUAL, _LARGEST = 28.0, 1e6


def epsilon_of(bound: JointBound, delta: float, enough: float = 0.0) -> float:
    """An ε that is proven of a bound at `delta` in (0, 1); ∞ if none is found, or if there are factors that
    are not composed here.

    `enough`: an ε ≥ 0 that will do: the search ends where it finds one of at most this. Refused if it takes
    longer than a verification may.
    """
    left = Fraction(delta) - bound.get(Failure).probability
    if left <= 0 or not bound.composed:
        return math.inf
    if bound.get(Rounding).square:
        return _near(bound, left, enough)
    return _exact(bound, double_below(left), enough)


def _near(bound: JointBound, left: Fraction, enough: float) -> float:
    """The same of a release that is near an exact one, by what is known of that one, without failures."""
    rounding, most = bound.get(Rounding), max(enough, _USUAL)
    while most < _LARGEST:
        with ctx.workprec(BITS):
            s, times, more = rounding.shift(most)  # which will do for all ε up to `most`
            twice = fraction_of(above(2 * s))
            rest = double_below((left - fraction_of(above(more))) / fraction_of(above(times)))
        if not rest > 0.0:
            break
        exactly = _exact(bound, rest, max(0.0, double_below(Fraction(enough) - twice)))
        if math.isinf(exactly):
            break
        epsilon = double_above(Fraction(exactly) + twice)
        if epsilon <= most:
            return epsilon
        most = 1.1 * epsilon
    return math.inf


def _exact(bound: JointBound, rest: float, enough: float) -> float:
    """The same of the factors, without failures and without rounding."""
    if (divergence := bound.get(Divergences)).size:
        return divergence.epsilon(rest)
    sampled = [f for f in bound.get(SampledGaussians).entries if f.mu > 0.0 and f.times]
    secret = Counter(bound.get(SecretMixtures).entries)
    allocated = [one for one in bound.get(Allocations).entries if one.seen > 0.0]
    if not (sampled or secret or allocated):
        with ctx.workprec(BITS):
            if bound.get(Gaussians).delta(enough) <= rest:
                return enough
    elif not any(math.isinf(max(f.mu, *f.sizes)) for f in sampled):
        if _advantage(bound, rest) <= rest:
            return 0.0
        if bound.size == 1 and not allocated:
            one = sampled[0] if sampled else next(iter(secret))
            return epsilon_alone(orders_of(one), rest, enough)
        if bound.size == 1:
            return allocations.epsilon_alone(allocated[0], rest, enough)
    others = [(laws_of(mixture), times) for mixture, times in secret.items()]
    others += [(allocations.laws_of(one), one.times) for one in allocated]
    # The first grid says little of what is hidden among labels.
    return least_of(epsilons(bound.parts, sampled, rest, others), rest, enough, bool(others))


def _advantage(bound: JointBound, most: float) -> Any:
    """A ball not below δ(0), at most the sum over all releases; or one above `most`."""
    with ctx.workprec(BITS):
        total = arb(0)
        for factor in timed(bound.get(SampledGaussians).entries):
            share = arb(double_above(Fraction(factor.probability)))
            total += factor.times * share * (arb(whole_mu(factor)) / arb(8).sqrt()).erf()
        if total <= most:
            total += bound.get(Gaussians).delta(0.0)
        for mixture, times in Counter(bound.get(SecretMixtures).entries).items():
            if total <= most:
                total += times * advantage(orders_of(mixture))
        for one in timed(bound.get(Allocations).entries):
            if total <= most:
                total += one.times * arb(allocations.advantage(one))
        return total


def check_reading(reading: Any, claimed: JointBound) -> tuple[float, float]:
    """The claimed (ε, δ). Refused unless the claimed factors imply it."""
    closed("the reading", reading, ("delta", "epsilon"))
    delta, epsilon = nonnegative("delta", reading["delta"]), reading["epsilon"]
    if not 0.0 < delta < 1.0:
        raise Refused(f"delta: expected a number above 0 and below 1, got {delta!r}")
    if epsilon == "inf":
        return math.inf, delta
    epsilon = nonnegative("epsilon", epsilon)
    proven_epsilon = epsilon_of(claimed, delta, epsilon)
    if not proven_epsilon <= epsilon:
        what = f"only ε = {proven_epsilon!r}" if math.isfinite(proven_epsilon) else "no finite ε"
        raise Refused(f"reading: {what} could be proven at δ = {delta!r}, not {epsilon!r}")
    return epsilon, delta
