"""What the secret labels of a record add: δ at one ε, from the law of every label on a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.locking import tick
from pabi.numbers.rounding import Array
from pabi.tradeoff.convolution import Sum, Term, mean_excess
from pabi.tradeoff.grids import Losses
from pabi.tradeoff.pairs import SQRT_2PI, Indices, normal_mass

# What a label adds.
#
# On the one data set a secret label j, of weight w_j, moves its own steps. With L_x(z) = e^(xz - x²/2), z of
# N(0, 1) and κ = e^ε, δ(ε) is at most E(Σ_j w_j·Y_j + w_0·(1 - κ))⁺ with independent Y_j, which are above 0
# what L_x - κ·L_y is, and below 0 what another such difference is (docs, "Theory", 6.3). The x and y are
# multiples of a_j, how far label j moves its steps. Where no place is left out, the last batch is the hub, of
# share w_0 and size a: then Y_j is multiplied by L_a(ζ) above 0 and by L_-a(ζ) below, and in place of 1 - κ
# there is a difference of ζ, too.


class Difference(NamedTuple):
    """L_x - κ·L_y, with x and y in multiples of the size: (1, 0), (2, 0) and their negatives, (1, -1), (2, 1)
    and (1, 2)."""

    x: int
    y: int

    def at(self, z: Array, size: Array | float, epsilon: float) -> Array:
        """Its values at `z`."""
        x, y = self.x * size, self.y * size
        return np.asarray(np.exp(x * z - 0.5 * x * x) - np.exp(epsilon + y * z - 0.5 * y * y))

    def doubt(self, z: Array, size: float, epsilon: float) -> Array:
        """More than they err, and than they change if a share does by a few units in its last place."""
        x, y = self.x * size, self.y * size
        terms = np.exp(x * z - 0.5 * x * x) + np.exp(epsilon + y * z - 0.5 * y * y)
        return np.asarray(PLACE * terms)


class Gain(NamedTuple):
    """Of which differences Y has the law, above 0 and below, and what the hub adds."""

    above: Difference
    below: Difference
    hub: Difference = Difference(0, 0)

    @classmethod
    def same(cls, x: int, y: int) -> Gain:
        """Those of one difference."""
        return cls(Difference(x, y), Difference(x, y))


# By (opposite, displaces): of the first order of the data sets, and of the second where it is another.
GAINS: dict[tuple[bool, bool], tuple[Gain, ...]] = {
    (False, False): (Gain.same(1, 0), Gain.same(0, 1)),
    (True, False): (Gain.same(1, -1),),
    (False, True): (
        Gain(Difference(2, 1), Difference(0, 1), Difference(1, 0)),
        Gain(Difference(1, 0), Difference(1, 2), Difference(0, -1)),
    ),
    (True, True): (Gain(Difference(2, 0), Difference(0, 2), Difference(1, -1)),),
}

_ADDED = Gain.same(0, 1)

_TAIL = 4e-16  # relative: more than a normal probability errs
PLACE = 1e-13  # relative: more than the value at a place errs
SPREADS = 9.0  # standard deviations that a grid reaches beyond where the sum is read
RARE, _PLACES = 0.01, 401  # how many labels have a value that is left out of a spread; points
_HARDLY = 0.01  # of the largest value
_MANY = 100  # labels: a grid for fewer is as fine
_GROWTH = 0.02  # relative: by how much far points of the grid are apart
_LEAST_TILT = 1e-4  # for a spread of 1: it keeps what lies outside the window small
_MOST_POINTS, _COARSER = 1 << 17, 3  # of a transform, and how often a coarser grid is tried
# Of large sizes the rarest values set how wide and how rough a grid is: then parts of it are tried as well.
_WINDOWS = 1.0, 0.25, 0.06, 0.015, 0.004, 0.001, 0.00025
_DOUBTED = 0.01  # relative: how much of δ rounding may make up
_TYPICAL = (
    0.25  # of the spread: if values that no label has as a rule make up the rest, it is rough
)


@dataclass(frozen=True)
class Labels:
    """`count` labels of one weight w and size a."""

    weight: float
    size: float
    count: int


@dataclass(frozen=True)
class Query:
    """E(Σ w_j·(Y_j⁺ - r·Y_j⁻) - t)⁺ at `epsilon` ≥ 0, with the `ratio` r and t in `at`."""

    gain: Gain
    labels: Sequence[Labels]
    epsilon: float
    ratio: float
    at: float

    @property
    def room(self) -> float:
        """About from the mean to t, or 0."""
        share = 1.0 - rest_of(self.labels)
        mean = self.ratio * math.expm1(self.epsilon) + max(0.0, self.ratio - 1.0)
        return max(0.0, self.at + share * mean)


def place_of(difference: Difference, size: Array | float, epsilon: float, value: Any) -> Array:
    """Where the difference has these values, on the way to larger ones of their sign, or NaN."""
    x, y = difference
    with np.errstate(all="ignore"):
        if y == 0:  # L_x = κ + value
            return np.asarray(np.log1p(value + math.expm1(epsilon)) + 0.5 * (x * size) ** 2) / (
                x * size
            )
        if x == 0:  # κ·L_y = 1 - value
            return np.asarray(np.log1p(-value) - epsilon + 0.5 * (y * size) ** 2) / (y * size)
        # Of q = e^(az) it is one·q^x - two·q^y.
        one, two = np.exp(-0.5 * (x * size) ** 2), np.exp(epsilon - 0.5 * (y * size) ** 2)
        if y == -1:
            root = np.sqrt(value * value + 4.0 * one * two)
            q = np.where(value >= 0.0, (value + root) / (2.0 * one), 2.0 * two / (root - value))
        elif x == 2:
            q = (two + np.sqrt(two * two + 4.0 * one * value)) / (2.0 * one)
        else:
            q = (one + np.sqrt(one * one - 4.0 * two * value)) / (2.0 * two)
        return np.asarray(np.log(q)) / size


class _Side(NamedTuple):
    """Masses of labels (rows) at the points of a grid, counted from 0 outwards; what lies beyond the last one
    has more in the mean by `beyond`, and is there with probability `total` in all, one each for a label."""

    mass: Array
    beyond: Array
    total: Array


def side(
    difference: Difference,
    labels: Sequence[Labels],
    epsilon: float,
    indices: Indices,
    step: float,
    *,
    sign: int,
    ratio: float = 1.0,
) -> _Side:
    """The values above 0 (`sign` 1) or below (-1) of all labels, w times the difference and the ratio, moved
    to grid points around them so that their mean is kept, or raised a little."""
    size = np.array([[one.size] for one in labels])
    weight = np.array([[ratio * one.weight] for one in labels])
    # Those of 1, L_x and L_y.
    moves = np.stack([np.zeros(size.shape), difference.x * size, difference.y * size])
    kappa, value = math.exp(epsilon), indices * (step / weight)
    # A cell may hold values that are a little above its upper end: points are put so that none is.
    z = place_of(difference, size, epsilon, sign * value * (1.0 - sign * PLACE))
    outward = 1.0 if (difference.x > difference.y) == (sign > 0) else -1.0
    z = np.where(np.isnan(z), outward * math.inf, z)
    left, right = (z[:, :-1], z[:, 1:]) if outward > 0.0 else (z[:, 1:], z[:, :-1])
    plain, one, two = scipy.special.ndtr(outward * (moves - z))
    p, near, less = normal_mass(left - moves, right - moves)
    mean = sign * (near - kappa * less)
    doubt = _TAIL * (one + kappa * two + value * plain)
    far = (mean - value[:, :-1] * p + sign * doubt[:, :-1]) / np.diff(value)
    far = np.clip(far, 0.0, p)
    mass = np.zeros(value.shape)
    mass[:, 1:] += far
    mass[:, :-1] += p - far
    mass[:, -1] += plain[:, -1]
    beyond = sign * (one - kappa * two)[:, -1] - (value * plain)[:, -1] + doubt[:, -1]
    return _Side(mass, np.maximum(beyond, 0.0), plain[:, 0])


@lru_cache(maxsize=64)
def points(count: int) -> Indices:
    """0, 1, 2, … up to `count`, those far out a few hundredths apart."""
    near = min(count, round(1.0 / _GROWTH))
    steps = math.ceil(math.log(count / near) / math.log1p(_GROWTH))
    far = np.round(np.geomspace(near, count, steps + 1)).astype(np.intp)
    places = np.unique(np.concatenate([np.arange(near), far]))
    places.flags.writeable = False  # everybody has the same array
    return places


def _terms(
    query: Query, step: float, window: tuple[float, float]
) -> tuple[tuple[Term, ...], float]:
    """(the values of all labels on a grid, by how much less the mean of their sum is than the true one). What
    is beyond the window, which reaches so far above 0 and so far below, is moved to its end: below, it does
    not matter how far it is, and above it counts by its mean."""
    gain = query.gain
    above, below = (points(max(1, math.ceil(end / step))) for end in window)
    labels, epsilon = query.labels, query.epsilon
    up = side(gain.above, labels, epsilon, above, step, sign=1)
    low = side(gain.below, labels, epsilon, below, step, sign=-1, ratio=query.ratio)
    rest = np.maximum(0.0, 1.0 - up.total - low.total) + low.mass[:, 0] + up.mass[:, 0]
    p = np.hstack([low.mass[:, :0:-1], rest[:, None], up.mass[:, 1:]])
    places = np.concatenate([-below[:0:-1], above])
    laws = (Losses(int(places[0]), each, 0.0, 0.0, places) for each in p)
    terms = tuple(Term(law, one.count) for law, one in zip(laws, labels, strict=True))
    lost = (one.count * one.weight * x for one, x in zip(labels, up.beyond.tolist(), strict=True))
    return terms, math.fsum(lost)


def spread_of(query: Query, rare: float) -> float:
    """About the standard deviation of the sum, without values that fewer labels than `rare` in all have."""
    return float(spreads_of(query, np.array([query.ratio]), rare)[0])


def spreads_of(query: Query, ratio: Array, rare: float) -> Array:
    """The same of queries that differ in their ratios alone."""
    gain, epsilon = query.gain, query.epsilon
    size, weight, count = np.array([(x.size, x.weight, x.count) for x in query.labels]).T[..., None]
    far = -scipy.special.ndtri(np.minimum(0.1, rare / count))
    z = far * np.linspace(-1.0, 1.0, _PLACES)
    p = np.exp(-0.5 * z * z) * (far * (2.0 / (_PLACES - 1) / SQRT_2PI))
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.maximum(gain.above.at(z, size, epsilon), 0.0)
        below = np.minimum(gain.below.at(z, size, epsilon), 0.0)
        squares = [(p * x * x).sum(axis=1)[:, None] for x in (above, below)]
        means = [(p * x).sum(axis=1)[:, None] for x in (above, below)]
        square, mean = (a + b * r for (a, b), r in ((squares, ratio * ratio), (means, ratio)))
        each = np.maximum(square - mean * mean, 0.0)
    return np.asarray(np.sqrt((count * weight * weight)[:, 0] @ each))


def upper_bounds(query: Query, tolerance: float, at: Array) -> Array:
    """Upper bounds for every t of `at`, sharp near that of `query`, the first one."""
    # Whatever part of the values is looked at, that is an upper bound, as what is beyond counts by its mean.
    # With narrower ones the law can be tilted more, which keeps digits, and the grid is as much finer.
    least = np.full(at.size, _all_low(query) if query.gain == _ADDED else math.inf)
    spread = spread_of(query, RARE)
    if not math.isfinite(spread):
        return least  # so large that the place is seen
    # Where the grid has not enough points, or only rare values spread it, it is rough.
    count = sum(one.count for one in query.labels)
    rough = _fineness(count, tolerance) * _MOST_POINTS / 2.0 < SPREADS
    rough = rough or spread_of(query, 1.0) < _TYPICAL * spread
    for part in _WINDOWS:
        value, doubt = _excess_within(query, tolerance, at, spread=spread, part=part)
        gained = value[0] < least[0] * (1.0 - _DOUBTED)
        least = np.minimum(least, value)
        if doubt[0] <= _DOUBTED * least[0] and not (rough and gained):
            break
    # It rises by no more than t falls.
    return np.asarray(np.minimum(least, least[0] + np.maximum(at[0] - at, 0.0) * (1.0 + PLACE)))


def _excess_within(
    query: Query, tolerance: float, at: Array, *, spread: float, part: float
) -> tuple[Array, Array]:
    """Upper bounds from this `part` of the values that matter, and how much of them is the transform's."""
    labels, ratio = query.labels, query.ratio
    rise = math.expm1(query.epsilon)
    heaviest, count = max(one.weight for one in labels), sum(one.count for one in labels)
    spread = spread or _HARDLY * (rise + heaviest)  # 0 where hardly any label has a value
    reach = SPREADS * spread
    window = part * (query.room + reach), heaviest * ratio * (1.0 + rise) + part * reach
    step = part * spread * _fineness(count, tolerance)
    step = max(step, sum(window) / _MOST_POINTS)
    for _ in range(_COARSER):
        tick()
        terms, lost = _terms(query, step, window)
        total = Sum(terms, step)
        power = total.saddle(query.at, 1.0 / spread, _LEAST_TILT / spread)
        low, high = total.window(power)
        if high - low <= _MOST_POINTS * step:
            break
        # Few places say little about the rest: then a rough grid will do.
        step = (high - low) / _MOST_POINTS
    value, doubt = mean_excess(total, power, at)
    return value + lost, doubt


