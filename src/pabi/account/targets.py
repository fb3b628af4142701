"""What a release may cost at most, in the terms in which people state it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from statistics import NormalDist
from typing import Any

from pabi.describe.accounted import USUAL_DELTA
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.showing import exact
from pabi.tradeoff import Gaussian, TradeOff
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.guarantee import (
    Guarantee,
    reading,
    require_besides,
    require_same_forgetting,
)

# Each reading, and what it is read at.
_READ_AT: Mapping[str, str | None] = {
    "epsilon": "delta",
    "mu": None,
    "advantage": None,
    "tpr": "fpr",
}
_NAMES = "epsilon (at a delta), mu, advantage or tpr (at an fpr)"
_NORMAL = NormalDist()
_LEAST, _MOST = 1e-20, 1e200  # the least μ and the largest ε that are looked at
_SURE = 40.0  # a μ that tells all


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a release may cost at most: one reading of its trade-off function, and its largest value.

    Exactly one of `epsilon`, `mu`, `advantage` and `tpr` is given.

    Parameters
    ----------
    epsilon : float > 0, optional
        The largest ε at `delta`.
    delta : float in (0, 1), optional
        The δ of `epsilon`. Another target is met by the guarantee that is chosen at this δ; 1e-5 if it is not
        given.
    mu : float > 0, optional
        The largest μ: the trade-off function is nowhere below that of N(0, 1) against N(μ, 1).
    advantage : float in (0, 1), optional
        The largest TPR − FPR of a membership attack. It is the largest total variation distance.
    tpr : float in (0, 1), optional
        The largest true-positive rate, or power, of a membership attack whose false-positive rate is `fpr`.
    fpr : float in (0, 1), optional
        That false-positive rate, below `tpr`.

    Raises
    ------
    InvalidInput
        For none of the four or several, for one without what it is read at, for numbers out of range, and for
        a `tpr` of at most `fpr`, which guessing reaches.

    References
    ----------
    Dong, Roth, Su 2022, Def. 2.1, 2.6 and Prop. 2.12; docs, "Meet a privacy target".
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    advantage: float | None = None
    tpr: float | None = None
    fpr: float | None = None

    def __post_init__(self) -> None:
        stated = [name for name in _READ_AT if getattr(self, name) is not None]
        if len(stated) != 1:
            several = " and ".join(stated) or "none"
            raise InvalidInput("target", f"expected exactly one of {_NAMES}, got {several}")
        at = _READ_AT[self.name]
        if at is not None and getattr(self, at) is None:
            raise InvalidInput(at, f"missing: {self.name} is read at one")
        if self.fpr is not None and at != "fpr":
            raise InvalidInput("fpr", f"expected none with {self.name}: tpr is read at it")
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None:
                below = None if name in ("epsilon", "mu") else 1.0
                number = validate.number(name, value, above=0.0, below=below)
                object.__setattr__(self, name, number)
        if self.tpr is not None and self.fpr is not None:
            require(
                self.tpr > self.fpr,
                "tpr",
                f"expected more than fpr = {exact(self.fpr)}, which guessing reaches, got {self.tpr!r}",
            )

    @property
    def name(self) -> str:
        """Which of the four it is."""
        return next(name for name in _READ_AT if getattr(self, name) is not None)

    @property
    def most(self) -> float:
        """The largest value that meets it."""
        value: float = getattr(self, self.name)
        return value

    @property
    def chosen_at(self) -> float:
        """The δ at which the guarantee is chosen that has to meet it."""
        return USUAL_DELTA if self.delta is None else self.delta

    def cost(self, of: Guarantee | TradeOff) -> float:
        """The reading, an upper bound; of μ ∞ where no Gaussian is known below the trade-off function.

        Parameters
        ----------
        of : Guarantee or TradeOff
            What is read.

        Returns
        -------
        float
            At least 0. It meets the target if it is at most `most`.

        Raises
        ------
        Nothing
            Every such function has each of these readings.
        """
        match self.name:
            case "epsilon":
                return reading(of.curve if isinstance(of, Guarantee) else of, self.chosen_at)
            case "mu":
                return gaussian_below(of.curve if isinstance(of, Guarantee) else of)
            case "advantage":
                return of.advantage
            case _:
                assert self.fpr is not None
                return of.tpr(self.fpr)

    @property
    def place(self) -> str:
        """Words for where it is read: " at delta 1e-05", or none."""
        at = _READ_AT[self.name]
        return "" if at is None else f" at {at} {getattr(self, at)!r}"

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        words = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"Target({', '.join(words)})"

    def __str__(self) -> str:
        at = _READ_AT[self.name]
        where = "" if at is None else f" at {at} = {exact(getattr(self, at))}"
        return f"{self.name} = {exact(self.most)}{where}"


def composed(besides: Sequence[Guarantee], run: Any) -> TradeOff | None:
    """What the releases beside `run` cost together, None without any; InvalidInput unless they compose."""
    try:
        others = tuple(besides)
    except TypeError:
        kind = type(besides).__name__
        raise InvalidInput("besides", f"expected a sequence of guarantees, got a {kind}") from None
    for other in others:
        require_besides("besides", other)
        for name in ("adjacency", "unit"):
            own, its = getattr(run, name), getattr(other, name)
            must_be(its == own, "besides", f"{name} {own!r} as of the run", its)
        require_same_forgetting("besides", run, other)
    # In the order of `pabi.compose`, so that every candidate costs what it says.
    return reduce(TradeOff.compose, (other.curve for other in others)) if others else None


def gaussian_price(target: Target) -> float:
    """About the ε of the Gaussian release that just meets a target, where its guarantee is chosen.

    Rules that choose settings take it. What they choose is then calibrated to the target itself.
    """
    if target.epsilon is not None:
        return target.epsilon
    return Gaussian(gaussian_of(target, target.most)).epsilon(target.chosen_at)


def gaussian_of(target: Target, value: float) -> float:
    """About the μ of the Gaussian release of which the reading of a target is `value`."""
    match target.name:
        case "epsilon":
            return _gaussian_of_price(min(value, _MOST), target.chosen_at)
        case "mu":
            return value
        case "advantage":
            return 2.0 * _quantile(0.5 * (1.0 + value))
        case _:
            assert target.fpr is not None
            return _quantile(value) - _quantile(target.fpr)


def _quantile(probability: float) -> float:
    return _NORMAL.inv_cdf(min(probability, math.nextafter(1.0, 0.0)))


def _gaussian_of_price(epsilon: float, delta: float) -> float:
    """About the μ at which a Gaussian release costs ε at δ."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        a = epsilon / mu - 0.5 * mu
        first = log_ndtr(-a)
        gap = min(epsilon + log_ndtr(-a - mu) - first, -5e-324)
        return float(first + math.log(-math.expm1(gap)) - math.log(delta))

    # ε is at most μ²/2 + sμ.
    s = math.sqrt(-2.0 * math.log(delta))
    low = max(0.99 * epsilon / (math.sqrt(s * s + 2.0 * epsilon) + s), _LEAST)
    high = 1.01 * math.sqrt(2.0 * epsilon) + _SURE
    if excess(math.log(low)) >= 0.0:
        return low  # δ is so small that rounding hides it
    return math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-14, rtol=1e-15))
