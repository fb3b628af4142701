"""The kinds of trade-off functions: a closed table.

A guarantee rests on every function in it, and a class from elsewhere may answer anything. Such a class can be
shown beside a guarantee, with `explain(also=…)`. It is not composed, written or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeGuard, assert_never, get_args

from pabi.numbers.errors import InvalidInput
from pabi.tradeoff.allocation import RandomAllocation
from pabi.tradeoff.approx_dp import ApproxDP, BoundedRange
from pabi.tradeoff.base import KindTable, TradeOff
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.grouped import Grouped, Selected
from pabi.tradeoff.laplace import Laplace
from pabi.tradeoff.mixture import Mixture, SecretMixture
from pabi.tradeoff.privacy_loss import PrivacyLossDistribution
from pabi.tradeoff.product import Product
from pabi.tradeoff.renyi import RenyiDP
from pabi.tradeoff.subsampled import (
    FixedSizeSubsampled,
    PoissonReplaced,
    PoissonSubsampled,
    Subsampled,
)

Curve = (
    ApproxDP
    | Best
    | BoundedRange
    | FixedSizeSubsampled
    | Gaussian
    | Grouped
    | Laplace
    | Mixture
    | PoissonReplaced
    | PoissonSubsampled
    | PrivacyLossDistribution
    | Product
    | RandomAllocation
    | RenyiDP
    | SecretMixture
    | Selected
    | Subsampled
)
_CLASSES = frozenset(get_args(Curve))

KINDS: Mapping[str, type[TradeOff]] = MappingProxyType({one.kind: one for one in get_args(Curve)})
"""The classes by the name under which they are written to JSON."""


def known_curve(curve: object, field: str = "tradeoff") -> Curve:
    """`curve`, if its class and those of its parts are in the table; a subclass of one of them is not."""
    if not _is_known(curve):
        raise InvalidInput(field, f"expected a trade-off function of pabi.tradeoff, got {curve!r}")
    return curve


def _is_known(curve: object) -> TypeGuard[Curve]:
    return type(curve) in _CLASSES and isinstance(curve, Curve) and _parts_are_known(curve)


def _parts_are_known(curve: Curve) -> bool:
    match curve:
        case Best():
            return all(_is_known(part) for part in curve.parts)
        case Product():
            return all(_is_known(factor) for factor, _ in curve.factors)
        case Mixture():
            return all(type(part) is Gaussian for part in curve.parts)
        case Grouped() | Selected():
            return _is_known(curve.base)
        case Subsampled():
            return type(curve.base) is Gaussian
        case (
            ApproxDP()
            | BoundedRange()
            | FixedSizeSubsampled()
            | Gaussian()
            | Laplace()
            | PoissonReplaced()
            | PoissonSubsampled()
            | PrivacyLossDistribution()
            | RandomAllocation()
            | RenyiDP()
            | SecretMixture()
        ):
            return True
        case _:
            assert_never(curve)


TradeOff._table = KindTable(KINDS, known_curve, Product)
