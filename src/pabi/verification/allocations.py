"""What a record in one of many secret batches reveals if every output is released, computed anew.

None of this is how the accountant computes. With L_u(z) = e^(uz − u²/2), κ = e^ε and z of N(0, 1), δ(ε) is
at most E(S − t)⁺ with S = Σ w·Y over all labels and t = (1 − Σ w)·(κ − 1), where Y is above 0 what
L_x − κ·L_y is, and below 0 what another such difference is (docs, "Theory", 6.3). Every step errs upwards.

1. *Finitely many values.* What lies between two places has values between those there. It is replaced by
   two values, one at either place or a little above, with the mean that it has, or more: no convex function
   has a smaller mean then. Beyond the values that matter, all are put at the last one; how much more they
   are in the mean is added to the result.
2. *Inversion.* With M(s) = E e^(sS) and any λ > 0,

       e^(λt)·E(S − t)⁺ = 1/(2π)·∫ e^(−iωt)·M(λ + iω)/(λ + iω)² dω.

   Summed over the multiples ω of 2π/T in place of the integral, this is the sum of e^(λx)·E(S − x)⁺ over
   all x = t + mT, which is no less, because no term is negative.
3. *A little more noise.* An independent normal variable is added to S, by which E(S − t)⁺ does not fall. It
   makes M(λ + iω) fall quickly.
4. *A pair.* For several releases δ is computed at many ε of either sign. Between them it lies below its
   chords over κ, as the true one is convex, and these chords are the δ of finitely many losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from flint import arb, ctx

from pabi.verification.arithmetic import BITS, in_time, timed
from pabi.verification.products import (
    Array,
    Law,
    Spectrum,
    characteristic,
    log_sum,
    tilted,
)

# How far apart places are; how much noise is added, times λ; points of a pair for the spread of its losses.
_LEVELS = ((0.05, 0.04, 16), (0.02, 0.02, 32), (0.01, 0.01, 48), (0.004, 0.002, 64))
_SPACINGS = 0.05, 0.02, 0.01  # of products: below which the next level is taken
_NEGLIGIBLE = 1e-4  # of a tail
_ULP = 2.0**-53
_VALUE = 1e-12  # relative: more than a value of L errs
_SUMMED = 1.0 + 1e-10
_REACH = 9.5  # of places, beyond the largest move
_FAR = 10.0  # spreads of the sum that matter on either side
_HARDLY = 0.01  # of the largest value
_RARE = 4.0  # standard deviations within which the spread is looked at
_SMALL = 36.0  # nats: what aliases and what lies beyond the last frequency are smaller by
_TILTS, _STRIDE = (1e-4, 1e3), 0.5  # over the spread: between which λ is sought; in logarithms
_MOST_FREQUENCIES = 400_000
_LEAST, _GREATEST = 1e-5, 9.0  # sizes that are looked at here
_FARTHEST = 300.0
_ABOVE = 1.0 + 1e-9  # relative: more than the largest sum is off by
_LOOSE = 1e-6  # more than the logarithm of Chernoff's bound is off by
_CLOSE = 1e-4


class _Covering(Protocol):
    """What may stand for another of its kind."""

    def covers(self, needed: Self, /) -> bool:
        """Whether this reveals no less."""


T = TypeVar("T", bound=_Covering)


def uncovered(needed: Sequence[tuple[T, int]], offered: Sequence[tuple[T, int]]) -> int:
    """How many of what is needed find nothing of their own among the first that cover them."""
    left, missing = [times for _, times in offered], 0
    for one, count in timed(needed):
        for i, (other, _) in enumerate(offered):
            if count and left[i] and other.covers(one):
                taken = min(count, left[i])
                count, left[i] = count - taken, left[i] - taken
        missing += count
    return missing


@dataclass(frozen=True)
class LabelGroup:
    """`count` labels of the probability `share` together, each of which moves its outputs by one of `sizes`:
    by which, is drawn for all of them, and everybody sees it."""

    share: Fraction
    sizes: tuple[float, ...]
    count: int

    def covers(self, needed: LabelGroup, /) -> bool:
        """Whether a label of these is no less likely, and moves no less, than one of those."""
        return (
            len(self.sizes) == len(needed.sizes)
            and all(a >= b for a, b in zip(self.sizes, needed.sizes, strict=True))
            and self.share * needed.count >= needed.share * self.count
        )


class Side(NamedTuple):
    """Y on one side of 0: L_x − κ·L_y, with x and y in multiples of the size."""

    x: int
    y: int

    def at(self, z: Any, size: float, epsilon: float) -> tuple[Array, Array]:
        """(its values, by how much they may be off)."""
        x, y = self.x * size, self.y * size
        with np.errstate(under="ignore"):
            one, two = np.exp(x * z - 0.5 * x * x), np.exp(epsilon + y * z - 0.5 * y * y)
        return one - two, _VALUE * (one + two)

    def root(self, size: float, epsilon: float) -> float:
        """Where it is 0."""
        return epsilon / ((self.x - self.y) * size) + 0.5 * (self.x + self.y) * size


# (opposite, displaces) ↦ Y above and below 0, in the first order of the data sets and, if it differs, in the
# second.
_SIDES = {
    (False, False): (((1, 0), (1, 0)), ((0, 1), (0, 1))),
    (True, False): (((1, -1), (1, -1)),),
    (False, True): (((2, 1), (0, 1)), ((1, 0), (1, 2))),
    (True, True): (((2, 0), (0, 2)),),
}


class Allocation(NamedTuple):
    """One record in one of many batches. `opposite`: whether another record moves the outputs on the other
    data set; `displaces`: whether it takes the place of another record; `times`: how many there are."""

    labels: tuple[LabelGroup, ...]
    opposite: bool
    displaces: bool
    times: int = 1

    @property
    def seen(self) -> float:
        """A μ whose Gaussian reveals no less: that of the batch in sight."""
        return max(max(one.sizes) for one in self.labels) * (2.0 if self.opposite else 1.0)

    def covers(self, needed: Allocation, /) -> bool:
        """Whether this reveals no less: for every label it has one of its own that covers it."""
        if (self.opposite, self.displaces) != (needed.opposite, needed.displaces):
            return False
        offered = sorted(self.labels, key=lambda labels: labels.sizes)
        demands = sorted(needed.labels, key=lambda labels: labels.sizes, reverse=True)
        return not uncovered(
            [(one, one.count) for one in demands], [(one, one.count) for one in offered]
        )


class _Values(NamedTuple):
    """Values of a label with their probabilities, and by how much less they are in the mean than they should
    be."""

    y: Array
    p: Array
    beyond: float


class _Places:
    """Places, and what labels of one size have between and beyond them."""

    def __init__(self, labels: LabelGroup, draw: int, spacing: float) -> None:
        self.size, self.count = max(labels.sizes[draw], _LEAST), labels.count
        reach = _REACH + 2.0 * self.size
        self.z = np.arange(-reach, reach + spacing, spacing)
        with ctx.workprec(BITS):
            share = arb(labels.share.numerator) / labels.share.denominator / labels.count
            self.weight = _up(share)
            tails = {m: [self._beyond(z, m) for z in timed(self.z.tolist())] for m in (-1, 0, 1, 2)}
            self.above = {m: _doubles(tail) for m, tail in tails.items()}
            self.below = {m: _doubles([1 - x for x in tail]) for m, tail in tails.items()}
            pairs = {m: pairwise(tail) for m, tail in tails.items()}
            self.cells = {m: _doubles([a - b for a, b in cells]) for m, cells in pairs.items()}

    def _beyond(self, z: Any, m: int) -> Any:
        """P(N(m·size, 1) > z) in a ball."""
        return ((arb(z) - m * arb(self.size)) / arb(2).sqrt()).erfc() / 2

    def variance(self, above: Side, below: Side, epsilon: float) -> float:
        """About that of the sum, but for what is rare."""
        z = self.z[np.abs(self.z) <= _RARE]
        p = self.cells[0][: self.z.size - 1][np.abs(self.z[:-1]) <= _RARE][: z.size]
        z = z[: p.size]
        y = np.maximum(above.at(z, self.size, epsilon)[0], 0.0)
        less = np.minimum(below.at(z, self.size, epsilon)[0], 0.0)
        mean = float(p @ (y + less))
        square = float(p @ (y * y + less * less)) - mean * mean
        return self.count * self.weight**2 * max(square, 0.0)

    def values(
        self, above: Side, below: Side, epsilon: float, ends: tuple[float, float]
    ) -> _Values:
        """Those of a label, up to these ends on either side of 0."""
        up, less = (
            self._side(side, epsilon, end / self.weight, sign)
            for side, end, sign in ((above, ends[0], 1.0), (below, ends[1], -1.0))
        )
        rest = max(0.0, 1.0 - (up.p[1:].sum() + less.p[1:].sum()) * (1.0 - 1e-14))
        y = np.concatenate([less.y[:0:-1], [max(up.y[0], less.y[0])], up.y[1:]])
        p = np.concatenate([less.p[:0:-1], [rest], up.p[1:]])
        return _Values(self.weight * y, p * (1.0 + 4.0 * _ULP), self.weight * up.beyond)

    def _side(self, side: Side, epsilon: float, end: float, sign: float) -> _Values:
        """The values on one side of 0, the first of which is 0, or a hair above."""
        root, rises = side.root(self.size, epsilon), (side.x > side.y) == (sign > 0.0)
        here = self.z > root if rises else self.z < root
        order = slice(None) if rises else slice(None, None, -1)
        value, doubt = side.at(np.concatenate([[root], self.z[here][order]]), self.size, epsilon)
        value = np.maximum.accumulate(np.maximum(sign * value, 0.0))
        value[0] = 0.0
        last = min(int(np.searchsorted(value, end)), value.size - 1)
        masses = {m: self._masses(root, here, rises, m)[:last] for m in {0, side.x, side.y}}
        kappa, value, doubt = math.exp(epsilon), value[: last + 1], doubt[: last + 1]
        p, one, two = masses[0], masses[side.x], kappa * masses[side.y]
        # What is given to the outer end of a cell: too much above 0, too little below.
        low, width = value[:-1], np.diff(value)
        error = 8.0 * _ULP * (one + two + low * p) + (doubt[:-1] + doubt[1:]) * p
        with np.errstate(divide="ignore", invalid="ignore"):
            outer = (sign * (one - two) - low * p + sign * error) / width
        outer = np.where(width > 0.0, np.clip(outer, 0.0, p), p if sign > 0.0 else 0.0)
        mass = np.zeros(value.size)
        mass[1:] += outer
        mass[:-1] += p - outer
        tails = {m: self._tail(root, here, rises, m, last) for m in masses}
        mass[-1] += tails[0]
        more = sign * (tails[side.x] - kappa * tails[side.y]) - value[-1] * tails[0]
        more += 8.0 * _ULP * (tails[side.x] + kappa * tails[side.y] + value[-1] * tails[0])
        more += doubt[-1] * tails[0]
        return _Values(
            sign * value + 4.0 * doubt, mass, max(0.0, float(more)) if sign > 0.0 else 0.0
        )

    def _masses(self, root: float, here: Any, rises: bool, m: int) -> Array:
        """What lies between the root and the first place, and between the places after it, outwards."""
        index = np.flatnonzero(here)
        if index.size == 0:
            return np.zeros(0)
        nearest = index[0] if rises else index[-1]
        with ctx.workprec(BITS):
            first = abs(self._beyond(root, m) - self._beyond(float(self.z[nearest]), m))
        inner = self.cells[m][index[:-1]]
        return np.concatenate([[_up(first)], inner if rises else inner[::-1]])

    def _tail(self, root: float, here: Any, rises: bool, m: int, last: int) -> float:
        """What lies beyond the `last` place, counted outwards from the root."""
        index = np.flatnonzero(here)
        if last == 0:
            with ctx.workprec(BITS):
                beyond = self._beyond(root, m)
                return _up(beyond if rises else 1 - beyond)
        tails = self.above[m] if rises else self.below[m]
        return float(tails[index[last - 1] if rises else index[-last]])


class Orders:
    """δ of an allocation in both orders of the data sets."""

    def __init__(self, allocation: Allocation, level: int) -> None:
        spacing, self.noise, self.points = _LEVELS[min(level, len(_LEVELS) - 1)]
        sides = _SIDES[allocation.opposite, allocation.displaces]
        self.sides = [(Side(*above), Side(*below)) for above, below in sides]
        self.allocation, self.composed = allocation, composed(allocation)
        draws = range(len(allocation.labels[0].sizes) if self.composed else 0)
        self.draws = [[_Places(one, i, spacing) for one in allocation.labels] for i in draws]
        self._deltas: dict[tuple[int, float], float] = {}

    def worst(self, epsilon: float) -> float:
        """δ at ε ≥ 0 in the worse order."""
        return max(self.delta(order, epsilon) for order in range(len(self.sides)))

    def delta(self, order: int, epsilon: float) -> float:
        """An upper bound on δ at ε ≥ 0 in one order."""
        if (order, epsilon) not in self._deltas:
            in_time()
            most = self._seen(epsilon)
            if self.composed:
                sides = self.sides[order]
                deltas = [self._delta(places, *sides, epsilon) for places in self.draws]
                most = min(most, math.fsum(deltas) / len(deltas) * (1.0 + 2.0 * _ULP))
            self._deltas[order, epsilon] = min(1.0, most)
        return self._deltas[order, epsilon]

    def _seen(self, epsilon: float) -> float:
        """δ with the place in sight, which is no less."""
        times = 2 if self.allocation.opposite else 1
        with ctx.workprec(BITS):
            total: Any = arb(0)
            kappa = arb(epsilon).exp()
            for one in self.allocation.labels:
                share = arb(one.share.numerator) / one.share.denominator / len(one.sizes)
                for size in one.sizes:
                    if math.isinf(size):
                        return 1.0
                    mu, root = times * arb(size), arb(2).sqrt()
                    if mu > 0:
                        near, far = (
                            ((arb(epsilon) / mu + s * mu / 2) / root).erfc() / 2 for s in (-1, 1)
                        )
                        total += share * (near - kappa * far)
            return max(0.0, _up(total))

    def _delta(self, places: Sequence[_Places], above: Side, below: Side, epsilon: float) -> float:
        """δ of one draw."""
        kappa, rise = math.exp(epsilon), math.expm1(epsilon)
        spread = math.sqrt(math.fsum(x.variance(above, below, epsilon) for x in places))
        heaviest = max(x.weight for x in places)
        spread = spread or _HARDLY * (rise + heaviest)  # 0 where hardly any label has a value
        ends = rise + _FAR * spread, heaviest * kappa + _FAR * spread
        values = [x.values(above, below, epsilon, ends) for x in places]
        laws = [(v.y, v.p, x.count) for v, x in zip(values, places, strict=True)]
        # Of this sign or the other, where shares add to a little more than 1.
        rest = 1.0 - math.fsum(x.weight * x.count for x in places)
        excess = _Total(laws, rest * rise - _VALUE * rise, spread, self.noise).excess()
        beyond = math.fsum(x.count * v.beyond for v, x in zip(values, places, strict=True))
        return (excess + beyond) * _SUMMED

    def law(self, order: int, tail: float) -> Law:
        """Finitely many losses that reveal no less in one order, up to where δ is below `tail`."""
        grid = self._grid(tail)
        other = len(self.sides) - 1 - order
        own = np.array([self.delta(order, e) for e in timed(grid)])
        turned = np.array([self.delta(other, e) for e in timed(grid)])
        epsilon = np.array(grid)
        # δ(−ε) = 1 − e^−ε + e^−ε·δ(ε) in the other order.
        small = np.exp(-epsilon)
        left = -np.expm1(-epsilon) + small * turned
        x = np.concatenate([[0.0], small[:0:-1], np.exp(epsilon)])
        y = np.concatenate([[1.0], left[:0:-1], own])
        losses = np.concatenate([[-math.inf], -epsilon[:0:-1], epsilon])
        return _law_below(x, np.minimum(y * _SUMMED, 1.0), losses)

    def _grid(self, tail: float) -> list[float]:
        scale = 2.5 * self.worst(0.0)
        end = scale
        while end < _FARTHEST and not self.worst(end) <= tail:
            end = min(1.3 * end, _FARTHEST)
        count = math.ceil(self.points * math.asinh(end / scale))
        steps = np.linspace(0.0, math.asinh(end / scale), count + 1)
        return [float(e) for e in scale * np.sinh(steps)]


class _Total:
    """The sum S of independent values, (values, probabilities, how often), and a normal variable, tilted so
    that its mean is about t."""

    def __init__(
        self, laws: Sequence[tuple[Array, Array, int]], at: float, spread: float, noise: float
    ) -> None:
        self.laws, self.at, self.spread, self.square = laws, at, spread, 0.0
        self.power = self._tilt()
        self.square = (noise / self.power) ** 2

    def log_moment(self, power: float) -> float:
        """log E e^(λS)."""
        total = math.fsum(n * log_sum(power * y, p) for y, p, n in self.laws)
        return total + 0.5 * power * power * self.square

    def excess(self) -> float:
        """An upper bound on E(S − t)⁺."""
        power, at, square = self.power, self.at, self.square
        if at > math.fsum(n * float(y.max()) for y, _, n in self.laws) * _ABOVE:
            return 0.0
        base = self.log_moment(power)
        # x⁺ ≤ e^(λx)/(eλ): close where t is so far out that an inversion would take too long.
        chernoff = _power(base - power * at - 1.0 - math.log(power) + _LOOSE)
        step = 2.0 * math.pi / self._period(base)
        last = math.sqrt(2.0 * _SMALL) / (step * math.sqrt(square)) if square > 0.0 else math.inf
        if not last < _MOST_FREQUENCIES:
            return chernoff
        omega: Array = step * np.arange(math.ceil(last) + 1.0)
        s = power + 1j * omega
        size = -0.5 * square * omega**2 - 2.0 * np.log(np.abs(s))
        angle = square * power * omega - 2.0 * np.angle(s)
        weight, angle, error, slack = Spectrum.of(size, angle, self._transforms(power, omega), step)
        total = float(weight @ np.cos(angle - omega * at)) + error
        total += float(weight @ omega) * 4.0 * _ULP * abs(at)
        total += math.exp(-0.5 * square * omega[-1] ** 2) / (math.pi * omega[-1])
        log_scale = base - power * at
        rounding = slack + 16.0 + 8.0 * (abs(base) + power * abs(at) + power * power * square)
        log_scale += _ULP * rounding
        return float(min(chernoff, _power(log_scale) * total))

    def _tilt(self) -> float:
        """About the λ of the least bound e^(K(λ) − λt)/(eλ)."""
        # What S can exceed t by may be far less than its spread.
        room = math.fsum(n * float(y.max()) for y, _, n in self.laws) - self.at
        room = min(self.spread, room) if room > _VALUE * self.spread else self.spread
        least, most = _TILTS[0] / self.spread, _TILTS[1] / room
        count = math.ceil(math.log(most / least) / _STRIDE) + 1
        grid = np.geomspace(least, most, count).tolist()
        bounds = [self.log_moment(x) - x * self.at - math.log(x) for x in grid]
        return float(grid[min(range(len(grid)), key=bounds.__getitem__)])

    def _period(self, base: float) -> float:
        """A T for which all but the term m = 0 of step 2 are small."""
        power, at = self.power, self.at
        after = min(
            (self.log_moment(power + x) - base - x * at + _SMALL) / x
            for x in (f * y for f in (0.2, 0.5, 1.0, 2.0, 4.0) for y in (power, 1.0 / self.spread))
        )
        before = (_SMALL + max(0.0, power * at - base) + 10.0) / power
        return 1.05 * max(after, before, self.spread)

    def _transforms(self, power: float, omega: Array) -> list[tuple[Any, Array, int]]:
        transforms = []
        for y, p, n in self.laws:
            in_time()
            w, error = tilted(power * y, y, p, omega=omega, power=power)
            transforms.append((characteristic(y, w, omega), error, n))
        return transforms


def _law_below(x: Array, y: Array, losses: Array) -> Law:
    """The losses whose δ, over κ, is the lower hull of these points, the last of which is what is left."""
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    at = np.array(hull)
    slopes = np.append(np.diff(y[at]) / np.diff(x[at]), 0.0)
    masses = x[at[1:]] * np.maximum(np.diff(slopes), 0.0)
    masses += 8.0 * _ULP * x[at[1:]] * (np.abs(slopes[:-1]) + np.abs(slopes[1:]))
    return Law(losses[at[1:]], masses, float(y[at[-1]]), 1, turns=False)


def _power(x: float) -> float:
    return math.exp(x) if x < _FARTHEST else math.inf


def _doubles(balls: Sequence[Any]) -> Array:
    return np.array([max(0.0, float(ball.mid())) for ball in balls])


def _up(ball: Any) -> float:
    return math.nextafter(float(arb(ball).upper()), math.inf)


def composed(allocation: Allocation) -> bool:
    """Whether the largest sizes are among those that are looked at here."""
    draws = zip(*(one.sizes for one in allocation.labels), strict=True)
    return all(_LEAST <= max(sizes) <= _GREATEST for sizes in draws)


def laws_of(allocation: Allocation) -> Callable[[float, float], tuple[Law, Law]]:
    """(tail, spacing of the places) ↦ the losses of an allocation, and those with the data sets exchanged."""
    levels = cache(partial(Orders, allocation))

    def laws(tail: float, spacing: float) -> tuple[Law, Law]:
        orders = levels(sum(spacing < limit for limit in _SPACINGS))
        last = len(orders.sides) - 1
        first = orders.law(0, _NEGLIGIBLE * tail)._replace(turns=last > 0)
        return first, orders.law(last, _NEGLIGIBLE * tail)

    return laws


def advantage(allocation: Allocation) -> float:
    """An upper bound on δ(0)."""
    return Orders(allocation, 0).worst(0.0)


def epsilon_alone(allocation: Allocation, delta: float, enough: float) -> float:
    """An ε with δ(ε) ≤ `delta`, or ∞; `enough` if that will do."""
    for level in range(len(_LEVELS)):
        orders = Orders(allocation, level)
        if orders.worst(enough) <= delta:
            return enough
    low, high = enough, max(2.0 * enough, 1e-9)
    while not orders.worst(high) <= delta:
        low, high = high, 2.0 * high
        if high > _FARTHEST:
            return math.inf
    while high - low > _CLOSE * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if orders.worst(middle) <= delta else (middle, high)
    return high
