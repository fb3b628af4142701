"""Sums of what the secret labels of a record add, and by how much they exceed a number in the mean.

With L_u(z) = e^(uz − u²/2), κ = e^ε and z of N(0, 1), S = Σ w·Y over all labels, where Y is above 0 what
L_x − κ·L_y is, and below 0 what another such difference is, or a multiple of it (docs, "Theory", 6.3). None
of this is how the accountant computes. Every step errs upwards.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx

from pabi.verification.anew.laws import Array, up, up_from_zero
from pabi.verification.anew.sums import Spectrum, characteristic, tilted
from pabi.verification.arithmetic import BITS, in_time, timed

_ULP = 2.0**-53
_VALUE = 1e-12  # relative: more than a value of L errs
_REACH = 9.5  # of places, beyond the largest move
_RARE = 4.0  # standard deviations within which the spread is looked at
_SMALL = 36.0  # nats: what aliases and what lies beyond the last frequency are smaller by
_TILTS, _STRIDE = (1e-4, 1e3), 0.5  # over the spread: between which λ is sought; in logarithms
_MOST_FREQUENCIES = 400_000
_SMALLER, _LONG = 5, 300.0  # λ below the best one that are tried where λT is longer
_LARGE = 300.0
_ABOVE = 1.0 + 1e-9  # relative: more than the largest sum is off by
_LOOSE = 1e-6  # more than the logarithm of Chernoff's bound is off by


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


class Sides(NamedTuple):
    """Y above and below 0; what is below counts by the factor `ratio`."""

    above: Side
    below: Side
    ratio: float = 1.0


class _Values(NamedTuple):
    """Values of a label with their probabilities, and by how much less they are in the mean than they should
    be."""

    y: Array
    p: Array
    beyond: float


class LabelPlaces:
    """Places, and what labels of one size have between and beyond them, as they stand and as `sides` move
    them."""

    def __init__(
        self, share: Fraction, size: float, count: int, *, spacing: float, sides: Sequence[Sides]
    ) -> None:
        self.size, self.count = size, count
        reach = _REACH + 2.0 * self.size
        self.z = np.arange(-reach, reach + spacing, spacing)
        with ctx.workprec(BITS):
            weight = arb(share.numerator) / share.denominator / count
            self.weight = up(weight)
            moves = {0, *(m for both in sides for side in (both.above, both.below) for m in side)}
            tails = {m: [self._beyond(z, m) for z in timed(self.z.tolist())] for m in moves}
            self.above = {m: _doubles(tail) for m, tail in tails.items()}
            self.below = {m: _doubles([1 - x for x in tail]) for m, tail in tails.items()}
            pairs = {m: pairwise(tail) for m, tail in tails.items()}
            self.cells = {m: _doubles([a - b for a, b in cells]) for m, cells in pairs.items()}

    def _beyond(self, z: Any, m: int) -> Any:
        """P(N(m·size, 1) > z) in a ball."""
        return ((arb(z) - m * arb(self.size)) / arb(2).sqrt()).erfc() / 2

    def moments(self, sides: Sides, epsilon: float) -> tuple[float, float, float]:
        """About the means of the sum's parts above 0 and below, and its variance, but for what is rare."""
        near = np.abs(self.z) <= _RARE  # the last place is not
        z, p = self.z[near], self.cells[0][near[:-1]]
        y = np.maximum(sides.above.at(z, self.size, epsilon)[0], 0.0)
        less = sides.ratio * np.minimum(sides.below.at(z, self.size, epsilon)[0], 0.0)
        mean, lower = float(p @ y), float(p @ less)
        square = float(p @ (y * y + less * less)) - (mean + lower) ** 2
        total = self.count * self.weight
        return total * mean, total * lower, total * self.weight * max(square, 0.0)

    def mean_above(self, side: Side, epsilon: float) -> float:
        """At least the mean of the values above 0, all labels together."""
        root = side.root(self.size, epsilon)
        with ctx.workprec(BITS):
            one, two = (self._beyond(root, m) for m in side)
            if side.x < side.y:
                one, two = 1 - one, 1 - two
            mean = one - arb(epsilon).exp() * two
            # The root is not exact.
            return self.weight * self.count * (up_from_zero(mean) + _VALUE)

    def values(self, sides: Sides, epsilon: float, ends: tuple[float, float]) -> _Values:
        """Those of a label, up to these ends on either side of 0."""
        ratio = sides.ratio
        high = self._side(sides.above, epsilon, ends[0] / self.weight, 1.0)
        less = self._side(sides.below, epsilon, ends[1] / (self.weight * ratio), -1.0)
        rest = max(0.0, 1.0 - (high.p[1:].sum() + less.p[1:].sum()) * (1.0 - 1e-14))
        # Rounded towards 0.
        below = ratio * (1.0 - 4.0 * _ULP) * less.y if ratio != 1.0 else less.y
        y = np.concatenate([below[:0:-1], [max(high.y[0], below[0])], high.y[1:]])
        p = np.concatenate([less.p[:0:-1], [rest], high.p[1:]])
        return _Values(self.weight * y, p * (1.0 + 4.0 * _ULP), self.weight * high.beyond)

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
        return np.concatenate([[up(first)], inner if rises else inner[::-1]])

    def _tail(self, root: float, here: Any, rises: bool, m: int, last: int) -> float:
        """What lies beyond the `last` place, counted outwards from the root."""
        index = np.flatnonzero(here)
        if last == 0:
            with ctx.workprec(BITS):
                beyond = self._beyond(root, m)
                return up(beyond if rises else 1 - beyond)
        tails = self.above[m] if rises else self.below[m]
        return float(tails[index[last - 1] if rises else index[-last]])


