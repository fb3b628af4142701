"""What a published bound returns, and the decorator that says how far to trust it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, Protocol, cast

import numpy as np

from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.numbers.errors import NotApplicable
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
        @wraps(formula)
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
    return math.inf if exponent > 700.0 else math.expm1(exponent) / (ratio - 1.0)


# From published numbers to ε at δ.


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
