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
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.validate import keep


@dataclass(frozen=True, eq=False)
class PackingLoss:
    """A nonconvex test problem: wells at the points of a packing, as deep as the data say.

    The loss of record i is ℓ(θ; d_i) = −L·Σ_j d_ij·max(0, w − ‖θ − c_j‖): wells of radius w and
    depth Lw that do not overlap. Finding the deepest well is selecting the most frequent of s
    attributes.

    Parameters
    ----------
    bits : array of 0 and 1, (n, s)
        The data: which attributes every record has.
    centres : array, (s, p)
        c_j, the centres of the wells.
    lipschitz : float, above 0
        L, the Lipschitz constant of every record's loss.
    well_radius : float, above 0, optional
        w, at most half of the least distance of two centres, which is the default. Where wells
        overlap the least value need not lie at a centre.

    Raises
    ------
    InvalidInput
        For arrays of other shapes or values, and for wells that overlap.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem G.1; docs, "Private optimisation".
    """

    bits: Array
    centres: Array
    lipschitz: float = 1.0
    well_radius: float | None = None

    def __post_init__(self) -> None:
        centres, bits = _matrix("centres", self.centres), _matrix("bits", self.bits)
        require(
            bits.shape[1] == centres.shape[0],
            "bits",
            f"expected one column for each of {centres.shape[0]} centres, got {bits.shape}",
        )
        require(((bits == 0.0) | (bits == 1.0)).all(), "bits", "expected 0 and 1")
        validate.number("lipschitz", self.lipschitz, above=0.0)
        half = 0.5 * _least_distance(centres)
        width = half if self.well_radius is None else self.well_radius
        width = validate.number("well_radius", width, above=0.0)
        must_be(width <= half, "well_radius", f"at most {half!r}, half of the separation", width)
        keep(self, bits=bits, centres=centres, well_radius=width)

    @property
    def n(self) -> int:
        """The number of records."""
        return int(self.bits.shape[0])

    @property
    def dimension(self) -> int:
        """The number p of parameters."""
        return int(self.centres.shape[1])

    @cached_property
    def frequencies(self) -> Array:
        """The share of the records that have each attribute, (s,) in [0, 1]."""
        return np.asarray(self.bits.mean(axis=0))

    def _wells(self, points: Array) -> Array:
        """(k, s) max(0, w − distance)."""
        points = _matrix("points", points)
        away = np.linalg.norm(points[:, None, :] - self.centres[None, :, :], axis=-1)
        assert self.well_radius is not None
        return np.asarray(np.maximum(0.0, self.well_radius - away))

    def value(self, points: Array) -> Array:
        """The mean loss at each of several points.

        Parameters
        ----------
        points : array, (k, p)
            Where to evaluate it.

        Returns
        -------
        array, (k,)
            In units of the loss.

        Raises
        ------
        InvalidInput
            For what is no matrix of finite numbers.

        References
        ----------
        Ganesh, Thakurta, Upadhyay, Theorem G.1.
        """
        return np.asarray(-self.lipschitz * self._wells(points) @ self.frequencies)

    def per_record(self, points: Array) -> Array:
        """The loss of every record at each of several points.

        Parameters
        ----------
        points : array, (k, p)
            Where to evaluate it.

        Returns
        -------
        array, (k, n)
            In units of the loss.

        Raises
        ------
        InvalidInput
            For what is no matrix of finite numbers.

        References
        ----------
        Ganesh, Thakurta, Upadhyay, Theorem G.1.
        """
        return np.asarray(-self.lipschitz * self._wells(points) @ self.bits.T)

    @property
    def minimiser(self) -> Array:
        """The centre of the most frequent attribute, (p,); the first of several."""
        return np.asarray(self.centres[int(np.argmax(self.frequencies))])

    @property
    def minimum(self) -> float:
        """The least mean loss, −Lw·(largest frequency)."""
        assert self.well_radius is not None
        return -self.lipschitz * self.well_radius * float(self.frequencies.max())

    def mean_excess(self, inverse_temperature: float) -> float:
        """The mean excess under the density ∝ e^(−κL) on the unit disc, to a relative 1e-6 or so.

        It is computed by quadrature in polar coordinates about every centre, where its well is a
        cone, each ray up to the end of the well or of the disc; elsewhere the loss is 0.

        Parameters
        ----------
        inverse_temperature : float, above 0
            κ of the density.

        Returns
        -------
        float
            In units of the loss.

        Raises
        ------
        InvalidInput
            For points that are not in the plane, or another κ.

        References
        ----------
        docs, "Private optimisation".
        """
        require(
            self.dimension == 2, "centres", f"expected points in the plane, got {self.dimension}-d"
        )
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
    """The packing problem for given data, in the unit ball.

    Parameters
    ----------
    bits : array of 0 and 1, (n, s)
        The data: which attributes every record has.
    centres : array, (s, p), optional
        Centres of the wells.
    dimension : int, at least 1, optional
        p, in place of centres: they are s points of a cubic lattice, as far apart as fit.
    lipschitz : float, above 0
        L, the Lipschitz constant of every record's loss.
    well_radius : float, above 0, optional
        Radius of the wells, at most half of the least distance of two centres, which is the
        default.

    Returns
    -------
    PackingLoss
        The problem.

    Raises
    ------
    InvalidInput
        For both or none of centres and dimension, and as `PackingLoss`.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem G.1, with wells that do not overlap; docs, "Private
    optimisation".
    """
    data = _matrix("bits", bits)
    require(
        (centres is None) != (dimension is None),
        "centres",
        "expected exactly one of centres and dimension",
    )
    if centres is None:
        assert dimension is not None
        centres = packing_centres(data.shape[1], dimension)
    return PackingLoss(data, centres, lipschitz, well_radius)


