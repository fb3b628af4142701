"""What secret labels have in common: δ at one ε of labels that move one more number together.

Label j moves its own steps by β_j and one number that all labels share, ξ of N(0, 1), by α_j. With
L_m(z) = e^(mz − m²/2) the likelihood ratio is Λ = Σ w_j·L_α_j(ξ)·L_β_j(ζ_j), and δ(ε) is E(Λ − κ)⁺ in one
order of the data sets and E(1 − κΛ)⁺ in the other (docs, "Joint payments").

Write Λ = e^(aξ)·T(ξ), so that labels grow by e^((α_j − a)ξ) in T. For a fixed number k, E(T − k)⁺ is convex
in ξ, and E(1 − kT)⁺ is convex in s = e^(−ρξ) if a is the largest α_j and ρ their range: then what grows is a
concave function of s. So between two ξ they lie below their chords for that k. The laws of T at a few ξ do
for all ε; what is between is integrated over ξ in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.locking import tick
from pabi.numbers.mixtures import TOTAL
from pabi.numbers.rounding import Array
from pabi.tradeoff.answers import Memo
from pabi.tradeoff.convolution import OUTSIDE, Sum, Term, transformed
from pabi.tradeoff.grids import Losses
from pabi.tradeoff.labels import Difference, Labels, points, side
from pabi.tradeoff.pairs import LARGEST_EXPONENT, SQRT_2PI, normal_mass

_LEAST = 1e-3  # smaller α count as this, and so does a smaller range as none
_CHORD = 0.12  # ξ between two laws, times ρ
_FAR, _NEAR = 9.0, 6.0  # of ξ, beyond the largest α or 0; on the side that hardly matters
_RAISED = 4e-4  # relative: by how much a grid may raise the variance
_MANY = 300  # labels
_TOP = 7.0, 4.0  # of ζ, up to which values of a label are looked at in either order
_MOST_POINTS, _MOST_LAWS = 1 << 17, 64
_LIKELY = 1e-15  # tilted masses below it have the largest gain that there may be
_APART = 6  # points between those at which integrals are computed
_SUMMED = 1.0 + 1e-10
_ENOUGH = 1e-5  # of δ may lie beyond the last ξ
_WEIGHED = 2.0 * TOTAL  # relative: more than weights err, or do not add to 1
_DOUBT = 1e-13  # relative: more than an integral over ξ errs, for each of its terms
# Tilts that are tried in either order: above, over the largest value that is looked at, and no more than over
# the spread; below, over the spread. No more are tried where this part of what is found is doubt, or of all.
_ABOVE, _BELOW = (6.0, 25.0), (-0.1, -1.5, -6.0)
_DOUBTED, _OF_ALL = 1e-3, 1e-4


class Cell(NamedTuple):
    """Between two ξ the part first + slope·v of what a law says, with v = ξ or e^(−ρξ)."""

    low: float
    high: float
    first: float
    slope: float


@dataclass(frozen=True)
class Common:
    """Labels, the α of each group, and whether the first data set holds the record."""

    labels: tuple[Labels, ...]
    alphas: tuple[float, ...]
    holds: bool
    _laws: Memo[tuple[int, int], _Law] = field(
        default_factory=Memo, init=False, repr=False, compare=False
    )

    @cached_property
    def _alpha(self) -> Array:
        alpha = np.maximum(np.array(self.alphas), _LEAST)
        return alpha if np.ptp(alpha) >= _LEAST else np.full(alpha.size, alpha.max())

    @cached_property
    def _range(self) -> float:
        """ρ."""
        return float(np.ptp(self._alpha))

    @cached_property
    def _base(self) -> float:
        """a."""
        top = float(self._alpha.max())
        return top - 0.5 * self._range if self.holds else top

    @cached_property
    def _nodes(self) -> Array:
        """The ξ at which laws of T are computed."""
        if self._range == 0.0:
            return np.zeros(1)
        top = float(self._alpha.max())
        low, high = (-_NEAR, top + _FAR) if self.holds else (-_FAR, _NEAR)
        count = math.ceil((high - low) * self._range / _CHORD) + 2
        return np.linspace(low, high, min(count, _MOST_LAWS))

    def excess(self, epsilon: float) -> float:
        """An upper bound on δ at `epsilon` ≥ 0."""
        if self._range == 0.0:
            return min(1.0, self._at(0, epsilon, 0.0) * _SUMMED)
        # From where there is most on: then what is left beyond some ξ is soon negligible.
        order = range(self._nodes.size)
        total = self._before
        for i in reversed(order) if self.holds else order:
            total += self._at(i, epsilon, total)
            rest = self._beyond(i, epsilon)
            if rest <= _ENOUGH * total:
                break
        return min(1.0, (total + rest) * _SUMMED)

    @property
    def _before(self) -> float:
        """What there may be where δ is not looked at: above all ξ the mean of Λ, or the mass below them."""
        if not self.holds:
            return float(scipy.special.ndtr(self._nodes[0]))
        shares = np.array([one.weight * one.count for one in self.labels])
        tails = scipy.special.ndtr(self._alpha - self._nodes[-1])
        return float(shares @ tails) * (1.0 + _WEIGHED)

    def _beyond(self, i: int, epsilon: float) -> float:
        """What is left beyond one ξ, where there is no more than at it, as Λ rises with ξ."""
        xi, law, kappa = float(self._nodes[i]), self._law(i, 0), math.exp(epsilon)
        grown = math.exp(self._base * xi)
        side = scipy.special.ndtr(xi if self.holds else -xi)
        if self.holds:
            return float(side) * self._mean(law, np.maximum(grown * law.x - kappa, 0.0), grown)[0]
        gain = np.maximum(1.0 - kappa * grown * law.x, 0.0)
        return float(side) * min(1.0, self._mean(law, gain, 1.0)[0])

    def _at(self, i: int, epsilon: float, total: float) -> float:
        """What the law at one ξ adds to the total: the least that is found with several tilts."""
        tick()
        cells, least = list(self._cells(i)), math.inf
        for tilt in range(len(_ABOVE if self.holds else _BELOW)):
            value, doubt = self._with(self._law(i, tilt), cells, epsilon)
            least = min(least, value)
            if doubt <= max(_DOUBTED * least, _OF_ALL * total):
                break
        return least

    def _with(self, law: _Law, cells: Sequence[Cell], epsilon: float) -> tuple[float, float]:
        mean, plain = (self._whole(cells, move) for move in (self._base, 0.0))
        # With T it rises, by no more than this slope; or it falls, and is at most so much.
        gain = mean * law.x if self.holds else np.full(law.x.size, plain)
        here, x = law.likely, law.x[law.likely]
        # Convex in x: below its chords.
        some = np.append(x[:-1:_APART], x[-1])
        integrals = np.sum([self._integral(cell, some, epsilon) for cell in cells], axis=0)
        gain[here] = np.interp(x, some, integrals)
        if self.holds:
            gain[: here.start] = gain[here.start]
        else:
            gain[here.stop :] = gain[here.stop - 1]
        return self._mean(law, gain, mean if self.holds else plain)

    def _mean(self, law: _Law, gain: Array, most: float) -> tuple[float, float]:
        """(at least the mean of a gain that rises with T by no more than the slope `most`, or falls from at
        most that; how much of it is doubt)."""
        value, doubt = law.within(gain)
        doubt += (
            law.rising(float(gain[0]), most) if self.holds else law.falling(float(gain[-1]), most)
        )
        return value + doubt, doubt

    def _cells(self, i: int) -> Any:
        """The parts of ξ where this law counts."""
        xi, rho = self._nodes, self._range
        if rho == 0.0:
            yield Cell(-math.inf, math.inf, first=1.0, slope=0.0)
            return
        v = xi if self.holds else np.exp(-rho * xi)
        for j in (i - 1, i + 1):
            if 0 <= j < xi.size:
                apart = float(v[i] - v[j])
                low, high = sorted((float(xi[i]), float(xi[j])))
                yield Cell(low, high, first=float(-v[j]) / apart, slope=1.0 / apart)

    def _integral(self, cell: Cell, x: Array, epsilon: float) -> Array:
        """∫ φ(ξ)·(first + slope·v)·(e^(aξ)·x − κ)⁺ dξ over a cell for every x, or with (1 − κ·e^(aξ)·x)⁺."""
        a, kappa = self._base, math.exp(epsilon)
        one, other = (x, kappa) if self.holds else (kappa * x, 1.0)
        with np.errstate(divide="ignore"):
            root = np.log(other / one) / a
        low = np.clip(root, cell.low, cell.high) if self.holds else np.full(x.size, cell.low)
        high = np.full(x.size, cell.high) if self.holds else np.clip(root, cell.low, cell.high)
        (up, more), (down, less) = (self._moment(cell, low, high, move) for move in (a, 0.0))
        total = one * up - other * down if self.holds else other * down - one * up
        return np.asarray(np.maximum(total, 0.0) + _DOUBT * (one * more + other * less))

    def _whole(self, cells: Sequence[Cell], move: float) -> float:
        """∫ φ(ξ)·(first + slope·v)·e^(move·ξ) dξ over all of these cells, or a little more."""
        total = 0.0
        for cell in cells:
            value, terms = self._moment(cell, np.array([cell.low]), np.array([cell.high]), move)
            total += float(value[0]) + _DOUBT * float(terms[0])
        return total

    def _moment(self, cell: Cell, low: Any, high: Any, move: float) -> tuple[Array, Array]:
        """(∫ φ(ξ)·(first + slope·v)·e^(move·ξ) dξ between these, how large its terms are)."""
        scale, plain = math.exp(0.5 * move * move), normal_mass(low - move, high - move)
        total = scale * cell.first * plain
        terms = np.abs(total)
        if cell.slope and self.holds:
            ends = [np.exp(-0.5 * (x - move) ** 2) / SQRT_2PI for x in (low, high)]
            parts = [scale * cell.slope * part for part in (move * plain, ends[0], -ends[1])]
            total, terms = total + sum(parts), terms + sum(map(np.abs, parts))
        elif cell.slope:
            moved = move - self._range
            more = math.exp(0.5 * moved**2) * normal_mass(low - moved, high - moved)
            total, terms = total + cell.slope * more, terms + abs(cell.slope) * more
        return total, terms

    # The law of T at one ξ.

    def _law(self, i: int, tilt: int) -> _Law:
        """That at ξ number i, best around where tilt number `tilt` puts it."""
        return self._laws((i, tilt), lambda: self._computed(float(self._nodes[i]), tilt))

    def _computed(self, xi: float, tilt: int) -> _Law:
        growth = np.exp((self._alpha - self._base) * xi - 0.5 * self._alpha**2)
        growth *= 1.0 + _WEIGHED if self.holds else 1.0 - _WEIGHED
        groups = [
            Labels(one.weight * float(g), one.size, one.count)
            for one, g in zip(self.labels, growth, strict=True)
        ]
        variances = [
            one.count * one.weight**2 * math.expm1(min(one.size**2, LARGEST_EXPONENT))
            for one in groups
        ]
        spread, count = math.sqrt(math.fsum(variances)), sum(one.count for one in groups)
        mean = math.fsum(one.weight * one.count for one in groups)
        spread = max(spread, 1e-4 * mean)
        # Next to 0, where a value is far below the mean, a grid has to be finer.
        step = spread * math.sqrt(6.0 * _RAISED / max(count, 1 if self.holds else _MANY))
        top = _TOP[not self.holds]
        far = [one.weight * math.exp(top * one.size - 0.5 * one.size**2) for one in groups]
        step = max(step, max(far) / _MOST_POINTS)
        terms, lost = [], 0.0
        for one, end in zip(groups, far, strict=True):
            places = points(max(1, math.ceil(end / step)))
            law = side(Difference(1, 0), [one], -math.inf, places, step, sign=1)
            terms.append(Term(Losses(0, law.mass[0], 0.0, 0.0, places), one.count))
            lost += one.count * one.weight * float(law.beyond[0])
        power = min(_ABOVE[tilt] / max(far), 1.0 / spread) if self.holds else _BELOW[tilt] / spread
        return _Law.of(Sum(tuple(terms), step), power, lost)


class _Law(NamedTuple):
    """Masses at values x ≥ 0, tilted by the `power` λ, and an error of each; by what `scale` they are
    multiplied in the end; K(λ); by how much the mean is less than it should be; which values are `likely`."""

    x: Array
    mass: Array
    scale: Array
    error: float
    power: float
    log_moment: float
    lost: float
    likely: slice

    @classmethod
    def of(cls, total: Sum, power: float, lost: float) -> _Law:
        """That of a sum."""
        tilted, log_moment = transformed(total, power), total.log_moment(power)
        count = np.arange(tilted.mass.size, dtype=np.float64)
        x = (tilted.begin + count) * total.step + tilted.offset
        here = x >= 0.0
        x, mass = x[here], tilted.mass[here]
        scale = np.exp(np.minimum(log_moment - power * x, LARGEST_EXPONENT)) * _SUMMED
        likely = np.flatnonzero(mass > _LIKELY)
        return cls(
            x=x,
            mass=mass,
            scale=scale,
            error=tilted.error,
            power=power,
            log_moment=log_moment,
            lost=lost,
            likely=slice(int(likely[0]), int(likely[-1]) + 1),
        )

    def within(self, gain: Array) -> tuple[float, float]:
        """(the mean of a gain within the window, more than it errs)."""
        return float(self.mass * self.scale @ gain), self.error * float(self.scale @ gain)

    def rising(self, least: float, slope: float) -> float:
        """At most what lies outside the window adds to the mean of a gain that is `least` where it begins,
        rises, and is at most `slope` times the value."""
        end = max(float(self.x[-1]), 1.0 / self.power)
        above = slope * end * OUTSIDE * self._times(end)
        return above + least * min(1.0, OUTSIDE * self._times(0.0)) + slope * self.lost

    def falling(self, least: float, most: float) -> float:
        """The same of a gain that falls from at most `most` and is `least` where the window ends."""
        return least + most * min(1.0, OUTSIDE * self._times(float(self.x[0])))

    def _times(self, x: float) -> float:
        """How often the tilted mass at x the mass there is."""
        return math.exp(min(self.log_moment - self.power * x, LARGEST_EXPONENT)) * _SUMMED
