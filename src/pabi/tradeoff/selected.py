"""The best of a random number of runs: δ grows by a factor, and the privacy loss by a summand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from pabi.convert.mixtures import checked_shape, gamma_of
from pabi.convert.vectorised import both_signs
from pabi.numbers.rounding import EIGHT_ROUNDINGS, Array, down, fraction_down, fraction_up, up
from pabi.numbers.search import bisected
from pabi.numbers.validate import NONNEGATIVE, keep, number
from pabi.tradeoff.base import Corner, TradeOff, levels, supported
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.hulls import SLACK, checked_both_orders, pair_above
from pabi.tradeoff.mixture import Mixture
from pabi.tradeoff.pairs import Discrete, Pair
from pabi.tradeoff.product import Product

_CLOSE = 1e-12  # relative: how far apart the bounds on log R may be
_ROUGH = 1.004  # by how much log R is raised where a checker computes it numerically
_POINTS = 4000  # of the grid on which the curve is drawn, and made a pair
_LEAST_DELTA = 1e-17  # what a grid's end leaves
_FEW_POINTS, _MORE_DELTA = 100, 1e-11  # the same where every δ takes a transform
_FARTHEST = 300.0  # the end of a grid: e^300 is far from the largest double
_GOLDEN = 0.6180339887498949  # (√5 - 1)/2
_SHRINKS, _FEWER_SHRINKS = 60, 24  # of the interval in which the kink is searched


@dataclass(frozen=True, init=False)
class Selected(TradeOff):
    """The best of a random number K of independent runs: δ(ε) ≤ min{1, E[K]·δ_0(ε - c)}, δ_0 of one run.

    `selected` computes c from the law of K. At small ε the bound is above what it implies by itself, from
    larger ε and for both orders of the data sets: δ is what is implied.

    Parameters
    ----------
    base : TradeOff
        The function of one run, for both orders of the data sets.
    mean_trials : float
        E[K] ≥ 1.
    log_ratio : float
        c ≥ 0, by how much the privacy loss may grow.

    References
    ----------
    docs, "Theory", 17.
    """

    base: TradeOff
    mean_trials: float
    log_ratio: float

    kind: ClassVar[str] = "selected"

    def __init__(self, base: TradeOff, mean_trials: float, log_ratio: float) -> None:
        keep(
            self,
            base=checked_both_orders(base),
            mean_trials=number("mean_trials", mean_trials, at_least=1.0),
            log_ratio=NONNEGATIVE("log_ratio", log_ratio),
        )

    def _rdp(self, order: float) -> float:
        own = self.base._rdp(order)  # checks the order
        more = math.log(self.mean_trials) / (order - 1.0) + self.log_ratio
        return (own + more) * (1.0 + EIGHT_ROUNDINGS)

    @property
    def zcdp(self) -> float:
        """The ρ = ρ_0 + 2√(ρ_0·log E[K]) + c, with ρ_0 of one run."""
        own = self.base.zcdp
        root = math.sqrt(own * math.log(self.mean_trials)) if own < math.inf else math.inf
        return (own + 2.0 * root + self.log_ratio) * (1.0 + EIGHT_ROUNDINGS)

    def losses(self) -> tuple[Pair, ...]:
        """The loss of a pair of finitely many outcomes that reveals no less, the same in both orders."""
        return (self._pair,)

    def _delta(self, epsilon: float) -> float:
        if epsilon == -math.inf:
            return 1.0
        size = abs(epsilon)
        at = math.inf if size == math.inf else math.nextafter(size - self.log_ratio, -math.inf)
        value = np.array([min(1.0, up(self.mean_trials * self.base._delta(at)))])
        return float(
            both_signs(np.array([epsilon]), self._corner.least(np.array([size]), value))[0]
        )

    def _delta_array(self, epsilon: Array) -> Array:
        size = np.abs(epsilon)
        at = np.where(np.isinf(size), math.inf, np.nextafter(size - self.log_ratio, -math.inf))
        one_by_one = TradeOff._delta_array if self._slow else type(self.base)._delta_array
        value = self.mean_trials * one_by_one(self.base, at)
        value = np.where(value > 0.0, np.nextafter(value, math.inf), 0.0)
        value = self._corner.least(size, np.minimum(1.0, value))
        return np.where(epsilon == -math.inf, 1.0, both_signs(epsilon, value))

    @cached_property
    def _corner(self) -> Corner:
        """About the best corner, of δ' = E[K]·δ_0(ε' - c).

        δ' is convex in e^ε' where it is below 1, so that a' has one maximum, which a search
        by golden sections finds. It is below h + log 3 where δ' is ½ at h: a' ≤ 1/(1 + e^ε').
        """
        half = self._epsilon(0.5)
        if half > _FARTHEST:
            return Corner(0.0, 0.0)
        low, high = 0.0, half + 1.1
        for _ in range(_FEWER_SHRINKS if self._slow else _SHRINKS):
            step = _GOLDEN * (high - low)
            left, right = high - step, low + step
            # Equal where both are 0: the maximum is to the right of where δ' is 1.
            if self._level(left) <= self._level(right):
                low = left
            else:
                high = right
        every = (Corner(e, self._level(e)) for e in (0.0, low, high))
        return max(every, key=lambda corner: corner.level)

    def _level(self, epsilon: float) -> float:
        """a' at ε', δ' = min{1, E[K]·δ_0(ε' - c)}."""
        own = self.base._delta(math.nextafter(epsilon - self.log_ratio, -math.inf))
        delta = min(1.0, up(self.mean_trials * own))
        return float(levels(np.array([epsilon]), np.array([delta]))[0])

    def _epsilon(self, delta: float) -> float:
        if delta >= 1.0:
            return 0.0
        return up(self.base._epsilon(self._share(delta)) + self.log_ratio)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        if delta >= 1.0:
            return 0.0, 0.0
        share = min(1.0, fraction_up(Fraction(delta) / Fraction(self.mean_trials)))
        low, _ = self.base._epsilon_bounds(share, rtol)
        least = down(low + self.log_ratio) if low > 0.0 else 0.0
        return least, max(least, self._epsilon(delta))

    def _share(self, delta: float) -> float:
        """δ/E[K], rounded down."""
        return fraction_down(Fraction(delta) / Fraction(self.mean_trials))

    def _tradeoff(self, alpha: Array) -> Array:
        epsilon = self._grid
        delta = self._delta_array(epsilon)
        return supported(alpha, epsilon, left=delta, right=delta)

    @property
    def _slow(self) -> bool:
        """Whether δ of one run takes a transform: then it is read where it is wanted, and nowhere else."""
        return isinstance(self.base, Product | Best)

    @cached_property
    def _grid(self) -> Array:
        """Numbers ε ≥ 0 up to where δ is about what it is at ∞."""
        few = self._slow
        points, least = (_FEW_POINTS, _MORE_DELTA) if few else (_POINTS, _LEAST_DELTA)
        rest = self._delta(math.inf)
        end = self._epsilon(min(1.0, rest * (1.0 + SLACK) + least))
        return np.linspace(0.0, min(max(end, self.log_ratio, 1e-9), _FARTHEST), points + 1)

    @cached_property
    def _pair(self) -> Discrete:
        """A pair of finitely many outcomes that reveals no less."""
        return pair_above(self._grid, self._delta_array(self._grid))

    def _fields(self) -> dict[str, Any]:
        return {
            "base": self.base.to_dict(),
            "mean_trials": self.mean_trials,
            "log_ratio": self.log_ratio,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        base = TradeOff.from_dict(fields.pop("base"))
        return cls(base, fields.pop("mean_trials"), fields.pop("log_ratio"))


def selected(base: TradeOff, mean_trials: float, shape: float = 0.0) -> Selected:
    """What the best of K independent runs of a mechanism reveals, K of the truncated negative binomial law.

    Parameters
    ----------
    base : TradeOff
        The function of one run, for both orders of the data sets.
    mean_trials : float
        E[K], in [1.01, 10⁶].
    shape : float
        η in (-1, 10]: 0 is the logarithmic law, 1 the geometric one.

    Returns
    -------
    Selected
        With c = (η + 1)·log R, R the least r ≥ 1 with δ_0(log r) ≤ (r - 1)·γ/(1 - γ).

    Raises
    ------
    InvalidInput
        For numbers out of range, and for a function of one order of the data sets.

    References
    ----------
    docs, "Theory", 17.
    """
    base, eta = checked_both_orders(base), checked_shape(shape)
    root = log_ratio_root(base, gamma_of(mean_trials, eta))
    return Selected(base, mean_trials, fraction_up((1 + Fraction(eta)) * Fraction(root)))


def log_ratio_root(base: TradeOff, gamma: float) -> float:
    """log R rounded up: a number x ≥ 0 with δ(x) ≤ (e^x - 1)·γ/(1 - γ), and hardly more than the least.

    Of a function whose ε a checker computes numerically, it is raised by 0.4 %.
    """
    odds = down(gamma / up(1.0 - gamma))

    def holds(x: float) -> bool:
        return base._delta(x) <= math.expm1(x) * odds * (1.0 - EIGHT_ROUNDINGS)

    if base._delta(0.0) == 0.0:
        return 0.0
    most = -math.log(gamma) * (1.0 + EIGHT_ROUNDINGS)  # where the right side is 1
    _, root = bisected(holds, 0.0, most, close=lambda a, b: b - a <= _CLOSE * b)
    return root if isinstance(base, Gaussian | Mixture) else min(root * _ROUGH, most)
