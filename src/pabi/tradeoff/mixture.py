"""Mixtures: a public label j is drawn with probability w_j, then the pair is G(μ_j)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum, inf
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded on first use
from numpy.typing import NDArray

from pabi.convert.mixtures import (
    TOTAL,
    mixture_epsilon_bounds,
    mixture_to_delta,
    mixture_to_epsilon,
    mixture_to_rdp,
)
from pabi.convert.vectorised import gaussian_delta
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import NONNEGATIVE, keep
from pabi.numbers.margins import EIGHT_ROUNDINGS, MANY_ROUNDINGS, THREE_ROUNDINGS
from pabi.numbers.rounding import Array, fraction_up
from pabi.numbers.search import bisected_arrays
from pabi.tradeoff.base import TradeOff, decode, encode
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.mixture_product import product_mixture, summing_to_one
from pabi.tradeoff.pairs import Labelled, Pair

_ROWS = 1 << 20  # entries of the working arrays
_MARGIN = 5e-13  # relative, for ndtr and the sums
_PER_PART = 2e-16  # relative: one rounding more for every part of a sum
_SMALLEST = 5e-324  # what a product of two may lose where it underflows
_FARTHEST = 39.0  # Φ(-39) is below every positive double


@dataclass(frozen=True, init=False)
class Mixture(TradeOff):
    """The pair (j, G(μ_j)) with P(j) = w_j, so that δ(ε) is the sum of w_j·δ_j(ε).

    A mechanism whose label stays secret is at most as distinguishable (joint convexity of the hockey-stick
    divergence).

    Parameters
    ----------
    parts : sequence of Gaussian
        G(μ_j). As a field they are sorted, equal ones merged (their weight rounded up) and those of weight 0
        dropped.
    weights : sequence of float
        w_j ≥ 0, one for each part, summing to 1 within 1e-9.

    References
    ----------
    docs, "Theory", 1 and 6.
    """

    parts: tuple[Gaussian, ...]
    weights: tuple[float, ...]

    kind: ClassVar[str] = "mixture"

    def __init__(self, parts: Sequence[Gaussian], weights: Sequence[float]) -> None:
        parts = tuple(parts)
        values = tuple(NONNEGATIVE("weights", w) for w in weights)
        for part in parts:
            if type(part) is not Gaussian:
                raise InvalidInput("parts", f"expected Gaussian objects, got {part!r}")
        if not parts or len(parts) != len(values):
            raise InvalidInput("weights", f"expected one weight per part, got {len(values)}")
        if not abs(fsum(values) - 1.0) <= TOTAL:
            raise InvalidInput("weights", f"expected weights that sum to 1, got {fsum(values)!r}")
        groups: dict[float, list[float]] = {}
        for part, weight in zip(parts, values, strict=True):
            if weight > 0.0:
                groups.setdefault(part.mu, []).append(weight)
        merged = sorted(
            (mu, fraction_up(sum(map(Fraction, group), Fraction(0))))
            for mu, group in groups.items()
        )
        gaussians = tuple(Gaussian(mu) for mu, _ in merged)
        keep(self, parts=gaussians, weights=tuple(weight for _, weight in merged))

    @property
    def mus(self) -> Array:
        """The distinct μ_j in increasing order, shape (parts,)."""
        return np.array([part.mu for part in self.parts])

    def _epsilon(self, delta: float) -> float:
        return mixture_to_epsilon(self.mus, self.weights, delta)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        return mixture_epsilon_bounds(self.mus, self.weights, delta)

    def _rdp(self, order: float) -> float:
        return mixture_to_rdp(self.mus, self.weights, order)

    @property
    def zcdp(self) -> float:
        """The ρ of the largest μ_j: the limit of the Rényi divergence over its order."""
        return self.parts[-1].zcdp

    def losses(self) -> tuple[Pair, ...]:
        """The mixture of the losses of the parts, the same in both orders."""
        return (Labelled(tuple(self.mus.tolist()), tuple(self._proper.tolist())),)

    def _compose(self, other: TradeOff) -> TradeOff | None:
        """The product mixture, μ = √(μ_i² + μ_j²); beyond 4096 parts μ rounds up onto a grid."""
        if isinstance(other, Gaussian):
            products = [part._compose(other) for part in self.parts]
            return Mixture([g for g in products if isinstance(g, Gaussian)], self.weights)
        if not isinstance(other, Mixture):
            return None
        mus, weights = product_mixture((self.mus, self._proper), (other.mus, other._proper))
        return Mixture([Gaussian(m) for m in mus.tolist()], weights.tolist())

    @cached_property
    def _proper(self) -> Array:
        """The weights with the lowest parts changed so that the sum is 1.

        Moving mass from a lower to a higher μ only raises δ at every ε, so what is missing goes to
        the lowest part and what is too much is taken from there.
        """
        return summing_to_one(np.array(self.weights))

    def _tradeoff(self, alpha: Array) -> Array:
        result = self._ends(alpha)
        size = max(1, _ROWS // len(self.parts))
        for upper_half in (False, True):
            inner = np.flatnonzero(np.isnan(result) & ((alpha > 0.5) == upper_half))
            for start in range(0, len(inner), size):
                some = inner[start : start + size]
                result[some] = self._between(alpha[some], upper_half)
        return result

    def _between(self, alpha: Array, upper_half: bool) -> Array:
        """The likelihood-ratio test at log threshold ε has errors (FPR(ε), FNR(ε)), a point on f.

        Bisection finds thresholds on both sides of FPR = α. Left of it FPR ≥ α, hence f(α) ≥ FNR,
        accurate where f is small; the line 1 - δ(ε) - e^ε·α right of it supports f, which matters
        where a part with μ near 0 makes FPR jump. Either is valid at any ε. Above α = 1/2 the test
        is 1 - FPR ≤ 1 - α, where neither side cancels.
        """
        mus, weights, infinite = self._finite()
        if mus.size == 0:
            return np.zeros_like(alpha)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            z = np.clip(scipy.special.ndtri(alpha), -_FARTHEST, _FARTHEST)
            thresholds = -mus * z - 0.5 * mus * mus
            room = MANY_ROUNDINGS * (mus[-1] * (mus[-1] + _FARTHEST + 1.0) + 1e-300)

            def is_left(epsilon: Array) -> NDArray[np.bool_]:
                if upper_half:
                    true_negatives = _tail_sum(mus, weights, epsilon, 0.5, +1.0) + infinite
                    return np.asarray(true_negatives <= 1.0 - alpha)
                return _tail_sum(mus, weights, -epsilon, -0.5, -1.0) >= alpha

            ends = thresholds.min(axis=0) - room, thresholds.max(axis=0) + room
            low, high = bisected_arrays(is_left, *ends, rounds=70)
            value = np.where(is_left(low), _tail_sum(mus, weights, low, -0.5, -1.0), 0.0)
            cost = np.exp(high) * alpha
            delta = self._proper @ np.asarray(gaussian_delta(self.mus[:, None], high))
            line = 1.0 - delta * (1.0 + _MARGIN) - cost - EIGHT_ROUNDINGS * (1.0 + cost)
            line = np.where(np.isnan(line), 0.0, line)
        return np.asarray(np.maximum(value, line))

    def _finite(self) -> tuple[Array, Array, float]:
        """A column of the finite μ, their weights, and the weight of μ = ∞."""
        finite = np.isfinite(self.mus)
        infinite = float(self._proper[~finite].sum())
        return self.mus[finite][:, None], self._proper[finite], infinite * (1.0 + EIGHT_ROUNDINGS)

    def _ends(self, alpha: Array) -> Array:
        """f(0) = the mass of the finite parts, f(1) = 0; NaN elsewhere."""
        infinite = self.weights[-1] if self.parts[-1].mu == inf else 0.0
        start = 1.0 if infinite == 0.0 else max(0.0, float(np.nextafter(1.0 - infinite, 0.0)))
        return np.where(alpha == 0.0, start, np.where(alpha == 1.0, 0.0, np.nan))

    def _delta(self, epsilon: float) -> float:
        return mixture_to_delta(self.mus, self.weights, epsilon)

    def _delta_array(self, epsilon: Array) -> Array:
        size = max(1, _ROWS // len(self.parts))
        weights, mus = np.array(self.weights), self.mus[:, None]
        sums = [
            weights @ np.asarray(gaussian_delta(mus, epsilon[start : start + size][None, :]))
            for start in range(0, len(epsilon), size)
        ]
        total = np.concatenate(sums) if sums else np.zeros_like(epsilon)
        lost = len(self.weights) * _SMALLEST
        rounded = np.nextafter(total * (1.0 + _PER_PART * (len(self.weights) + 4)) + lost, np.inf)
        nothing = (total == 0.0) & ((epsilon == inf) | (self.mus[-1] == 0.0))
        return np.where(nothing, 0.0, np.minimum(1.0, rounded))

    def _fields(self) -> dict[str, Any]:
        return {"mus": [encode(m) for m in self.mus.tolist()], "weights": list(self.weights)}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        parts = [Gaussian(decode("mus", m)) for m in fields.pop("mus")]
        return cls(parts, fields.pop("weights"))


def _tail_sum(mus: Array, weights: Array, threshold: Array, half: float, direction: float) -> Array:
    """A bound on the sum of w_j·Φ(threshold/μ_j + half·μ_j): from below (-1) or above (+1).

    With half = -1/2 it is FNR at threshold ε and FPR at threshold -ε; with +1/2 at ε, 1 - FPR.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        quotient = np.clip(threshold / mus, -1e300, 1e300)  # an infinite margin would be NaN
        argument = quotient + half * mus + direction * THREE_ROUNDINGS * (np.abs(quotient) + mus)
        value = scipy.special.ndtr(argument)
    if mus[0, 0] == 0.0:  # the likelihood ratio is 1: a step, at 0 taken on the safe side
        value[0] = np.where(threshold == 0.0, direction > 0.0, threshold > 0.0)
    value = np.where(np.isnan(value), direction > 0.0, value)
    return np.asarray((weights @ value) * (1.0 + direction * (_MARGIN + _PER_PART * len(weights))))


def average(mus: Sequence[float], weights: Sequence[float]) -> Gaussian | Mixture:
    """The average of the trade-off functions G(μ_j), with weights.

    Parameters
    ----------
    mus : sequence of float
        μ_j in [0, ∞].
    weights : sequence of float
        w_j ≥ 0, one for each μ_j, summing to 1 within 1e-9.

    Returns
    -------
    Gaussian or Mixture
        The Gaussian that all of them are, or else a Mixture.

    Raises
    ------
    InvalidInput
        For numbers out of range, and for weights that do not sum to 1.

    References
    ----------
    docs, "Theory", 6.
    """
    mixture = Mixture([Gaussian(mu) for mu in mus], weights)
    return mixture.parts[0] if len(mixture.parts) == 1 else mixture
