"""Filters: what a release is charged with, and up to which sum releases are granted (docs, "Theory", 16).

What is charged is a double above the truth, sums are rational numbers, and limits are rounded down, so that
no rounding grants anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

from pabi.convert.gdp import gdp_epsilon_bounds, gdp_to_delta, gdp_to_epsilon
from pabi.convert.rdp import rdp_to_epsilon
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import fraction_down, fraction_up, root_of_fraction_up
from pabi.numbers.search import bisected
from pabi.tradeoff import Best, Grouped, Product, Selected, TradeOff
from pabi.tradeoff.gaussian_below import gaussian_below

# Between which a budget has its best order: from many nats and a large δ to few and a small one.
_ORDERS = (
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    9.0,
    10.0,
    12.0,
    14.0,
    16.0,
    20.0,
    24.0,
    32.0,
    48.0,
    64.0,
)
_LARGEST = 1e6  # μ or nats of a budget: more promises nothing


@dataclass(frozen=True)
class GaussianFilter:
    """Σμ² stays at most the square of the budget's `mu`; the whole is then G(mu)."""

    mu: float

    kind: ClassVar[str] = "gaussian"
    symbol: ClassVar[str] = "mu"

    @classmethod
    def of(cls, epsilon: float, delta: float) -> GaussianFilter:
        """That with the largest μ that is (ε, δ)-DP."""
        largest, _ = bisected(lambda mu: not cls(mu).meets(epsilon, delta), 0.0, _LARGEST)
        return cls(largest)

    @property
    def limit(self) -> Fraction:
        """μ² of the budget."""
        return Fraction(self.mu) ** 2

    def charge(self, curve: TradeOff) -> float:
        """The μ of a Gaussian below the curve."""
        return gaussian_below(curve)

    def size(self, charge: float) -> Fraction:
        """μ²."""
        return Fraction(charge) ** 2

    def left(self, spent: Fraction) -> float:
        """The largest μ that is still granted."""
        return root_of_fraction_down(max(self.limit - spent, Fraction(0)))

    def epsilon(self, spent: Fraction, delta: float) -> float:
        """ε of a Gaussian of this μ²."""
        return gdp_to_epsilon(root_of_fraction_up(spent), delta)

    def epsilon_left(self, spent: Fraction, delta: float) -> float:
        """ε of the Gaussian of what is left."""
        return gdp_epsilon_bounds(self.left(spent), delta)[0]

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether G(mu) is (ε, δ)-DP."""
        return gdp_to_delta(self.mu, epsilon) <= delta

    def to_dict(self) -> dict[str, Any]:
        """The kind and the budget's μ."""
        return {"kind": self.kind, "mu": self.mu}


@dataclass(frozen=True)
class RenyiFilter:
    """Σ of the Rényi divergences of one order, fixed beforehand, stays at most `rho`."""

    order: float
    rho: float

    kind: ClassVar[str] = "renyi"
    symbol: ClassVar[str] = "rho"

    @classmethod
    def of(cls, epsilon: float, delta: float, order: float) -> RenyiFilter:
        """That with the largest ρ from which (ε, δ) follows."""
        largest, _ = bisected(lambda rho: not cls(order, rho).meets(epsilon, delta), 0.0, _LARGEST)
        return cls(order, largest)

    @property
    def limit(self) -> Fraction:
        """The budget's ρ."""
        return Fraction(self.rho)

    def charge(self, curve: TradeOff) -> float:
        """The Rényi divergence of the order; ∞ of groups, whose divergence no checker derives."""
        return math.inf if _is_of_groups(curve) else curve.rdp(self.order)

    def size(self, charge: float) -> Fraction:
        """The divergence itself."""
        return Fraction(charge)

    def left(self, spent: Fraction) -> float:
        """The largest divergence that is still granted."""
        return fraction_down(max(self.limit - spent, Fraction(0)))

    def epsilon(self, spent: Fraction, delta: float) -> float:
        """ε that follows from the divergence."""
        if spent == 0:
            return 0.0
        return rdp_to_epsilon(orders=[self.order], rdp=[fraction_up(spent)], delta=delta)

    def epsilon_left(self, spent: Fraction, delta: float) -> float:
        """ε of the Gaussian whose divergence, αμ²/2, is what is left."""
        square = 2 * Fraction(self.left(spent)) / Fraction(self.order)
        return gdp_epsilon_bounds(root_of_fraction_down(square), delta)[0]

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ)-DP follows from ρ."""
        return rdp_to_epsilon(orders=[self.order], rdp=[self.rho], delta=delta) <= epsilon

    def to_dict(self) -> dict[str, Any]:
        """The kind, the order and the budget's ρ."""
        return {"kind": self.kind, "order": self.order, "rho": self.rho}


_FIELDS: Mapping[str, tuple[type[GaussianFilter] | type[RenyiFilter], tuple[str, ...]]] = (
    MappingProxyType(
        {"gaussian": (GaussianFilter, ("mu",)), "renyi": (RenyiFilter, ("order", "rho"))}
    )
)


def filter_of(epsilon: float, delta: float, order: float | None) -> GaussianFilter | RenyiFilter:
    """The filter of a new ledger."""
    if order is None:
        return GaussianFilter.of(epsilon, delta)
    return RenyiFilter.of(epsilon, delta, order)


def best_order(curves: Sequence[TradeOff], epsilon: float, delta: float) -> float | None:
    """The order at which these releases take the least share of a budget; None where μ takes less."""

    def share(order: float | None) -> float:
        filters = filter_of(epsilon, delta, order)
        charges = [filters.charge(curve) for curve in curves]
        if not max(charges, default=0.0) < math.inf:
            return math.inf
        return float(sum(map(filters.size, charges), Fraction(0)) / filters.limit)

    return min((None, *_ORDERS), key=share)


def _is_of_groups(curve: TradeOff) -> bool:
    """Whether the function, or one that it is made of, is that of a group."""
    match curve:
        case Grouped():
            return True
        case Selected(base=base):
            return _is_of_groups(base)
        case Product(factors=factors):
            return any(_is_of_groups(factor) for factor, _ in factors)
        case Best(parts=parts):
            return any(map(_is_of_groups, parts))
        case _:
            return False


def read_filter(data: Any) -> GaussianFilter | RenyiFilter:
    """The filter that `to_dict` wrote. Raises InvalidInput."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InvalidInput("filter", f"expected one of {', '.join(_FIELDS)}, got {kind!r}")
    cls, names = _FIELDS[kind]
    require(set(data) == {"kind", *names}, "filter", f"expected {', '.join(names)}")
    return cls(*(validate.number(name, data[name], at_least=0.0) for name in names))


def root_of_fraction_down(square: Fraction) -> float:
    """The greatest double not above √square."""
    root = math.isqrt(square.numerator * square.denominator << 256)
    return fraction_down(Fraction(root, square.denominator << 128))
