"""Kinds of factors that are bounds on divergences, and selections among runs."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from flint import arb, ctx

from pabi.numbers.showing import exact, shown
from pabi.verification.arithmetic import (
    BITS,
    Refused,
    above,
    dominated,
    double_above,
    fraction_of,
    nonnegative,
)
from pabi.verification.factors import Repeated, several, unserved
from pabi.verification.factors.closed_forms import read_mu


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
    def single(cls, order: float, rho: float, times: int = 1) -> Self:
        """So many releases of this divergence."""
        return cls((Divergence(order, rho, times),)) if rho > 0.0 else cls()

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` releases as a trade-off function in JSON states them."""
        several(curve, count)
        return cls.single(read_order(curve["order"]), read_mu(curve["rho"]), count)

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


# Private selections: the best of a random number of runs, whose δ is E[K]·δ_0(ε − c), δ_0 of one run.


class Selection(NamedTuple):
    """`times` selections: one run's trade-off function as JSON text, E[K] and c."""

    base: str
    mean_trials: float
    log_ratio: float
    times: int

    def covers(self, needed: Selection, /) -> bool:
        """Whether this reveals no less, whatever `times`: both bounds grow with E[K] and c."""
        return self.base == needed.base and (
            self.mean_trials >= needed.mean_trials and self.log_ratio >= needed.log_ratio
        )


class Selections(Repeated[Selection]):
    """Selections, each from runs whose function is claimed as it is written."""

    CURVES = MappingProxyType({"selected": ("base", "mean_trials", "log_ratio")})

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` selections as a trade-off function in JSON states them. What one run proves is compared
        by its text, which the theorem has checked."""
        several(curve, count)
        mean = nonnegative("mean_trials", curve["mean_trials"])
        if not mean >= 1.0:
            raise Refused(f"mean_trials: expected a number ≥ 1, got {mean!r}")
        text = json.dumps(curve["base"], sort_keys=True)
        return cls((Selection(text, mean, nonnegative("log_ratio", curve["log_ratio"]), count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if some selection has no claimed one that reveals as much; else None."""
        # The largest first, each from the smallest that cover it.
        demands = sorted(self.entries, key=_reveals, reverse=True)
        offered = sorted(claimed.entries, key=_reveals)
        missing = unserved(
            [(one, one.times) for one in demands], [(one, one.times) for one in offered]
        )
        if not missing:
            return None
        one, _ = missing[0]
        return (
            f"factors: a selection of {one.mean_trials!r} trials with log_ratio {one.log_ratio!r} is "
            "not covered by the claimed ones"
        )

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every selection to the `factors` of a product in JSON."""
        for one in self.entries:
            curve = {
                "kind": "selected",
                "base": json.loads(one.base),
                "mean_trials": one.mean_trials,
                "log_ratio": one.log_ratio,
            }
            product["factors"].append(curve | {"count": one.times})

    @property
    def text(self) -> str:
        """The first selection, in words."""
        return f"the best of {self.entries[0].mean_trials!r} runs, in the mean"


def _reveals(one: Selection) -> tuple[float, float]:
    return one.mean_trials, one.log_ratio


FACTORS = (Divergences, Selections)
