"""Envelopes of log-densities over regions of a box, for exact draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.describe import prox
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array

# The sets that exact sampling draws from: a ball or a box, cut with balls.


DISTANCE_ROUNDING = 1e-12  # relative, above all roundings of distances in small dimensions
# Doubles along every side: a million points of the grid of releases, sixteen doubles apart.
_FEWEST_DOUBLES, _DOUBLES_OF_GRID = 2.0**24, 2.0**4
_GRID = 2.0**-40  # of releases, in widths of the set


class Region:
    """A ball or box C_0 and its intersection with `balls`, (centre, radius) each.

    `lower`, `upper`: (p,) a box around it. `width`: (p,) that of C_0. `longest`: the largest norm of a
    point of C_0. `spacing`: (p,) of the doubles of each coordinate, at most. `centre`: (p,) of C_0.
    """

    def __init__(self, base: Any, dimension: int, balls: tuple[tuple[Array, float], ...] = ()):
        self.base, self.dimension = base, dimension
        if isinstance(base, prox.ball):
            centre = np.zeros(dimension) if base.center is None else np.asarray(base.center)
            self._base_ball: tuple[Array, float] | None = (centre, base.radius)
            self.balls: tuple[tuple[Array, float], ...] = (self._base_ball, *balls)
            self.base_lower, self.base_upper = centre - base.radius, centre + base.radius
            self.longest = float(np.linalg.norm(centre)) + base.radius
        else:
            self._base_ball, self.balls = None, balls
            self.base_lower = np.broadcast_to(base.lower, (dimension,)).astype(np.float64)
            self.base_upper = np.broadcast_to(base.upper, (dimension,)).astype(np.float64)
            ends = np.maximum(np.abs(self.base_lower), np.abs(self.base_upper))
            self.longest = float(np.linalg.norm(ends))
        self.width = self.base_upper - self.base_lower
        self.centre = self.base_lower + 0.5 * self.width
        self.spacing = np.spacing(np.maximum(np.abs(self.base_lower), np.abs(self.base_upper)))
        self.lower, self.upper = self.base_lower, self.base_upper
        for centre, radius in balls:
            self.lower = np.maximum(self.lower, centre - radius)
            self.upper = np.minimum(self.upper, centre + radius)

    @property
    def is_box(self) -> bool:
        """Whether the region is a box, which no ball cuts."""
        return not self.balls

    @property
    def is_ball(self) -> bool:
        """Whether the region is all of a ball."""
        return self._base_ball is not None and len(self.balls) == 1

    @property
    def grid(self) -> Array:
        """(p,) the public spacing that releases are rounded to, far above that of doubles."""
        return np.maximum(_GRID * self.width, _DOUBLES_OF_GRID * self.spacing)

    def within(self, centre: Array, radius: float) -> Region:
        """The part of the region within `radius` of `centre`."""
        added = (*self.balls[self._base_ball is not None :], (centre, radius))
        return Region(self.base, self.dimension, added)

    def holds(self, points: Array) -> Any:
        """(k,) booleans: which of (k, p) points of the box around the region are in the region."""
        inside = np.ones(len(points), dtype=bool)
        for centre, radius in self.balls:
            offset = points - centre
            inside &= np.einsum("ij,ij->i", offset, offset) <= radius * radius
        return inside

    def trimmed(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The boxes made as small as possible without losing a point of the set; empty ones left out."""
        for centre, radius in self.balls:
            near = np.maximum(np.maximum(lower - centre, centre - upper), 0.0) ** 2
            rest = np.sum(near, axis=1, keepdims=True) - near
            reach = np.sqrt(np.maximum(radius * radius * (1.0 + DISTANCE_ROUNDING) - rest, 0.0))
            lower = np.maximum(lower, centre - reach)
            upper = np.minimum(upper, centre + reach)
            proper = np.all(lower < upper, axis=1)
            lower, upper = lower[proper], upper[proper]
        return lower, upper

    def anchors(self, points: Array, margin: float) -> Array:
        """(k, p): for each of (k, p) points one of C_0 that is no farther from any point of the set.

        `margin`: how far it stays away from the boundary of a ball, by which it may be farther after all.
        """
        if self._base_ball is None:
            return points
        centre, radius = self._base_ball
        offset = points - centre
        length = np.linalg.norm(offset, axis=1)
        shrink = np.minimum(1.0, (radius - margin) / np.maximum(length, radius / 2.0))
        return np.asarray(
            np.where((shrink < 1.0)[:, None], centre + offset * shrink[:, None], points)
        )


