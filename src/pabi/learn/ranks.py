"""Finding quantiles of a column by noisy counts: bisection, on public thresholds and then within them.

Each count is asked after the noisy answers before it. The share of records that a quantile leaves out is
moved inwards as far as noise may mislead, so that a threshold beyond all values is not taken for one within.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache

import numpy as np

from pabi.execute.column_statistics import Asking, Question
from pabi.numbers.rounding import Array

_NEAR = (-40, 56)  # octaves with thresholds at every eighth: 10⁻¹² to 7·10¹⁶
_COARSE = 8  # octaves between the thresholds beyond
_EIGHTHS = 8
_EXPONENTS = (-1016, 1016)
_HALVINGS = 4  # between two public thresholds
_HALVINGS_WITHIN = 8  # between declared bounds
_DOUBT = 0.01  # about the probability that noise misleads one of all searches
_LARGEST = float(np.finfo(np.float64).max) / 4.0
BOTH = math.sqrt(2.0)  # the noise of a difference of two answers over that of one


@cache
def thresholds() -> Array:
    """Public thresholds for columns of which nothing is declared: ±2^k·(1 + j/8), 0, and a few far out."""
    least, most = _EXPONENTS
    far = [2.0**k for k in range(_NEAR[1], most + 1, _COARSE)]
    near = [math.ldexp(1.0 + j / _EIGHTHS, k) for k in range(*_NEAR) for j in range(_EIGHTHS)]
    tiny = [2.0**k for k in range(least, _NEAR[0], _COARSE)]
    sizes = np.array([*tiny, *near, *far, _LARGEST])
    both = np.concatenate([-sizes[::-1], [0.0], sizes])
    both.flags.writeable = False
    return both


@dataclass(frozen=True)
class RankSearch:
    """How quantiles of one column are found.

    `shares`: of the values that are at most each quantile. `margin`: how many records the noise on an answer
    may make up. `bounds`: declared (low, high), None without any.
    """

    shares: tuple[float, ...]
    margin: float
    bounds: tuple[float, float] | None

    def asking(self) -> Asking:
        """Asks for counts; concludes (low, high) around each quantile in turn, nothing of a column with too
        few values."""
        bounds = self.bounds
        grid = thresholds() if bounds is None else midpoints(*bounds, _HALVINGS_WITHIN)
        count = yield Question(math.inf, grid)
        above = BOTH * self.margin  # below the number of values, which is noisy as well
        if not count > self.margin + above:
            return ()
        ends: list[float] = []
        for share in self.shares:
            target = min(max(share * count, self.margin), count - above)
            ends += yield from self._around(target)
        return tuple(ends)

    def _around(self, target: float) -> Generator[Question, float, tuple[float, float]]:
        """(low, high) between which the count passes the target."""
        if self.bounds is not None:
            return (yield from _halved(target, *self.bounds, _HALVINGS_WITHIN))
        grid = thresholds()
        first, last = 0, len(grid) - 1
        while last - first > 1:
            middle = (first + last) // 2
            count = yield Question(float(grid[middle]))
            first, last = (middle, last) if count < target else (first, middle)
        ends = (float(grid[first]), float(grid[last]))
        return (yield from _halved(target, *ends, _HALVINGS))


def _halved(
    target: float, low: float, high: float, times: int
) -> Generator[Question, float, tuple[float, float]]:
    for left in range(times, 0, -1):
        middle = low / 2.0 + high / 2.0
        count = yield Question(middle, midpoints(low, high, left))
        low, high = (middle, high) if count < target else (low, middle)
    return low, high


def midpoints(low: float, high: float, times: int) -> list[float]:
    """All thresholds that so many halvings of (low, high) may ask for, in order."""
    if times == 0:
        return []
    middle = low / 2.0 + high / 2.0
    return [*midpoints(low, middle, times - 1), middle, *midpoints(middle, high, times - 1)]


def questions_of(quantiles: int, *, bounded: bool) -> int:
    """How many counts of a column are asked: that of its values, and those of the searches."""
    if bounded:
        return 1 + quantiles * _HALVINGS_WITHIN
    return 1 + quantiles * (math.ceil(math.log2(len(thresholds()) - 1)) + _HALVINGS)


def margin_of(noise_std: float, counts: int) -> float:
    """What the noise on so many counts hardly exceeds."""
    from scipy.special import ndtri

    return noise_std * float(-ndtri(_DOUBT / max(counts, 1)))


def spread_of(share: float) -> float:
    """How many standard deviations from the mean a normal column's quantile is that leaves so much out."""
    from scipy.special import ndtri

    return float(-ndtri(share))
