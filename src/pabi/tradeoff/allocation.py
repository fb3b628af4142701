"""One record in one of several places, of all of which the outputs are released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import numpy as np

from pabi.numbers.errors import must_be, require
from pabi.numbers.gaussian import nonnegative
from pabi.numbers.mixtures import TOTAL
from pabi.numbers.rounding import TINY, Array
from pabi.numbers.validate import NONNEGATIVE, flag, integer, keep
from pabi.numbers.vectorised import both_signs
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.base import FARTHEST, Orientation, TradeOff, decode, encode, supported
from pabi.tradeoff.common import Common
from pabi.tradeoff.gaussian import Gaussian
from pabi.tradeoff.grids import pair_above
from pabi.tradeoff.hub import Hub
from pabi.tradeoff.labels import GAINS, Gain, Labels, excess
from pabi.tradeoff.mixture import Mixture, average
from pabi.tradeoff.pairs import Discrete, Pair

_ROUNDED = 4e-16  # relative: more than a division errs
_MOST_ADDED = 0.9  # by labels: where they add more, the place is nearly seen
_SURELY = 0.9  # of μ²: by so much the truth may be below what it is for very many labels
_FINE, _ROUGH = 1e-4, 1e-3  # relative: by how much a grid may raise the variance
_TRANSFORMS = {_FINE: 20, _ROUGH: 8}  # with a hub, where all grids are rough
_NEAR, _BELOW = (
    2e-3,
    0.97,
)  # relative: of a rough search, how near it comes and where the next one begins
_LEAST_SIZE, _GREATEST_SIZE = 1e-4, 8.0  # between which labels are worth hiding
_GREATEST_COMMON = 3.0  # the same of labels that have something in common
_SETTLED = 2e-5  # relative: how near to the least ε
_STATED = 2e-4  # relative: by how much ε is raised
# The same of labels that have something in common, which are checked less finely.
_STATED_COMMON = 1.5e-3
_RAISED = 5e-4  # relative: by how much δ is, where several are composed
_POINTS, _FEWER = 24, 15  # of a pair's grid on the scale of its losses; with a hub
_ENDS = 1e-19  # the δ at which a pair's grid ends


# Searches and explanations meet one law many times.
_PROFILES: Memo[RandomAllocation, tuple[Array, tuple[Array, ...]]] = Memo(32)


def _each(sizes: float | Sequence[float]) -> tuple[float, ...]:
    """Those of a group in every draw."""
    return (sizes,) if isinstance(sizes, float | int | str) else tuple(sizes)


def _shown(sizes: list[float]) -> float | tuple[float, ...]:
    """The inverse."""
    return tuple(sizes) if sizes[1:] else sizes[0]


class _Above(Discrete):
    """A pair of finitely many outcomes that reveals no less, of which nothing follows from below."""

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
    (relative), or 1.5e-3 where labels have something in common. From below they are 0. Where the largest
    size is below 1e-4 or above 8, or above 3 where labels have something in common, the place is taken to be
    seen.

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
    hub : float
        Where the record displaces another, which then takes its place in the last batch: how far that batch
        moves its outputs, ≥ 0. Its probability is what is left of 1, and every label is used once.
    common : sequence of float
        Where no record displaces another and none replaces it: how far each group's labels move one more
        output, which is the same for all, ≥ 0. None unless stated; then shares sum to 1.

    References
    ----------
    docs, "Theory", 6.3. Feldman, Shenfeld 2025 ("random allocation").
    """

    shares: tuple[float, ...]
    sizes: tuple[float | tuple[float, ...], ...]
    counts: tuple[int, ...]
    opposite: bool
    displaces: bool
    hub: float
    common: tuple[float, ...]

    kind: ClassVar[str] = "random_allocation"

    def __init__(
        self,
        shares: Sequence[float],
        sizes: Sequence[float | Sequence[float]],
        counts: Sequence[int],
        opposite: bool = False,
        displaces: bool = False,
        *,
        hub: float = 0.0,
        common: Sequence[float] = (),
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
            hub=nonnegative("hub", hub),
            common=tuple(nonnegative("common", x) for x in common),
        )
        total = math.fsum(self.shares)
        must_be(0.0 < total <= 1.0 + TOTAL, "shares", "a sum above 0 and at most 1", total)
        if self.common:
            alone = not (self.opposite or self.displaces or draws != {1})
            require(
                alone,
                "common",
                "expected none where records displace or replace others, or draws are seen",
            )
            same = len(self.common) == len(self.shares)
            require(same, "common", f"expected one for each group, got {len(self.common)}")
            require(total >= 1.0 - TOTAL, "shares", f"expected a sum of 1, got {total!r}")
        if self.hub:
            require(self.displaces, "hub", "expected 0 where no record displaces another")
            require(total < 1.0, "shares", f"expected a sum below 1 beside a hub, got {total!r}")

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
        size = abs(epsilon)
        value = self._deltas(size, lambda: max(self._in_order(g, size, _FINE) for g in self._gains))
        return float(both_signs(np.array([epsilon]), np.array([value]))[0])

    def _underestimate(self, delta: float) -> float:
        return Gaussian(math.sqrt(self._square))._epsilon(delta) if 0.0 < delta < 1.0 else 0.0

    @cached_property
    def _square(self) -> float:
        # Of many small labels the likelihood ratio varies by Σ (w_j·a_j)², and a hub, by a_h, makes
        # (a_h·Σ w_j·E|L_a_j − 1|)² of it.
        apart, n = (2.0 if self.opposite else 1.0), len(self._drawn_sizes)
        total = 0.0
        for sizes in self._drawn_sizes:
            every = zip(self.shares, sizes, self.counts, strict=True)
            labels = [(w, min(a, _GREATEST_SIZE), k) for w, a, k in every]
            added = (w * min(_MOST_ADDED, 2.0 * math.erf(a / math.sqrt(8.0))) for w, a, _ in labels)
            total += math.fsum(w * w * a * a / k for w, a, k in labels)
            total += (min(self.hub, _GREATEST_SIZE) * math.fsum(added)) ** 2
        return _SURELY * apart * apart * total / n

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
        return GAINS[self.opposite, self.displaces]

    @cached_property
    def _seen(self) -> Gaussian | Mixture:
        """With the place in sight, which reveals no less."""
        sizes, *others = self._drawn_sizes
        if self.common:
            whole = map(math.hypot, sizes, self.common)
            return self._in_sight([math.nextafter(x, math.inf) for x in whole])
        return self._in_sight(sizes, *others)

    def _in_sight(self, *draws: Sequence[float]) -> Gaussian | Mixture:
        """What draws reveal with the place in sight."""
        apart, n = 2.0 if self.opposite else 1.0, len(draws)
        rest = max(0.0, 1.0 - math.fsum(self.shares))
        means = [apart * a for sizes in draws for a in sizes]
        return average(
            [apart * self.hub, *means], [rest, *(share / n for share in self.shares * n)]
        )

    @cached_property
    def _draws(self) -> tuple[tuple[Gaussian | Mixture, tuple[Labels, ...]], ...]:
        """Of every draw, what it reveals with the place in sight, and the labels that move something; none
        where their place is taken to be seen."""
        draws = self._drawn_sizes
        if self.common:
            return ((self._seen, self._labels(*draws)),)
        return tuple((self._in_sight(sizes), self._labels(sizes)) for sizes in draws)

    @cached_property
    def _sums(self) -> dict[bool, Common]:
        """Of labels that have something in common, whether the first data set holds the record ↦ the sum."""
        ((_, labels),) = self._draws
        alphas = [a for a, share in zip(self.common, self.shares, strict=True) if share > 0.0]
        return {holds: Common(labels, tuple(alphas), holds) for holds in (True, False)}

    @property
    def _drawn_sizes(self) -> tuple[tuple[float, ...], ...]:
        """Those of all groups, for every draw."""
        return tuple(zip(*map(_each, self.sizes), strict=True))

    def _labels(self, sizes: Sequence[float]) -> tuple[Labels, ...]:
        largest = max(*sizes, self.hub, *self.common)
        if not _LEAST_SIZE <= largest <= (_GREATEST_COMMON if self.common else _GREATEST_SIZE):
            return ()
        groups = zip(self.shares, sizes, self.counts, strict=True)
        return tuple(
            Labels(share / n * (1.0 + _ROUNDED), max(a, _LEAST_SIZE), n)
            for share, a, n in groups
            if (a > 0.0 or self.hub > 0.0 or self.common) and share > 0.0
        )

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
        if not labels or epsilon > FARTHEST or seen == 0.0:
            return seen
        try:
            if self.common:
                value = self._sums[gain == self._gains[0]].excess(epsilon)
            elif self.hub:
                hub = Hub(gain, labels, epsilon, max(self.hub, _LEAST_SIZE))
                value = hub.excess(_ROUGH, _TRANSFORMS[tolerance])
            else:
                value = excess(gain, labels, epsilon, tolerance)
        except MemoryError:
            return seen
        return min(seen, max(value, TINY))  # what underflows is not nothing

    def _least(self, delta: float) -> float:
        most = self._seen._epsilon(delta)
        if not 0.0 < most < math.inf or self._delta(0.0) <= delta:
            return 0.0 if delta > 0.0 and most < math.inf else most
        least = 0.0
        for gain in self._gains:  # the first order is as a rule the worse one
            if self._in_order(gain, least, _ROUGH if self.hub else _FINE) > delta:
                least = self._reached(gain, delta, least, most)
        return min(most, least * (1.0 + (_STATED_COMMON if self.common else _STATED)))

    def _reached(self, gain: Gain, delta: float, low: float, high: float) -> float:
        """An ε from `low` to `high` with at most this δ in one order, next to the least."""
        if not self.hub:
            return self._root(gain, delta, low, high, tolerance=_FINE, settled=_SETTLED)
        # The rough δ is more than the fine one, but falls as fast.
        near = self._root(gain, delta, low, high, tolerance=_ROUGH, settled=_NEAR)
        below = max(low, _BELOW * near)
        while self._in_order(gain, below, _FINE) <= delta:
            if below == low:
                return low
            near, below = below, max(low, _BELOW * below)
        return self._root(gain, delta, below, near, tolerance=_FINE, settled=_SETTLED)

    def _root(
        self,
        gain: Gain,
        delta: float,
        low: float,
        high: float,
        *,
        tolerance: float,
        settled: float,
    ) -> float:
        from scipy.optimize import brentq

        @cache
        def excess(epsilon: float) -> float:
            return math.log(max(self._in_order(gain, epsilon, tolerance), TINY) / delta)

        tried = min(max(2.0 * low, self._scale), high)
        while excess(tried) > 0.0:  # from below, as far out transforms are long
            if tried == high:
                return high
            low, tried = tried, min(2.0 * tried, high)
        near = float(brentq(excess, low, tried, xtol=TINY, rtol=settled, full_output=False))
        while excess(near) > 0.0:
            near *= 1.0 + settled
        return min(near, tried)

    @cached_property
    def _scale(self) -> float:
        """About the standard deviation of the losses: that of a Gaussian's of the same δ(0)."""
        return 2.5 * self._delta(0.0)

    @cached_property
    def _profile(self) -> tuple[Array, tuple[Array, ...]]:
        """(ε from 0 on, δ there in each order)."""
        return _PROFILES(self, self._computed)

    def _computed(self) -> tuple[Array, tuple[Array, ...]]:
        most, scale = min(self._seen._epsilon(_ENDS), FARTHEST), self._scale
        if not 0.0 < scale < math.inf:
            return np.zeros(1), (np.array([scale]),) * len(self._gains)

        epsilon: list[float] = []
        deltas: list[list[float]] = []
        while not epsilon or (epsilon[-1] < most and max(deltas[-1]) > _ENDS):
            place = len(epsilon) / (_FEWER if self.hub else _POINTS)
            epsilon.append(min(scale * math.sinh(place), most))
            deltas.append([self._in_order(gain, epsilon[-1], _ROUGH) for gain in self._gains])
        return np.array(epsilon), tuple(np.array(deltas).T * (1.0 + _RAISED))

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        epsilon, deltas = self._profile
        # What one order says at ε the other says at -ε.
        return tuple(
            _Above(**vars(pair_above(epsilon, own, other)))
            for own, other in zip(deltas, deltas[::-1], strict=True)
        )

    def _tradeoff(self, alpha: Array) -> Array:
        epsilon, deltas = self._profile
        worst = np.max(deltas, axis=0)
        return supported(alpha, epsilon, left=worst, right=worst)

    def _rdp(self, order: float) -> float:
        return self._seen._rdp(order)

    def __str__(self) -> str:
        return f"one of {sum(self.counts) + (self.hub > 0.0)} secret batches"

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "shares": list(self.shares),
            "sizes": [
                encode(one) if isinstance(one, float) else list(map(encode, one))
                for one in self.sizes
            ],
            "counts": list(self.counts),
            "opposite": self.opposite,
            "displaces": self.displaces,
        }
        fields |= {"hub": encode(self.hub)} if self.hub else {}
        return fields | ({"common": list(map(encode, self.common))} if self.common else {})

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        names = ("shares", "sizes", "counts")
        groups = {name: fields.pop(name) for name in names}
        for name, group in groups.items():
            require(isinstance(group, list), name, f"expected a list, got {group!r}")
        sizes = [[decode("sizes", a) for a in _each(one)] for one in groups["sizes"]]
        flags = fields.pop("opposite"), fields.pop("displaces")
        hub, common = decode("hub", fields.pop("hub", 0.0)), fields.pop("common", [])
        require(isinstance(common, list), "common", f"expected a list, got {common!r}")
        moves = [decode("common", a) for a in common]
        return cls(groups["shares"], sizes, groups["counts"], *flags, hub=hub, common=moves)
