"""Readings of Gaussian mechanisms of which nobody sees how far a record moved the outcome."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy  # its parts are loaded on first use
from flint import arb, ctx, fmpq

from pabi.numbers import gaussian
from pabi.numbers.gaussian import gdp_to_zcdp
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, bisected, sectioned, up
from pabi.numbers.validate import number
from pabi.numbers.vectorised import TAIL_FLOOR, both_signs
from pabi.tradeoff.base import FARTHEST, TradeOff, chosen, one_order, supported
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import APART, Half
from pabi.tradeoff.law import MixtureLaw
from pabi.tradeoff.pairs import Pair, worst_divergence

_BITS = 400  # of ball arithmetic
_TAILS = 1e-12  # relative: scipy's normal tails, and their differences
_CLOSE = 1e-12  # relative: how far apart the bounds on ε may be
# Relative: how near that of the arrays may be to the least ε.
_AROUND = 1e-11, 1e-9, 1e-6, 1e-3, 1.0
_MOVED = (
    1e-10  # relative: how far a double's place is from the exact one, or else that is not sought
)
_STEPS = [2.0**k for k in range(-90, 120, 14)]  # relative: half the width of an enclosed place
_POINTS = 4001  # at which the curve is supported
_LEAST_DELTA = 1e-17


class OfLaw(TradeOff):
    """A trade-off function of mixtures of Gaussians, one of which is `_plain` or else has a `_law`."""

    # Sizes above which parts are taken to be in sight.
    _seen_from: ClassVar[float] = sys.float_info.max

    @property
    @abstractmethod
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where nothing is random or nothing revealed."""

    @property
    @abstractmethod
    def _law(self) -> MixtureLaw:
        """The losses of the first order; of the other they are reversed."""

    @property
    @abstractmethod
    def _largest(self) -> float:
        """A μ for which G(μ) is never above the function, nor is any below it of another μ."""

    @property
    def zcdp(self) -> float:
        """The ρ of a Gaussian that the function is never below; no smaller ρ suits large orders."""
        return gdp_to_zcdp(self._largest)

    def losses(self) -> tuple[Pair, ...]:
        """The losses of the orders that differ, one or two."""
        if self._plain is not None:
            return self._plain.losses()
        law, orientation = self._law, self.orientation
        laws = (law,) if orientation == "symmetric" else chosen(orientation, law, law.reversed)
        return tuple(law.simplified for law in laws) if law.size > self._seen_from else laws

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        return worst_divergence((pair.log_moment(power) for pair in self.losses()), power)


class TwoHalves(OfLaw):
    """One that is read off its two halves; where a size is above 100 a part is seen, or not drawn."""

    _seen_from = APART

    def _halves(self, *, positive: bool) -> Sequence[Half]:
        """The halves of which the worst counts at ε ≥ 0, or below 0."""
        orientation, ends = self.orientation, (self._law.upper, self._law.lower)
        if orientation == "symmetric":
            return ends[:1]
        return chosen(orientation, *(ends if positive else ends[::-1]))

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if self._plain is not None:
            return self._plain.epsilon_bounds(delta, rtol)
        if delta >= 1.0 or self._delta(0.0) <= delta:
            return 0.0, 0.0
        if delta == 0.0 or self._largest == math.inf:
            return math.inf, math.inf
        # Without sampling, and at the largest μ, δ is never less.
        most = Gaussian(self._largest).epsilon(delta)
        if self._law.size > APART:
            return 0.0, most
        # Twelve rounds of 32 sections are 60 halvings.
        _, near = sectioned(
            lambda e: self._delta_array(e) > delta, 0.0, min(most, FARTHEST), points=31, rounds=12
        )

        def holds(epsilon: float) -> bool:
            return self._delta(epsilon) <= delta

        # What arrays say is too large by their margin, which matters for a very small δ.
        low = next(e for x in _AROUND if (e := near * (1.0 - x)) == 0.0 or not holds(e))
        high = next((e for x in _AROUND if holds(e := near * (1.0 + x))), most)
        low, high = bisected(holds, low, high, close=lambda a, b: b - a <= _CLOSE * b)
        # A δ of 1 may be one of which nothing is known.
        return low * (1.0 - _CLOSE) if self._delta(low) < 1.0 else 0.0, min(most, high)

    def _tradeoff(self, alpha: Array) -> Array:
        if self._plain is not None:
            return self._plain._tradeoff(alpha)
        end = self._epsilon(min(1.0, up(self._delta(math.inf)) + _LEAST_DELTA))
        grid = np.linspace(0.0, min(end, FARTHEST), _POINTS)
        left = right = self._forward_array(grid, positive=True)
        if one_order(self.orientation):
            left = self._forward_array(grid, positive=False)
        return np.where(alpha == 0.0, 1.0, supported(alpha, grid, left=left, right=right))

    def _delta(self, epsilon: float) -> float:
        if self._plain is not None:
            return self._plain._delta(epsilon)
        if epsilon == -math.inf:
            return 1.0
        if self._law.size > APART:
            forward = self._law.upper.share
        elif epsilon == math.inf:
            forward = 0.0
        else:
            halves = self._halves(positive=epsilon >= 0.0)
            forward = max(_delta_above(half, abs(epsilon)) for half in halves)
        return float(both_signs(np.array([epsilon]), np.array([forward]))[0])

    def _delta_array(self, epsilon: Array) -> Array:
        if self._plain is not None:
            return self._plain._delta_array(epsilon)
        size, delta = np.minimum(np.abs(epsilon), FARTHEST), np.zeros_like(epsilon)
        for positive, now in ((True, epsilon >= 0.0), (False, epsilon < 0.0)):
            if now.any():
                delta[now] = self._forward_array(size[now], positive=positive)
        vanished = (epsilon == math.inf) & (self._law.size <= APART)
        return both_signs(epsilon, np.where(vanished, 0.0, delta))

    def _forward_array(self, size: Array, *, positive: bool) -> Array:
        """δ at ε = `size` ≥ 0 in doubles, with a margin."""
        if self._law.size > APART:
            return np.full_like(size, self._law.upper.share)
        deltas = [_deltas_above(half, size) for half in self._halves(positive=positive)]
        return np.asarray(np.max(deltas, axis=0))


