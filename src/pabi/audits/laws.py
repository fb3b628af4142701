"""Pairs of laws on the line, exactly, and what counted errors of an attacker prove of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array, bisected
from pabi.tradeoff import TradeOff

_TAIL = (
    9.0  # standard deviations that a law is followed for, and the reach of its Fourier transform
)
_FINE = 200  # cells in a standard deviation
_MOST_CELLS = 1 << 21
_FLOOR = 1e-15  # of the peak: what a mass may be off by that comes from its transform
_LEAST = 1e-300
_ABOVE = 1.0 + 1e-10  # the roundings of a sum of masses
_MOST_EPSILON = 600.0
_FEW = 512  # outcomes to sum a law over
_MOST_SUMMED = 30_000_000  # outcomes times cells
_CHUNK = 1 << 22  # complex numbers held at once


class Choice(NamedTuple):
    """An independent draw: (m,) probabilities, and the number that each outcome adds."""

    weights: Array
    values: Array


@dataclass(frozen=True)
class LawPair:
    """Two laws as masses of the same cells: of the output on a data set, and on its neighbour.

    Attributes
    ----------
    edges : (m − 1,) array
        Rising, between the cells; an edge belongs to the cell on its right.
    one, other : (m,) array
        Masses, which sum to 1 but for what the tails hold.
    rounding : float
        The most that any of them may be off by.
    beyond : float
        The probability of what neither law tells of.

    References
    ----------
    docs, "Theory", 22.
    """

    edges: Array
    one: Array
    other: Array
    rounding: float = 0.0
    beyond: float = 0.0

    def swapped(self) -> LawPair:
        """The pair in the other order.

        Returns
        -------
        LawPair
            The same cells.

        Raises
        ------
        Nothing.
        """
        return LawPair(self.edges, self.other, self.one, self.rounding, self.beyond)

    def delta(self, epsilon: float) -> float:
        """δ(ε) in this order: the mass of the first law above e^ε times the second.

        Parameters
        ----------
        epsilon : float, ≥ 0
            The ε.

        Returns
        -------
        float
            From below.

        Raises
        ------
        Nothing.
        """
        factor = math.exp(min(epsilon, _MOST_EPSILON))
        sure = self.one - factor * self.other - (1.0 + factor) * self.rounding
        return max(0.0, float(np.maximum(sure, 0.0).sum()) - (1.0 + factor) * self.beyond)

    def epsilon(self, delta: float) -> float:
        """The ε in [0, 600] at which `delta` is met in this order.

        Parameters
        ----------
        delta : float, ≥ 0
            The δ.

        Returns
        -------
        float
            From below, to 10⁻⁹; 0 where it is met at once.

        Raises
        ------
        Nothing.
        """

        def met(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        low, high = 0.0, 1.0
        if met(low):
            return 0.0
        while not met(high) and high < _MOST_EPSILON:
            low, high = high, 2.0 * high
        return bisected(met, low, high, close=lambda low, high: high - low <= 1e-9 * high)[0]

    def scores(self, outputs: Array) -> Array:
        """Log likelihood ratios of outputs.

        Parameters
        ----------
        outputs : (k,) array
            Released numbers.

        Returns
        -------
        (k,) array
            Those of their cells.

        Raises
        ------
        Nothing.
        """
        return np.asarray(self.log_ratio[np.searchsorted(self.edges, outputs, side="right")])

    @cached_property
    def log_ratio(self) -> Array:
        """(m,) of the cells; bounded where a mass is lost in rounding."""
        floor = max(self.rounding, _LEAST)
        return np.asarray(
            np.log(np.maximum(self.one, floor)) - np.log(np.maximum(self.other, floor))
        )

    @cached_property
    def rates(self) -> tuple[Array, Array, Array]:
        """(thresholds, false-positive rates, false-negative rates) of the tests "score ≥ threshold".

        The second law is the null hypothesis. Thresholds fall.
        """
        order = np.argsort(-self.log_ratio, kind="stable")
        missed = np.append(np.cumsum(self.one[order][:0:-1])[::-1], 0.0)
        return self.log_ratio[order], np.cumsum(self.other[order]), missed

    @property
    def mu(self) -> float:
        """The least μ at which the cells are as hard to tell apart as two Gaussians, from below."""
        _, fpr, fnr = self.rates
        slack = self.rounding * len(fpr)
        inside = (fpr > 1e3 * slack + _LEAST) & (fnr > 1e3 * slack + _LEAST)
        upper = [
            np.minimum(_ABOVE * rate[inside] + slack + self.beyond, 1.0) for rate in (fpr, fnr)
        ]
        gaps = -ndtri(upper[0]) - ndtri(upper[1])
        return float(np.max(gaps, initial=0.0))


class SumCase(NamedTuple):
    """What happens with the probability `weight`: Σ choices + N(0, std²)."""

    weight: float
    choices: Sequence[Choice]
    std: float


def pair_of_sums(one: Sequence[Choice], other: Sequence[Choice], std: float) -> LawPair:
    """The laws of Σ choices + N(0, std²), for the choices of two data sets."""
    return pair_of_mixtures([SumCase(1.0, one, std)], [SumCase(1.0, other, std)])


def pair_of_mixtures(one: Sequence[SumCase], other: Sequence[SumCase]) -> LawPair:
    """The laws of mixtures of such sums, for the cases of two data sets."""
    cases = [*one, *other]
    ends, least = [_ends(case.choices) for case in cases], min(case.std for case in cases)
    tail = _TAIL * max(case.std for case in cases)
    start = min(low for low, _ in ends) - tail
    length = max(high for _, high in ends) + tail - start
    count = min(_MOST_CELLS, 1 << math.ceil(math.log2(length / least * _FINE)))
    edges = np.asarray(start + length / count * np.arange(count + 1), dtype=np.float64)
    outcomes = [math.prod(len(c.values) for c in case.choices) for case in cases]
    if max(outcomes) <= _FEW and sum(outcomes) * count <= _MOST_SUMMED:
        masses, rounding = [_mixed(_summed, law, edges) for law in (one, other)], 0.0
    else:
        masses = [_mixed(_transformed, law, edges) for law in (one, other)]
        rounding = _FLOOR * max(float(mass.max()) for mass in masses)
    return LawPair(edges[1:-1], masses[0], masses[1], rounding)


def _mixed(
    masses: Callable[[Sequence[Choice], float, Array], Array], law: Sequence[SumCase], edges: Array
) -> Array:
    total = np.zeros(len(edges) - 1)
    for case in ticking(law):
        total += case.weight * masses(case.choices, case.std, edges)
    return total


def gaussian_masses(edges: Array, mean: float, std: float) -> Array:
    """(m − 1,) the masses of N(mean, std²) between (m,) edges, to all digits in either tail."""
    z = (edges - mean) / std
    tails, crossed = ndtr(-np.abs(z)), (z[:-1] < 0.0) & (z[1:] >= 0.0)
    return np.asarray(np.where(crossed, 1.0 - tails[:-1] - tails[1:], np.abs(np.diff(tails))))


def _summed(choices: Sequence[Choice], std: float, edges: Array) -> Array:
    """The masses between the edges, outcome by outcome."""
    total = np.zeros(len(edges) - 1)
    for outcome in itertools.product(*(range(len(choice.values)) for choice in choices)):
        weight = math.prod(float(c.weights[k]) for c, k in zip(choices, outcome, strict=True))
        mean = math.fsum(float(c.values[k]) for c, k in zip(choices, outcome, strict=True))
        total += weight * gaussian_masses(edges, mean, std)
    return total


def _ends(choices: Sequence[Choice]) -> tuple[float, float]:
    """The least and the largest sum."""
    return (
        math.fsum(float(choice.values.min()) for choice in choices),
        math.fsum(float(choice.values.max()) for choice in choices),
    )


def _transformed(choices: Sequence[Choice], std: float, edges: Array) -> Array:
    """The masses between the edges, by the discrete Fourier transform of a period.

    The transform of the indicator of a cell turns the density in its middle into its mass.
    """
    count, length = len(edges) - 1, float(edges[-1] - edges[0])
    width = length / count
    needed = 1 + math.ceil(_TAIL / std * length / (2.0 * math.pi))
    waves = np.arange(min(needed, count // 2), dtype=np.float64) * (2.0 * math.pi / length)
    middle = float(edges[0]) + 0.5 * width
    transform = np.exp(-0.5 * np.square(std * waves) + 1j * waves * middle)
    transform *= np.sinc(waves * width / (2.0 * math.pi))
    for choice in choices:
        transform = transform * _transform(choice, waves)
    spectrum = np.zeros(count // 2 + 1, dtype=complex)
    spectrum[: len(waves)] = transform
    return np.maximum(np.fft.irfft(spectrum, count), 0.0)


def _transform(choice: Choice, waves: Array) -> Array:
    """E exp(−iωX) of one choice at the frequencies."""
    total = np.zeros(len(waves), dtype=complex)
    part = max(1, _CHUNK // len(waves))
    for first in range(0, len(choice.values), part):
        rows = slice(first, first + part)
        total += np.exp(-1j * np.outer(waves, choice.values[rows])) @ choice.weights[rows]
    return total


# What counted errors of an attacker prove: confidence bounds, and the ε, μ and trade-off that they
# refute.
#
# A test that gives a false alarm with a probability of at most `fpr` and misses with one of at most `fnr`
# shows that no trade-off function above the point (fpr, fnr) is right. Bounds are those of Clopper and
# Pearson, one for each probability, and all that are used hold together.


Counts = NDArray[np.int64]

_CANDIDATES = 1_000  # thresholds that are compared
_OF_CURVE = 100  # those that a trade-off function is evaluated for
_ABOVE_RATES = 1.0 + 1e-9  # the accuracy of the inverse of the incomplete beta function
_WEIGHED = 500


@dataclass(frozen=True)
class Point:
    """The errors of one test.

    Attributes
    ----------
    threshold : float
        The test says "the first data set" at scores of at least so much.
    alarms : int
        How often it said so of models of the second data set.
    misses : int
        How often it said the opposite of models of the first.
    fpr, fnr : float
        Upper confidence bounds on the probabilities of both.

    References
    ----------
    Clopper, Pearson 1934; docs, "Audits".
    """

    threshold: float
    alarms: int
    misses: int
    fpr: float
    fnr: float


def above(counts: Counts | int, trials: int, error: float) -> Array:
    """Upper bounds on probabilities, each too small with a probability of at most `error`.

    Source: Clopper, Pearson 1934.
    """
    k = np.asarray(counts, dtype=np.float64)
    bounds = betaincinv(k + 1.0, np.maximum(trials - k, 1.0), 1.0 - error)
    return np.where(k >= trials, 1.0, np.minimum(1.0, bounds * _ABOVE_RATES))


def epsilons(fpr: Array, fnr: Array, delta: float) -> tuple[Array, Array]:
    """The ε that these errors refute at `delta`: of the test, and of its opposite in the other order; 0 where
    they refute none."""
    first = np.maximum(1.0 - fnr - delta, 0.0) / np.maximum(fpr, _LEAST)
    second = np.maximum(1.0 - fpr - delta, 0.0) / np.maximum(fnr, _LEAST)
    return np.log(np.maximum(first, 1.0)), np.log(np.maximum(second, 1.0))


def epsilon(points: Sequence[Point], delta: float) -> float:
    """The largest ε that the points refute at `delta`."""
    fpr, fnr = _corners(points)
    return max(float(np.max(x, initial=0.0)) for x in epsilons(fpr, fnr, delta))


def mus(fpr: Array, fnr: Array) -> Array:
    """The μ of the Gaussians that are as hard to tell apart; 0 where nothing is told apart."""
    with np.errstate(invalid="ignore"):
        values = -ndtri(fpr) - ndtri(fnr)
    return np.where(np.isfinite(values), np.maximum(values, 0.0), 0.0)


def mu(points: Sequence[Point]) -> float:
    """The largest μ that the points refute."""
    return float(np.max(mus(*_corners(points)), initial=0.0))


def refutes(points: Sequence[Point], curve: TradeOff) -> bool:
    """Whether a point is below a trade-off function, in either order of the data sets."""
    fpr, fnr = _corners(points)
    return bool(np.any(fnr < curve(fpr)) or np.any(fpr < curve(fnr)))


def _corners(points: Sequence[Point]) -> tuple[Array, Array]:
    return np.array([p.fpr for p in points]), np.array([p.fnr for p in points])


def counted(
    null: Array, other: Array, thresholds: Sequence[float], confidence: float
) -> list[Point]:
    """The points of tests at `thresholds`, all of whose bounds hold together with this confidence.

    `null`, `other`: scores of models of the second data set and of the first.
    """
    error = (1.0 - confidence) / (2.0 * len(thresholds))
    points = []
    for threshold in thresholds:
        # Either answer is the opposite of the other, even where numbers overflowed into NaN.
        alarms, misses = int(np.sum(null >= threshold)), int(np.sum(~(other >= threshold)))
        fpr, fnr = above(alarms, len(null), error), above(misses, len(other), error)
        points.append(Point(float(threshold), alarms, misses, float(fpr), float(fnr)))
    return points


@dataclass(frozen=True)
class Aims:
    """What thresholds are chosen for: the ε at each of `deltas`, the μ, and the trade-off function."""

    deltas: tuple[float, ...]
    curve: TradeOff
    trials: int
    confidence: float

    def thresholds(self, scores: Array, fpr: Array, fnr: Array) -> list[float]:
        """The ones that are expected to refute the most, of those whose errors are known or guessed."""
        inside = _spread(fpr, fnr)
        scores, fpr, fnr = scores[inside], fpr[inside], fnr[inside]
        most = 2 * len(self.deltas) + 2  # thresholds
        error = (1.0 - self.confidence) / (2.0 * most)
        alarms, misses = (np.rint(self.trials * rate).astype(np.int64) for rate in (fpr, fnr))
        expected = above(alarms, self.trials, error), above(misses, self.trials, error)
        best = [
            int(np.argmax(values)) for delta in self.deltas for values in epsilons(*expected, delta)
        ]
        best += [int(np.argmax(mus(*expected))), _most_refuted(self.curve, *expected)]
        return [float(scores[i]) for i in dict.fromkeys(best)]


def _spread(fpr: Array, fnr: Array) -> NDArray[np.int64]:
    """Which thresholds to compare: about as many in either tail as between."""
    with np.errstate(divide="ignore"):
        place = np.log(np.maximum(fpr, _LEAST)) - np.log(np.maximum(fnr, _LEAST))
    order = np.argsort(place, kind="stable")
    targets = np.linspace(-40.0, 40.0, _CANDIDATES)
    nearest = np.clip(np.searchsorted(place[order], targets), 0, len(order) - 1)
    return np.unique(order[nearest])


def _most_refuted(curve: Callable[[Array], Array], fpr: Array, fnr: Array) -> int:
    """The point that is lowest against the curve, in either order."""
    some = np.unique(np.linspace(0, len(fpr) - 1, _OF_CURVE).astype(np.int64))
    x, y = fpr[some], fnr[some]
    ratio = np.maximum(curve(x) / np.maximum(y, _LEAST), curve(y) / np.maximum(x, _LEAST))
    return int(some[np.argmax(ratio)])


def guessed(null: Array, other: Array) -> tuple[Array, Array, Array]:
    """(thresholds, false-positive rates, false-negative rates) of scores, a threshold at each of them."""
    scores = np.unique(np.concatenate([null, other]))
    alarms = len(null) - np.searchsorted(np.sort(null), scores, side="left")
    misses = np.searchsorted(np.sort(other), scores, side="left")
    return scores, alarms / len(null), misses / len(other)


def resolved(trials: int) -> float:
    """A δ at which so many trainings of either data set show most of ε: it weighs hundreds of them."""
    return min(0.1, _WEIGHED / trials)
