"""One record in one of several places, of all of which the outputs are released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.gaussian import nonnegative
from pabi.numbers.locking import tick
from pabi.numbers.mixtures import TOTAL
from pabi.numbers.rounding import TINY, Array, bisected
from pabi.numbers.validate import NONNEGATIVE, flag, integer, keep
from pabi.numbers.vectorised import both_signs
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.base import Orientation, TradeOff, decode, encode, supported
from pabi.tradeoff.convolution import Excess, Sum, Term, mean_excess
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.grids import Losses, pair_above
from pabi.tradeoff.mixture import Mixture, average
from pabi.tradeoff.pairs import SQRT_2PI, Discrete, Indices, Pair, normal_mass

# What a label adds.
#
# On the one data set a secret label j, of weight w_j, moves its own steps. With L_x(z) = e^(xz - x²/2), z of
# N(0, 1) and κ = e^ε, δ(ε) is at most E(Σ_j w_j·Y_j + w_0·(1 - κ))⁺ with independent Y_j, which are above 0
# what L_x - κ·L_y is, and below 0 what another such difference is (docs, "Theory", 6.3). The x and y are
# multiples of a_j, how far label j moves its steps.


class Difference(NamedTuple):
    """L_x - κ·L_y, with x and y in multiples of the size: (1, 0), (2, 0) and their negatives, (1, -1), (2, 1)
    and (1, 2)."""

    x: int
    y: int

    def at(self, z: Array, size: float, epsilon: float) -> Array:
        """Its values at `z`."""
        x, y = self.x * size, self.y * size
        return np.asarray(np.exp(x * z - 0.5 * x * x) - np.exp(epsilon + y * z - 0.5 * y * y))


class Gain(NamedTuple):
    """Of which differences Y has the law, above 0 and below."""

    above: Difference
    below: Difference

    @classmethod
    def same(cls, x: int, y: int) -> Gain:
        """Those of one difference."""
        return cls(Difference(x, y), Difference(x, y))


# By (opposite, displaces): of the first order of the data sets, and of the second where it is another.
_GAINS: dict[tuple[bool, bool], tuple[Gain, ...]] = {
    (False, False): (Gain.same(1, 0), Gain.same(0, 1)),
    (True, False): (Gain.same(1, -1),),
    (False, True): (
        Gain(Difference(2, 1), Difference(0, 1)),
        Gain(Difference(1, 0), Difference(1, 2)),
    ),
    (True, True): (Gain(Difference(2, 0), Difference(0, 2)),),
}

_ADDED = Gain.same(0, 1)

_ROUNDED = 4e-16  # relative: more than a division errs
_TAIL = 4e-16  # relative: more than a normal probability errs
_PLACE = 1e-13  # relative: more than the value at a place errs
_SPREADS = 9.0  # standard deviations that a grid reaches beyond where the sum is read
_RARE, _PLACES = 0.01, 401  # how many labels have a value that is left out of a spread; points
_HARDLY = 0.01  # of the largest value
_MANY = 100  # labels: a grid for fewer is as fine
_GROWTH = 0.02  # relative: by how much far points of the grid are apart
_FINE, _ROUGH = 1e-4, 1e-3  # relative: by how much a grid may raise the variance
_LEAST_SIZE, _GREATEST_SIZE = 1e-4, 8.0  # between which labels are worth hiding
_LEAST_TILT = 1e-4  # for a spread of 1: it keeps what lies outside the window small
_MOST_POINTS, _COARSER = 1 << 17, 3  # of a transform, and how often a coarser grid is tried
# Of large sizes the rarest values set how wide and how rough a grid is: then parts of it are tried as well.
_WINDOWS = 1.0, 0.25, 0.06, 0.015, 0.004, 0.001, 0.00025
_DOUBTED = 0.01  # relative: how much of δ rounding may make up
_TYPICAL = (
    0.25  # of the spread: if values that no label has as a rule make up the rest, it is rough
)
_SETTLED = 2e-5  # relative: how near to the least ε
_STATED = 2e-4  # relative: by how much ε is raised
_RAISED = 5e-4  # relative: by how much δ is, where several are composed
_POINTS = 24  # of a pair's grid on the scale of its losses
_FARTHEST = 600.0  # the end of a grid: e^600 is a double
_ENDS = 1e-19  # the δ at which a pair's grid ends


@dataclass(frozen=True)
class Labels:
    """`count` labels of one weight w and size a."""

    weight: float
    size: float
    count: int


def _place(difference: Difference, size: float, epsilon: float, value: Any) -> Array:
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
        one, two = math.exp(-0.5 * (x * size) ** 2), math.exp(epsilon - 0.5 * (y * size) ** 2)
        if y == -1:
            root = np.sqrt(value * value + 4.0 * one * two)
            q = np.where(value >= 0.0, (value + root) / (2.0 * one), 2.0 * two / (root - value))
        elif x == 2:
            q = (two + np.sqrt(two * two + 4.0 * one * value)) / (2.0 * one)
        else:
            q = (one + np.sqrt(one * one - 4.0 * two * value)) / (2.0 * two)
        return np.asarray(np.log(q)) / size


class _Side(NamedTuple):
    """Masses at the points of a grid, counted from 0 outwards; what lies beyond the last one has more in the
    mean by `beyond`, and is there with probability `total` in all."""

    mass: Array
    beyond: float
    total: float


def _side(
    difference: Difference,
    labels: Labels,
    epsilon: float,
    indices: Indices,
    step: float,
    *,
    sign: int,
) -> _Side:
    """The values above 0 (`sign` 1) or below (-1) of a label, w times the difference, moved to grid points
    around them so that their mean is kept, or raised a little."""
    x, y = difference.x * labels.size, difference.y * labels.size
    kappa, value = math.exp(epsilon), indices * (step / labels.weight)
    # A cell may hold values that are a little above its upper end: points are put so that none is.
    z = _place(difference, labels.size, epsilon, sign * value * (1.0 - sign * _PLACE))
    outward = 1.0 if (difference.x > difference.y) == (sign > 0) else -1.0
    z = np.where(np.isnan(z), outward * math.inf, z)
    left, right = (z[:-1], z[1:]) if outward > 0.0 else (z[1:], z[:-1])

    def tail(move: float) -> Array:
        return np.asarray(scipy.special.ndtr(outward * (move - z)))

    plain, one, two = tail(0.0), tail(x), tail(y)
    p = normal_mass(left, right)
    mean = sign * (normal_mass(left - x, right - x) - kappa * normal_mass(left - y, right - y))
    doubt = _TAIL * (one + kappa * two + value * plain)[:-1]
    far = (mean - value[:-1] * p + sign * doubt) / np.diff(value)
    far = np.clip(far, 0.0, p)
    mass = np.zeros(indices.size)
    mass[1:] += far
    mass[:-1] += p - far
    mass[-1] += plain[-1]
    beyond = sign * (one[-1] - kappa * two[-1]) - value[-1] * plain[-1] + doubt[-1]
    return _Side(mass, max(0.0, float(beyond)), float(plain[0]))


def _points(count: int) -> Indices:
    """0, 1, 2, … up to `count`, those far out a few hundredths apart."""
    near = min(count, round(1.0 / _GROWTH))
    if count == near:
        return np.arange(count + 1)
    steps = math.ceil(math.log(count / near) / math.log1p(_GROWTH))
    far = np.round(np.geomspace(near, count, steps + 1)).astype(np.intp)
    return np.unique(np.concatenate([np.arange(near), far]))


class _Law(NamedTuple):
    """The value of a label on a grid, and by how much less its mean is than the true one."""

    losses: Losses
    lost: float


class _Window(NamedTuple):
    """How far from 0 the values of a label are looked at, above and below."""

    above: float
    below: float


def _law(gain: Gain, labels: Labels, epsilon: float, step: float, window: _Window) -> _Law:
    """The value of a label. What is beyond the window is moved to its end: below, it does not matter how far
    it is, and above it counts by its mean."""
    above, below = (_points(max(1, math.ceil(end / step))) for end in window)
    up = _side(gain.above, labels, epsilon, above, step, sign=1)
    low = _side(gain.below, labels, epsilon, below, step, sign=-1)
    rest = max(0.0, 1.0 - up.total - low.total) + low.mass[0] + up.mass[0]
    p = np.concatenate([low.mass[:0:-1], [rest], up.mass[1:]])
    places = np.concatenate([-below[:0:-1], above])
    return _Law(Losses(int(places[0]), p, 0.0, 0.0, places), labels.weight * up.beyond)


def _spread(gain: Gain, labels: Sequence[Labels], epsilon: float, rare: float) -> float:
    """About the standard deviation of the sum, without values that fewer labels than `rare` in all have."""
    variance = 0.0
    for one in labels:
        far = -float(scipy.special.ndtri(min(0.1, rare / one.count)))
        z, width = np.linspace(-far, far, _PLACES, retstep=True)
        p = np.exp(-0.5 * z * z) * (width / SQRT_2PI)
        above = np.maximum(gain.above.at(z, one.size, epsilon), 0.0)
        below = np.minimum(gain.below.at(z, one.size, epsilon), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            square, mean = p @ (above * above + below * below), p @ (above + below)
            square -= mean * mean
        variance += one.count * one.weight**2 * max(float(square), 0.0)
    return math.sqrt(variance)


def _excess(gain: Gain, labels: Sequence[Labels], epsilon: float, tolerance: float) -> float:
    """An upper bound on E(Σ w_j·Y_j + w_0·(1 - κ))⁺ at `epsilon` ≥ 0."""
    # Whatever part of the values is looked at, that is an upper bound, as what is beyond counts by its mean.
    # With narrower ones the law can be tilted more, which keeps digits, and the grid is as much finer.
    least = _all_low(labels, epsilon) if gain == _ADDED else math.inf
    spread = _spread(gain, labels, epsilon, _RARE)
    if not math.isfinite(spread):
        return least  # so large that the place is seen
    # Where the grid has not enough points, or only rare values spread it, it is rough.
    count = sum(one.count for one in labels)
    rough = _fineness(count, tolerance) * _MOST_POINTS / 2.0 < _SPREADS
    rough = rough or _spread(gain, labels, epsilon, 1.0) < _TYPICAL * spread
    for part in _WINDOWS:
        value, doubt = _excess_within(gain, labels, epsilon, tolerance, spread=spread, part=part)
        gained = value < least * (1.0 - _DOUBTED)
        least = min(least, value)
        if doubt <= _DOUBTED * least and not (rough and gained):
            break
    return least


def _excess_within(
    gain: Gain,
    labels: Sequence[Labels],
    epsilon: float,
    tolerance: float,
    *,
    spread: float,
    part: float,
) -> Excess:
    """An upper bound, from this `part` of the values that matter, and how much of it is the transform's."""
    rise = math.expm1(epsilon)
    heaviest, count = max(one.weight for one in labels), sum(one.count for one in labels)
    spread = spread or _HARDLY * (rise + heaviest)  # 0 where hardly any label has a value
    reach = _SPREADS * spread
    window = _Window(part * (rise + reach), heaviest * (1.0 + rise) + part * reach)
    at = (1.0 - math.fsum(one.weight * one.count for one in labels)) * rise
    at -= _PLACE * (1.0 + rise)
    step = part * spread * _fineness(count, tolerance)
    step = max(step, sum(window) / _MOST_POINTS)
    for _ in range(_COARSER):
        tick()
        laws = [_law(gain, one, epsilon, step, window) for one in labels]
        terms = [Term(law.losses, one.count) for law, one in zip(laws, labels, strict=True)]
        total = Sum(tuple(terms), step)
        power = max(total.saddle(at, 1.0 / spread), _LEAST_TILT / spread)
        low, high = total.window(power)
        if high - low <= _MOST_POINTS * step:
            break
        # Few places say little about the rest: then a rough grid will do.
        step = (high - low) / _MOST_POINTS
    value, doubt = mean_excess(total, power, at)
    beyond = math.fsum(one.count * law.lost for law, one in zip(laws, labels, strict=True))
    return Excess(value + beyond, doubt)