def _fineness(count: int, tolerance: float) -> float:
    """Spreads between the points of a grid for so many labels."""
    return math.sqrt(6.0 * tolerance / max(count, _MANY))


def _all_low(query: Query) -> float:
    """An upper bound on E(1 - κ·(Σ w_j·L_j + w_0))⁺: the probability that no term alone makes it 0."""
    rest = rest_of(query.labels)
    most = math.exp(-query.epsilon) - rest + PLACE
    if most <= 0.0:
        return 0.0
    log = 0.0
    for one in query.labels:
        z = (math.log(most / one.weight) + PLACE) / one.size + 0.5 * one.size
        log += one.count * float(scipy.special.log_ndtr(z + PLACE * (1.0 + abs(z))))
    return math.exp(log * (1.0 - PLACE))


def rest_of(labels: Sequence[Labels]) -> float:
    """w_0."""
    return 1.0 - math.fsum(one.weight * one.count for one in labels)


def excess(gain: Gain, labels: Sequence[Labels], epsilon: float, tolerance: float) -> float:
    """An upper bound on E(Σ w_j·Y_j + w_0·(1 - κ))⁺ at `epsilon` ≥ 0."""
    rise = math.expm1(epsilon)
    at = rest_of(labels) * rise - PLACE * (1.0 + rise)
    return float(upper_bounds(Query(gain, labels, epsilon, 1.0, at), tolerance, np.array([at]))[0])
