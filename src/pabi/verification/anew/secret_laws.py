"""Losses of secret mixtures, finitely many in place of all, see `sums`, 1.

In either order the pair is P = Σ w·N(m, 1) against Q = Σ v·N(n, 1) with every n below every m, perhaps after
turning the line around. So the likelihood ratio grows with z. What lies between two places is replaced by two
outcomes of the ratios there, with the same P and the same Q together. Below the first place all mass is given
the loss there; beyond the last one what is above e^l·Q has the loss ∞.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from pabi.verification.anew.laws import Law, reach_of, reversed_masses, up, up_from_zero
from pabi.verification.arithmetic import BITS, in_time, timed
from pabi.verification.factors.mixtures import Sampled, SecretParts

_MOST_PLACES = 4_000
_ENOUGH = 112  # bits: differences of masses, and of losses, keep more digits than a double has
_LEAST = 1e-300  # more than a mass that is rounded to 0

Part = tuple[Any, Any]  # weight, mean
Orders = list[tuple[list[Part], list[Part]]]  # P and Q
_STILL: list[Part] = [(arb(1), 0.0)]


def laws_of(mixture: SecretParts) -> Callable[[float, float], tuple[Law, Law]]:
    """(tail, spacing of the places) ↦ the losses of the mixture, and those with the data sets exchanged."""
    there = [(_ball(w), m) for w, m in mixture.parts if w > 0]

    def laws(tail: float, spacing: float) -> tuple[Law, Law]:
        if not mixture.opposite:
            return _laws(there, _STILL, tail=tail, spacing=spacing)
        law, _ = _laws(there, [(w, -m) for w, m in there], tail=tail, spacing=spacing)
        return law._replace(turns=False), law

    return laws


def _laws(
    first: Sequence[Part], second: Sequence[Part], *, tail: float, spacing: float
) -> tuple[Law, Law]:
    """The law of (P, Q), and that of (Q, P), where what is below the first place has the loss ∞."""
    reach = reach_of(tail)
    low, high = min(m for _, m in second) - reach, max(m for _, m in first) + reach
    spacing = max(spacing, (high - low) / _MOST_PLACES)
    places = np.arange(low, high + spacing, spacing).tolist()
    with ctx.workprec(_ENOUGH):
        losses: list[float] = []
        masses: list[Any] = []
        y = _loss(first, second, places[0])
        seen_p, seen_q = _seen(first, places[0]), _seen(second, places[0])
        q_below = _below(seen_q)
        losses.append(up(y))
        masses.append(_below(seen_p))
        for b in timed(places[1:]):
            in_time()
            next_p, next_q = _seen(first, b), _seen(second, b)
            p, q = _between(seen_p, next_p), _between(seen_q, next_q)
            least, y = _down(y), _loss(first, second, b)
            most = up(y)
            # u at the upper end, where Q has e^-most·u, and the rest at the lower.
            u = (p - arb(least).exp() * q) / -(arb(least) - arb(most)).expm1()
            losses += [least, most]
            masses += [p - u, u]
            seen_p, seen_q = next_p, next_q
        last, p, q = _down(y), _above(seen_p), _above(seen_q)
        finite = arb(last).exp() * q
        losses.append(last)
        masses.append(finite)
        each = np.array([up_from_zero(m) for m in masses])
        law = Law(np.array(losses), each, up_from_zero(p - finite), 1, turns=True)
        # Q's masses follow from the ratios; what is below all doubles is added to the infinite loss.
        infinity = up_from_zero(q_below + _LEAST * len(losses))
        return law, Law(-law.y[1:], reversed_masses(law)[1:], infinity, 1, turns=True)


# A place under every label: (weight, whether beyond its mean, masses below and above).
_Seen = list[tuple[Any, bool, Any, Any]]


def _seen(parts: Sequence[Part], z: float) -> _Seen:
    """A place under every label of one data set."""
    seen = []
    for w, m in parts:
        distance = arb(z) - m
        small = _tail(abs(distance))
        beyond = bool(distance > 0)
        below, above = (1 - small, small) if beyond else (small, 1 - small)
        seen.append((w, beyond, below, above))
    return seen


def _below(seen: _Seen) -> Any:
    return sum((w * below for w, _, below, _ in seen), arb(0))


def _above(seen: _Seen) -> Any:
    return sum((w * above for w, _, _, above in seen), arb(0))


def _between(start: _Seen, end: _Seen) -> Any:
    """Σ w·(the mass between two places), each from the nearer tail."""
    total = arb(0)
    for (w, beyond, below, above), (_, _, later_below, later_above) in zip(start, end, strict=True):
        total += w * (above - later_above if beyond else later_below - below)
    return total


def _loss(first: Sequence[Part], second: Sequence[Part], z: Any) -> Any:
    """A ball around log dP/dQ at z."""
    return _density(first, z).log() - _density(second, z).log()


def _density(parts: Sequence[Part], z: Any) -> Any:
    """The density over that of N(0, 1)."""
    return sum((w * (arb(m) * z - arb(m) * m / 2).exp() for w, m in parts), arb(0))


def _mass_above(parts: Sequence[Part], z: Any) -> Any:
    return sum((w * _tail(arb(z) - m) for w, m in parts), arb(0))


def _tail(z: Any) -> Any:
    """A ball of Φ(-z)."""
    return (z / arb(2).sqrt()).erfc() / 2


def _ball(weight: Fraction) -> Any:
    return arb(fmpq(weight.numerator, weight.denominator))


def _down(ball: Any) -> float:
    return math.nextafter(float(arb(ball).lower()), -math.inf)


# One mixture alone, in closed form.

_CLOSE = 1e-9  # relative: how near to the least ε
_LARGEST = 1024.0
_FAR = 64  # Φ(-64) is below every positive double
_BELOW = 2.0**-30
_NARROW = 2.0**-70  # relative: the interval of places that holds one of a given ratio


def orders_of(factor: SecretParts | Sampled) -> Orders:
    """P and Q of one mixture, or one sampled Gaussian, in each order that may be the worse at ε ≥ 0."""
    with ctx.workprec(2 * BITS):
        if isinstance(factor, Sampled):
            return _orders_of_sampled(factor)
        there = [(_ball(w), m) for w, m in factor.parts if w > 0]
        back = [(w, -m) for w, m in there]
        return [(there, back)] if factor.opposite else [(there, _STILL), (_STILL, back)]


def _orders_of_sampled(factor: Sampled) -> Orders:
    p = _ball(Fraction(factor.probability))

    def moved(by: Any) -> list[Part]:
        return [(p, by), (1 - p, 0.0)]

    match factor.kind:
        case "poisson_replaced":
            return [(moved(factor.mu), moved(-factor.mu))]
        case "poisson_subsampled":
            return [(moved(factor.mu), _STILL), (_STILL, moved(-factor.mu))]
        case _:
            sizes = sorted(set(factor.sizes))
            return [(moved(a), moved(_ball(Fraction(a) - Fraction(factor.mu)))) for a in sizes]


def advantage(orders: Orders) -> Any:
    """A ball not below δ(0)."""
    with ctx.workprec(2 * BITS):
        return _delta(*orders[0], 0.0)  # the same in every order


def epsilon_alone(orders: Orders, delta: float, enough: float = 0.0) -> float:
    """An ε with δ(ε) ≤ `delta` in each of these orders, or ∞; `enough` if that will do."""
    with ctx.workprec(2 * BITS):

        def holds(epsilon: float) -> bool:
            in_time()
            return all(bool(_delta(p, q, epsilon) <= delta) for p, q in orders)

        if holds(enough):
            return enough
        low, high = enough, max(enough * (1.0 + _CLOSE), _CLOSE)
        while not holds(high):
            low, high = high, high + 4.0 * (high - low)
            if high > _LARGEST:
                return math.inf
        while high - low > _CLOSE * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


def _delta(first: Sequence[Part], second: Sequence[Part], epsilon: float) -> Any:
    """A ball not below sup_z P(> z) - e^ε·Q(> z), which is reached where the loss is ε."""
    level = arb(epsilon).exp()
    means = [m for _, m in (*first, *second)]
    low, high = arb(min(means) - _FAR), arb(max(means) + _FAR)
    if not _density(first, low) < level * _density(second, low):
        return arb(1)  # nothing is told apart there
    if _density(first, high) < level * _density(second, high):
        return _mass_above(first, high)  # it is reached beyond, if at all
    if not _density(first, high) > level * _density(second, high):
        return _delta(first, second, epsilon * (1.0 - _BELOW))  # which is no less
    while high - low > _NARROW * (1 + abs(low)):
        middle = arb(((low + high) / 2).mid())
        if _density(first, middle) < level * _density(second, middle):
            low = middle
        elif _density(first, middle) > level * _density(second, middle):
            high = middle
        else:
            break
    # On the way from `low` to the place δ grows by the integral of e^ε·q - p ≤ φ·(e^ε·Q' - P'), primes for
    # what stands over φ; it falls along the way, and φ ≤ 2/5.
    rest = level * _density(second, low) - _density(first, low)
    beyond = _mass_above(first, low) - level * _mass_above(second, low)
    return beyond + (high - low) * rest * _largest_density(low, high)


def _largest_density(low: Any, high: Any) -> Any:
    """Not below the density of N(0, 1) between two places."""
    nearest = low if low > 0 else -high if high < 0 else arb(0)
    return (-(nearest**2) / 2).exp() * arb(2) / 5
