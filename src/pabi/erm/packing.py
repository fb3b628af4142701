"""A nonconvex test problem: wells at the points of a packing, as deep as the data say.

Finding the deepest is selecting the most frequent of s attributes, which is as hard as private selection.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


@dataclass(frozen=True, eq=False)
class PackingLoss:
    """ℓ(θ; d_i) = −L·Σ_j d_ij·max(0, w − ‖θ − c_j‖): wells of radius w and depth Lw that do not overlap.

    `bits`: (n, s) array of 0 and 1, the data. `centres`: (s, p) array. `lipschitz`: L > 0. `well_radius`: w,
    at most half of the least distance of two centres; where wells overlap the least value need not lie at
    a centre. Raises InvalidInput, naming the field. Source: Ganesh, Thakurta, Upadhyay, Theorem G.1.
    """

    bits: Array
    centres: Array
    lipschitz: float = 1.0
    well_radius: float | None = None

    def __post_init__(self) -> None:
        centres = _matrix("centres", self.centres)
        bits = _matrix("bits", self.bits)
        if bits.shape[1] != centres.shape[0]:
            raise InvalidInput(
                "bits",
                f"expected one column for each of {centres.shape[0]} centres, got {bits.shape}",
            )
        if not ((bits == 0.0) | (bits == 1.0)).all():
            raise InvalidInput("bits", "expected 0 and 1")
        validate.number("lipschitz", self.lipschitz, above=0.0)
        half = 0.5 * _least_distance(centres)
        width = half if self.well_radius is None else self.well_radius
        width = validate.number("well_radius", width, above=0.0)
        if width > half:
            raise InvalidInput(
                "well_radius", f"expected at most {half!r}, half of the separation, got {width!r}"
            )
        for name, value in (("bits", bits), ("centres", centres), ("well_radius", width)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Records."""
        return int(self.bits.shape[0])

    @property
    def dimension(self) -> int:
        """p."""
        return int(self.centres.shape[1])

    @cached_property
    def frequencies(self) -> Array:
        """(s,) the share of the records that have each attribute."""
        return np.asarray(self.bits.mean(axis=0))

    def _wells(self, points: Array) -> Array:
        """(k, s) max(0, w − distance)."""
        points = _matrix("points", points)
        away = np.linalg.norm(points[:, None, :] - self.centres[None, :, :], axis=-1)
        assert self.well_radius is not None
        return np.asarray(np.maximum(0.0, self.well_radius - away))

    def value(self, points: Array) -> Array:
        """(k,) the mean loss at `points`, (k, p)."""
        return np.asarray(-self.lipschitz * self._wells(points) @ self.frequencies)

    def per_record(self, points: Array) -> Array:
        """(k, n) every record's loss at `points`, (k, p)."""
        return np.asarray(-self.lipschitz * self._wells(points) @ self.bits.T)

    @property
    def minimiser(self) -> Array:
        """(p,) the centre of the most frequent attribute, the first of several."""
        return np.asarray(self.centres[int(np.argmax(self.frequencies))])

    @property
    def minimum(self) -> float:
        """The least mean loss, −Lw·(largest frequency)."""
        assert self.well_radius is not None
        return -self.lipschitz * self.well_radius * float(self.frequencies.max())

    def mean_excess(self, inverse_temperature: float) -> float:
        """The mean excess under the density ∝ e^(−κL) on the unit disc, to a relative 1e-6 or so; κ =
        `inverse_temperature`. Raises InvalidInput for points that are not in the plane.

        By quadrature in polar coordinates about every centre, where its well is a cone, each ray up to the
        end of the well or of the disc; elsewhere the loss is 0.
        """
        if self.dimension != 2:
            raise InvalidInput("centres", f"expected points in the plane, got {self.dimension}-d")
        kappa = validate.number("inverse_temperature", inverse_temperature, above=0.0)
        assert self.well_radius is not None
        angle = (np.arange(4000) + 0.5) / 4000 * 2.0 * math.pi
        unit, weight = np.polynomial.legendre.leggauss(80)
        s, w = 0.5 * (unit + 1.0), 0.5 * weight
        rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        area, mass, total = math.pi, 0.0, 0.0
        for centre, frequency in zip(self.centres, self.frequencies, strict=True):
            along = rays @ centre
            reach = -along + np.sqrt(np.maximum(along**2 + 1.0 - centre @ centre, 0.0))
            length = np.clip(reach, 0.0, self.well_radius)[:, None]
            # Closer nodes near the centre, where the density is largest.
            t, dt = length * s**4, length * 4.0 * s**3 * w
            cell = t * dt * (2.0 * math.pi / len(angle))
            depth = self.lipschitz * frequency * np.maximum(0.0, self.well_radius - t)
            excess = -self.minimum - depth
            part = cell * np.exp(-kappa * excess)
            area -= float(cell.sum())
            mass, total = mass + float(part.sum()), total + float((part * excess).sum())
        rest = area * math.exp(kappa * self.minimum)
        return (total - self.minimum * rest) / (mass + rest)