def packing_centres(count: int, dimension: int) -> Array:
    """Points of a cubic lattice in the unit ball: of the coarsest lattice that has as many there.

    Those nearest to the origin are taken, which is one of them.

    Parameters
    ----------
    count : int, in 1..10⁶
        How many points.
    dimension : int, in 1..1000
        Their dimension.

    Returns
    -------
    array, (count, dimension)
        The points, by their norm.

    Raises
    ------
    InvalidInput
        For another count or dimension.

    References
    ----------
    docs, "Private optimisation", many wells.
    """
    count = validate.integer("count", count, at_least=1, at_most=10**6)
    p = validate.integer("dimension", dimension, at_least=1, at_most=1000)
    radius = 1  # squared, in units of the lattice's spacing
    while len(points := _lattice(p, radius, count)) < count:
        radius += 1
    return points[:count] / math.sqrt(radius)


def _lattice(p: int, square: int, enough: int) -> NDArray[np.float64]:
    """Integer points of squared norm ≤ `square`, by norm; all of them where p is small."""
    points: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) == p:
            points.append(prefix)
            return
        most = math.isqrt(left)
        for x in sorted(range(-most, most + 1), key=abs):
            extend((*prefix, x), left - x * x)

    def sparse(entries: dict[int, int]) -> tuple[int, ...]:
        return tuple(entries.get(k, 0) for k in range(p))

    if p <= 12:
        extend((), square)
    else:  # at most two coordinates differ from 0: enough in high dimension
        reach, signs = math.isqrt(square), (-1, 1)
        axes = itertools.product(range(p), range(-reach, reach + 1))
        points = [sparse({}), *(sparse({i: x}) for i, x in axes if x)]
        if len(points) < enough and square >= 2:
            pairs = itertools.product(itertools.combinations(range(p), 2), signs, signs)
            points += [sparse({i: x, j: y}) for (i, j), x, y in pairs]
    points.sort(key=lambda v: sum(x * x for x in v))
    return np.array(points, dtype=np.float64)


def _matrix(field: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, "expected a two-dimensional array of numbers") from None
    require(
        array.ndim == 2 and array.size != 0,
        field,
        f"expected a two-dimensional array, got shape {array.shape}",
    )
    require(np.isfinite(array).all(), field, "expected finite numbers")
    return array


def _least_distance(centres: Array) -> float:
    if len(centres) == 1:
        return 2.0
    gaps = np.linalg.norm(centres[:, None, :] - centres[None, :, :], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    return float(gaps.min())