class LabelSum:
    """The sum S of independent values, (values, probabilities, how often), and a normal variable, tilted so
    that its mean is about t."""

    def __init__(
        self, laws: Sequence[tuple[Array, Array, int]], at: float, spread: float, noise: float
    ) -> None:
        self.laws, self.at, self.spread = laws, at, spread
        self.power = self.square = self.period = 0.0
        self.doubt = 0.0  # relative: how much of an excess at t may be rounding
        for power in self._tilts():
            self.power, self.square = power, (noise / power) ** 2
            self.period = self._period(self.log_moment(power))
            if power * self.period < _LONG:
                break

    def log_moment(self, power: float) -> float:
        """log E e^(λS)."""
        return float(self._log_moments(np.array([power]))[0])

    def _log_moments(self, power: Array) -> Array:
        """log E e^(λS) for every λ of `power`."""
        total = 0.5 * power * power * self.square
        for y, p, n in self.laws:
            exponent = np.outer(power, y)
            top = exponent.max(axis=1)
            with np.errstate(under="ignore"):
                sums = (p * np.exp(exponent - top[:, None])).sum(axis=1)  # in pairs
            total += n * (top + np.log(sums))
        return np.asarray(total)

    def excess(self, at: Array) -> Array:
        """Upper bounds on E(S − t)⁺ for every t of `at`."""
        power, square = self.power, self.square
        base, largest = self.log_moment(power), self._largest() * _ABOVE
        # x⁺ ≤ e^(λx)/(eλ): close where t is so far out that an inversion would take too long.
        chernoff = _power(base - power * at - 1.0 - math.log(power) + _LOOSE)
        bound = np.where(at > largest, 0.0, chernoff)
        step = 2.0 * math.pi / (self.period + float(np.ptp(at)))
        last = math.sqrt(2.0 * _SMALL) / (step * math.sqrt(square)) if square > 0.0 else math.inf
        if not last < _MOST_FREQUENCIES or not bound.any():
            self.doubt = float(bound.any())
            return np.asarray(bound)
        omega: Array = step * np.arange(math.ceil(last) + 1.0)
        s = power + 1j * omega
        size = -0.5 * square * omega**2 - 2.0 * np.log(np.abs(s))
        angle = square * power * omega - 2.0 * np.angle(s)
        weight, angle, error, slack = Spectrum.of(size, angle, self._transforms(power, omega), step)
        rounded: Array = float(weight @ omega) * 4.0 * _ULP * np.abs(at)
        rounded += error + 64.0 * _ULP * float(weight.sum())
        total = _real_sum(weight, angle, step, at) + rounded
        self.doubt = float(rounded[0] / total[0]) if total[0] > 0.0 else 1.0
        total += math.exp(-0.5 * square * omega[-1] ** 2) / (math.pi * omega[-1])
        rounding = slack + 16.0 + 8.0 * (abs(base) + power * np.abs(at) + power * power * square)
        scale = _power(base - power * at + _ULP * rounding)
        return np.asarray(np.minimum(bound, scale * total))

    def _largest(self) -> float:
        return math.fsum(n * float(y.max()) for y, _, n in self.laws)

    def _tilts(self) -> list[float]:
        """λ from about that of the least bound e^(K(λ) − λt)/(eλ) on downwards: with less of the mass put
        near the largest values, a smaller one may ask for far fewer frequencies."""
        # What S can exceed t by may be far less than its spread.
        room = self._largest() - self.at
        room = min(self.spread, room) if room > _VALUE * self.spread else self.spread
        least, most = _TILTS[0] / self.spread, _TILTS[1] / room
        count = math.ceil(math.log(most / least) / _STRIDE) + 1
        grid = np.geomspace(least, most, count)
        best = int(np.argmin(self._log_moments(grid) - grid * self.at - np.log(grid)))
        return [float(x) for x in grid[max(best - _SMALLER, 0) : best + 1][::-1]]

    def _period(self, base: float) -> float:
        """A T for which all but the term m = 0 of step 2 are small."""
        power, at = self.power, self.at
        more = np.outer((power, 1.0 / self.spread), (0.2, 0.5, 1.0, 2.0, 4.0)).ravel()
        after = ((self._log_moments(power + more) - base - more * at + _SMALL) / more).min()
        before = (_SMALL + max(0.0, power * at - base) + 10.0) / power
        return 1.05 * max(float(after), before, self.spread)

    def _transforms(self, power: float, omega: Array) -> list[tuple[Any, Array, int]]:
        transforms = []
        for y, p, n in self.laws:
            in_time()
            w, error = tilted(power * y, y, p, omega=omega, power=power)
            transforms.append((characteristic(y, w, omega), error, n))
        return transforms


def _real_sum(weight: Array, angle: Array, step: float, at: Array) -> Array:
    """Σ weight·cos(angle − ωt) over the multiples ω of a step, for every t of `at`, as products of e^(−iωt)
    at few and at many steps."""
    few = 64
    many = -(-weight.size // few)
    terms = np.zeros(many * few, dtype=np.complex128)
    terms[: weight.size] = weight * np.exp(1j * angle)
    near = np.exp(-1j * step * np.outer(np.arange(few), at))
    far = np.exp(-1j * step * few * np.outer(np.arange(many), at))
    return np.asarray(((terms.reshape(many, few) @ near) * far).sum(axis=0).real)


def _power(x: Array) -> Array:
    return np.where(x < _LARGE, np.exp(np.minimum(x, _LARGE)), math.inf)


def _doubles(balls: Sequence[Any]) -> Array:
    return np.array([max(0.0, float(ball.mid())) for ball in balls])