def read_region(domain: Any, dimension: int, diameter: float) -> Region:
    """The set that `domain` projects on, None for the ball of this diameter about 0.

    Raises InvalidInput(field="domain") for anything but a ball or a bounded box of this dimension whose
    diameter is at most `diameter`.
    """
    if domain is None:
        domain = prox.ball(diameter / 2.0)
    if not isinstance(domain, (prox.ball, prox.box)):
        raise InvalidInput("domain", f"expected a pabi.prox.ball or box, got {domain!r}")
    shape = domain.point_shape
    if domain.diameter is None:
        raise InvalidInput("domain", f"expected a bounded set of known shape, got {domain!r}")
    require(
        shape in (None, (dimension,)),
        "domain",
        f"expected shape ({dimension},), the mechanism's dimension, got {shape}",
    )
    if domain.diameter > diameter:
        raise InvalidInput(
            "domain",
            f"expected diameter at most {diameter!r}, the mechanism's, got {domain.diameter!r}",
        )
    region = Region(domain, dimension)
    require(
        np.all(region.lower < region.upper) and math.isfinite(region.longest),
        "domain",
        "expected sides longer than 0",
    )
    require(
        np.all(region.width >= _FEWEST_DOUBLES * region.spacing),
        "domain",
        "expected sides of at least 4e-9 of the coordinates' size: too few doubles lie between the ends, "
        "so move the origin into the set",
    )
    return region


LossValue = Callable[[Array], Array]

# κ·(error of a loss value), at most: draws then have the density up to a factor e^(±2⁻¹³).
ROUNDING = 2.0**-14
# What a mean loss in doubles is taken to keep, relative to what it can be on the set: 500 roundings.
_PRECISION = 2.0**-44
# Far from 0 the coordinates' rounding counts: by 4 spacings of doubles at the farthest point.
_FAR = 64.0
_ACCEPTANCE = 0.05  # within a box, for the expected cost
# Evaluations for a draw that a slope presses against a ball, over what `_on_sphere` says. Measured along
# diagonals of dimensions 2 to 6 for linear losses, between 3 and 13, and of dimensions 2 and 3 for concave
# ones, between 0.3 and 7.
_CAP, _SPHERE = 6.0, 3.0
# An exponent below it changes no density in doubles, and dividing by it might overflow.
_FLAT = 1e-300


