"""Exact worlds against what a secret batch is said to be worth if every output is released (theory, 6.3).

In a world a few records are cut into two or three batches, by bins or by a permutation that leaves one out,
once or twice. Every record's contribution is a number in [-1, 1] that depends on the outputs so far. All ways
to cut are enumerated, and δ is integrated on a grid. A bound is refuted where δ is above it.

    python benchmarks/secret_places.py --instances 2000 --seed 0
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.showing import shown
from pabi.tradeoff import RandomAllocation

Array = NDArray[np.float64]

EPSILONS = (0.0, 0.2, 0.5, 1.0, 2.0)
REACH = 5.0  # standard deviations of a grid beyond the largest sum
ALLOWED = 2e-3  # relative: more than the grid errs


class Kind(NamedTuple):
    """A scheme: bins or shuffles; its batches, records and passes; whether each pass is drawn anew."""

    displaces: bool
    batches: int
    size: int
    passes: int = 1
    fresh: bool = False

    @property
    def records(self) -> int:
        """All records, of which a shuffle leaves one out."""
        return self.batches * self.size + self.displaces

    def cuts(self) -> Iterator[tuple[float, tuple[tuple[int, ...], ...]]]:
        """(probability, the batch of every record in each pass), -1 for none."""
        every = list(self._once())
        passes = (
            itertools.product(every, repeat=self.passes)
            if self.fresh
            else ((x,) * self.passes for x in every)
        )
        for cut in passes:
            yield (1.0 / len(every)) ** (self.passes if self.fresh else 1), cut

    def _once(self) -> Iterator[tuple[int, ...]]:
        if not self.displaces:
            yield from itertools.product(range(self.batches), repeat=self.records)
            return
        places = [j for j in range(self.batches) for _ in range(self.size)] + [-1]
        yield from sorted(set(itertools.permutations(places)))

    def bound(self, sigma: float, opposite: bool) -> RandomAllocation:
        """What is claimed of one drawing."""
        uses = 1 if self.fresh else self.passes
        share = self.batches * self.size / self.records if self.displaces else 1.0
        size = math.sqrt(uses) / sigma
        return RandomAllocation([share], [size], [self.batches], opposite, self.displaces)


KINDS = (
    Kind(False, 2, 1),
    Kind(False, 3, 1),
    Kind(False, 2, 1, passes=2),
    Kind(False, 2, 1, passes=2, fresh=True),
    Kind(True, 2, 1),
    Kind(True, 2, 2),
    Kind(True, 3, 1),
    Kind(True, 2, 1, passes=2),
    Kind(True, 2, 1, passes=2, fresh=True),
)
POINTS = {2: 161, 3: 81, 4: 35}  # of a grid in so many dimensions


@dataclass(frozen=True)
class World:
    """Contributions at every step, after every sign of the outputs so far. `tables[k]` (2^k, records + 1): in
    the first column of the first record, in the last one of it on the other data set."""

    kind: Kind
    sigma: float
    opposite: bool
    tables: tuple[Array, ...]
    thresholds: Array

    @classmethod
    def drawn(cls, kind: Kind, rng: np.random.Generator) -> World:
        """A random one, of which many have the largest contributions there are."""
        steps, n = kind.batches * kind.passes, kind.records
        opposite, sigma = (
            bool(rng.integers(2)),
            float(np.exp(rng.uniform(math.log(0.6), math.log(3.0)))),
        )
        tables = []
        for k in range(steps):
            size = 2**k, n + 1
            table = rng.uniform(-1.0, 1.0, size)
            extreme = rng.random(size) < rng.choice([0.3, 0.9, 1.0])
            table = np.where(extreme, np.sign(table), table)
            if rng.random() < 0.5:  # all others against the record
                table[:, 0], table[:, 1:n] = 1.0, -1.0
            table[:, n] = (
                -table[:, 0] if opposite and rng.random() < 0.5 else table[:, n] * opposite
            )
            tables.append(table)
        return cls(kind, sigma, opposite, tuple(tables), rng.normal(0.0, 1.0, steps))

    def deltas(self) -> Array:
        """(orders, ε): δ between the two data sets, integrated on a grid."""
        kind, steps = self.kind, len(self.tables)
        largest = float(kind.records)
        step = 2.0 * (largest + REACH * self.sigma) / POINTS[steps]
        places = step * np.arange(-(POINTS[steps] // 2) - 0.5, POINTS[steps] // 2 + 1.0)
        # Where a contribution changes is midway between two points of a grid.
        axes = [places + (t - round(t / step) * step) for t in self.thresholds.tolist()]
        cell = (step / self.sigma) ** steps
        one, other = (self._density(axes, column) for column in (0, kind.records))
        kappa = np.exp(np.array(EPSILONS))
        pairs = ((one, other), (other, one))
        return np.array(
            [[float(np.maximum(p - x * q, 0.0).sum()) * cell for x in kappa] for p, q in pairs]
        )

    def _density(self, axes: list[Array], column: int) -> Array:
        """The density of the outputs, with this column for the contributions of the first record."""
        steps, total = len(self.tables), 0.0
        signs = [(axis > t).astype(int) for axis, t in zip(axes, self.thresholds, strict=True)]
        for probability, cut in self.kind.cuts():
            density: Array = np.ones(())
            before = np.zeros((), dtype=int)
            for k in range(steps):
                taken = [
                    i
                    for i, j in enumerate(cut[k // self.kind.batches])
                    if j == k % self.kind.batches
                ]
                table = self.tables[k]
                columns = [column if i == 0 else i for i in taken]
                sums = table[:, columns].sum(axis=1)[before]
                z = (axes[k] - sums[..., None]) / self.sigma
                density = density[..., None] * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
                before = 2 * before[..., None] + signs[k]
            total = total + probability * density
        return np.asarray(total)


def ratios(world: World) -> Array:
    """δ over its bound, at every ε where the bound is not tiny."""
    bound = world.kind.bound(world.sigma, world.opposite)
    curve = bound.self_compose(world.kind.passes) if world.kind.fresh else bound
    claimed = np.array([curve.delta(e) for e in EPSILONS])
    return np.asarray(np.where(claimed > 1e-6, world.deltas() / np.maximum(claimed, 1e-6), 0.0))


def attacked(kind: Kind, instances: int, seed: int) -> tuple[int, int, float]:
    """(violations, how many refute nine tenths of the bound, the largest ratio)."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    worst = [float(ratios(World.drawn(kind, rng)).max()) for _ in range(instances)]
    return sum(x > 1.0 + ALLOWED for x in worst), sum(x > 0.9 for x in worst), max(worst)


def main() -> None:
    """Attack all kinds and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=200, help="worlds of every kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in KINDS:
        violations, near, largest = attacked(kind, options.instances, options.seed)
        print(
            f"{'shuffle' if kind.displaces else 'bins':8} {kind.batches} batches of {kind.size}, "
            f"{kind.passes} passes{' anew' if kind.fresh else ''}: {options.instances} worlds, "
            f"{violations} above the bound, {near} above .9 of it, largest {shown(largest, 4)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