def packing_loss(
    bits: Any,
    centres: Any = None,
    *,
    dimension: int | None = None,
    lipschitz: float = 1.0,
    well_radius: float | None = None,
) -> PackingLoss:
    """The packing problem for `bits`, an (n, s) array of 0 and 1, in the unit ball.

    `centres`: (s, p) array; or `dimension` = p, for s points of a cubic lattice, as far apart as fit.
    `lipschitz`: L, of every record's loss. Raises InvalidInput, naming the field. Source: Ganesh, Thakurta,
    Upadhyay, Theorem G.1, with wells that do not overlap.
    """
    data = _matrix("bits", bits)
    if (centres is None) == (dimension is None):
        raise InvalidInput("centres", "expected exactly one of centres and dimension")
    if centres is None:
        assert dimension is not None
        centres = packing_centres(data.shape[1], dimension)
    return PackingLoss(data, centres, lipschitz, well_radius)


def packing_centres(count: int, dimension: int) -> Array:
    """(count, dimension) points of a cubic lattice in the unit ball: the coarsest that has as many there.

    Those nearest to the origin are taken, which is one of them. Raises InvalidInput, naming the field.
    Source: docs, "Private optimisation", many wells.
    """
    count = validate.integer("count", count, at_least=1, at_most=10**6)
    p = validate.integer("dimension", dimension, at_least=1, at_most=1000)
    radius = 1  # squared, in units of the lattice's spacing
    while len(points := _lattice(p, radius, count)) < count:
        radius += 1
    return points[:count] / math.sqrt(radius)


def _lattice(p: int, square: int, enough: int) -> NDArray[np.float64]:
    """Integer points of squared norm ≤ `square`, by norm; all of them where p is small."""
    reach = math.isqrt(square)
    found: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) == p:
            found.append(prefix)
            return
        most = math.isqrt(left)
        for x in sorted(range(-most, most + 1), key=abs):
            extend((*prefix, x), left - x * x)

    if p <= 12:
        extend((), square)
    else:  # at most two coordinates differ from 0: enough in high dimension
        found.append((0,) * p)
        for i, x in itertools.product(range(p), range(-reach, reach + 1)):
            if x:
                found.append(tuple(x if k == i else 0 for k in range(p)))
        if len(found) < enough and square >= 2:
            for i, j in itertools.combinations(range(p), 2):
                for x, y in itertools.product((-1, 1), repeat=2):
                    found.append(tuple(x if k == i else y if k == j else 0 for k in range(p)))
    found.sort(key=lambda v: sum(x * x for x in v))
    return np.array(found, dtype=np.float64)


def _matrix(field: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, "expected a two-dimensional array of numbers") from None
    if array.ndim != 2 or array.size == 0:
        raise InvalidInput(field, f"expected a two-dimensional array, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(field, "expected finite numbers")
    return array


def _least_distance(centres: Array) -> float:
    if len(centres) == 1:
        return 2.0
    gaps = np.linalg.norm(centres[:, None, :] - centres[None, :, :], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    return float(gaps.min())
