"""The Gaussian mechanism on a random batch into which a record comes in the place of another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, assert_never

import numpy as np
import scipy  # its parts are loaded on first use
from flint import arb, ctx

from pabi.convert import balls
from pabi.convert.gdp import gdp_to_zcdp, nonnegative
from pabi.convert.vectorised import FLOOR, TAIL_FLOOR, both_signs
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, up
from pabi.numbers.search import bisected
from pabi.numbers.validate import SHARE, convert, number, one_of
from pabi.tradeoff.base import (
    DIRECTIONS,
    Direction,
    Orientation,
    TradeOff,
    chosen,
    decode,
    encode,
    opposite,
    supported,
)
from pabi.tradeoff.displaced_losses import APART, DisplacedLoss, Half, SymmetricDisplacedLoss
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.pairs import Labelled, Pair, Symmetrised, worst_divergence

_BITS = 400  # of ball arithmetic
_CLOSER = 8  # Newton's steps, each of which doubles the right digits
_TAILS = 1e-12  # relative: scipy's normal tails, and their differences
_CLOSE = 1e-13  # relative: how far apart the bounds on ε may be
_POINTS = 4001  # at which the curve is supported
_FARTHEST = 600.0  # the largest ε of these: its power of e is a double
_LEAST_DELTA = 1e-17


def _positive(field: str, value: Any) -> float:
    """The check that passes ∞ and numbers above 0."""
    size = nonnegative(field, value)
    if size == 0.0:
        raise InvalidInput(field, f"expected a number > 0, got {value!r}")
    return size


@dataclass(frozen=True)
class FixedSizeSubsampled(TradeOff):
    """The Gaussian mechanism on a batch of fixed size, which a record joins in the place of another.

    Batch and noise aside, the sum is moved with probability p, by W on the first data set and by W' on the
    second, |W| ≤ a, |W'| ≤ a' and |W - W'| ≤ m in standard deviations of the noise. With
    D(a, m) = T(p·N(a, 1) + (1 - p)·N(0, 1), p·N(a - m, 1) + (1 - p)·N(0, 1)) the δ at ε ≥ 0 is that of
    D(a, m) in the one order and that of D(a', m) in the other. It is never below C_p(G(max{a, a', m})).

    Parameters
    ----------
    norm : float
        a in (0, ∞].
    other : float
        a' in (0, ∞].
    apart : float
        m in [0, ∞]; more than a + a' says no more than that.
    probability : float
        p in [0, 1], with which the batch holds the record.
    direction : str
        "remove" is the function itself, the first data set having a; "add" its inverse; "both" the worse of
        the two, each composed by itself.

    References
    ----------
    docs, "Theory", 10.2, Lemma 8b and Theorem 40.
    """

    norm: float
    other: float
    apart: float
    probability: float
    direction: Direction = "both"

    kind: ClassVar[str] = "fixed_size_subsampled"

    def __post_init__(self) -> None:
        convert(
            self,
            norm=_positive,
            other=_positive,
            apart=nonnegative,
            probability=SHARE,
            direction=one_of(*DIRECTIONS),
        )

    @property
    def _within(self) -> float:
        """m, at most a + a'."""
        return min(self.apart, up(self.norm + self.other))

    @property
    def _largest(self) -> float:
        """The M for which C_p(G(M)) is never above the function."""
        return max(self.norm, self.other, self._within)

    @property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""
        if self._within == 0.0 or self.probability == 0.0:
            return Gaussian(0.0)
        return Gaussian(self._within) if self.probability == 1.0 else None

    @property
    def orientation(self) -> Orientation:
        """The direction; "symmetric" where both orders are one."""
        symmetric = self.norm == self.other or self._plain is not None
        return "symmetric" if symmetric else self.direction

    def inverse(self) -> FixedSizeSubsampled:
        """f^-1: the other direction.

        Returns
        -------
        FixedSizeSubsampled
            The same, for "both".
        """
        return replace(self, direction=opposite(self.direction))

    def symmetrised(self) -> FixedSizeSubsampled:
        """The worse of both directions.

        Returns
        -------
        FixedSizeSubsampled
            Of direction "both".
        """
        return replace(self, direction="both")

    def _norm_at(self, *, positive: bool) -> float:
        """The size that counts at ε ≥ 0, or below 0: D(a, m) is worse for a larger a."""
        match self.orientation:
            case "symmetric" | "both":
                return max(self.norm, self.other)
            case "remove":
                return self.norm if positive else self.other
            case "add":
                return self.other if positive else self.norm
            case _:
                assert_never(self.orientation)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self._plain is not None:
            return self._plain.epsilon_bounds(delta, rtol)
        if delta >= 1.0 or self._delta(0.0) <= delta:
            return 0.0, 0.0
        if delta == 0.0 or self._largest == math.inf:
            return math.inf, math.inf
        # At the largest μ without sampling δ is never less.
        high = Gaussian(self._largest).epsilon(delta)
        low, high = bisected(
            lambda e: self._delta(e) <= delta, 0.0, high, close=lambda a, b: b - a <= _CLOSE * b
        )
        # A δ of 1 may be one of which nothing is known.
        return low * (1.0 - _CLOSE) if self._delta(low) < 1.0 else 0.0, high

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        return worst_divergence((pair.log_moment(power) for pair in self.losses()), power)

    @property
    def zcdp(self) -> float:
        """The ρ of the Gaussian that the function is never below."""
        return 0.0 if self.probability == 0.0 else gdp_to_zcdp(self._largest)

    def losses(self) -> tuple[Pair, ...]:
        """The losses of the directions, one or two."""
        p, m = self.probability, self._within
        if m == 0.0 or p == 0.0:
            return (Labelled((0.0,), (1.0,)),)
        if p == 1.0:
            return (Symmetrised(m, 1.0) if m < math.inf else Labelled((math.inf,), (1.0,)),)
        if self._largest > APART:  # where the record is seen, or was not drawn
            return (Labelled((0.0, math.inf), (1.0 - p, p)),)
        first, second = Half(self.norm, m, p), Half(self.other, m, p)
        if first == second:
            return (SymmetricDisplacedLoss(first, first),)
        return chosen(self.direction, DisplacedLoss(first, second), DisplacedLoss(second, first))

    def _tradeoff(self, alpha: Array) -> Array:
        if self._plain is not None:
            return self._plain._tradeoff(alpha)
        end = self._epsilon(min(1.0, up(self._delta(math.inf)) + _LEAST_DELTA))
        grid = np.linspace(0.0, min(end, _FARTHEST), _POINTS)
        left, right = (self._forward_array(grid, self._norm_at(positive=x)) for x in (False, True))
        return np.where(alpha == 0.0, 1.0, supported(alpha, grid, left=left, right=right))

    def _delta(self, epsilon: float) -> float:
        if self._plain is not None:
            return self._plain._delta(epsilon)
        if epsilon == -math.inf:
            return 1.0
        if self._largest > APART:
            forward = self.probability
        elif epsilon == math.inf:
            forward = 0.0
        else:
            forward = self._forward(abs(epsilon), self._norm_at(positive=epsilon >= 0.0))
        return float(both_signs(np.array([epsilon]), np.array([forward]))[0])

    def _forward(self, size: float, norm: float) -> float:
        """δ of D(norm, m) at ε = `size` ≥ 0, rounded up."""
        half = Half(norm, self._within, self.probability)
        guess = float(half.place(np.array([size]))[0])
        bits = _BITS - min(
            0, math.frexp(size)[1]
        )  # a loss is told from 0 by the digits of 1 + size
        with ctx.workprec(bits):
            p, a, m, e = arb(self.probability), arb(norm), arb(half.apart), arb(size)
            b = a - m
            z = (a + b) / 2 + _place(a, b, kappa=(-a * b / 2).exp() * (1 - p) / p, e=e, t=guess)
            middle = (1 - p) * e.expm1() * balls.normal_tail(z)
            value = p * (balls.normal_tail(z - a) - e.exp() * balls.normal_tail(z - b)) - middle
            return min(1.0, max(0.0, balls.upper(value)))

    def _delta_array(self, epsilon: Array) -> Array:
        if self._plain is not None:
            return self._plain._delta_array(epsilon)
        size = np.minimum(np.abs(epsilon), _FARTHEST)
        positive, negative = (
            self._forward_array(size, self._norm_at(positive=x)) for x in (True, False)
        )
        delta = np.where(epsilon < 0.0, negative, positive)
        vanished = (epsilon == math.inf) & (self._largest <= APART)
        return both_signs(epsilon, np.where(vanished, 0.0, delta))

    def _forward_array(self, size: Array, norm: float) -> Array:
        """`_forward` in doubles, with a margin."""
        p = self.probability
        if self._largest > APART:
            return np.full_like(size, p)
        half = Half(norm, self._within, p)
        z = half.origin + half.place(size)
        with np.errstate(under="ignore"):
            above = p * scipy.special.ndtr(half.norm - z)
            below = p * np.exp(size) * np.maximum(scipy.special.ndtr(half.other - z) - FLOOR, 0.0)
            middle = (1.0 - p) * np.expm1(size) * np.maximum(scipy.special.ndtr(-z) - FLOOR, 0.0)
        value = above - below - middle + _TAILS * (above + below + middle)
        value = np.where(value > 0.0, value, 0.0) * (1.0 + EIGHT_ROUNDINGS) + TAIL_FLOOR
        return np.asarray(np.minimum(1.0, value))

    def _fields(self) -> dict[str, Any]:
        sizes = {name: encode(getattr(self, name)) for name in ("norm", "other", "apart")}
        fields: dict[str, Any] = {**sizes, "probability": self.probability}
        return fields if self.direction == "both" else fields | {"direction": self.direction}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        sizes = {name: decode(name, fields.pop(name)) for name in ("norm", "other", "apart")}
        p = fields.pop("probability")
        return cls(**sizes, probability=p, direction=fields.pop("direction", "both"))


