"""The exact truth about noisy SGD on a line whose records are thrown into bins, once and in secret.

Any gradients: clipped, with kinks, nonconvex; walls at ±D/2. Given how many records of each kind fell where,
the run is a `Walk` of known steps; over the secret it is an `Average` of walks, one for each outcome, with
the multinomial weights. A bin with more than `cap` records is empty.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pabi import Loss, NoisySGD
from support.falsification.random_batches import ZERO, Records, described, random_instance
from support.falsification.walks import Average, Step, Walk


@dataclass(frozen=True)
class Thrown(Records):
    """Two adjacent data sets and the run that is made on each; the fields are those of
    `random_batches.Instance`, with the size and the cap of the bins."""

    base: tuple
    record: object
    other: object
    size: int
    cap: int | None
    eta: tuple[float, ...]
    noise: tuple[float, ...]
    loss: Loss
    clip: float | None = None
    diameter: float | None = None
    start: float = 0.0
    cooldown: int = 0

    @property
    def bins(self) -> int:
        return -(-self.n // self.size)

    @property
    def data_steps(self) -> int:
        return len(self.eta) - self.cooldown

    def run(self, batches) -> NoisySGD:
        """The description that the accountant gets."""
        return described(self, batches, n=self.n, adjacency=self.adjacency)

    def outcomes(self) -> Iterator[tuple[float, tuple[tuple[int, ...], ...], int]]:
        """(probability, numbers of each kind in each bin, the bin of the record)."""
        each = [list(_multinomial(count, self.bins)) for _, count in self.base]
        for fallen in itertools.product(*each):
            weight = math.prod(w for w, _ in fallen)
            table = tuple(zip(*(counts for _, counts in fallen), strict=True))
            for j in range(self.bins):
                yield weight / self.bins, table or ((),) * self.bins, j

    def walk(self, table: tuple[tuple[int, ...], ...], place: int) -> Walk:
        """The run on both data sets, given who is where."""
        bins = [table[k % self.bins] for k in range(self.data_steps)]
        own = [k % self.bins == place for k in range(self.data_steps)]
        return self.walk_of(bins, own)

    def walk_of(self, batches: Sequence[tuple[int, ...]], own: Sequence[bool]) -> Walk:
        """The run on both data sets, given the numbers of each kind in the batch of every step with data, and
        whether the record is there."""
        steps = []
        for k, (eta, noise) in enumerate(zip(self.eta, self.noise, strict=True)):
            counts, used = (batches[k], own[k]) if k < self.data_steps else ((), False)
            held = sum(counts) + used <= (self.cap or self.n)
            kinds = [(g, m) for (g, _), m in zip(self.base, counts, strict=False) if held and m]
            pair = (self.record, self.other) if held and used else (ZERO, ZERO)
            every = (*pair, *(g for g, _ in kinds))
            kinks = tuple(kink for g in every for kink in g.kinks)
            steep = max(g.steepest for g in pair) + sum(m * g.steepest for g, m in kinds)
            maps = tuple(self._map(kinds, g, eta) for g in pair)
            stretch = 1.0 + eta * (steep / self.size + self.loss.l2)
            steps.append(Step(maps, eta * noise, kinks, stretch, min(g.scale for g in every)))
        return Walk(steps, (self.start, self.start), self.half)

    def _map(self, kinds, own, eta):
        def step(x):
            pull = sum((m * g(x) for g, m in kinds), own(x))
            return x - eta * (pull / self.size + self.loss.l2 * x)

        return step

    @property
    def average(self) -> Average:
        """Over all outcomes of throwing the records."""
        return Average(tuple((w, self.walk(table, j)) for w, table, j in self.outcomes()))


def reshuffled_average(found: Thrown) -> Average:
    """The same records in batches of a fresh permutation every epoch. All records but one are of one kind."""
    bins, n = found.bins, found.n
    assert len(found.base) <= 1
    sizes = [min(found.size, n - j * found.size) for j in range(bins)]
    parts = []
    for places in itertools.product(range(bins), repeat=-(-found.data_steps // bins)):
        own = [k % bins == places[k // bins] for k in range(found.data_steps)]
        batches = [(sizes[k % bins] - used,) for k, used in enumerate(own)]
        weight = math.prod(sizes[j] / n for j in places)
        parts.append((weight, found.walk_of(batches, own)))
    return Average(tuple(parts))


def _multinomial(count: int, bins: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """(probability, how many in each bin) of `count` records that fall at random."""
    for cuts in itertools.combinations(range(count + bins - 1), bins - 1):
        edges = (-1, *cuts, count + bins - 1)
        counts = tuple(b - a - 1 for a, b in itertools.pairwise(edges))
        ways = math.factorial(count) // math.prod(map(math.factorial, counts))
        yield ways / bins**count, counts


def random_thrown(
    rng, adjacency: str, walls: bool, *, most_records: int = 4, kinds: int = 2
) -> Thrown:
    """The losses and the sizes at which steps matter are those of random batches; all records but one are of
    so many `kinds` at most."""
    found = random_instance(rng, "poisson", adjacency, walls)
    left, base = int(rng.integers(0, most_records)), []
    for gradient, count in found.base[:kinds]:
        count = min(count, left)
        left -= count
        if count:
            base.append((gradient, count))
    n = 1 + sum(count for _, count in base)
    size = int(rng.integers(1, n + 1)) if rng.random() < 0.3 else (n + 1) // 2
    size = 1 if n <= 3 and rng.random() < 0.7 else size
    bins = -(-n // size)
    data = max(1, bins * int(rng.integers(1, 3)) - int(rng.integers(0, bins)))
    cooldown = int(rng.integers(1, 3)) if rng.random() < 0.25 else 0
    t = data + cooldown
    louder = found.batches.size / size  # as loud against one record as before
    return Thrown(
        tuple(base),
        found.record,
        found.other,
        size,
        int(rng.integers(size, n + 1)) if rng.random() < 0.6 else None,
        tuple(np.resize(found.eta, t).tolist()),
        tuple((louder * np.resize(found.noise, t)).tolist()),
        found.loss,
        found.clip,
        found.diameter,
        found.start,
        cooldown,
    )
