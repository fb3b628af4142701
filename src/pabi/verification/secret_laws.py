"""Losses of secret mixtures, finitely many in place of all, computed anew (see `products`, 1).

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

from pabi.verification.arithmetic import BITS
from pabi.verification.factors.secret_mixtures import SecretParts
from pabi.verification.limits import in_time, timed
from pabi.verification.products import Law, reach_of

_MOST_PLACES = 4_000

Part = tuple[Any, float]  # weight, mean


def laws_of(mixture: SecretParts) -> Callable[[float, float, bool], Law]:
    """(tail, spacing of the places, whether Q comes first) ↦ the losses of the mixture."""
    there = [(_ball(w), m) for w, m in mixture.parts if w > 0]
    back = [(w, -m) for w, m in there]
    still: list[Part] = [(arb(1), 0.0)]

    def law(tail: float, spacing: float, turned: bool) -> Law:
        if mixture.opposite:
            return _law(there, back, tail=tail, spacing=spacing)
        first, second = (still, back) if turned else (there, still)
        return _law(first, second, tail=tail, spacing=spacing)

    return law


def _law(first: Sequence[Part], second: Sequence[Part], *, tail: float, spacing: float) -> Law:
    reach = reach_of(tail)
    low, high = min(m for _, m in second) - reach, max(m for _, m in first) + reach
    spacing = max(spacing, (high - low) / _MOST_PLACES)
    places = np.arange(low, high + spacing, spacing).tolist()
    with ctx.workprec(BITS):
        losses: list[float] = []
        masses: list[Any] = []
        y = _loss(first, second, places[0])
        losses.append(_up(y))
        masses.append(_mass(first, None, places[0]))
        for a, b in timed(list(zip(places, places[1:], strict=False))):
            in_time()
            p, q = _mass(first, a, b), _mass(second, a, b)
            least, y = _down(y), _loss(first, second, b)
            most = _up(y)
            # u at the upper end, where Q has e^-most·u, and the rest at the lower.
            u = (p - arb(least).exp() * q) / -(arb(least) - arb(most)).expm1()
            losses += [least, most]
            masses += [p - u, u]
        last, p = _down(y), _mass(first, places[-1], None)
        finite = arb(last).exp() * _mass(second, places[-1], None)
        losses.append(last)
        masses.append(finite)
        return Law(
            np.array(losses),
            np.array([_mass_up(m) for m in masses]),
            _mass_up(p - finite),
            1,
            turns=True,
        )


def _loss(first: Sequence[Part], second: Sequence[Part], z: float) -> Any:
    """A ball around log dP/dQ at z."""
    return _density(first, z).log() - _density(second, z).log()


def _density(parts: Sequence[Part], z: float) -> Any:
    """The density over that of N(0, 1)."""
    return sum((w * (arb(m) * z - arb(m) * m / 2).exp() for w, m in parts), arb(0))


def _mass(parts: Sequence[Part], a: float | None, b: float | None) -> Any:
    """The mass between two places, None for an end of the line."""
    return sum((w * _normal(m, a, b) for w, m in parts), arb(0))


def _normal(mean: float, a: float | None, b: float | None) -> Any:
    if b is None:
        return _tail(arb(a) - mean)
    if a is None:
        return _tail(mean - arb(b))
    if a > mean:
        return _tail(arb(a) - mean) - _tail(arb(b) - mean)
    return _tail(mean - arb(b)) - _tail(mean - arb(a))


def _tail(z: Any) -> Any:
    """A ball of Φ(-z)."""
    return (z / arb(2).sqrt()).erfc() / 2


def _ball(weight: Fraction) -> Any:
    return arb(fmpq(weight.numerator, weight.denominator))


def _up(ball: Any) -> float:
    return math.nextafter(float(arb(ball).upper()), math.inf)


def _down(ball: Any) -> float:
    return math.nextafter(float(arb(ball).lower()), -math.inf)


def _mass_up(ball: Any) -> float:
    """A double ≥ 0 not below a ball; ∞ if it is no number."""
    value = _up(ball)
    return max(0.0, value) if value == value else math.inf
