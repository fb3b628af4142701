"""Shuffles without a spare place: exact worlds of a few records, all of whose outputs are released.

Two batches; gradients of the second step follow the first output, on both data sets alike. All arrangements
are listed, and δ of the two outputs is a sum over a fine grid. Two epochs, each of an order of its own, have
the likelihood ratios of two such pairs of outputs.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from pabi.tradeoff import RandomAllocation
from support.allocations import delta_of_few
from support.daily import of_today

EPSILONS = (0.0, 0.3, 1.0, 2.0)
TELLING = (False, 0.3, 1.0), (False, 1.0, 1.5), (True, 0.3, 0.0)
SIZES = (1, 1), (2, 1), (2, 2)
# Points of the grid on either side of the threshold, and of the second output.
FIRST, SECOND = 160, 700
REACH = 8.0
RATIOS, FARTHEST = 2000, 12.0  # of likelihoods that are told apart, and the largest logarithm
ERROR = 1e-3  # relative: more than the grid errs, by the square of a cell's width


@dataclass
class World:
    """`first` and `second` (2, n): gradients of the first step, and of the second below and above a
    `threshold` of the first output; the record is number 0, and `other` (3,) is what stands in its place on
    the other data set at these three times. `sizes` of the batches; `noise` on their sums."""

    first: np.ndarray
    second: np.ndarray
    other: np.ndarray
    threshold: float
    sizes: tuple[int, int]
    noise: float

    def delta(self, kappa):
        """(δ of the first order, of the second)."""
        laws = [
            [np.maximum(p - kappa * q, 0.0).sum(), np.maximum(q - kappa * p, 0.0).sum()]
            for p, q in self.laws()
        ]
        return np.sum(laws, axis=0)

    def delta_of_two_epochs(self, kappa):
        """The same of two epochs; outputs of nearly the same ratio are taken for one, which tells no more."""
        p, q = (
            np.concatenate([x.ravel() for x in side]) for side in zip(*self.laws(), strict=True)
        )
        ratios = np.clip(np.log((p + 1e-300) / (q + 1e-300)), -FARTHEST, FARTHEST)
        place = np.rint((ratios + FARTHEST) * (RATIOS / (2.0 * FARTHEST))).astype(int)
        p, q = (np.bincount(place, weights=x) for x in (p, q))
        kept = p + q > 0.0
        p, q = (np.outer(x[kept], x[kept]) for x in (p, q))
        return np.array(
            [np.maximum(p - kappa * q, 0.0).sum(), np.maximum(q - kappa * p, 0.0).sum()]
        )

    def laws(self):
        """The masses of outputs on both data sets, for a first output below and above the threshold."""
        n = sum(self.sizes)
        batches = np.zeros((math.comb(n, self.sizes[0]), n), dtype=bool)
        for row, chosen in zip(
            batches, itertools.combinations(range(n), self.sizes[0]), strict=True
        ):
            row[list(chosen)] = True
        for above in (0, 1):
            laws = []
            for changed in (False, True):
                first, second = self.first.copy(), self.second[above].copy()
                if changed:
                    first[0], second[0] = self.other[0], self.other[1 + above]
                means = (batches * first).sum(axis=1), (~batches * second).sum(axis=1)
                laws.append([m / self.noise for m in means])
            far = REACH + n / self.noise
            low, end = ((-far, self.threshold), (self.threshold, far))[above]
            edges = np.linspace(low, end, FIRST + 1)
            x, dx = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
            edges = np.linspace(-far, far, SECOND + 1)
            y, dy = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
            p, q = (
                np.exp(-0.5 * (x[:, None] - one) ** 2) @ np.exp(-0.5 * (y - two[:, None]) ** 2)
                for one, two in laws
            )
            weight = dx * dy / (2.0 * math.pi * len(batches))
            yield weight * p, weight * q


def bold(sizes, noise, threshold, opposite):
    """The displaced record is opposite to the record, and then takes the side that the first output tells."""
    n = sum(sizes)
    first, second = np.full(n, -1.0), np.ones((2, n))
    first[0], second[0, 1:] = 1.0, -1.0
    return World(first, second, others(first, second, opposite), threshold, sizes, noise)


def others(first, second, opposite):
    return -np.array([first[0], *second[:, 0]]) if opposite else np.zeros(3)


def random_world(rng, opposite):
    """Some of them bold."""
    sizes = SIZES[int(rng.integers(3))]
    n, noise = sum(sizes), float(rng.uniform(0.6, 2.5))
    threshold = float(rng.uniform(-3.0, 5.0))
    if rng.random() < 0.6:
        return bold(sizes, noise, threshold, opposite)
    first, second = rng.uniform(-1.0, 1.0, n), rng.uniform(-1.0, 1.0, (2, n))
    return World(first, second, others(first, second, opposite), threshold, sizes, noise)


def ratio(world, opposite, epsilon, epochs=1):
    """δ in the worse order, over the claim for a label and the hub; 0 where δ is too small to tell."""
    share, size = world.sizes[0] / sum(world.sizes), 1.0 / world.noise
    curve = RandomAllocation([share], [size], [1], opposite, True, hub=size).self_compose(epochs)
    truth = (world.delta if epochs == 1 else world.delta_of_two_epochs)(math.exp(epsilon)).max()
    return truth / curve.delta(epsilon) if truth > 1e-7 else 0.0


@pytest.mark.parametrize(
    "count", [1, *(pytest.param(60 + i, marks=pytest.mark.nightly) for i in range(8))]
)
@pytest.mark.parametrize("opposite", [False, True])
def test_no_world_tells_more_than_is_claimed(opposite, count):
    rng = np.random.default_rng([count, opposite])
    for _ in range(count):
        world, epsilon = random_world(rng, opposite), float(rng.choice(EPSILONS))
        assert ratio(world, opposite, epsilon) <= 1.0 + ERROR, (world, epsilon)


@pytest.mark.parametrize(("opposite", "epsilon", "threshold"), TELLING)
def test_nine_tenths_of_the_claim_are_refuted(opposite, epsilon, threshold):
    found = ratio(bold((1, 1), 1.5, threshold, opposite), opposite, epsilon)
    assert 0.9 * (1.0 + ERROR) < found <= 1.0 + ERROR


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("opposite", [False, True])
def test_no_two_epochs_tell_more_than_is_claimed(opposite, count):
    today = of_today("two epochs") if count > 1 else 0
    rng = np.random.default_rng([count, opposite, 2, today])
    for _ in range(count):
        world, epsilon = random_world(rng, opposite), float(rng.choice(EPSILONS))
        assert ratio(world, opposite, epsilon, 2) <= 1.0 + ERROR, (world, epsilon)


@pytest.mark.parametrize(("opposite", "epsilon", "threshold"), TELLING)
def test_four_fifths_of_the_claim_for_two_epochs_are_refuted(opposite, epsilon, threshold):
    """One choice of gradients is not the boldest at all likelihood ratios of the epoch before."""
    found = ratio(bold((1, 1), 1.5, threshold, opposite), opposite, epsilon, 2)
    assert 0.8 * (1.0 + ERROR) < found <= 1.0 + ERROR


@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_the_truth_of_records_that_stand_still(noise):
    """Only the record moves its output, as a ball in one of two bins does."""
    still = np.array([1.0, 0.0])
    world = World(still, np.array([still, still]), np.zeros(3), 0.3, (1, 1), noise)
    for epsilon in EPSILONS:
        known = [
            delta_of_few((0.5, 0.5), (1.0 / noise,) * 2, epsilon, False, False, order)
            for order in (0, 1)
        ]
        assert world.delta(math.exp(epsilon)) == pytest.approx(known, rel=ERROR, abs=1e-9)
