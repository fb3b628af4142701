"""Trade-off functions as privacy-loss distributions of dp-accounting: on its grid, from above."""

from __future__ import annotations

import math
from typing import Any

from pabi.numbers.extras import extra
from pabi.tradeoff import Best, PrivacyLossDistribution, Product, TradeOff
from pabi.tradeoff.kinds import known_curve

_pld: Any = extra("dp_accounting.pld.privacy_loss_distribution", "dp-accounting")

_TAIL = 1e-15  # of the excess that may become infinite
_SUM = 1e-10  # relative: more than δ changes where masses and losses of a factor are rounded


def pld_of(curve: TradeOff, step: float, delta: float) -> Any:
    """The distribution of a curve, on multiples of `step`; of a best, that of its least part at `delta`."""
    match known_curve(curve):
        case Best(parts=parts):
            return pld_of(min(parts, key=lambda part: part.epsilon(delta)), step, delta)
        case Product(factors=factors, failure=failure):
            total = _pld.identity(value_discretization_interval=step)
            for factor, count in factors:
                total = total.compose(pld_of(factor, step, delta).self_compose(count))
            return _failing(total, failure, step)
        case single:
            return _of_one(single, step)


def _of_one(curve: TradeOff, step: float) -> Any:
    """What a factor becomes: every loss spread over the points next to it, in both orders alike."""
    whole = PrivacyLossDistribution.pessimistic(curve, step, _TAIL)
    forward, infinity = _masses(whole.p, whole.q, step)
    backward, more = _masses(whole.q, whole.p, step)
    return _pld.PrivacyLossDistribution.create_from_rounded_probability(
        forward,
        infinity,
        step,
        rounded_probability_mass_function_add=backward,
        infinity_mass_add=more,
        symmetric=False,
    )


def _masses(
    p: tuple[float, ...], q: tuple[float, ...], step: float
) -> tuple[dict[int, float], float]:
    """(probability under p by the multiple of `step` that the loss is, that of the infinite loss)."""
    masses: dict[int, float] = {}
    for a, b in zip(p, q, strict=True):
        if a > 0.0 and b > 0.0:
            k = round((math.log(a) - math.log(b)) / step)
            masses[k] = masses.get(k, 0.0) + a * (1.0 + _SUM)
    infinity = math.fsum(a for a, b in zip(p, q, strict=True) if b == 0.0)
    return masses, infinity * (1.0 + _SUM)


def _failing(total: Any, failure: float, step: float) -> Any:
    """The same, with a probability of failure added to δ at every ε."""
    if failure == 0.0:
        return total
    # Composed, an infinite loss of probability f leaves the others only 1 - f of the δ that they had.
    left = 1.0 - min(total.get_delta_for_epsilon(math.inf), 1.0)
    share = min(1.0, failure / left * (1.0 + _SUM)) if left > 0.0 else 1.0
    certain = _pld.PrivacyLossDistribution.create_from_rounded_probability({0: 1.0}, share, step)
    return total.compose(certain)