def _fineness(count: int, tolerance: float) -> float:
    """Spreads between the points of a grid for so many labels."""
    return math.sqrt(6.0 * tolerance / max(count, _MANY))


def _all_low(labels: Sequence[Labels], epsilon: float) -> float:
    """An upper bound on E(1 - κ·(Σ w_j·L_j + w_0))⁺: the probability that no term alone makes it 0."""
    rest = 1.0 - math.fsum(one.weight * one.count for one in labels)
    most = math.exp(-epsilon) - rest + _PLACE
    if most <= 0.0:
        return 0.0
    log = 0.0
    for one in labels:
        z = (math.log(most / one.weight) + _PLACE) / one.size + 0.5 * one.size
        log += one.count * float(scipy.special.log_ndtr(z + _PLACE * (1.0 + abs(z))))
    return math.exp(log * (1.0 - _PLACE))


def _each(sizes: float | Sequence[float]) -> tuple[float, ...]:
    """Those of a group in every draw."""
    return (sizes,) if isinstance(sizes, float | int | str) else tuple(sizes)


def _shown(sizes: list[float]) -> float | tuple[float, ...]:
    """The inverse."""
    return tuple(sizes) if sizes[1:] else sizes[0]


class _Above(Discrete):
    """A pair of finitely many outcomes that reveals no less, of which nothing follows from below."""

    @classmethod
    def of(cls, pair: Discrete) -> Self:
        """The same pair."""
        return cls(pair.values, pair.masses, pair.infinity)

    @property
    def simplified(self) -> Pair:
        """Another pair, which is read from above only."""
        return Discrete(self.values, self.masses, self.infinity)