def _deltas_above(half: Half, size: Array) -> Array:
    """Upper bounds on P(> z) - e^ε·Q(> z) at all z, ε = `size` ≥ 0, for P and Q of a half.

    Where the loss is ε less twice what losses are off by, at most, all beyond are hardly less than ε.
    """
    doubt = half.doubt(size)
    t = half.place(np.maximum(size - doubt, 0.0))
    plain = half.rest * np.maximum(scipy.special.ndtr(-half.origin - t) - TAIL_FLOOR, 0.0)
    with np.errstate(under="ignore"):
        level, above, below = np.exp(size), np.zeros_like(size), np.expm1(size) * plain
        doubtful = doubt * level * plain
        for part in half.moved(t):
            tail = np.maximum(scipy.special.ndtr(-part.from_q) - TAIL_FLOOR, 0.0)
            above += part.weight * scipy.special.ndtr(-part.from_p)
            below += part.weight * level * tail
        value = above - below + (_TAILS + 2.0 * doubt) * (above + below) + 2.0 * doubtful
    value = np.where(value > 0.0, value, 0.0) * (1.0 + EIGHT_ROUNDINGS) + TAIL_FLOOR
    return np.asarray(np.minimum(1.0, value))


def _delta_above(half: Half, size: float) -> float:
    """The same for one ε, rounded up: at the place of the loss, found in doubles and enclosed in balls.

    The digits of 1 + ε, and of the distance of two tails, tell a loss from 0.
    """
    least = min(m for _, m, _ in half.parts)
    bits = _BITS - min(0, math.frexp(size)[1]) - min(0, math.frexp(least)[1])
    with ctx.workprec(bits):
        return min(1.0, max(0.0, gaussian.upper(_Enclosed(half, size).supremum())))


class _Enclosed:
    """P and Q of a half in balls; `level` is e^ε, `above` e^ε - 1."""

    def __init__(self, half: Half, size: float) -> None:
        self.half, self.level, self.above = half, arb(size).exp(), arb(size).expm1()
        self.parts = [
            (arb(fmpq(*w.as_integer_ratio())), arb(a), arb(a) - arb(m)) for a, m, w in half.parts
        ]
        self.rest = 1 - sum((w for w, _, _ in self.parts), arb(0))
        self.near = arb(half.origin) + arb(float(half.place(np.array([size]))[0]))

    def supremum(self) -> Any:
        """A ball around or above sup_z P(> z) - e^ε·Q(> z)."""
        far = arb(self.half.farthest)
        if (self.near > far - 1 or self.half.most < math.inf) and self.ratio(far) <= self.level:
            # The supremum is beyond that.
            return self.rest * gaussian.normal_tail(far) + self.tail(far, 1)
        places = self.bracket()
        if places is None:
            return arb(1)
        low, high = places
        value = self.tail(low, 1) - self.level * self.tail(low, 2)
        value -= self.rest * self.above * gaussian.normal_tail(low)
        # Up to the supremum it grows by the integral of q·(e^ε - L) at most, and q falls beyond all means.
        falls = low > 0 and all(low > b for _, _, b in self.parts)
        density = self.seen(low, 2)[0] * (-(low**2) / 2).exp() if falls else 1
        return value + (high - low) * density * (self.level - self.ratio(low))

    def bracket(self) -> tuple[Any, Any] | None:
        """Places between which the likelihood ratio is e^ε, if they are found."""
        z, ends = self.near, []
        (p, p_slope), (q, q_slope) = self.seen(z, 1), self.seen(z, 2)
        move = (p / (q * self.level)).log() / (p_slope / p - q_slope / q)
        width = 1 + abs(z)
        if abs(move) < _MOVED * width:  # Newton's step
            z = (z - move).mid()
        for sign in (-1, 1):
            tried = ((z + sign * width * step).mid() for step in _STEPS)
            end = next((x for x in tried if sign * (self.ratio(x) - self.level) >= 0), None)
            if end is None:
                return None
            ends.append(end)
        return ends[0], ends[1]

    def ratio(self, z: Any) -> Any:
        """The likelihood ratio."""
        return self.seen(z, 1)[0] / self.seen(z, 2)[0]

    def seen(self, z: Any, place: int) -> tuple[Any, Any]:
        """The density of P, `place` 1, or of Q, 2, over that of N(0, 1), and its derivative."""
        terms = [(x[0] * (x[place] * (z - x[place] / 2)).exp(), x[place]) for x in self.parts]
        total = sum((term for term, _ in terms), self.rest)
        return total, sum((a * term for term, a in terms), arb(0))

    def tail(self, z: Any, place: int) -> Any:
        """What the moved parts of P, `place` 1, or of Q, 2, have beyond z."""
        return sum((x[0] * gaussian.normal_tail(z - x[place]) for x in self.parts), arb(0))
