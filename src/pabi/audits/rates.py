"""What counted errors of an attacker prove: confidence bounds, and the ε, μ and trade-off that they refute.

A test that gives a false alarm with a probability of at most `fpr` and misses with one of at most `fnr` shows
that no trade-off function above the point (fpr, fnr) is right. Bounds are those of Clopper and Pearson, one
for each probability, and all that are used hold together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from pabi.numbers.rounding import Array
from pabi.tradeoff import TradeOff

Counts = NDArray[np.int64]

_CANDIDATES = 1_000  # thresholds that are compared
_OF_CURVE = 100  # those that a trade-off function is evaluated for
_ABOVE = 1.0 + 1e-9  # the accuracy of the inverse of the incomplete beta function
_LEAST = 1e-300
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
    """Upper bounds on probabilities, each wrong with a probability of at most `error`.

    Parameters
    ----------
    counts : (m,) array of int, or int
        How often each happened.
    trials : int
        Out of how many independent trials.
    error : float, in (0, 1)
        How likely a bound may be too small.

    Returns
    -------
    array
        Of the shape of `counts`, in [0, 1].

    Raises
    ------
    Nothing.

    References
    ----------
    Clopper, Pearson 1934.
    """
    k = np.asarray(counts, dtype=np.float64)
    bounds = betaincinv(k + 1.0, np.maximum(trials - k, 1.0), 1.0 - error)
    return np.where(k >= trials, 1.0, np.minimum(1.0, bounds * _ABOVE))


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
        alarms, misses = int(np.sum(null >= threshold)), int(np.sum(other < threshold))
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

    @property
    def most(self) -> int:
        """Thresholds at most."""
        return 2 * len(self.deltas) + 2

    def thresholds(self, scores: Array, fpr: Array, fnr: Array) -> list[float]:
        """The ones that are expected to refute the most, of those whose errors are known or guessed.

        `scores`: (m,) thresholds, `fpr` and `fnr` their errors.
        """
        inside = _spread(fpr, fnr)
        scores, fpr, fnr = scores[inside], fpr[inside], fnr[inside]
        error = (1.0 - self.confidence) / (2.0 * self.most)
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