@dataclass(frozen=True, init=False)
class RandomAllocation(TradeOff):
    """One record in one of many secret places, whose noisy outputs are all released.

    A label is drawn, and only its own outputs are moved, by `size` standard deviations in all. Labels of one
    group have the same size and probability; with what is left of 1 nothing is moved. The function is a bound
    for all movements that depend on earlier outputs, and of balls in bins the best one. How far labels move
    their outputs may depend on a draw that everybody sees.

    Readings are computed by transforms on grids that err upwards, and ε is raised by a further 2e-4
    (relative). From below they are 0. Where the largest size is below 1e-4 or above 8, the place is taken to
    be seen.

    Parameters
    ----------
    shares : sequence of float
        The probability of each group of labels, > 0; they sum to at most 1.
    sizes : sequence of float, or of sequences of float
        a ≥ 0 of each group, or one for each of several equally likely draws.
    counts : sequence of int
        How many labels are in each group, from 1 to 10⁹.
    opposite : bool
        Whether another record moves the outputs on the other data set, by as much.
    displaces : bool
        Whether the record takes the place of another, which then moves nothing.

    References
    ----------
    docs, "Theory", 6.3. Feldman, Shenfeld 2025 ("random allocation").
    """

    shares: tuple[float, ...]
    sizes: tuple[float | tuple[float, ...], ...]
    counts: tuple[int, ...]
    opposite: bool
    displaces: bool

    kind: ClassVar[str] = "random_allocation"

    def __init__(
        self,
        shares: Sequence[float],
        sizes: Sequence[float | Sequence[float]],
        counts: Sequence[int],
        opposite: bool = False,
        displaces: bool = False,
    ) -> None:
        groups = (tuple(shares), tuple(map(_each, sizes)), tuple(counts))
        require(
            len({len(group) for group in groups}) == 1 and bool(groups[0]),
            "shares",
            f"expected one share, size and count a group, got {tuple(map(len, groups))}",
        )
        draws = {len(one) for one in groups[1]}
        require(
            len(draws) == 1 and 0 not in draws,
            "sizes",
            f"expected as many for every group, got {sorted(draws)}",
        )
        keep(
            self,
            shares=tuple(NONNEGATIVE("shares", x) for x in groups[0]),
            sizes=tuple(_shown([nonnegative("sizes", x) for x in one]) for one in groups[1]),
            counts=tuple(integer("counts", x, at_least=1, at_most=10**9) for x in groups[2]),
            opposite=flag("opposite", opposite),
            displaces=flag("displaces", displaces),
        )
        total = math.fsum(self.shares)
        if not 0.0 < total <= 1.0 + TOTAL:
            raise InvalidInput("shares", f"expected a sum above 0 and at most 1, got {total!r}")

    @property
    def orientation(self) -> Orientation:
        """Whether the orders of the data sets are alike: where a record is replaced."""
        return "symmetric" if self.opposite else "both"

    @property
    def zcdp(self) -> float:
        """That of the largest size, with the place in sight."""
        return self._seen.zcdp

    def losses(self) -> tuple[Pair, ...]:
        """The losses of pairs of finitely many outcomes that reveal no less, one for each order."""
        return self._pairs

    def _delta(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return self._seen._delta(epsilon)
        value = self._deltas(abs(epsilon), lambda: self._worst(abs(epsilon)))
        return float(both_signs(np.array([epsilon]), np.array([value]))[0])

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        return 0.0, self._epsilons(delta, lambda: self._least(delta))

    # Numbers of the sum, each kept under all that it depends on.

    @cached_property
    def _deltas(self) -> Memo[float, float]:
        return Memo()

    @cached_property
    def _epsilons(self) -> Memo[float, float]:
        return Memo()

    @property
    def _gains(self) -> tuple[Gain, ...]:
        """Those of the orders of the data sets that differ."""
        return _GAINS[self.opposite, self.displaces]

    @cached_property
    def _seen(self) -> Gaussian | Mixture:
        """With the place in sight, which reveals no less."""
        return self._in_sight(*self._drawn_sizes)

    def _in_sight(self, *draws: Sequence[float]) -> Gaussian | Mixture:
        """What draws reveal with the place in sight."""
        apart, n = 2.0 if self.opposite else 1.0, len(draws)
        rest = max(0.0, 1.0 - math.fsum(self.shares))
        means = [apart * a for sizes in draws for a in sizes]
        return average([0.0, *means], [rest, *(share / n for share in self.shares * n)])

    @cached_property
    def _draws(self) -> tuple[tuple[Gaussian | Mixture, tuple[Labels, ...]], ...]:
        """Of every draw, what it reveals with the place in sight, and the labels that move something; none
        where their place is taken to be seen."""
        draws = self._drawn_sizes
        return tuple((self._in_sight(sizes), self._labels(sizes)) for sizes in draws)

    @property
    def _drawn_sizes(self) -> tuple[tuple[float, ...], ...]:
        """Those of all groups, for every draw."""
        return tuple(zip(*map(_each, self.sizes), strict=True))

    def _labels(self, sizes: Sequence[float]) -> tuple[Labels, ...]:
        if not _LEAST_SIZE <= max(sizes) <= _GREATEST_SIZE:
            return ()
        groups = zip(self.shares, sizes, self.counts, strict=True)
        return tuple(
            Labels(share / n * (1.0 + _ROUNDED), max(a, _LEAST_SIZE), n)
            for share, a, n in groups
            if a > 0.0 and share > 0.0
        )

    def _worst(self, epsilon: float) -> float:
        return max(self._in_order(gain, epsilon, _FINE) for gain in self._gains)

    def _in_order(self, gain: Gain, epsilon: float, tolerance: float) -> float:
        """δ at `epsilon` ≥ 0 in one order of the data sets, the mean over all draws."""
        deltas = [self._drawn(*draw, gain, epsilon, tolerance) for draw in self._draws]
        return math.fsum(deltas) / len(deltas) * (1.0 + _ROUNDED) if deltas[1:] else deltas[0]

    def _drawn(
        self,
        in_sight: TradeOff,
        labels: Sequence[Labels],
        gain: Gain,
        epsilon: float,
        tolerance: float,
    ) -> float:
        seen = in_sight.delta(epsilon)
        if not labels or epsilon > _FARTHEST or seen == 0.0:
            return seen
        try:
            return min(seen, _excess(gain, labels, epsilon, tolerance))
        except MemoryError:
            return seen

    def _least(self, delta: float) -> float:
        most = self._seen._epsilon(delta)
        if not 0.0 < most < math.inf or self._delta(0.0) <= delta:
            return 0.0 if delta > 0.0 and most < math.inf else most
        least = 0.0
        for gain in self._gains:  # the first order is as a rule the worse one
            if self._in_order(gain, least, _FINE) > delta:
                least = self._reached(gain, delta, least, most)
        return min(most, least * (1.0 + _STATED))

    def _reached(self, gain: Gain, delta: float, low: float, high: float) -> float:
        """An ε from `low` to `high` with at most this δ in one order, next to the least."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return math.log(max(self._in_order(gain, epsilon, _FINE), TINY) / delta)

        tried = min(max(2.0 * low, self._scale), high)
        while excess(tried) > 0.0:  # from below, as far out transforms are long
            if tried == high:
                return high
            low, tried = tried, min(2.0 * tried, high)
        near = float(brentq(excess, low, tried, xtol=TINY, rtol=_SETTLED, full_output=False))
        while excess(near) > 0.0:
            near *= 1.0 + _SETTLED
        return min(near, tried)

    @cached_property
    def _scale(self) -> float:
        """About the standard deviation of the losses: that of a Gaussian's of the same δ(0)."""
        return 2.5 * self._worst(0.0)

    @cached_property
    def _profile(self) -> tuple[Array, tuple[Array, ...]]:
        """(ε from 0 on, δ there in each order)."""
        most, scale = min(self._seen._epsilon(_ENDS), _FARTHEST), self._scale
        if not 0.0 < scale < math.inf:
            return np.zeros(1), (np.array([scale]),) * len(self._gains)

        def ended(epsilon: float) -> bool:
            return max(self._in_order(gain, epsilon, _ROUGH) for gain in self._gains) <= _ENDS

        end = min(scale, most)
        while end < most and not ended(end):
            end = min(2.0 * end, most)
        _, end = bisected(ended, 0.5 * end, end, close=lambda a, b: b <= 1.1 * a)
        points = math.ceil(_POINTS * math.asinh(end / scale))
        epsilon = scale * np.sinh(np.linspace(0.0, math.asinh(end / scale), points + 1))
        return epsilon, tuple(
            np.array([self._in_order(gain, e, _ROUGH) for e in epsilon.tolist()]) * (1.0 + _RAISED)
            for gain in self._gains
        )

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        epsilon, deltas = self._profile
        # What one order says at ε the other says at -ε.
        others = deltas[::-1]
        return tuple(
            _Above.of(pair_above(epsilon, own, other))
            for own, other in zip(deltas, others, strict=True)
        )

    def _tradeoff(self, alpha: Array) -> Array:
        epsilon, deltas = self._profile
        worst = np.max(deltas, axis=0)
        return supported(alpha, epsilon, left=worst, right=worst)

    def _rdp(self, order: float) -> float:
        return self._seen._rdp(order)

    def __str__(self) -> str:
        return f"one of {sum(self.counts)} secret batches"

    def _fields(self) -> dict[str, Any]:
        return {
            "shares": list(self.shares),
            "sizes": [
                encode(one) if isinstance(one, float) else list(map(encode, one))
                for one in self.sizes
            ],
            "counts": list(self.counts),
            "opposite": self.opposite,
            "displaces": self.displaces,
        }

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        names = ("shares", "sizes", "counts")
        groups = {name: fields.pop(name) for name in names}
        for name, group in groups.items():
            require(isinstance(group, list), name, f"expected a list, got {group!r}")
        sizes = [[decode("sizes", a) for a in _each(one)] for one in groups["sizes"]]
        flags = fields.pop("opposite"), fields.pop("displaces")
        return cls(groups["shares"], sizes, groups["counts"], *flags)
