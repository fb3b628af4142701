"""Boxes that cover a set, on each of them a bound of the density exp(−κL) that can be drawn from.

On a box around c, of which a is a point of the set and every point of the set is within ρ of a, L is at
least, with g a difference quotient of L at a off by at most e,

    L(a) − Gρ                                           if L is G-Lipschitz,
    L(a) + g·(θ − a) − eρ − max(0, −m)·ρ²/2             if its curvature is at least m,

and at most 2Gρ, or 2eρ + (M − min(m, 0))·ρ²/2, above that. Both leave a product of exponentials to draw
from, and the one that is tighter is used. Boxes are halved where proposals were refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.rounding import Array
from pabi.sampling.regions import Region

LossValue = Callable[[Array], Array]

ACCURACY = 2.0**-40  # of loss values, relative
_DIFFERENCE = 2.0**-20  # of difference quotients, in widths of the set
_ACCEPTANCE = 0.05  # within a box, for the expected cost


@dataclass(frozen=True)
class Facts:
    """What is known of the mean loss on the set: its Lipschitz constant, and [m, M] of its curvature."""

    lipschitz: float | None
    curvature: tuple[float, float] | None

    def spread(self, radius: Array, error: Array) -> Array:
        """How far apart the bounds are on boxes of which every point is within `radius` of the anchor, with
        difference quotients off by `error`."""
        return np.minimum(2.0 * self._below_flat(radius), self._spread_of_tilted(radius, error))

    def below(self, radius: Array, error: Array) -> tuple[Any, Array]:
        """(whether difference quotients give the tighter bound, what to subtract in it)."""
        flat = self._below_flat(radius)
        tilted = self._spread_of_tilted(radius, error) < 2.0 * flat
        if self.curvature is None:
            return tilted, flat
        least = min(self.curvature[0], 0.0)
        return tilted, np.where(tilted, error * radius - 0.5 * least * radius**2, flat)

    def _below_flat(self, radius: Array) -> Array:
        return np.full_like(radius, math.inf) if self.lipschitz is None else self.lipschitz * radius

    def _spread_of_tilted(self, radius: Array, error: Array) -> Array:
        if self.curvature is None:
            return np.full_like(radius, math.inf)
        least, most = min(self.curvature[0], 0.0), self.curvature[1]
        return np.asarray(2.0 * error * radius + 0.5 * (most - least) * radius**2)


@dataclass(frozen=True)
class Cells:
    """Boxes with their bounds: `lower`, `upper`, `tilt` (k, p); the rest (k,).

    The bound on the density is exp(height − tilt·(θ − centre)), its logarithmic integral over the box
    `mass`. `size`: that of the loss values it rests on.
    """

    lower: Array
    upper: Array
    tilt: Array
    height: Array
    mass: Array
    size: Array

    def __getitem__(self, chosen: Any) -> Cells:
        return Cells(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def joined(self, other: Cells) -> Cells:
        """Both."""
        names = self.__dataclass_fields__
        return Cells(*(np.concatenate([getattr(self, k), getattr(other, k)]) for k in names))


class Envelope:
    """A cover of `region` and the bounds on exp(−κL) on it.

    `evaluations`: of the loss so far.
    """

    def __init__(self, region: Region, loss_value: LossValue, kappa: float, facts: Facts) -> None:
        self._region, self._loss_value, self._kappa, self._facts = region, loss_value, kappa, facts
        self.evaluations = 0
        self.cells = self._bounded(region.lower[None], region.upper[None])

    def __len__(self) -> int:
        return len(self.cells.mass)

    def halve(self, chosen: NDArray[np.intp]) -> None:
        """Halves the boxes of these numbers across their longest sides, and bounds the halves."""
        parents = self.cells[chosen]
        rows = np.arange(len(chosen))
        axis = np.argmax(parents.upper - parents.lower, axis=1)
        middle = 0.5 * (parents.lower[rows, axis] + parents.upper[rows, axis])
        left_upper, right_lower = parents.upper.copy(), parents.lower.copy()
        left_upper[rows, axis] = right_lower[rows, axis] = middle
        lower = np.concatenate([parents.lower, right_lower])
        upper = np.concatenate([left_upper, parents.upper])
        kept = np.ones(len(self), dtype=bool)
        kept[chosen] = False
        self.cells = self.cells[kept].joined(self._bounded(lower, upper))

    def _bounded(self, lower: Array, upper: Array) -> Cells:
        region, facts = self._region, self._facts
        lower, upper = region.trimmed(lower, upper)
        centre, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        margin = _DIFFERENCE * float(np.min(region.width))
        anchor = region.anchors(centre, margin)
        values = self._values(anchor)
        radius = np.linalg.norm(half, axis=1) * (1.0 + 1e-12) + margin
        quotient, error, size = np.zeros_like(centre), np.zeros(len(centre)), np.abs(values)
        rough, _ = facts.below(radius, error)
        if np.any(rough):
            found = self._quotients(anchor[rough], values[rough], margin)
            quotient[rough], error[rough], size[rough] = found
        tilted, below = facts.below(radius, error)
        tilt = np.where((tilted & rough)[:, None], self._kappa * quotient, 0.0)
        height = -self._kappa * (values - below) - np.sum(tilt * (centre - anchor), axis=1)
        mass = height + np.sum(_log_integral(tilt, half), axis=1)
        return Cells(lower, upper, tilt, height, mass, size)

    def _quotients(self, anchor: Array, values: Array, step: float) -> tuple[Array, Array, Array]:
        """(difference quotients (k, p), bounds on their error's norm (k,), sizes of the losses (k,))."""
        assert self._facts.curvature is not None
        k, p = anchor.shape
        towards = np.where(anchor + step <= self._region.base_upper, step, -step)
        shifted = np.repeat(anchor[:, None, :], p, axis=1)
        shifted[:, np.arange(p), np.arange(p)] += towards
        taken = shifted[:, np.arange(p), np.arange(p)] - anchor  # as rounded
        moved = self._values(shifted.reshape(-1, p)).reshape(k, p)
        size = np.maximum(np.abs(values), np.max(np.abs(moved), axis=1))
        steepest = max(map(abs, self._facts.curvature))
        error = math.sqrt(p) * (0.5 * steepest * step + 2.0 * ACCURACY * size / (0.5 * step))
        return (moved - values[:, None]) / taken, error, size

    def _values(self, points: Array) -> Array:
        self.evaluations += len(points)
        return self._loss_value(points)

    # Drawing.

    def propose(
        self, count: int, generator: np.random.Generator
    ) -> tuple[Array, Array, Array, NDArray[np.intp]]:
        """(points (count, p), logarithms of the bound, sizes of the losses it rests on, their boxes)."""
        cells = self.cells
        shares = np.cumsum(np.exp(cells.mass - np.max(cells.mass)))
        place = np.searchsorted(shares, generator.random(count) * shares[-1], side="right")
        place = np.minimum(place, len(shares) - 1)
        chosen = cells[place]
        half = 0.5 * (chosen.upper - chosen.lower)
        offset = _exponential(chosen.tilt, half, generator.random(half.shape))
        points = np.clip(0.5 * (chosen.lower + chosen.upper) + offset, chosen.lower, chosen.upper)
        bound = chosen.height - np.sum(chosen.tilt * offset, axis=1)
        return points, bound, chosen.size, place


def expected_evaluations(region: Region, diameter: float, kappa: float, facts: Facts) -> float:
    """About how often the loss is evaluated before a draw, from public numbers alone: for boxes so small
    that one proposal in twenty is accepted at worst, where the density is not negligible."""
    p = region.dimension
    sides = np.minimum(region.width, diameter)
    if facts.curvature is not None and facts.curvature[0] > 0.0:
        # The density is within √(χ²/(κm)) of its mode.
        sides = np.minimum(
            sides, 2.0 * (math.sqrt(p) + 3.0) / math.sqrt(kappa * facts.curvature[0])
        )
    halvings = 0
    while halvings < 1000:
        radius = np.array([0.5 * float(np.linalg.norm(sides))])
        if kappa * float(facts.spread(radius, np.zeros(1))[0]) <= -math.log(_ACCEPTANCE):
            break
        sides[np.argmax(sides)] /= 2.0
        halvings += 1
    return (p + 1.0) * 2.0**halvings


def _log_integral(tilt: Array, half: Array) -> Array:
    """log ∫ e^(−tilt·v) dv over [−half, half], entry by entry."""
    steep = np.abs(tilt) * half > 1e-300
    rate = np.where(steep, np.abs(tilt), 1.0)
    slanted = rate * half + np.log(-np.expm1(-2.0 * rate * half) / rate)
    return np.where(steep, slanted, np.log(2.0 * half))


def _exponential(tilt: Array, half: Array, uniform: Array) -> Array:
    """Draws from the density ∝ e^(−tilt·v) on [−half, half], by inversion, entry by entry."""
    steep = np.abs(tilt) * half > 1e-300
    rate = np.where(steep, np.abs(tilt), 1.0)
    slanted = -np.log1p(uniform * np.expm1(-2.0 * rate * half)) / rate
    along = np.where(steep, slanted, 2.0 * half * uniform) - half
    return np.where(tilt < 0.0, -along, along)
