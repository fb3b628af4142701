"""What a record in one of many secret batches reveals if every output is released, computed anew.

With κ = e^ε, δ(ε) is at most E(S − t)⁺ with S = Σ w·Y over all labels and t = (1 − Σ w)·(κ − 1) (docs,
"Theory", 6.3), where all that is left of 1 moves nothing.

*With a hub*, the last batch, which has what is left of 1, it is at most
E(A·L_a(ζ) − B·L_−a(ζ) + w_h·D(ζ))⁺ with ζ of N(0, 1), A and B the parts of S above and below 0, and D a
difference of ζ. Given ζ that is L_a(ζ)·E(A − r·B − t)⁺, r = e^(−2aζ).

1. *Few r.* For any number m it is E(A − r(B − m) − t − rm)⁺, where t + rm held fast is convex in r: it lies
   below its chord between two r. Close to it if m is about the mean of B.
2. *Many ζ.* It falls in e^(−aζ), and is convex there, as A·L_a is convex and the rest linear: so it lies
   below its chords between many ζ, which have their means in closed form.
3. *Ends.* Below the last ζ it counts as there, above the first one by the means of what is above 0.

For several releases δ is computed at many ε of either sign. Between them it lies below its chords over κ, as
the true one is convex, and these chords are the δ of finitely many losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from flint import arb, ctx

from pabi.verification.anew.common_moves import CommonMoves
from pabi.verification.anew.label_sums import LabelPlaces, LabelSum, Side, Sides
from pabi.verification.anew.laws import Array, Law, up, up_from_zero
from pabi.verification.arithmetic import BITS, in_time, timed
from pabi.verification.factors.allocations import LEFT, Allocation

# How far apart places are; how much noise is added, times λ; points of a pair for the spread of its losses;
# those with a hub; how far apart its ζ are.
_LEVELS = (
    (0.05, 0.04, 16, 12, 0.7),
    (0.02, 0.02, 32, 20, 0.25),
    (0.01, 0.01, 48, 32, 0.1),
    (0.004, 0.002, 64, 48, 0.07),
)
# Of labels with something in common: between two laws, times the range of α; ξ between two values.
_COMMON = ((0.3, 0.1), (0.2, 0.06), (0.12, 0.04), (0.08, 0.03))
_SPACINGS = 0.05, 0.02, 0.01  # of products: below which the next level is taken
_NEGLIGIBLE = 1e-4  # of a tail
_ULP = 2.0**-53
_VALUE = 1e-12  # relative: more than a value of L errs
_SUMMED = 1.0 + 1e-10
_FAR = 10.0  # spreads of the sum that matter on either side
_WINDOWS, _DOUBTED = (1.0, 0.1, 0.01), 1e-3  # parts of those; relative: how much may be rounding
_HARDLY = 0.01  # of the largest value
_LEAST, _GREATEST = 1e-5, 9.0  # sizes that are looked at here
_FARTHEST = 300.0
_CLOSE = 1e-4
_OUTER, _NEXT, _LOWEST = (9.0, 8.0), 7.0, -9.0  # ζ beyond the hub's size, and the least
_PART = 1e-9  # more than a part of a chord is off by, for sizes that are looked at
_FINER = 24  # ζ between two r
_ENOUGH = 1e-5  # of δ may lie below the last ζ


# (opposite, displaces) ↦ Y above and below 0, in the first order of the data sets and, if it differs, in the
# second.
_SIDES = {
    (False, False): (((1, 0), (1, 0)), ((0, 1), (0, 1))),
    (True, False): (((1, -1), (1, -1)),),
    (False, True): (((2, 1), (0, 1)), ((1, 0), (1, 2))),
    (True, True): (((2, 0), (0, 2)),),
}
# opposite ↦ for each order, what a hub adds.
_LAST = {False: ((1, 0), (0, -1)), True: ((1, -1),)}


def _excess(
    places: Sequence[LabelPlaces],
    sides: Sides,
    epsilon: float,
    noise: float,
    ratio: float,
    at: Array,
) -> Array:
    """E(A − ratio·B − t)⁺ for every t of `at`, best near the first one."""
    in_time()
    kappa, rise, sides = math.exp(epsilon), math.expm1(epsilon), sides._replace(ratio=ratio)
    spread = math.sqrt(math.fsum(x.moments(sides, epsilon)[2] for x in places))
    heaviest, share = max(x.weight for x in places), math.fsum(x.weight * x.count for x in places)
    spread = spread or _HARDLY * (rise + heaviest)  # 0 where hardly any label has a value
    room = max(0.0, float(at[0]) + share * (ratio * rise + max(0.0, ratio - 1.0)))
    above = math.fsum(x.mean_above(sides.above, epsilon) for x in places)
    least = above + np.maximum(-at, 0.0)
    # Rare values far out keep a tilt small, and what is sought has few digits then. Whatever part of the
    # values is looked at, that is an upper bound, as what is beyond counts by its mean.
    for part in _WINDOWS:
        reach = part * _FAR * spread
        ends = room + reach, heaviest * ratio * kappa + reach
        values = [x.values(sides, epsilon, ends) for x in places]
        laws = [(v.y, v.p, x.count) for v, x in zip(values, places, strict=True)]
        total = LabelSum(laws, float(at[0]), spread, noise)
        # It rises by no more than t falls, and is at most what all that is above 0 is in the mean.
        excess = total.excess(at)
        excess = np.minimum(excess, excess[0] + np.maximum(at[0] - at, 0.0))
        beyond = math.fsum(x.count * v.beyond for v, x in zip(values, places, strict=True))
        least = np.minimum(least, excess + beyond)
        if total.doubt <= _DOUBTED:
            break
    return np.asarray(least * _SUMMED)


class _Hub:
    """The last batch, of this size and share: ζ from above, and what chords between them give each."""

    def __init__(self, size: float, share: float, apart: float) -> None:
        self.size, self.share = size, share
        coarse = [size + x for x in (*_OUTER, *np.arange(_NEXT, _LOWEST - size, -apart))]
        count = len(coarse)
        z = np.interp(np.arange((count - 1) * _FINER + 1) / _FINER, np.arange(count), coarse)
        self.z, a = z, arb(size)
        with ctx.workprec(BITS):
            half, root = (a * a / 2).exp(), arb(2).sqrt()
            s = [(-a * arb(x)).exp() for x in z.tolist()]
            below = [(-arb(x) / root).erfc() / 2 for x in z.tolist()]
            moved = [(-(arb(x) + a) / root).erfc() / 2 * half for x in z.tolist()]
            mass: list[Any] = [arb(0) for _ in s]
            for i in range(len(s) - 1):
                # In s, φ has this mass and this mean between two of them.
                p, mean = below[i] - below[i + 1], moved[i] - moved[i + 1]
                part = (s[i + 1] * p - mean) / (s[i + 1] - s[i])
                mass[i] += part
                mass[i + 1] += p - part
            self.mass = np.array([up_from_zero(x) for x in mass])
            self.below = [up(x) for x in below]
            self.tail = up(2 * ((arb(z[0]) - a) / root).erfc() / 2)

    def delta(
        self, excess: Callable[[float, Array], Array], last: Side, epsilon: float, m: float
    ) -> float:
        """An upper bound on δ; `excess` computes E(A − r·B − t)⁺, and m is about the mean of B."""
        z, a = self.z, self.size
        scale, ratio = np.exp(a * z - 0.5 * a * a), np.exp(-2.0 * a * z)
        value, doubt = last.at(z, a, epsilon)
        # Another share of the hub, by a little, moves t by no more than this.
        slack = math.exp(epsilon) * ratio + np.maximum(1.0, 1.0 / scale)
        at = (-self.share * value - doubt) / scale - (_VALUE + float(LEFT)) * slack
        total, integral = np.zeros(z.size), 0.0
        for k in range(0, z.size, _FINER):
            near = np.arange(max(k - _FINER, 0), min(k + _FINER + 1, z.size))
            near = np.concatenate([[k], near[near != k]])
            moved = at[near] + (ratio[near] - ratio[k]) * m - _VALUE * (ratio[near] + ratio[k]) * m
            bound = excess(float(ratio[k]) * (1.0 - _VALUE), moved) * scale[near] * _SUMMED
            for here, other in ((near < k, k - _FINER), (near > k, k + _FINER)):
                if here.any():
                    part = (ratio[near[here]] - ratio[other]) / (ratio[k] - ratio[other])
                    total[near[here]] += np.minimum(part + _PART, 1.0) * bound[here]
            total[k] = bound[0]
            if k:
                cell = slice(k - _FINER, k)
                integral += float(self.mass[cell] @ total[cell])
            rest = self.below[k] * float(bound[0]) + float(self.mass[k] * total[k])
            if rest <= _ENOUGH * integral:
                break
        return (integral + rest) * _SUMMED + self.tail


class Orders:
    """δ of an allocation in both orders of the data sets."""

    def __init__(self, allocation: Allocation, level: int) -> None:
        spacing, self.noise, *points, apart = _LEVELS[min(level, len(_LEVELS) - 1)]
        self.points = points[allocation.hub > 0.0]
        sides = _SIDES[allocation.opposite, allocation.displaces]
        self.sides = [Sides(Side(*above), Side(*below)) for above, below in sides]
        self.allocation, self.composed = allocation, composed(allocation)
        draws = range(len(allocation.labels[0].sizes) if self.composed else 0)
        self.draws = [
            [
                LabelPlaces(
                    one.share,
                    max(one.sizes[i], _LEAST),
                    one.count,
                    spacing=spacing,
                    sides=self.sides,
                )
                for one in allocation.labels
            ]
            for i in draws
        ]
        hub = max(allocation.hub, _LEAST) if allocation.hub and self.composed else None
        self.hub = None if hub is None else _Hub(hub, float(allocation.left), apart)
        self.common: list[CommonMoves] = []
        if self.composed and any(one.common for one in allocation.labels):
            apart, fine = _COMMON[min(level, len(_COMMON) - 1)]
            alphas = [one.common for one in allocation.labels]
            self.common = [
                CommonMoves(self.draws[0], alphas, holds=holds, apart=apart, fine=fine)
                for holds in (True, False)
            ]
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
                deltas = [self._delta(places, order, epsilon) for places in self.draws]
                most = min(most, math.fsum(deltas) / len(deltas) * (1.0 + 2.0 * _ULP))
            self._deltas[order, epsilon] = min(1.0, most)
        return self._deltas[order, epsilon]

    def _seen(self, epsilon: float) -> float:
        """δ with the place in sight, which is no less."""
        times, labels = 2 if self.allocation.opposite else 1, self.allocation.labels
        with ctx.workprec(BITS):
            total: Any = arb(0)
            cases = [(one.share / len(one.sizes), x) for one in labels for x in one.seen]
            for part, size in (*cases, (self.allocation.left, self.allocation.hub)):
                if math.isinf(size):
                    return 1.0
                mu, root = times * arb(size), arb(2).sqrt()
                if mu > 0 and part > 0:
                    near, far = (
                        ((arb(epsilon) / mu + s * mu / 2) / root).erfc() / 2 for s in (-1, 1)
                    )
                    share = arb(part.numerator) / part.denominator
                    total += share * (near - arb(epsilon).exp() * far)
            return up_from_zero(total)

    def _delta(self, places: Sequence[LabelPlaces], order: int, epsilon: float) -> float:
        """δ of one draw."""
        if self.common:
            return self.common[order].delta(
                epsilon, lambda labels, sides, at: _excess(labels, sides, 0.0, self.noise, 1.0, at)
            )
        excess = partial(_excess, places, self.sides[order], epsilon, self.noise)
        if self.hub is not None:
            below = -math.fsum(x.moments(self.sides[order], epsilon)[1] for x in places)
            last = _LAST[self.allocation.opposite][order]
            return self.hub.delta(excess, Side(*last), epsilon, below)
        rise = math.expm1(epsilon)
        # Of this sign or the other, where shares add to a little more than 1.
        rest = 1.0 - math.fsum(x.weight * x.count for x in places)
        bound = float(excess(1.0, np.array([rest * rise - _VALUE * rise]))[0])
        if self.sides[order].above == self.sides[order].below == Side(0, 1):
            return min(bound, self._all_low(places, epsilon))
        return bound

    def _all_low(self, places: Sequence[LabelPlaces], epsilon: float) -> float:
        """At least E(1 − κ·(Σ w·L + w_0))⁺: the probability that no term alone makes it 0."""
        with ctx.workprec(BITS):
            left, total = self.allocation.left, arb(1)
            most = (-arb(epsilon)).exp() - arb(left.numerator) / left.denominator
            if not most > 0:
                return 0.0 if most < 0 else 1.0
            for one, at in zip(self.allocation.labels, places, strict=True):
                weight = arb(one.share.numerator) / one.share.denominator / one.count
                z = (most / weight).log() / arb(at.size) + arb(at.size) / 2
                total *= ((-z / arb(2).sqrt()).erfc() / 2) ** one.count
            return up(total)

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


def composed(allocation: Allocation) -> bool:
    """Whether the largest sizes are among those that are looked at here."""
    draws = zip(*(one.seen for one in allocation.labels), strict=True)
    return all(_LEAST <= max(*sizes, allocation.hub) <= _GREATEST for sizes in draws)


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
