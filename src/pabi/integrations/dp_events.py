"""The trade-off functions of dp-accounting's events, each proven, or refused by name (docs, "Theory", 20).

A table maps the exact type of an event to its function. Sums have values of norm at most 1: one record more,
or a record that becomes special and contributes nothing, moves them by 1, and a record that is replaced
moves them by 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra
from pabi.numbers.rounding import fraction_up
from pabi.numbers.validate import integer, number
from pabi.tradeoff import (
    FixedSizeSubsampled,
    Gaussian,
    Laplace,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    Subsampled,
    TradeOff,
    discrete_laplace,
    randomised_response,
    selected,
)

dp: Any = extra("dp_accounting", "dp-accounting")
events: Any = dp.dp_event

Rule = Callable[[Any, Any], TradeOff]
"""(event, relation) ↦ the trade-off function of one application."""

ADD_OR_REMOVE_ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL


class UnsupportedEvent(InvalidInput):
    """An event, or a part of one, for which pabi has no proof.

    Attributes
    ----------
    event : DpEvent
        The part that is refused.
    reason : str
        Why, in one sentence.
    """

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__("event", f"{type(event).__name__}: {reason}")
        self.event, self.reason = event, reason

    def __reduce__(self) -> tuple[type[UnsupportedEvent], tuple[Any, str]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (self.event, self.reason)


def curve_of(event: Any, relation: Any) -> TradeOff:
    """The trade-off function of an event between data sets of this relation, for both orders of them.

    Parameters
    ----------
    event : DpEvent
        One of dp-accounting's.
    relation : NeighboringRelation
        Which data sets are neighbours.

    Returns
    -------
    TradeOff

    Raises
    ------
    UnsupportedEvent
        For an event, or a part of it, for which there is no proof under this relation.
    """
    if type(event) not in _RULES:
        raise UnsupportedEvent(event, _REFUSED.get(type(event), "there is no proof for it"))
    try:
        return _RULES[type(event)](event, relation)
    except UnsupportedEvent:
        raise
    except InvalidInput as bad:
        raise UnsupportedEvent(event, str(bad)) from None


def composed(factors: Iterable[tuple[TradeOff, int]]) -> TradeOff:
    """The product of trade-off functions, each so many times; in closed form where there is one.

    Parameters
    ----------
    factors : iterable of pairs of TradeOff and int
        (f, k), k ≥ 1. None at all reveal nothing.

    Returns
    -------
    TradeOff
    """
    product = Product(factors)
    (curve, count), *others = product.factors
    return curve if count == 1 and not others and product.failure == 0.0 else product


def _moved(relation: Any) -> int:
    """By how much a sum of values of norm at most 1 differs between neighbours."""
    return 2 if relation is REPLACE_ONE else 1


def _require(event: Any, relation: Any, *relations: Any) -> None:
    """UnsupportedEvent unless the relation is one of these."""
    if relation not in relations:
        names = " or ".join(one.name for one in relations)
        raise UnsupportedEvent(event, f"expected {names}, got {relation.name}")


def _over(moved: float, noise: Any) -> float:
    """`moved` over a noise multiplier ≥ 0, rounded up; ∞ where there is no noise."""
    scale = number("noise_multiplier", noise, at_least=0.0)
    return fraction_up(Fraction(moved) / Fraction(scale)) if scale else math.inf


def _nothing(event: Any, relation: Any) -> TradeOff:
    return Gaussian(0.0)


def _everything(event: Any, relation: Any) -> TradeOff:
    return Gaussian(math.inf)


def _all_of(event: Any, relation: Any) -> TradeOff:
    return composed((curve_of(part, relation), 1) for part in event.events)


def _times(event: Any, relation: Any) -> TradeOff:
    curve = curve_of(event.event, relation)
    return composed(((curve, integer("count", event.count, at_least=1)),))


def _gaussian(event: Any, relation: Any) -> TradeOff:
    return Gaussian(_over(_moved(relation), event.noise_multiplier))


def _laplace(event: Any, relation: Any) -> TradeOff:
    return _laplace_of(event, _moved(relation), 1.0)


def _laplace_of(event: Any, moved: int, p: float) -> TradeOff:
    epsilon = _over(moved, event.noise_multiplier)
    return Laplace(epsilon, p) if epsilon < math.inf else PoissonSubsampled(math.inf, p)


def _discrete_laplace(event: Any, relation: Any) -> TradeOff:
    if event.noise_parameter == 0:
        return Gaussian(math.inf)
    steps = integer("sensitivity", event.sensitivity, at_least=0)
    return discrete_laplace(event.noise_parameter, _moved(relation) * steps)


def _randomised_response(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    blank = relation is REPLACE_SPECIAL
    return randomised_response(event.noise_parameter, event.num_buckets, blank=blank)


def _poisson(event: Any, relation: Any) -> TradeOff:
    p, inner = (
        number("sampling_probability", event.sampling_probability, at_least=0.0, at_most=1.0),
        event.event,
    )
    if type(inner) is events.NonPrivateDpEvent:
        return Gaussian(math.inf)
    if type(inner) is events.LaplaceDpEvent:
        _require(event, relation, ADD_OR_REMOVE_ONE, REPLACE_SPECIAL)
        return _laplace_of(inner, 1, p)
    mu = _mu_of(event, inner, ADD_OR_REMOVE_ONE)
    return PoissonReplaced(mu, p) if relation is REPLACE_ONE else PoissonSubsampled(mu, p)


def _fixed_size(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    n = integer("source_dataset_size", event.source_dataset_size, at_least=1)
    size = integer("sample_size", event.sample_size, at_least=0, at_most=n)
    if type(event.event) is events.NonPrivateDpEvent:
        return Gaussian(math.inf)
    mu, p = _mu_of(event, event.event, relation), fraction_up(Fraction(size, n))
    if relation is REPLACE_ONE or size == n or mu == 0.0:
        return Subsampled(Gaussian(mu), p)
    # Another record makes room for the one in question, and stays where that is special.
    return FixedSizeSubsampled(2.0 * mu, other=mu, apart=mu, probability=p)


def _mu_of(event: Any, inner: Any, relation: Any) -> float:
    """μ of an event on a batch, which is made of Gaussian ones alone. UnsupportedEvent otherwise."""
    if not _is_gaussian(inner):
        raise UnsupportedEvent(
            event, f"batches are proven for Gaussian events, got {type(inner).__name__} on a batch"
        )
    curve = curve_of(inner, relation)
    assert isinstance(curve, Gaussian)
    return curve.mu


def _is_gaussian(event: Any) -> bool:
    if type(event) is events.ComposedDpEvent:
        return all(map(_is_gaussian, event.events))
    if type(event) is events.SelfComposedDpEvent:
        return _is_gaussian(event.event)
    return type(event) in (events.GaussianDpEvent, events.NoOpDpEvent)


def _tree(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    counts = (
        event.step_counts if isinstance(event.step_counts, list | tuple) else (event.step_counts,)
    )
    steps = [integer("step_counts", count, at_least=1) for count in counts]
    if not steps:
        raise InvalidInput("step_counts", "expected at least one")
    # A leaf lies in one node of every level.
    levels = max(steps).bit_length()
    return composed(((Gaussian(_over(_moved(relation), event.noise_multiplier)), levels),))


def _mixture(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, ADD_OR_REMOVE_ONE, REPLACE_SPECIAL)
    sizes = [number("sensitivities", size, at_least=0.0) for size in event.sensitivities]
    shares = [Fraction(number("sampling_probs", p, at_least=0.0)) for p in event.sampling_probs]
    if len(sizes) != len(shares) or abs(sum(shares, Fraction(-1))) > Fraction(1, 10**9):
        raise InvalidInput("sampling_probs", "expected one for every sensitivity, with the sum 1")
    moved = {size for size in sizes if size > 0.0}
    if len(moved) > 1:
        raise UnsupportedEvent(event, "several sensitivities other than 0 have no proof here")
    p = sum((share for size, share in zip(sizes, shares, strict=True) if size > 0.0), Fraction(0))
    noise = number("standard_deviation", event.standard_deviation, at_least=0.0)
    return PoissonSubsampled(_over(max(moved, default=0.0), noise), min(1.0, fraction_up(p)))


def _selection(event: Any, relation: Any) -> TradeOff:
    return selected(curve_of(event.event, relation), event.mean, event.shape)


_RULES: Mapping[type, Rule] = MappingProxyType(
    {
        events.NoOpDpEvent: _nothing,
        events.NonPrivateDpEvent: _everything,
        events.ComposedDpEvent: _all_of,
        events.SelfComposedDpEvent: _times,
        events.GaussianDpEvent: _gaussian,
        events.LaplaceDpEvent: _laplace,
        events.DiscreteLaplaceDpEvent: _discrete_laplace,
        events.RandomizedResponseDpEvent: _randomised_response,
        events.PoissonSampledDpEvent: _poisson,
        events.SampledWithoutReplacementDpEvent: _fixed_size,
        events.SingleEpochTreeAggregationDpEvent: _tree,
        events.MixtureOfGaussiansDpEvent: _mixture,
        events.RepeatAndSelectDpEvent: _selection,
    }
)

_REFUSED: Mapping[type, str] = MappingProxyType(
    {
        events.UnsupportedDpEvent: "it says that nothing is known",
        events.SampledWithReplacementDpEvent: (
            "a batch may hold the record several times, and what it displaces then has no proof here"
        ),
        events.ZCDpEvent: "Rényi divergences alone determine no trade-off function",
        events.TruncatedSubsampledGaussianDpEvent: (
            "what a truncated batch displaces has no proof here; describe the run with "
            "pabi.Poisson(…, cap=…)"
        ),
    }
)