def log_moments(aparts: Array, probability: float, power: float) -> Array:
    """log E e^(power·Y), power > 0, for each m of `aparts` (k,) > 0, of sizes 2m and m in the order of the
    larger; where the parts are apart, that of G(2m), which is never less."""
    if probability == 1.0:
        return np.asarray(0.5 * power * (power + 1.0) * aparts * aparts)
    moments = np.asarray(2.0 * power * (power + 1.0) * aparts * aparts)
    near = np.flatnonzero(2.0 * aparts <= APART)
    if near.size:
        pairs = [
            DisplacedLoss(Half(2.0 * m, m, probability), Half(m, m, probability))
            for m in aparts[near].tolist()
        ]
        moments[near] = DisplacedLoss.finite_log_moments(pairs, power)
    return moments


def _place(a: Any, b: Any, *, kappa: Any, e: Any, t: float) -> Any:
    """A ball of the t ≥ 0 where log((κ + e^(at))/(κ + e^(bt))) is `e`, from a guess."""
    if e == 0:
        return arb(0)

    def log_ratio(x: Any) -> Any:
        return ((kappa + (a * x).exp()) / (kappa + (b * x).exp())).log() - e

    x = arb(t)
    for _ in range(_CLOSER):
        one, two = (a * x).exp(), (b * x).exp()
        x = (x - log_ratio(x) / (a * one / (kappa + one) - b * two / (kappa + two))).mid()
    radius = abs(x) * arb(2) ** -150
    while not (log_ratio(x - radius) < 0 and log_ratio(x + radius) > 0):
        radius = radius * 2**20 + arb(2) ** -1000
        if not radius < abs(x):
            return arb("nan")  # of which nothing is known
    return arb(x, radius)
