"""Walks between two walls, and gradients that are linear along one strip and curved beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr

from pabi.audits.laws import LawPair, gaussian_masses
from pabi.numbers.errors import NotApplicable
from pabi.numbers.locking import ticking
from pabi.numbers.rounding import Array

# Gradients of the other records that are linear along one stretch of the line and curved along the next.
#
# They pull the iterate along, by far more than noise moves it. So every step finds it in a stretch of its
# own, and every step may have a slope of its own, within the curvature of the loss and the bound on its
# gradient.


_NEAR = 1e-12  # of a curvature: those that differ by less are one


class Visit(NamedTuple):
    """One step of the walk: whose gradient it takes and what it does with it.

    `owner`: the number of the gradient. `rate`: step size times batch fraction, what the gradient is
    multiplied with. `decay`: what the regulariser leaves of the iterate, 1 − ηλ. `curvature`: of the gradient
    there. `slope`: the largest that the step may have. `least`, `most`: what the special record may add to
    the iterate, and `opens`: whether an epoch begins in which it does so once at most.
    """

    owner: int
    rate: float
    decay: float
    curvature: float
    std: float
    slope: float
    least: float
    most: float
    opens: bool


@dataclass
class _Pieces:
    """A gradient that is made from left to right: knots, what it is at the last one, and where it is free."""

    value: float
    points: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    curvature: float = 0.0  # of the last stretch
    begin: float = -math.inf  # of the last stretch
    visited: float = -math.inf  # nobody comes further right so far
    straight: float = -math.inf  # visited up to here without curvature

    def bend(self, low: float, high: float, curvature: float) -> bool:
        """Whether it can have this curvature on [low, high]; then it has."""
        end = self.points[-1] if self.points else -math.inf
        if abs(curvature) <= _NEAR:
            if low < end:
                return False
            self.visited = max(self.visited, high)
            self.straight = max(self.straight, high)
            return True
        same = abs(curvature - self.curvature) <= _NEAR * abs(curvature)
        if low >= max(self.visited, end):
            self._knot(low, self.value)
            self.begin = low
        elif not (same and low >= self.begin and self.straight <= self.begin):
            return False
        else:
            low = end
        if high > low:
            self._knot(high, self.value + curvature * (high - low))
        self.curvature = curvature
        self.visited = max(self.visited, high)
        return True

    def _knot(self, point: float, value: float) -> None:
        self.points.append(point)
        self.values.append(value)
        self.value = value

    def at(self, x: float) -> float:
        return float(np.interp(x, self.points, self.values)) if self.points else self.value


@dataclass(frozen=True, eq=False)
class Strips:
    """Gradients of others, and the way of the iterate through them.

    `points`, `values`: the knots of each gradient, which is constant beyond the first and the last one; none
    where it is constant altogether. `constants`: its value there. `path`: (t + 1,) where the iterate is
    without noise and without the record. `pulls`: (t,) the gradient there. `beyond`: the probability that
    the iterate leaves the stretches in which its steps are affine, on either data set.
    """

    points: tuple[Array, ...]
    values: tuple[Array, ...]
    constants: tuple[float, ...]
    path: Array
    pulls: Array
    beyond: float

    def gradient(self, owner: int, x: Array) -> Array:
        """The gradient of number `owner` at points of any shape."""
        if not len(self.points[owner]):
            return np.full_like(x, self.constants[owner])
        return np.asarray(np.interp(x, self.points[owner], self.values[owner]))


@dataclass(frozen=True)
class GradientRange:
    """What the gradients of others may be: in [`least`, `most`], `start` at the far left; `floor`: the
    curvature that all of them have beside that of their stretches. A stretch that has curvature is `width`
    wide, or just as wide as it has to be where that is 0."""

    least: float
    most: float
    start: float
    floor: float = 0.0
    width: float = 0.0


def strips(
    visits: Sequence[Visit], limits: GradientRange, begin: float, reach: float
) -> Strips | None:
    """Gradients that have the curvature of every visit, for `reach` standard deviations about the way.

    None where there is no room for them.
    """
    owners = [_Pieces(limits.start) for _ in range(1 + max(visit.owner for visit in visits))]
    x, variance, path, pulls = begin, 0.0, [begin], []
    past_low = past_high = low = high = 0.0  # the record, of epochs before and of this one
    for visit in visits:
        if visit.opens:
            past_low, past_high, low, high = past_low + low, past_high + high, 0.0, 0.0
        span = reach * math.sqrt(variance)
        left, right = x + past_low + low - span, x + past_high + high + span
        if variance > 0.0 or right > left:
            missing = limits.width - (right - left)
            if limits.width and visit.curvature:
                if missing < 0.0:
                    return None
                left, right = left - 0.5 * missing, right + 0.5 * missing
        owner = owners[visit.owner]
        if not owner.bend(left, right, visit.curvature):
            return None
        if not limits.least <= owner.value <= limits.most:
            return None
        pull = owner.at(x)
        pulls.append(pull + limits.floor * x)
        x = visit.decay * x - visit.rate * pulls[-1]
        path.append(x)
        grown = max(1.0, visit.slope)
        past_low, past_high = visit.slope * past_low, visit.slope * past_high
        low, high = min(grown * low, visit.least), max(grown * high, visit.most)
        variance = visit.slope**2 * variance + visit.std**2
    beyond = 2.0 * len(visits) * float(ndtr(-reach))
    return Strips(
        tuple(np.array(owner.points) for owner in owners),
        tuple(np.array(owner.values) for owner in owners),
        tuple(owner.value for owner in owners),
        np.array(path),
        np.array(pulls),
        beyond,
    )


_NODES = 10  # of a panel
_MOST_NODES = 4_000
_FINE = 40  # cells of the released law in a standard deviation of the last noise
_MOST_CELLS = 50_000
_MOST_KERNELS = 8  # kept at once
_BAND = 220  # nodes within nine standard deviations of a step, and some
_NEGLIGIBLE = 1e-19
_FAR = 10.0  # standard deviations: beyond them a cell has less than its mass may be off by
_MOST_WORK = 1e10  # multiplications, about ten seconds
_ROUNDING = 1e-14  # what the mass of a cell may be off by


@dataclass(frozen=True)
class AffineStep:
    """x ↦ slope·x + shift + N(0, std²), projected."""

    slope: float
    shift: float
    std: float

    def means(self, points: Array) -> Array:
        """Where it takes points, without noise."""
        return np.asarray(self.slope * points + self.shift)


@dataclass(frozen=True)
class BentStep(AffineStep):
    """The same, less `rate` times a smooth gradient, which can be hashed."""

    rate: float
    gradient: Callable[[Array], Array]

    def means(self, points: Array) -> Array:
        """Where it takes points, without noise."""
        return np.asarray(super().means(points) - self.rate * self.gradient(points))


@dataclass(frozen=True, eq=False)
class WalledWalk:
    """The steps of a run, and which of them have the record.

    `plain`, `moved`: each step without the record and with it. `chances`: (t, c) the probability that a step
    has it, in each of c cases of the (c,) probabilities `cases`. `epoch`: the steps of which at most one has
    it; 1 where every step draws for itself. `start`: where the walk begins, from the middle.
    """

    plain: Sequence[AffineStep]
    moved: Sequence[AffineStep]
    chances: Array
    cases: Array
    epoch: int = 1
    start: float = 0.0


@dataclass(frozen=True, eq=False)
class _Walls:
    """The interval [−half, half], its nodes, the edges of cells of the release, and the steps so far."""

    half: float
    nodes: Array
    weights: Array
    edges: Array
    kernels: dict[AffineStep, Any] = field(default_factory=dict)

    @property
    def points(self) -> Array:
        """The walls and the nodes between them."""
        return np.concatenate([[-self.half], self.nodes, [self.half]])

    def after(self, step: AffineStep, laws: Array, last: bool, start: float) -> Array:
        """(m, c) laws after a step; `last`: as masses of the cells of the release."""
        points = np.array([start]) if len(laws) == 1 else self.points
        if last:
            return self._cells(step, points, laws)
        if len(points) == 1:
            return np.asarray(self._kernel(step, points) @ laws)
        if step not in self.kernels:
            if len(self.kernels) >= _MOST_KERNELS:
                self.kernels.clear()
            self.kernels[step] = _banded(self._kernel(step, points))
        return np.asarray(self.kernels[step] @ laws)

    def _kernel(self, step: AffineStep, points: Array) -> Array:
        means = step.means(points)
        z = (self.nodes[:, None] - means) / step.std
        scale = self.weights[:, None] / (step.std * math.sqrt(2.0 * math.pi))
        low, high = self._atoms(step, means)
        return np.concatenate([low, scale * np.exp(-0.5 * z * z), high])

    def _cells(self, step: AffineStep, points: Array, laws: Array) -> Array:
        """They are differences of distribution functions, so that cutting into cells is all that is lost but
        for what is far from a mean."""
        means = step.means(points)
        inner = np.zeros((len(self.edges) - 1, laws.shape[1]))
        near = means[:, None] + _FAR * step.std * np.array([-1.0, 1.0])
        first, last = np.searchsorted(self.edges, near).T
        last = np.minimum(last, len(self.edges) - 1)
        for low, high, mean, law in zip(np.maximum(first - 1, 0), last, means, laws, strict=True):
            masses = gaussian_masses(self.edges[low : high + 1], float(mean), step.std)
            inner[low:high] += np.outer(masses, law)
        low, high = self._atoms(step, means)
        return np.concatenate([low @ laws, inner, high @ laws])

    def _atoms(self, step: AffineStep, means: Array) -> tuple[Array, Array]:
        low, high = (ndtr((sign * means - self.half) / step.std)[None] for sign in (-1.0, 1.0))
        return low, high


def pair_between_walls(diameter: float, one: WalledWalk, other: WalledWalk) -> LawPair:
    """The laws of what walks release on two data sets."""
    half = 0.5 * diameter
    steps = [*one.plain, *one.moved, *other.moved]
    edges = np.linspace(-half, half, 1 + max(2, math.ceil(diameter / one.plain[-1].std * _FINE)))
    walls = _walls(half, min(step.std for step in steps), edges)
    if _work(one, len(set(steps)), len(walls.points)) > _MOST_WORK:
        raise NotApplicable(
            "following the laws between the walls of the domain would take very long"
        )
    inner = np.concatenate([[np.nextafter(-half, half)], edges[1:-1], [half]])
    return LawPair(inner, _released(walls, one), _released(walls, other), _ROUNDING)


def _work(walk: WalledWalk, kernels: int, points: int) -> int:
    """About how many multiplications, the making of kernels included."""
    products = 3 * len(walk.plain) * len(walk.cases) * points * min(points, _BAND)
    return products + 20 * kernels * points**2


def _banded(kernel: Array) -> Any:
    """The kernel without what is lost in rounding anyway, where that is most of it."""
    if len(kernel) < 2 * _BAND:
        return kernel
    return csr_array(np.where(kernel > _NEGLIGIBLE, kernel, 0.0))


def _walls(half: float, std: float, edges: Array) -> _Walls:
    panels = max(1, math.ceil(2.0 * half / std))
    if panels * _NODES > _MOST_NODES or len(edges) > _MOST_CELLS:
        raise NotApplicable(
            "the domain is so wide against the noise of a step that no law between its walls is computed"
        )
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    ends = np.linspace(-half, half, panels + 1)
    width = np.diff(ends)[:, None]
    nodes = (ends[:-1, None] + width * (at + 1.0) / 2.0).ravel()
    return _Walls(half, nodes, (width * weight / 2.0).ravel(), edges)


def _released(walls: _Walls, walk: WalledWalk) -> Array:
    laws = np.ones((1, len(walk.cases)))
    for first in range(0, len(walk.plain), walk.epoch):
        laws = _epoch(walls, walk, laws, range(first, min(first + walk.epoch, len(walk.plain))))
    return np.asarray(laws @ walk.cases)


def _epoch(walls: _Walls, walk: WalledWalk, laws: Array, steps: range) -> Array:
    """`laws` after steps of which at most one has the record."""
    before, behind = laws, np.zeros_like(laws)
    for k in ticking(steps):
        last, chance = k + 1 == len(walk.plain), walk.chances[k]
        cases = np.flatnonzero(chance)
        met = walls.after(walk.moved[k], before[:, cases], last, walk.start) if len(cases) else None
        behind = (
            walls.after(walk.plain[k], behind, last, walk.start)
            if np.any(behind)
            else np.zeros((_rows(walls, last), len(chance)))
        )
        if met is not None:
            behind[:, cases] += chance[cases] * met
        before = walls.after(walk.plain[k], before, last, walk.start)
    return np.asarray(behind + (1.0 - walk.chances[steps].sum(axis=0)) * before)


def _rows(walls: _Walls, last: bool) -> int:
    return len(walls.edges) + 1 if last else len(walls.points)
