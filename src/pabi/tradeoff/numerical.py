"""The total privacy loss of independent releases, read off at the accuracy asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pabi.numbers.locking import tick, ticking
from pabi.numbers.rounding import EIGHT_ROUNDINGS, MANY_ROUNDINGS, Array, descended
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.convolution import Sum, Term, profile
from pabi.tradeoff.grids import Grid, Profile, crossing, optimistic, pessimistic
from pabi.tradeoff.pairs import MOMENT, Pair

_SLIGHT = 0.01  # of δ: where ε is so small, finer grids would only tell δ(ε) from δ(0)
_SPAN = 1e-3  # how far apart, relatively, the errors of a transform may put its two values of δ
_SMALLEST = 1e-290  # δ below it is not resolved
_COARSEST = 50.0  # step of a grid: e^step must not overflow
_NEAR = 3.0  # standard deviations from the tilted mean within which one ε is sought
_LARGEST = 1e-14  # relative: more than the sum of the largest losses errs
_BEYOND = 1e-9  # relative: by how much a bound by moments is raised to stay above the other bounds
_ROUGHLY = 1e-6  # relative: more than an excess errs
_UNDERFLOW = 1e-320  # absolute: covers what underflow takes of it
_STRIDE = 0.01  # of a scale: where moments show mean and variance
_SETTLED = 0.1  # of the tolerance: what an upper value moves by once finer grids hardly lower it
_FINELY = 5.0  # λ times the tolerance: a larger tilt looks more closely than is asked
_STUCK = 0.8  # of how far apart the values were: finer grids no longer bring them together
_FEW = 64  # releases: that many are read from both sides at hardly any cost
_LEAST_MOMENT, _GREATEST_MOMENT = 1e-300, 1e12  # between which a moment says where λ is sought


@dataclass(frozen=True, eq=False)
class ComposedLoss:
    """The sum of independent privacy losses: `terms` are (pair, how often)."""

    terms: tuple[tuple[Pair, int], ...]
    _moments: Memo[float, float] = field(default_factory=Memo, init=False, repr=False)
    # One from above and one from below: they are large, and the same grid is read again at once.
    _sums: Memo[tuple[Grid, bool], Sum | None] = field(
        default_factory=lambda: Memo(2), init=False, repr=False
    )

    @property
    def infinity(self) -> float:
        """P(the sum is ∞), in [0, 1]."""
        log = math.fsum(k * math.log1p(-p.infinity) for p, k in self.terms if p.infinity < 1.0)
        return 1.0 if any(p.infinity >= 1.0 for p, _ in self.terms) else -math.expm1(log)

    @property
    def count(self) -> int:
        """How many releases are composed."""
        return sum(k for _, k in self.terms)

    # Where to look.

    def guess(self, delta: float) -> tuple[float, float]:
        """(λ, ε): an upper bound on ε at `delta` > 0 by moments, up to the infinite losses, and the
        λ that gives it. Source: Balle, Barthe, Gaboardi, Hsu, Sato 2020, Thm 21."""
        log_delta, moment = math.log(delta), self._finite_moment
        start = math.sqrt(-2.0 * log_delta / self._first_moment)
        power, epsilon = _near_least(
            lambda x, _: (moment(x) - log_delta - math.log1p(x)) / x - math.log1p(1.0 / x),
            max(start, 1e-8),
        )
        return power, max(0.0, epsilon + MOMENT * abs(epsilon))

    def by_moments(self, delta: float) -> float:
        """An upper value of the least ε ≥ 0 with δ(ε) ≤ `delta`, at no cost of a grid; ∞ if none is shown."""
        if delta <= 0.0 or self.infinity > 0.0:
            return math.inf
        return self.guess(delta)[1] * (1.0 + _BEYOND)

    def guess_power(self, epsilon: float) -> float:
        """The λ ≥ 0 that minimises K(λ) - λε: where the tilted mean is ε."""
        power, value = _near_least(
            lambda x, _: self._finite_moment(x) - x * epsilon,
            max(self._gaussian_power(epsilon), 1e-4),
        )
        return power if value < 0.0 else 0.0

    def saddle(self, epsilon: float) -> float:
        """The λ > 0 that minimises K(λ) - λε - log λ(λ + 1), where Laplace's method for δ(ε) looks:
        to first order δ depends on the losses by their moment at λ alone."""
        return _near_least(
            lambda x, log_x: self._finite_moment(x) - x * epsilon - log_x - math.log1p(x),
            max(self._gaussian_power(epsilon), 1e-2),
        )[0]

    @property
    def _first_moment(self) -> float:
        """K(1), the finite losses', in a range in which it says where to look."""
        return min(max(self._finite_moment(1.0), _LEAST_MOMENT), _GREATEST_MOMENT)

    def _gaussian_power(self, epsilon: float) -> float:
        """The λ at which the tilted mean is ε if K(λ) = λ(λ + 1)K(1)/2, as for a Gaussian sum."""
        return epsilon / self._first_moment - 0.5

    def _finite_moment(self, power: float) -> float:
        return self._moments(power, lambda: self._summed_moments(power))

    def _summed_moments(self, power: float) -> float:
        moments: list[float] = []
        for kind, terms in self._kinds:
            tick()
            values = kind.finite_log_moments([pair for pair, _ in terms], power)
            moments += [k * value for (_, k), value in zip(terms, values, strict=True)]
        return math.fsum(moments)

    @cached_property
    def _kinds(self) -> list[tuple[type[Pair], list[tuple[Pair, int]]]]:
        """The terms of each kind of pair."""
        kinds = dict.fromkeys(type(pair) for pair, _ in self.terms)
        return [(kind, [term for term in self.terms if type(term[0]) is kind]) for kind in kinds]

    # Readings.

    def epsilon_bounds(
        self, delta: float, rtol: float, *, both: bool = True, floor: float = 0.0
    ) -> tuple[float, float]:
        """(lower, upper) values of the least ε ≥ 0 with δ(ε) ≤ `delta`; the upper alone without `both`.

        `floor`: a lower value from elsewhere, near which an upper one needs no other.
        """
        lost = self.infinity
        if lost > delta or (delta == 0.0 and self._most == math.inf):
            return math.inf, math.inf
        if delta == 0.0:
            return self._surely_most, self._most
        if self._advantages <= delta:
            return 0.0, 0.0
        if (most := self._most) < math.inf and most - (least := self._least(delta)) <= rtol * most:
            return least, most
        finite = delta - lost
        if finite < max(_SMALLEST, MANY_ROUNDINGS * delta):
            return 0.0, self._most
        # Of few releases, and of atoms between the points of a grid, moments show an average error only.
        checked = both or self.count <= _FEW or any(pair.top > 0.0 for pair, _ in self.terms)
        power, epsilon = self.guess(finite)
        low, high = 0.0, self._most if lost > 0.0 else min(epsilon * (1.0 + _BEYOND), self._most)
        if epsilon == 0.0 and lost == 0.0:
            return 0.0, 0.0
        least = 0.01 * self.scale
        aim, before, apart = max(epsilon, least), math.inf, math.inf
        power = min(power, _FINELY / (rtol * aim))
        for _ in range(20):
            grid = next(self._grids(power=power, epsilon=aim, delta=finite, rtol=rtol))
            reading = self._epsilon_at(grid, power, delta, pessimist=True)
            if reading is None:
                break
            high = min(high, reading)
            if high - floor <= rtol * high:
                low = max(low, floor)
                break
            if reading < 0.5 * aim and aim > least:
                # Moments say little where few releases matter: look again where ε is.
                aim = max(reading, least)
                power = self.guess_power(aim) or power
                continue
            if not checked or (not both and before - reading <= _SETTLED * rtol * reading):
                break
            before = reading
            reached = self._epsilon_at(grid, power, delta, pessimist=False) or 0.0
            low = max(low, reached - self._raised)
            if high - low <= rtol * max(high, _SLIGHT * delta) or 0.0 < low < high - _STUCK * apart:
                break
            apart, aim = high - low, 0.25 * aim
        return min(low, high), high

    def delta_bounds(
        self, epsilon: float, rtol: float, *, both: bool = True
    ) -> tuple[float, float]:
        """(lower, upper) values of δ at any real `epsilon`; the upper alone without `both`."""
        if self._beyond_all(epsilon):
            low, high = (self.infinity * (1.0 + side * MANY_ROUNDINGS) for side in (-1.0, 1.0))
            return low, min(1.0, high)
        if epsilon == -math.inf:
            return 1.0, 1.0
        power = self.guess_power(epsilon)
        low, high = 0.0, min(self._most_delta(epsilon), self._delta_by_moment(epsilon, power))
        for grid in self._grids_around(epsilon, power, rtol):
            for pessimist in (True, False) if both else (True,):
                curve = self._curve(grid, power, pessimist)
                if curve is None:
                    return low, high
                at = curve.at(epsilon if pessimist else epsilon + self._raised)
                low, high = (low, min(high, at[1])) if pessimist else (max(low, at[0]), high)
            if not both or high - low <= max(1.0, power * self.scale) * rtol * high:
                break
        return min(low, high), high

    def deltas(self, epsilon: Array, rtol: float) -> Array:
        """Upper values of δ at many ε: one transform serves all that it is accurate for."""
        result = np.full(epsilon.size, np.nan)
        for i in np.argsort(epsilon).tolist():
            e = float(epsilon[i])
            if not math.isnan(result[i]):
                continue
            _, result[i] = self.delta_bounds(e, rtol, both=False)
            if math.isinf(e) or self._beyond_all(e):
                continue
            power = self.guess_power(e)
            grid = next(self._grids_around(e, power, rtol))
            curve = self._curve(grid._replace(delta=grid.delta * 1e-3), power)
            if curve is None:
                continue
            begin, end = curve.span(_SPAN)
            served = np.isnan(result) & (epsilon >= begin) & (epsilon <= end)
            for j in np.flatnonzero(served).tolist():
                result[j] = min(curve.at(float(epsilon[j]))[1], self._most_delta(epsilon[j]))
        return result

    def _grids_around(self, epsilon: float, power: float, rtol: float) -> Iterator[Grid]:
        """Grids for reading δ at `epsilon`, where the tilt is `power`, ever finer ones."""
        scale = max(abs(epsilon), self.scale)
        log_delta = self._finite_moment(power) - power * epsilon if power else -7.0
        tail = max(math.exp(max(-690.0, log_delta)) * 1e-3, _SMALLEST)
        # An error in ε is λ times as large in log δ.
        return self._grids(
            power=max(power, 1.0 / scale), epsilon=scale, delta=tail, rtol=0.25 * rtol
        )

    @cached_property
    def profile(self) -> tuple[Array, Array]:
        """(ε ≥ 0, upper values of δ) over the whole range where δ is neither near 1 nor below 1e-15."""
        nothing = Profile(np.array([0.0]), np.array([0.0]), np.array([1.0]))
        if self.infinity == 1.0:
            return nothing.epsilon, nothing.upper
        scale = max(self.scale, 1e-12)
        grids = self._grids(power=1.0 / scale, epsilon=scale, delta=1e-15, rtol=3e-4)
        curves = (self._curve(grid._replace(delta=1e-17), 0.0) for grid in grids)
        result = next((curve for curve in curves if curve is not None), nothing)
        inside = result.epsilon >= 0.0
        if not inside.any():
            inside[-1] = True
        return np.maximum(result.epsilon[inside], 0.0), result.upper[inside]

    @property
    def scale(self) -> float:
        """About the standard deviation of the sum, or its mean where that is more."""
        finite = math.log1p(-self.infinity) if self.infinity < 1.0 else 0.0
        mean = abs(self._finite_moment(1e-3) - finite) / 1e-3
        return max(mean, math.sqrt(2.0 * mean), 1e-150)

    @property
    def usual(self) -> float:
        """About the mean less two standard deviations, which the sum is above with probability ¾ or more, by
        Chebyshev; 0 where a loss may be infinite."""
        if self.infinity > 0.0:
            return 0.0
        x = _STRIDE / self.scale
        once, twice = self._finite_moment(x), self._finite_moment(2.0 * x)
        bend = max(twice - 2.0 * once, 0.0)  # x² times the variance
        return (once - 0.5 * bend - 2.0 * math.sqrt(bend)) / x

    @property
    def _most(self) -> float:
        """The largest possible loss, rounded up."""
        return math.inf if self.infinity > 0.0 else self._most_finite

    @property
    def _surely_most(self) -> float:
        """A lower value of the largest possible loss."""
        return max(0.0, self._most * (1.0 - 2.0 * _LARGEST) - self._raised)

    @property
    def _raised(self) -> float:
        """By how much the losses of the pairs may add up to more than the true ones."""
        return math.fsum(k * pair.raised for pair, k in self.terms)

    def _beyond_all(self, epsilon: float) -> bool:
        """Whether no finite loss is above `epsilon`."""
        return epsilon >= self._most_finite * (1.0 + MANY_ROUNDINGS)

    def _delta_by_moment(self, epsilon: float, power: float) -> float:
        """What δ at `epsilon` is at most, at no cost of a grid: e^(K(λ) - λε)·λ^λ/(1 + λ)^(1 + λ) of finite
        losses, λ the `power`, or less where more than the last digits of the exponent would be lost."""
        if power == 0.0 or epsilon <= 0.0:
            return 1.0
        power = min(power, 1.0 / (MOMENT * epsilon))
        moment, cost = self._finite_moment(power), power * epsilon
        log = moment - cost + MOMENT * (1.0 + abs(moment) + cost)
        log -= power * math.log1p(1.0 / power) + math.log1p(power)
        return min(1.0, math.exp(min(log, 0.0)) + self.infinity * (1.0 + MANY_ROUNDINGS))

    def _most_delta(self, epsilon: float) -> float:
        """What δ at `epsilon` is at most."""
        return min(1.0, self._advantages) if epsilon >= 0.0 else 1.0

    @cached_property
    def _advantages(self) -> float:
        """More than the sum of δ(0) of all releases: δ(0) of the sum is no more."""
        total = math.fsum(k * (pair.above(0.0)[1] + pair.infinity) for pair, k in self.terms)
        return total * (1.0 + _ROUGHLY) + self.count * _UNDERFLOW

    def _least(self, delta: float) -> float:
        """A lower value of ε at `delta`, by the outcomes of the largest loss alone; 0 where they say nothing.

        Their mass M and loss m give δ(ε) ≥ M·(1 - e^(ε - m)).
        """
        tops = [(pair.top, k) for pair, k in self.terms]
        if self._most == math.inf or not all(top > 0.0 for top, _ in tops):
            return 0.0
        log_share = math.log(delta) - math.fsum(k * math.log(top) for top, k in tops)
        log_share += MANY_ROUNDINGS * (1.0 + abs(log_share))
        if not log_share < -EIGHT_ROUNDINGS:
            return 0.0
        # A small share keeps its digits; of one next to 1 the margin above is more than the rounding.
        below = math.log1p(-math.exp(log_share)) * (1.0 + MANY_ROUNDINGS)
        return max(0.0, self._surely_most + below)

    @property
    def _most_finite(self) -> float:
        return math.fsum(k * pair.most for pair, k in self.terms) * (1.0 + _LARGEST)

    def _epsilon_at(self, grid: Grid, power: float, delta: float, pessimist: bool) -> float | None:
        """The ε of one grid, re-tilted until it lies where the transform is accurate."""
        total = self._sum(grid, pessimist)
        if total is None:
            return None
        for _ in range(40):  # λ falls slowly where the curve is below δ at both ends
            curve = self._curve(grid, power, pessimist, _NEAR)
            if curve is None:
                return None
            values = curve.upper if pessimist else curve.lower
            if curve.upper[0] <= delta and curve.epsilon[0] <= 0.0:
                return 0.0
            root = crossing(curve.epsilon, values, delta)
            begin, end = curve.span(_SPAN)
            if root is not None and begin <= root <= end:
                return max(0.0, root)
            nearest = curve.epsilon[-1] if values[-1] > delta else curve.epsilon[0]
            target = float(nearest) if root is None else root
            if target <= 0.0:
                if curve.at(0.0)[1] <= delta:
                    return 0.0
                target = 0.0
            following = total.saddle(target, max(power, 1e-6))
            if abs(following - power) <= 0.02 * power:
                break
            power = following
        return None if root is None else max(0.0, root)

    def _grids(self, *, power: float, epsilon: float, delta: float, rtol: float) -> Iterator[Grid]:
        """Grids, first one whose error is likely below `rtol` relative to `epsilon`, then finer ones."""
        goal = 0.7 * rtol * epsilon * power
        slack = 0.01 * goal / (power * self.count)
        coarsest = (
            0.25 / (1.0 + power) if power > 1.0 else max(1.0, min(_COARSEST, 0.05 * rtol * epsilon))
        )
        step = min(
            max(math.sqrt(12.0 * goal / (power * (1.0 + power) * self.count)), 1e-300),
            coarsest,
            epsilon,
        )
        least, best, truth = math.inf, step, self._finite_moment(power)
        for _ in range(12):  # measured without any transform
            above = self._sum(Grid(step, slack, delta, power=power), True)
            if above is None:
                break
            gap = 2.0 * abs(above.log_moment(power) - truth)  # the lower value errs as much
            if gap > 0.7 * least and step < best:
                break  # finer grids no longer help
            if gap < least:
                least, best = gap, step
            if gap > goal:
                step *= max(0.1, math.sqrt(0.7 * goal / gap))
            elif gap < 0.1 * goal and step < min(epsilon / 8.0, 0.25 * _COARSEST):
                least, best = math.inf, step  # coarser ones may do
                step *= min(4.0, math.sqrt(0.5 * goal / max(gap, 1e-300)))
            else:
                break
        for finer in (1.0, 0.5, 0.25):
            yield Grid(best * finer, slack, delta, power=power)

    def _curve(
        self, grid: Grid, power: float, pessimist: bool = True, reach: float = math.inf
    ) -> Profile | None:
        """δ from the losses on a grid, tilted by `power`; None where there are too many cells, or too few."""
        total = self._sum(grid, pessimist)
        try:
            return None if total is None else profile(total, power, reach)
        except MemoryError:
            return None

    def _sum(self, grid: Grid, pessimist: bool) -> Sum | None:
        """The losses on a grid, or None where it would have too many cells, or too few."""
        try:
            return self._sums((grid, pessimist), lambda: self._summed(grid, pessimist))
        except MemoryError:
            return None

    def _summed(self, grid: Grid, pessimist: bool) -> Sum | None:
        build = pessimistic if pessimist else optimistic
        tail = max(1e-6 * grid.delta / self.count, 1e-305)
        terms = tuple(
            Term(build(pair, grid.step, tail, grid.slack, power=grid.power), k)
            for pair, k in ticking(self.terms)
        )
        if any(not term.losses.p.any() for term in terms):
            return None  # so coarse that nothing could be said from below
        return Sum(terms, grid.step)


def _near_least(function: Callable[[float, float], float], start: float) -> tuple[float, float]:
    """(λ, value) near the least value of a function of λ and log λ, unimodal, sought from λ = `start` on."""
    log_power, value = descended(
        lambda log_x: function(math.exp(log_x), log_x),
        math.log(min(start, 1e15)),
        stride=0.4,
        width=0.12,
        limit=40.0,
    )
    return math.exp(log_power), value
