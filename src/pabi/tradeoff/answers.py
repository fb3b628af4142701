"""Mechanisms with finitely many answers: randomised response, and discrete Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Generic, TypeVar

from flint import arb, ctx, fmpq

from pabi.numbers import gaussian
from pabi.numbers.errors import require
from pabi.numbers.validate import integer, number
from pabi.tradeoff.approx_dp import ApproxDP
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.privacy_loss import PrivacyLossDistribution

# Values of pure functions, kept so that they are computed once.


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """The values of one pure function by its arguments: all of them, or the `most` latest.

    The key holds every argument on which a value depends, so that no reading depends on earlier ones.
    """

    __slots__ = ("_most", "_values")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}

    def __call__(self, key: Key, compute: Callable[[], Value]) -> Value:
        """The value at `key`, computed where it is not kept. What `compute` raises is not kept."""
        if key not in self._values:
            value = compute()
            if self._most is not None and len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
            self._values[key] = value
        return self._values[key]

    def value(self, key: Key) -> Value | None:
        """The value at `key` if it is kept."""
        return self._values.get(key)


_BITS = 200  # of ball arithmetic: every probability is the double next to the exact one
_MOST_LOSS = 600.0  # whose power of e keeps all digits
_MOST = 100_000  # answers that matter


def randomised_response(noise: float, answers: int, *, blank: bool = False) -> TradeOff:
    """Randomised response: with probability `noise` a uniformly random one of k answers, else the true one.

    Parameters
    ----------
    noise : float
        In [0, 1]: the probability of a random answer, which may be the true one.
    answers : int
        k ≥ 1.
    blank : bool
        Whether one of the two adjacent records is blank, to which the answer is always random; otherwise
        it has another true answer.

    Returns
    -------
    TradeOff
        Both records' answers against each other: pure privacy for k = 2, else a distribution of losses.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    References
    ----------
    Warner 1965; docs, "Theory", 20.
    """
    p = Fraction(number("noise", noise, at_least=0.0, at_most=1.0))
    k = integer("answers", answers, at_least=1, at_most=10**12)
    if k == 1 or p == 1:
        return Gaussian(0.0)
    if p == 0 and not blank:
        return Gaussian(math.inf)
    each = p / k
    true = 1 - p + each
    if blank:
        one, other = (true, 1 - true), (Fraction(1, k), Fraction(k - 1, k))
        return PrivacyLossDistribution([float(x) for x in one], [float(x) for x in other])
    if k == 2:
        with ctx.workprec(_BITS):
            return ApproxDP(gaussian.upper(arb(fmpq(*(true / each).as_integer_ratio())).log()))
    rest = float((k - 2) * each)
    return PrivacyLossDistribution(
        [float(true), float(each), rest], [float(each), float(true), rest]
    )


def discrete_laplace(parameter: float, sensitivity: int) -> TradeOff:
    """Discrete Laplace noise on integers: P(x) = tanh(a/2)·e^(-a|x|).

    A vector with independent noise in every entry that a record moves by as much in L1 norm reveals no
    more.

    Parameters
    ----------
    parameter : float
        a > 0.
    sensitivity : int
        By how much a record moves the integer at most, ≥ 0.

    Returns
    -------
    TradeOff
        Pure privacy for a sensitivity of 1, else a distribution of losses.

    Raises
    ------
    InvalidInput
        For numbers out of range, and for losses above 600.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan 2012; docs, "Theory", 20.
    """
    a = number("parameter", parameter, above=0.0)
    steps = integer("sensitivity", sensitivity, at_least=0, at_most=_MOST)
    if steps == 0:
        return Gaussian(0.0)
    if steps == 1:
        return ApproxDP(a)
    small = a * steps <= _MOST_LOSS
    require(small, "parameter", f"expected one of losses up to 600, got {a!r} times {steps}")
    with ctx.workprec(_BITS):
        ball = arb(a)
        ends = 1 / (1 + (-ball).exp())
        inner = [(ball / 2).tanh() * (-j * ball).exp() for j in range(1, steps)]
        p = [float(x.mid()) for x in (ends, *inner, ends * (-steps * ball).exp())]
    # Moved the other way, the least integers become the greatest.
    return PrivacyLossDistribution(p, p[::-1])
