"""Privacy losses of Gaussians on random batches into which a record comes in the place of another.

Above 0 they are those of one half, below 0, in the other order, those of another (docs, "Theory", 10.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from pabi.numbers.rounding import Array
from pabi.tradeoff.displaced_halves import Half
from pabi.tradeoff.displaced_moments import log_moments
from pabi.tradeoff.pairs import LossCells, Pair, mirrored, normal_mass


@dataclass(frozen=True)
class DisplacedLoss(Pair):
    """The pair with the losses of `upper` above 0 and, below 0, those of `lower` in the other order; the
    rest of the mass lies at 0."""

    upper: Half
    lower: Half

    @property
    def rest(self) -> float:
        """P(Y = 0): the mass of N(0, 1) between the two places where a loss is 0, times 1 - p."""
        ends = np.array([-self.upper.origin]), np.array([self.lower.origin])
        return (1.0 - self.upper.p) * float(normal_mass(*ends)[0])

    def cells(self, edges: Array) -> LossCells:
        """The cells of both halves; what lies at 0 is in the cell on its right."""
        split = int(np.searchsorted(edges, 0.0))
        inside = 0 < split < edges.size and edges[split] > 0.0
        cut = np.insert(edges, split, 0.0) if inside else edges
        below, above = cut[cut <= 0.0], cut[cut >= 0.0]
        mass, excess = np.zeros(cut.size - 1), np.zeros(cut.size - 1)
        if above.size > 1:
            first = cut.size - above.size
            mass[first:], excess[first:] = self.upper.cells(above)
            if above[0] == 0.0:
                mass[first] += self.rest
        if below.size > 1:
            count = below.size - 1
            mass[:count], excess[:count] = mirrored(self.lower.cells, self.lower.masses, below)
        if not inside:
            return LossCells(mass, excess)
        # The cell around 0 from its parts: seen from its left end, those on the right have grown.
        left, right, level = split - 1, split, math.exp(edges[split - 1])
        excess[left] += mass[right] - level * (mass[right] - excess[right])
        mass[left] += mass[right]
        return LossCells(np.delete(mass, right), np.delete(excess, right))

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        if y >= 0.0:
            return self.upper.above(y)
        mass, excess = self.upper.above(0.0)
        cell = self.cells(np.array([y, 0.0]))
        mass, level = mass + self.rest, math.exp(y)
        own = mass - level * (mass - excess)
        return float(cell.mass[0]) + mass, float(cell.excess[0]) + own

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high)."""
        return -self.lower.depth(slack), self.upper.high(tail)

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return self.finite_log_moments([self], power)[0]

    @classmethod
    def finite_log_moments(cls, pairs: Sequence[Self], power: float) -> list[float]:
        """Those of many pairs, by quadrature for all at once."""
        uppers, lowers = zip(*((pair.upper, pair.lower) for pair in pairs), strict=True)
        moments: list[float] = log_moments(uppers, lowers, power).tolist()
        return moments


class SymmetricDisplacedLoss(DisplacedLoss):
    """The same of two equal halves."""

    symmetric = True

    @property
    def atom(self) -> float:
        """P(Y = 0)."""
        return self.rest

    def cells(self, edges: Array) -> LossCells:
        """The cells of losses ≥ 0, without what lies at 0."""
        return self.upper.cells(edges)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, high): losses below 0 follow from those above."""
        return 0.0, self.upper.high(tail)
