"""The exponential mechanism: a bounded range whatever the loss, and a Gaussian bound from its curvature.

Adjacent densities ∝ exp(−κL) on a set of diameter D have a log-likelihood ratio within an interval of length
κ·(sup − inf)(L_D − L_D') ≤ κΔD: a bounded range (Dong, Durfee, Rogers 2020). As the stationary law of a
reflected diffusion of inverse temperature κ it is Gaussian-DP as well, μ² = κD'(2Δ − mD'), D' = min(D, Δ/m)
(docs, "Diffusions"; for dissipative losses see `pabi.normal_forms.positions`). Both hold, so that the least δ
of both does at every ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

from pabi.analyses.writing import DescribedProof
from pabi.describe.mechanisms import (
    ExponentialMechanism,
    IteratedExponentialMechanism,
    mechanism_sentences,
    rounds_sentences,
)
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import growth_of
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up, up
from pabi.tradeoff import ApproxDP, Best, BoundedRange, Gaussian, TradeOff

BOTH, RANGE, GIBBS = "bounded range and Gibbs measure", "bounded range", "Gibbs measure"
_SOURCES = {
    RANGE: "McSherry, Talwar 2007; Dong, Durfee, Rogers 2020, Lemma 3",
    GIBBS: "docs, Diffusions; Bok, Su, Altschuler 2024, Cor. 5.2 and 5.4",
}
_BELOW_LIMIT = 1.0 - 1e-12  # of z*: the spread's slope is 0 there, so that nothing is lost
_SPREAD = 1.0 + 1e-11  # above the roundings of a spread, which has sums and differences
_SMALLEST = 1e-290  # below it a spread loses digits
Mechanism = ExponentialMechanism | IteratedExponentialMechanism


def both(mechanism: Mechanism, delta: float, position: int | None = None) -> Guarantee:
    """The better of both bounds at every ε. Raises NotApplicable for a loss of unknown curvature."""
    return _guarantee(mechanism, BOTH, Best((_range(mechanism), _gaussian(mechanism))))


def bounded_range(mechanism: Mechanism, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee from the range of the log-likelihood ratio."""
    return _guarantee(mechanism, RANGE, _range(mechanism))


def gibbs(mechanism: Mechanism, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee from the curvature. Raises NotApplicable for a loss of unknown curvature."""
    return _guarantee(mechanism, GIBBS, _gaussian(mechanism))


def _range(mechanism: Mechanism) -> TradeOff:
    return _curve(mechanism, lambda one: BoundedRange(one.range))


def _gaussian(mechanism: Mechanism) -> TradeOff:
    return _curve(mechanism, lambda one: Gaussian(gibbs_mu(one)))


def _curve(mechanism: Mechanism, once: Callable[[ExponentialMechanism], TradeOff]) -> TradeOff:
    """What `once` says of one mechanism; of an iterated one, of all its rounds together."""
    if isinstance(mechanism, ExponentialMechanism):
        return once(mechanism)
    rounds = range(len(mechanism.epsilons))
    return _composed(mechanism, [once(mechanism.mechanism(i)) for i in rounds])


def _composed(mechanism: IteratedExponentialMechanism, curves: list[TradeOff]) -> TradeOff:
    """The curve of all rounds. With split records a part that the record is not in is free, and the worse
    part counts.

    Both parts are max(Σ_{i<k} ε_i, ε_k)-differentially private; and both are covered by the product of the
    earlier rounds with ε_k in place of the largest where that is smaller.
    """
    *before, last = curves
    if mechanism.split is None or not before:
        return reduce(TradeOff.compose, curves)
    first = reduce(TradeOff.compose, before)
    if isinstance(first, Gaussian) and isinstance(last, Gaussian):
        return Gaussian(max(first.mu, last.mu))
    ranges = [c.epsilon_0 for c in before if isinstance(c, BoundedRange)]
    assert isinstance(last, BoundedRange)
    if last.epsilon_0 <= max(ranges):
        return first
    total = fraction_up(sum(map(Fraction, ranges), Fraction(0)))
    if len(before) == 1:
        return last
    pure = ApproxDP(max(total, last.epsilon_0), 0.0)
    largest = ranges.index(max(ranges))
    exchanged = [*before[:largest], last, *before[largest + 1 :]]
    return Best((pure, reduce(TradeOff.compose, exchanged)))


def gibbs_mu(mechanism: ExponentialMechanism) -> float:
    """√(κD'(2Δ − mD')), D' = min(D, Δ/m), rounded up. Raises NotApplicable without a curvature."""
    lo = mechanism.least_curvature
    if lo is None:
        raise NotApplicable(f"nothing is known of the curvature of a {mechanism.loss.kind} loss")
    m = Fraction(lo)
    gap, d = Fraction(mechanism.gap), Fraction(mechanism.diameter)
    within = d if m <= 0 else min(d, gap / m)
    square = fraction_up(Fraction(mechanism.kappa) * within * (2 * gap - m * within))
    growth = growth_of(mechanism.loss, mechanism.gap)
    if growth is not None:
        spread = growth.spread(min(mechanism.diameter, growth.limit * _BELOW_LIMIT))
        if spread > _SMALLEST:
            from_spread = fraction_up(2 * Fraction(mechanism.kappa) * Fraction(spread))
            square = min(square, from_spread * _SPREAD)
    return up(math.sqrt(square))


def _guarantee(mechanism: Mechanism, name: str, curve: TradeOff) -> Guarantee:
    stated: dict[str, Any]
    if isinstance(mechanism, ExponentialMechanism):
        sentences, stated = mechanism_sentences(mechanism, name != RANGE), {}
    else:
        rounds = [[r.diameter, r.inverse_temperature] for r in mechanism.rounds]
        sentences, stated = rounds_sentences(mechanism), {"rounds": rounds}
    source = "; ".join(_SOURCES.values()) if name == BOTH else _SOURCES[name]
    proof = DescribedProof(name, mechanism, curve, stated, named=True)
    return Guarantee(
        curve, mechanism.adjacency, name, source, sentences, proof=proof, unit=mechanism.unit
    )
