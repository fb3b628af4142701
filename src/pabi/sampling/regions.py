"""The sets that exact sampling draws from: a ball or a box, cut with balls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pabi.describe import prox
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

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
    if shape not in (None, (dimension,)):
        raise InvalidInput(
            "domain", f"expected shape ({dimension},), the mechanism's dimension, got {shape}"
        )
    if domain.diameter > diameter:
        raise InvalidInput(
            "domain",
            f"expected diameter at most {diameter!r}, the mechanism's, got {domain.diameter!r}",
        )
    region = Region(domain, dimension)
    if not np.all(region.lower < region.upper) or not math.isfinite(region.longest):
        raise InvalidInput("domain", "expected sides longer than 0")
    if not np.all(region.width >= _FEWEST_DOUBLES * region.spacing):
        raise InvalidInput(
            "domain",
            "expected sides of at least 4e-9 of the coordinates' size: too few doubles lie between the ends, "
            "so move the origin into the set",
        )
    return region