@dataclass(frozen=True)
class LossBounds:
    """What is known of the mean loss on the set: its Lipschitz constant, and [m, M] of its curvature."""

    lipschitz: float | None
    curvature: tuple[float, float] | None

    def slope(self, diameter: float) -> float:
        """The Lipschitz constant, of the loss per unit of length.

        Where none is known, that of a loss with a stationary point in the set, which the cost counts on and
        the bounds do not.
        """
        if self.lipschitz is not None:
            return self.lipschitz
        assert self.curvature is not None
        return max(map(abs, self.curvature)) * diameter

    def spread(self, radius: Array, error: float) -> Array:
        """How far apart the bounds are on boxes whose points are all within `radius` of the anchor.

        `error`: of difference quotients.
        """
        return np.minimum(2.0 * self._below_flat(radius), self._spread_of_tilted(radius, error))

    def below(self, radius: Array, error: float) -> tuple[Any, Array]:
        """(whether difference quotients give the tighter bound, what to subtract in it)."""
        flat = self._below_flat(radius)
        tilted = self._spread_of_tilted(radius, error) < 2.0 * flat
        if self.curvature is None:
            return tilted, flat
        least = min(self.curvature[0], 0.0)
        return tilted, np.where(tilted, error * radius - 0.5 * least * radius**2, flat)

    def _below_flat(self, radius: Array) -> Array:
        return np.full_like(radius, math.inf) if self.lipschitz is None else self.lipschitz * radius

    def _spread_of_tilted(self, radius: Array, error: float) -> Array:
        if self.curvature is None:
            return np.full_like(radius, math.inf)
        least, most = min(self.curvature[0], 0.0), self.curvature[1]
        return np.asarray(2.0 * error * radius + 0.5 * (most - least) * radius**2)


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Boxes with their bounds: `lower`, `upper`, `tilt` (k, p); the rest (k,).

    The bound on the density is exp(height − tilt·(θ − centre)), its logarithmic integral over the box
    `mass`.
    """

    lower: Array
    upper: Array
    tilt: Array
    height: Array
    mass: Array

    def __getitem__(self, chosen: Any) -> Boxes:
        return Boxes(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def joined(self, other: Boxes) -> Boxes:
        """These boxes, then those of `other`."""
        columns = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Boxes(**{name: np.concatenate([ours, theirs]) for name, ours, theirs in columns})


class Differences(NamedTuple):
    """How tangents are measured: the `step` of difference quotients, their `error` (in norm), and the
    `margin` by which anchors stay away from the boundary of a ball."""

    step: float
    error: float
    margin: float


def differences(region: Region, kappa: float, bounds: LossBounds) -> Differences:
    """How tangents are measured where loss values are off by at most ROUNDING/κ: from public numbers alone.

    With M the largest curvature in size and η the error of a value, ½Mh + 2η/h is least at h = 2√(η/M):
    1/157 of the radius of the boxes that curvature makes do with.
    """
    least = 64.0 * float(np.max(region.spacing))
    if bounds.curvature is None:
        return Differences(0.0, math.inf, 0.0 if region.is_box else least)
    steepest, most = max(map(abs, bounds.curvature)), float(np.min(region.width)) / 8.0
    root = math.sqrt(ROUNDING) / math.sqrt(kappa)
    step = min(most, 2.0 * root / math.sqrt(steepest)) if steepest > 0.0 else most
    step = max(step, least)
    # A step is taken up to a rounding of its ends, hence the 1.05.
    error = 0.5 * steepest * step + 2.0 * root * root / step
    error *= 1.05 * math.sqrt(region.dimension)
    return Differences(step, error, 0.0 if region.is_box else step)


class Envelope:
    """A cover of `region` and the bounds on exp(−κL) on it. `evaluations`: of the loss so far."""

    def __init__(
        self, region: Region, loss_value: LossValue, kappa: float, bounds: LossBounds
    ) -> None:
        self._region, self._bounds = region, bounds
        self._loss_value, self._kappa = loss_value, kappa
        self._differences = differences(region, kappa, bounds)
        self.evaluations = 0
        self.boxes = self._bounded(region.lower[None], region.upper[None])

    def __len__(self) -> int:
        return len(self.boxes.mass)

    def halve(self, chosen: NDArray[np.intp]) -> None:
        """Halves the boxes of these numbers across their longest sides, and bounds the halves."""
        parents = self.boxes[chosen]
        rows = np.arange(len(chosen))
        axis = np.argmax(parents.upper - parents.lower, axis=1)
        middle = 0.5 * (parents.lower[rows, axis] + parents.upper[rows, axis])
        left_upper, right_lower = parents.upper.copy(), parents.lower.copy()
        left_upper[rows, axis] = right_lower[rows, axis] = middle
        lower = np.concatenate([parents.lower, right_lower])
        upper = np.concatenate([left_upper, parents.upper])
        others = np.ones(len(self), dtype=bool)
        others[chosen] = False
        self.boxes = self.boxes[others].joined(self._bounded(lower, upper))

    def _bounded(self, lower: Array, upper: Array) -> Boxes:
        region, bounds, differences = self._region, self._bounds, self._differences
        lower, upper = region.trimmed(lower, upper)
        centre, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        anchor = region.anchors(centre, differences.margin)
        values = self._values(anchor)
        radius = np.linalg.norm(half, axis=1) * (1.0 + DISTANCE_ROUNDING) + differences.margin
        tilted, below = bounds.below(radius, differences.error)
        tilt = np.zeros_like(centre)
        if np.any(tilted):
            tilt[tilted] = self._kappa * self._quotients(anchor[tilted], values[tilted])
        height = -self._kappa * (values - below) - np.sum(tilt * (centre - anchor), axis=1)
        mass = height + np.sum(_log_integral(tilt, half), axis=1)
        return Boxes(lower=lower, upper=upper, tilt=tilt, height=height, mass=mass)

    def _quotients(self, anchor: Array, values: Array) -> Array:
        """Difference quotients (k, p) at (k, p) anchors, where the losses are `values`."""
        k, p = anchor.shape
        step = self._differences.step
        towards = np.where(anchor + step <= self._region.base_upper, step, -step)
        shifted = np.repeat(anchor[:, None, :], p, axis=1)
        shifted[:, np.arange(p), np.arange(p)] += towards
        taken = shifted[:, np.arange(p), np.arange(p)] - anchor  # as rounded
        moved = self._values(shifted.reshape(-1, p)).reshape(k, p)
        return np.asarray((moved - values[:, None]) / taken)

    def _values(self, points: Array) -> Array:
        self.evaluations += len(points)
        return self._loss_value(points)

    # Drawing.

    def propose(
        self, count: int, generator: np.random.Generator
    ) -> tuple[Array, Array, NDArray[np.intp]]:
        """(points (count, p), logarithms of the bound, their boxes)."""
        boxes = self.boxes
        shares = np.cumsum(np.exp(boxes.mass - np.max(boxes.mass)))
        place = np.searchsorted(shares, generator.random(count) * shares[-1], side="right")
        place = np.minimum(place, len(shares) - 1)
        chosen = boxes[place]
        half = 0.5 * (chosen.upper - chosen.lower)
        offset = _exponential(chosen.tilt, half, generator.random(half.shape))
        centre = 0.5 * (chosen.lower + chosen.upper)
        points = np.clip(centre + offset, chosen.lower, chosen.upper)
        # Where the point is, not where it would be without rounding.
        bound = chosen.height - np.sum(chosen.tilt * (points - centre), axis=1)
        return points, bound, place


def rounding(region: Region, diameter: float, kappa: float, bounds: LossBounds) -> float:
    """κ·(error that a mean loss in doubles is taken to have on the set), beside a constant.

    With S its slope and D the diameter it is 2⁻⁴⁴·κ·S·D, or 2⁻⁵⁰·κ·S·(largest norm) where that is more.
    """
    return _PRECISION * kappa * bounds.slope(diameter) * max(diameter, region.longest / _FAR)


def expected_evaluations(
    region: Region, diameter: float, kappa: float, bounds: LossBounds
) -> float:
    """About how often the loss is evaluated before a draw, from public numbers alone.

    It is for boxes so small that one proposal in twenty is accepted at worst, where the density is not
    negligible, and for those that resolve a sphere.
    """
    p = region.dimension
    sides = np.minimum(region.width, diameter)
    if bounds.curvature is not None and bounds.curvature[0] > 0.0:
        # The density is within √(χ²/(κm)) of its mode.
        root = math.sqrt(kappa) * math.sqrt(bounds.curvature[0])
        sides = np.minimum(sides, 2.0 * (math.sqrt(p) + 3.0) / root)
    _, error, margin = differences(region, kappa, bounds)
    halvings = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while halvings < 1000:
            radius = np.array([0.5 * float(np.linalg.norm(sides)) + margin])
            if kappa * float(bounds.spread(radius, error)[0]) <= -math.log(_ACCEPTANCE):
                break
            sides[np.argmax(sides)] /= 2.0
            halvings += 1
    return float((p + 1.0) * 2.0**halvings + _on_sphere(region, diameter, kappa, bounds))


def _on_sphere(region: Region, diameter: float, kappa: float, bounds: LossBounds) -> float:
    """Evaluations for boxes of the size 1/(κs) that resolve the part of a sphere where the density is not
    negligible, s a slope that presses it there.

    Of a convex loss that part is a cap √(D/(κs)) wide: where it is as small at two points of the sphere, it
    is no larger between them, and there a slope s has left it larger than at the sphere. Nonconvexity −m
    makes up for slopes up to mD, all around the sphere.
    """
    if region.is_box:
        return 0.0
    slope, least = bounds.slope(diameter), 0.0 if bounds.curvature is None else bounds.curvature[0]
    around = 0.0
    if least < 0.0:
        pressed = 0.5 * kappa * min(slope, -least * diameter) * diameter
        around = _SPHERE * _power(pressed, region.dimension - 1.0)
    if bounds.lipschitz is not None and least > 0.0 and region.is_ball:
        # On all of a ball: at the opposite point strong convexity makes the slope larger by mD.
        across = float(np.min(region.width)) * (1.0 - DISTANCE_ROUNDING)
        slope = max(0.0, slope - least * across)
    pressed = 0.5 * kappa * slope * diameter
    return _CAP * _power(pressed, 0.5 * (region.dimension - 1.0)) + around


def _power(base: float, exponent: float) -> float:
    """base^exponent, ∞ beyond the range of doubles."""
    with np.errstate(over="ignore"):
        return float(np.power(base, exponent))


def _rates(tilt: Array, half: Array) -> tuple[NDArray[np.bool_], Array]:
    """(where the tilt counts over [−half, half], its size there and 1 elsewhere), entry by entry."""
    steep = np.abs(tilt) * half > _FLAT
    return steep, np.where(steep, np.abs(tilt), 1.0)


def _log_integral(tilt: Array, half: Array) -> Array:
    """log ∫ e^(−tilt·v) dv over [−half, half], entry by entry."""
    steep, rate = _rates(tilt, half)
    slanted = rate * half + np.log(-np.expm1(-2.0 * rate * half) / rate)
    return np.where(steep, slanted, np.log(2.0 * half))


def _exponential(tilt: Array, half: Array, uniform: Array) -> Array:
    """Draws from the density ∝ e^(−tilt·v) on [−half, half], by inversion, entry by entry."""
    steep, rate = _rates(tilt, half)
    slanted = -np.log1p(uniform * np.expm1(-2.0 * rate * half)) / rate
    along = np.where(steep, slanted, 2.0 * half * uniform) - half
    return np.where(tilt < 0.0, -along, along)
