"""What a published bound returns, and the decorator that says how far to trust it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, ParamSpec, Protocol, cast

from pabi.numbers.errors import NotApplicable

if TYPE_CHECKING:
    from pabi.tradeoff import TradeOff

P = ParamSpec("P")

# Relative: published examples meet hypotheses with equality, and decimals are rounded.
ROUNDED = 1e-12

Status = Literal["sound", "refuted", "unverified"]
Kind = Literal[
    "rdp",  # a Rényi divergence, in nats, at the order given
    "gdp",  # μ of Gaussian differential privacy
    "gdp_lower",  # no smaller μ is true: the exact μ of an instance, or below it
    "tradeoff",  # a trade-off function, `pabi.tradeoff`
    "epsilon",  # ε at the δ given, or of pure differential privacy
    "steps",  # a number of steps
    "epochs",  # a number of passes over the data
    "slope",  # a Lipschitz constant
    "risk",  # expected excess empirical risk, in units of the loss
    "stability",  # uniform stability, in units of the loss
]


@dataclass(frozen=True)
class Published:
    """A number exactly as printed, errors included.

    Parameters
    ----------
    value : float or pabi.tradeoff curve
        The number, or a trade-off function where `kind` is "tradeoff".
    kind : str
        What the number is: "rdp" (a Rényi divergence at the given order, in nats), "gdp" (μ of
        Gaussian differential privacy), "gdp_lower" (the exact μ of an instance, or below it, so
        that no smaller μ is true), "tradeoff", "epsilon" (ε at the given δ, or of pure differential
        privacy), "steps", "epochs", "slope" (a Lipschitz constant), "risk" (expected excess
        empirical risk, in units of the loss) or "stability" (uniform stability, in units of the
        loss).
    status : str
        "sound", "refuted" (a counterexample is known) or "unverified" (the proof has a gap).
    note : str
        The counterexample or the gap; empty for a sound bound.
    source : str
        The paper and the theorem.

    References
    ----------
    `source`; docs, "Errata".
    """

    value: float | TradeOff
    kind: Kind
    status: Status
    note: str
    source: str

    def __float__(self) -> float:
        if not isinstance(self.value, int | float):
            raise TypeError(f"{self.source}: a {self.kind} bound is not a number")
        return float(self.value)


class Bound(Protocol[P]):
    """A function that returns a `Published`, and knows its source before it is called.

    Attributes
    ----------
    status : str
        As in `Published`.
    source : str
        The paper and the theorem.
    kind : str
        As in `Published`.
    note : str
        As in `Published`.
    """

    __name__: str
    status: Status
    source: str
    kind: Kind
    note: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Published:
        """The bound at the parameters of its theorem; NotApplicable where a hypothesis fails."""
        ...


def published(
    kind: Kind, source: str, status: Status = "sound", note: str = ""
) -> Callable[[Callable[P, float | TradeOff]], Bound[P]]:
    """Turns a formula into a function that returns its value as a `Published`."""

    def decorate(formula: Callable[P, float | TradeOff]) -> Bound[P]:
        @functools.wraps(formula)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Published:
            return Published(formula(*args, **kwargs), kind, status, note, source)

        bound.__annotations__["return"] = "Published"
        marked = cast("Bound[P]", bound)
        marked.status, marked.source, marked.kind, marked.note = status, source, kind, note
        return marked

    return decorate


def require(holds: bool, hypothesis: str) -> None:
    """NotApplicable with the hypothesis of a theorem that its parameters do not meet."""
    if not holds:
        raise NotApplicable(f"needs {hypothesis}")


def geometric(ratio: float, terms: int) -> float:
    """1 + r + … + r^(terms − 1) for r ≥ 0, without cancellation near r = 1; ∞ if it overflows."""
    if ratio == 1.0 or terms == 0:
        return float(terms)
    if ratio == 0.0:
        return 1.0
    exponent = terms * math.log(ratio)
    if exponent > 700.0:
        return math.inf
    return math.expm1(exponent) / (ratio - 1.0)
