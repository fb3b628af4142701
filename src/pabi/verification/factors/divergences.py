"""Rényi divergences of one order: (α, ρ), of which nothing more is known."""

from __future__ import annotations

import math
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from flint import arb, ctx

from pabi.numbers.showing import exact, shown
from pabi.verification.arithmetic import BITS, above, dominated, double_above, fraction_of
from pabi.verification.factors import Repeated, several
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import Refused


class Divergence(NamedTuple):
    """`times` releases whose divergence of this order is at most ρ, in both orders of the data sets."""

    order: float
    rho: float
    times: int


class Divergences(Repeated[Divergence]):
    """Releases of which a divergence is known. Those of one order are not added up: a claim of several is
    read from a product, which may be less than what the sum alone allows."""

    CURVES = MappingProxyType({"renyi_dp": ("order", "rho")})

    @classmethod
    def single(cls, order: float, rho: float) -> Self:
        """One release of this divergence."""
        return cls((Divergence(order, rho, 1),)) if rho > 0.0 else cls()

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` releases as a trade-off function in JSON states them."""
        several(curve, count)
        order, rho = read_order(curve["order"]), read_mu(curve["rho"])
        return cls((Divergence(order, rho, count),)) if rho > 0.0 else cls()

    def missing(self, claimed: Self) -> str | None:
        """A sentence if too few are claimed of some order above some ρ; else None."""
        for order in dict.fromkeys(one.order for one in self.entries):
            needed, offered = (
                [(Fraction(one.times), one.rho) for one in own.entries if one.order == order]
                for own in (self, claimed)
            )
            if not dominated(needed, offered):
                worst = max(rho for _, rho in needed)
                return f"rho: {worst!r} at order {order!r} is not covered by the claim"
        return None

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for each to the `factors` of a product in JSON."""
        for order, rho, times in self.entries:
            curve = {"kind": "renyi_dp", "order": order, "rho": "inf" if math.isinf(rho) else rho}
            product["factors"].append(curve | {"count": times})

    @property
    def text(self) -> str:
        """The first divergence, in words."""
        order, rho, _ = self.entries[0]
        return f"a Rényi divergence of {shown(rho)} at order {exact(order)}"

    def epsilon(self, delta: float) -> float:
        """An ε at `delta` > 0 that one of them alone proves; ∞ where there are several."""
        if self.size != 1:
            return 0.0 if self.size == 0 else math.inf
        order, rho, _ = self.entries[0]
        return math.inf if math.isinf(rho) else epsilon_of(order, rho, delta)


def read_order(value: Any) -> float:
    """A finite order α > 1. Refused for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"order: expected a number, got {value!r}")
    if not 1.0 < value < math.inf:
        raise Refused(f"order: expected a number > 1, got {value!r}")
    return float(value)


def epsilon_of(order: float, rho: float, delta: float) -> float:
    """An ε ≥ 0 at δ > 0 that follows from a divergence ρ of order α (docs, "Theory", 16, Lemma 22a).

    With L = dP/dQ under Q, E L^α ≤ M = e^((α−1)ρ). The lesser of two bounds on δ(ε) = E(L − e^ε)⁺ is solved
    for ε: e^((α−1)(ρ−ε))·(α−1)^(α−1)/α^α and (M − 1)/(α·(e^((α−1)ε) − 1)).
    """
    with ctx.workprec(BITS):  # whoever asks a verdict may do so later
        a, share = arb(order), arb(delta)
        excess = ((a - 1) * arb(rho)).expm1()
        first = arb(rho) + (((a - 1) * (a - 1).log() - a * a.log()) - share.log()) / (a - 1)
        second = (excess / (a * share)).log1p() / (a - 1)
        return max(0.0, min(_double_above(first), _double_above(second)))


def _double_above(ball: Any) -> float:
    """The least double not below a ball; ∞ if it is no number."""
    return double_above(fraction_of(above(ball))) if ball.is_finite() else math.inf


FACTOR = Divergences
