"""From published numbers to ε at δ."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.literature.published import Bound, Published, require
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import TradeOff

Reading = tuple[float, float | None]
Evaluate = Callable[[Any, float], Reading]
Hypothesis = Callable[[Any], object]
Terms = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class CandidateBound:
    """A bound, and what it says of a description: (ε at δ, μ or None), or NotApplicable."""

    bound: Bound[...]
    evaluate: Evaluate


def covers(bound: Bound[...], terms: Terms, *hypotheses: Hypothesis) -> CandidateBound:
    """The candidate that evaluates `bound` at the `terms` of a description.

    Each hypothesis raises NotApplicable where it fails; the first that does is the reason that is shown.
    """

    def evaluate(description: Any, delta: float) -> Reading:
        check(description, hypotheses)
        return reading(bound, arguments(bound, terms, description), delta)

    return CandidateBound(bound, evaluate)


def needs(sentence: str, holds: Callable[[Any], bool]) -> Hypothesis:
    """The hypothesis that a description has a property, named by what it needs."""
    return lambda description: require(holds(description), sentence)


def check(description: Any, hypotheses: Iterable[Hypothesis]) -> None:
    """NotApplicable with the first hypothesis that a description does not meet."""
    for hypothesis in hypotheses:
        hypothesis(description)


def arguments(bound: Bound[...], terms: Terms, description: Any) -> dict[str, Any]:
    """The parameters of `bound` that `terms` name, each read from the description."""
    names = inspect.signature(bound).parameters
    return {name: terms[name](description) for name in names if name in terms}


def reading(bound: Bound[...], values: Mapping[str, Any], delta: float) -> Reading:
    """(ε at `delta`, μ or None) of `bound` at `values`, at the best order where it needs one."""
    names = inspect.signature(bound).parameters
    if "delta" in names:
        values = {**values, "delta": delta}
    order = names.get("order")
    if order is not None and order.default is order.empty and "order" not in values:
        return _read_orders(partial(bound, **values), delta)
    return read(bound(**values), delta)


def read(number: Published, delta: float) -> Reading:
    """(ε, μ or None) of a bound whose Rényi divergence, if it is one, is linear and taken at order 2."""
    if isinstance(number.value, TradeOff):
        return number.value.epsilon(delta), None
    if number.kind == "gdp":
        return gdp_to_epsilon(number.value, delta), number.value
    if number.kind == "rdp":
        return rdp_to_epsilon(rho=0.5 * number.value, delta=delta), None
    assert number.kind == "epsilon"
    return number.value, None


def _read_orders(at: Callable[..., Published], delta: float) -> Reading:
    """ε of a Rényi bound that holds up to some order only, over a grid of orders."""
    orders, values = [], []
    reason = "no order"
    for order in 1.0 + np.geomspace(1e-2, 1e4, 241):
        try:
            values.append(float(at(order=float(order))))
        except NotApplicable as no:
            reason = no.reason
            break
        orders.append(float(order))
    if not orders:
        raise NotApplicable(reason)
    return rdp_to_epsilon(orders=orders, rdp=values, delta=delta), None
