"""Mixtures of Gaussian pairs: a label j is drawn with probability w_j, for everybody to see or in secret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum, inf
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from pabi.numbers.errors import must_be, require
from pabi.numbers.mixtures import (
    TOTAL,
    mixture_epsilon_bounds,
    mixture_to_delta,
    mixture_to_epsilon,
    mixture_to_rdp,
)
from pabi.numbers.rounding import (
    EIGHT_ROUNDINGS,
    MANY_ROUNDINGS,
    THREE_ROUNDINGS,
    Array,
    bisected_arrays,
    fraction_up,
)
from pabi.numbers.validate import NONNEGATIVE, keep, number
from pabi.numbers.vectorised import gaussian_delta
from pabi.tradeoff.base import Orientation, TradeOff, decode, encode
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.halves import Half
from pabi.tradeoff.law import Labelled, MixtureLaw
from pabi.tradeoff.pairs import Pair
from pabi.tradeoff.two_halves import TwoHalves

# The product of two mixtures of Gaussian pairs, kept to a bounded number of parts.
#
# Labels and pairs are independent, so that the parts are G(√(μ_i² + μ_j²)) with weights w_i·w_j. Every
# rounding moves mass to a larger μ, which only raises δ at every ε.


MOST_PARTS = 4096
_MOST_PAIRS = 1 << 20  # formed one by one; beyond, both factors go to a grid first
_SLACK = 1e-6  # cells that are forgiven, so that what lies on a grid stays there despite rounding
_NARROWEST = 1e-9  # relative: the width of a cell, so that rounding is a small part of the slack
_SQUARE_ROOT = 1e-14  # relative: more than the rounding of a few operations and a square root
_PER_TERM = 1.2e-16  # relative: one rounding for every term of a sum

Parts = tuple[Array, Array]  # μ increasing, weights


def product_mixture(a: Parts, b: Parts) -> Parts:
    """Distinct μ and weights of the product, at most `MOST_PARTS`, weights summing to 1."""
    if a[0].size * b[0].size <= _MOST_PAIRS:
        mus, index = np.unique(_hypot_up(a[0], b[0]), return_inverse=True)
        if mus.size <= MOST_PARTS:
            weights = np.multiply.outer(a[1], b[1]).ravel()
            sums = np.bincount(index.ravel(), weights=weights, minlength=mus.size)
            counts = np.bincount(index.ravel(), minlength=mus.size)
            return _finish(mus, sums.astype(np.float64), counts.astype(np.float64))
    return _on_grid(a, b)


def summing_to_one(weights: Array) -> Array:
    """`weights`, sorted by μ, the excess over 1 taken from (or the lack given to) the first."""
    surplus = sum(map(Fraction, weights.tolist()), Fraction(0)) - 1
    result = weights.copy()
    for j, w in enumerate(map(Fraction, weights.tolist())):
        left = max(Fraction(0), w - surplus)
        result[j] = fraction_up(left)
        surplus -= w - left
        if surplus <= 0:
            break
    return result


def _on_grid(a: Parts, b: Parts) -> Parts:
    """Both factors rounded up onto one grid in μ², where the product is a convolution."""
    (finite_a, infinite_a), (finite_b, infinite_b) = _split(a), _split(b)
    if finite_a[0].size == 0 or finite_b[0].size == 0:
        return np.array([np.inf]), np.array([1.0])
    scale = max(float(finite_a[0][-1]), float(finite_b[0][-1]))
    low = [float(np.square(m[0] / scale)) for m, _ in (finite_a, finite_b)]
    top = [float(np.square(m[-1] / scale)) for m, _ in (finite_a, finite_b)]
    cells = MOST_PARTS - 8
    width = max((sum(top) - sum(low)) / cells, _NARROWEST * sum(top))
    cells_a = _to_cells(finite_a, scale, low[0], width)
    cells_b = _to_cells(finite_b, scale, low[1], width)
    sums = np.convolve(cells_a, cells_b)
    steps = np.arange(sums.size)
    # Twice the slack for each factor, half of it against rounding: squares err by 5e-16, at most
    # 5e-7 cells.
    mus = np.sqrt(sum(low) + (steps + 4.0 * _SLACK) * width) * (1.0 + _SQUARE_ROOT) * scale
    infinite = infinite_a + infinite_b * (1.0 - infinite_a)
    if infinite > 0.0:
        mus, sums = np.append(mus, np.inf), np.append(sums, infinite)
    return _finish(mus, sums, np.full(sums.size, float(min(cells_a.size, cells_b.size))))


def _split(parts: Parts) -> tuple[Parts, float]:
    """(the parts of finite μ, the weight of μ = ∞)."""
    finite = np.isfinite(parts[0])
    return (parts[0][finite], parts[1][finite]), float(parts[1][~finite].sum())


def _to_cells(parts: Parts, scale: float, low: float, width: float) -> Array:
    """The weight at low, low + width, low + 2·width, …, each part in the first cell not below it."""
    position = (np.square(parts[0] / scale) - low) / width
    index = np.maximum(np.ceil(position - _SLACK), 0.0).astype(np.int64)
    sums: Array = np.bincount(index, weights=parts[1]).astype(np.float64)
    return sums * (1.0 + _PER_TERM * (len(parts[0]) + 4.0))


def _hypot_up(a: Array, b: Array) -> Array:
    """√(a_i² + b_j²) rounded up, exact where one is 0."""
    x, y = a[:, None], b[None, :]
    with np.errstate(over="ignore", under="ignore"):
        root = np.nextafter(np.nextafter(np.hypot(x, y), np.inf), np.inf)
    return np.asarray(np.where(x == 0.0, y, np.where(y == 0.0, x, root)))


def _finish(mus: Array, sums: Array, counts: Array) -> Parts:
    """The nonempty cells, raised by more than the rounding of their sums, then made to add to 1."""
    filled = sums > 0.0
    raised = np.nextafter(sums[filled] * (1.0 + _PER_TERM * (counts[filled] + 4.0)), np.inf)
    weights = summing_to_one(raised)
    positive = weights > 0.0
    return mus[filled][positive], weights[positive]


def merged(cases: Iterable[tuple[float, Fraction]]) -> dict[float, Fraction]:
    """The weight of every place."""
    weights: dict[float, Fraction] = {}
    for place, weight in cases:
        weights[place] = weights.get(place, Fraction(0)) + weight
    return weights


def _whole(places: Sequence[float], weights: Sequence[float], of: str) -> dict[float, float]:
    """The places in order ↦ their weights, rounded up, without those of weight 0. Raises InvalidInput unless
    there is one for each of at least one place and they sum to 1."""
    matched = len(places) == len(weights) > 0
    require(matched, "weights", f"expected one weight per {of}, got {len(weights)}")
    must_be(abs(fsum(weights) - 1.0) <= TOTAL, "weights", "weights that sum to 1", fsum(weights))
    pairs = zip(places, weights, strict=True)
    groups = merged((place, Fraction(weight)) for place, weight in pairs if weight > 0.0)
    return {place: fraction_up(groups[place]) for place in sorted(groups)}


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
        values = [NONNEGATIVE("weights", w) for w in weights]
        for part in parts:
            must_be(type(part) is Gaussian, "parts", "Gaussian objects", part)
        whole = _whole([part.mu for part in parts], values, "part")
        keep(self, parts=tuple(map(Gaussian, whole)), weights=tuple(whole.values()))

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
        (finite, weights), infinite = _split((self.mus, self._proper))
        if finite.size == 0:
            return np.zeros_like(alpha)
        mus, infinite = finite[:, None], infinite * (1.0 + EIGHT_ROUNDINGS)
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


# Mixtures whose label stays secret.


LARGEST_MEAN = 20.0


@dataclass(frozen=True, init=False)
class SecretMixture(TwoHalves):
    """T(Σ w_j·N(m_j, 1), N(0, 1)), the worse of it and its inverse; or T(Σ w_j·N(m_j, 1), Σ w_j·N(-m_j, 1)).

    One number with Gaussian noise, moved by m_j standard deviations with probability w_j, and nobody sees
    by which; on the other data set it is not moved, or moved the other way. With the label j in sight it
    would be a `Mixture`, which reveals more. Rényi divergences are computed by quadrature, with a margin of
    1e-8 (relative).

    Parameters
    ----------
    means : sequence of float
        m_j in [0, 20]. As a field they are sorted, equal ones merged (their weight rounded up) and those of
        weight 0 dropped.
    weights : sequence of float
        w_j ≥ 0, one for each mean, summing to 1 within 1e-9.
    opposite : bool
        Whether the other data set's number is moved the other way, by a label of its own.

    References
    ----------
    docs, "Theory", 6.1.
    """

    means: tuple[float, ...]
    weights: tuple[float, ...]
    opposite: bool

    kind: ClassVar[str] = "secret_mixture"

    def __init__(
        self, means: Sequence[float], weights: Sequence[float], opposite: bool = False
    ) -> None:
        places = [number("means", m, at_least=0.0, at_most=LARGEST_MEAN) for m in means]
        values = [NONNEGATIVE("weights", w) for w in weights]
        must_be(type(opposite) is bool, "opposite", "True or False", opposite)
        whole = _whole(places, values, "mean")
        keep(self, means=tuple(whole), weights=tuple(whole.values()), opposite=opposite)

    @cached_property
    def _shares(self) -> tuple[tuple[float, Fraction], ...]:
        """(m_j, w_j) with weights that add to 1 exactly: what is missing goes to the lowest mean, and what is
        too much is taken from there, as moving weight to larger means reveals no less."""
        left, shares = Fraction(1), []
        for m, w in zip(reversed(self.means), reversed(self.weights), strict=True):
            share = min(Fraction(w), left)
            left -= share
            shares.append((m, share))
        m, share = shares.pop()
        return tuple(pair for pair in [(m, share + left), *reversed(shares)] if pair[1])

    @property
    def orientation(self) -> Orientation:
        """Whether both orders are one, as where the means are opposite or nothing is secret."""
        return "symmetric" if self.opposite or self._plain is not None else "both"

    @property
    def _apart(self) -> float:
        """How often m_j the two data sets' numbers are apart."""
        return 2.0 if self.opposite else 1.0

    @property
    def _largest(self) -> float:
        """That of the largest mean."""
        return self._apart * self.means[-1]

    @cached_property
    def _plain(self) -> Gaussian | None:
        """The Gaussian that it is where there is only one mean."""
        return Gaussian(self._apart * self._shares[0][0]) if len(self._shares) == 1 else None

    @cached_property
    def _law(self) -> MixtureLaw:
        return MixtureLaw.of(Half(tuple((m, self._apart * m, w) for m, w in self._shares if m)))
