"""From published numbers to ε at δ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.literature.published import Bound, Published
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import TradeOff

Reading = tuple[float, float | None]
Evaluate = Callable[[Any, float], Reading]


@dataclass(frozen=True)
class Candidate:
    """A bound, and what it says of a description: (ε at δ, μ or None), or NotApplicable."""

    bound: Bound[...]
    evaluate: Evaluate


def read(found: Published, delta: float) -> Reading:
    """(ε, μ or None) of a bound whose Rényi divergence, if it is one, is linear and taken at order 2."""
    if isinstance(found.value, TradeOff):
        return found.value.epsilon(delta), None
    if found.kind == "gdp":
        return gdp_to_epsilon(found.value, delta), found.value
    if found.kind == "rdp":
        return rdp_to_epsilon(rho=0.5 * found.value, delta=delta), None
    assert found.kind == "epsilon"
    return found.value, None


def read_orders(at: Callable[[float], Published], delta: float) -> Reading:
    """ε of a Rényi bound that holds up to some order only, over a grid of orders."""
    orders, values = [], []
    reason = "no order"
    for order in 1.0 + np.geomspace(1e-2, 1e4, 241):
        try:
            values.append(float(at(float(order))))
        except NotApplicable as no:
            reason = no.reason
            break
        orders.append(float(order))
    if not orders:
        raise NotApplicable(reason)
    return rdp_to_epsilon(orders=orders, rdp=values, delta=delta), None
