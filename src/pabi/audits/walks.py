"""The law of a walk between two walls: what a run on a bounded domain releases when it trains one number.

A step is affine, then Gaussian noise, then a projection on [−D/2, D/2]. The law between
the walls is followed at Gauss–Legendre nodes, in panels as wide as the least noise of a step, with an atom at
either wall. Its density after a step is analytic, so that such nodes have nearly all digits of a double.

All orders of batches that are drawn are followed together. Where one of the steps of an epoch has the record,
the law with the record still to come and the law with the record behind take the same steps, so that an epoch
costs two walks and not one for every place. Where the place is drawn once for all epochs, every place has a
column of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr

from pabi.audits.laws import LawPair, gaussian_masses
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array

_NODES = 10  # of a panel
_MOST_NODES = 4_000
_FINE = 40  # cells of the released law in a standard deviation of the last noise
_MOST_CELLS = 50_000
_MOST_KERNELS = 8  # kept at once
_BAND = 220  # nodes within nine standard deviations of a step, and some
_NEGLIGIBLE = 1e-19
_MOST_WORK = 1e10  # multiplications, about ten seconds
_ROUNDING = 1e-14  # what the mass of a cell may be off by


@dataclass(frozen=True)
class AffineStep:
    """x ↦ slope·x + shift + N(0, std²), projected."""

    slope: float
    shift: float
    std: float


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
        means = step.slope * points + step.shift
        z = (self.nodes[:, None] - means) / step.std
        scale = self.weights[:, None] / (step.std * math.sqrt(2.0 * math.pi))
        low, high = self._atoms(step, means)
        return np.concatenate([low, scale * np.exp(-0.5 * z * z), high])

    def _cells(self, step: AffineStep, points: Array, laws: Array) -> Array:
        """They are differences of distribution functions, so that cutting into cells is all that is lost."""
        means = step.slope * points + step.shift
        inner = np.zeros((len(self.edges) - 1, laws.shape[1]))
        for mean, law in zip(means, laws, strict=True):
            inner += np.outer(gaussian_masses(self.edges, float(mean), step.std), law)
        low, high = self._atoms(step, means)
        return np.concatenate([low @ laws, inner, high @ laws])

    def _atoms(self, step: AffineStep, means: Array) -> tuple[Array, Array]:
        low, high = (ndtr((sign * means - self.half) / step.std)[None] for sign in (-1.0, 1.0))
        return low, high


def pair_between_walls(diameter: float, one: WalledWalk, other: WalledWalk) -> LawPair:
    """The laws of what walks release on two data sets.

    Raises NotApplicable where the domain is so wide that there would be too many nodes.
    """
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
    for k in steps:
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
