"""A record whose place stays secret: attacks on the comparison of mixtures, and on balls in bins."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import pabi
from pabi.account.analyses import secret_order
from pabi.tradeoff import SecretMixture
from support.certificates import granted
from support.falsification.claims import EPSILONS, ROUNDING, deltas, refuted
from support.falsification.mixtures import Mixture, hockey_sticks
from support.falsification.secret_orders import Quadratics, random_quadratics, reshuffled, thrown

KINDS = ["alike", "mixed", "telling"]

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# The comparison: shifts chosen one after the other, by the label and what was seen so far.


def of_games(rng, opposite: bool) -> tuple[np.ndarray, SecretMixture]:
    """(δ of a game of two rounds, the claim): the first move is a random vector of the plane for every label,
    the second a random function of label and first outcome, both shorter than the label allows."""
    labels = int(rng.integers(2, 5))
    weights = rng.dirichlet(np.ones(labels))
    first, second = rng.uniform(0.0, 1.5, (2, labels))
    sides = 2 if opposite else 1
    u = _plane(rng, first, sides)  # (sides, labels, 2)
    nodes = np.linspace(-6.5, 6.5, 53)
    x, y = (a.ravel() for a in np.meshgrid(nodes, nodes))
    area = (nodes[1] - nodes[0]) ** 2
    seen = np.exp(-0.5 * (x * x + y * y)) / (2.0 * math.pi) * area
    total = np.zeros((2, EPSILONS.size))
    angle, turn = rng.uniform(0.0, 2.0 * math.pi, (2, sides, labels))
    grid = np.linspace(-9.0, 9.0, 721)
    density, width = norm.pdf(grid), grid[1] - grid[0]
    likelihoods = np.empty((sides, x.size, grid.size))
    for side in range(sides):
        move = u[side]
        given = weights * np.exp(
            np.outer(x, move[:, 0]) + np.outer(y, move[:, 1]) - 0.5 * (move**2).sum(axis=1)
        )
        then = second * np.sign(np.sin(turn[side] * (x[:, None] + 1.3 * y[:, None]) + angle[side]))
        powers = np.exp(then[..., None] * grid - 0.5 * then[..., None] ** 2)
        likelihoods[side] = (given[..., None] * powers).sum(axis=1)
    other = likelihoods[1] if opposite else np.ones_like(likelihoods[0])
    for i, level in enumerate(np.exp(EPSILONS)):
        for order, (a, b) in enumerate(((likelihoods[0], other), (other, likelihoods[0]))):
            excess = np.maximum(a - level * b, 0.0)
            total[order, i] = seen @ excess @ density * width
    return total.max(axis=0), SecretMixture(np.hypot(first, second), weights, opposite)


def _plane(rng, lengths, sides: int) -> np.ndarray:
    angle = rng.uniform(0.0, 2.0 * math.pi, (sides, lengths.size))
    if rng.random() < 0.5:  # as the claim has it, or nearly
        angle = 0.1 * angle + np.array([0.0, math.pi])[:sides, None]
    return np.stack([np.cos(angle), np.sin(angle)], axis=2) * lengths[:, None]


@pytest.mark.parametrize("count", [3, pytest.param(120, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("opposite", [False, True])
def test_no_game_reveals_more(opposite, count):
    rng = np.random.default_rng([count, opposite])
    for _ in range(count):
        truth, claim = of_games(rng, opposite)
        # The rule is exact to a few times the squared spacings, at the kinks.
        assert np.all(truth <= deltas(claim) + 2e-3)


def test_one_direction_is_the_worst():
    """Of labels in orthogonal directions the mixture reveals less, and all along one line is the claim."""
    z, weights, mean = np.linspace(-9, 11, 2001), np.array([0.5, 0.5]), 1.5
    one = [Mixture(weights, np.array([m, m]), np.ones(2)) for m in (mean, 0.0)]
    assert deltas(SecretMixture([mean, mean], weights)) == pytest.approx(
        hockey_sticks(*one, EPSILONS).max(axis=0), abs=1e-12
    )
    phi, step = norm.pdf(z), z[1] - z[0]
    ratio = np.exp(mean * z - mean**2 / 2)
    both = 0.5 * (ratio[:, None] + ratio[None, :])
    excess = [
        max(
            phi @ np.maximum(both - level, 0.0) @ phi,
            phi @ np.maximum(1.0 - level * both, 0.0) @ phi,
        )
        * step**2
        for level in np.exp(EPSILONS)
    ]
    claim = deltas(SecretMixture([mean], [1.0]))
    assert np.all(np.array(excess) <= claim + 1e-4)
    assert excess[3] < 0.8 * claim[3]


# Runs.


def exact(found: Quadratics) -> np.ndarray:
    return found.truth(thrown(found.n, found.bins, found.data_steps), EPSILONS)


def described(found: Quadratics) -> pabi.NoisySGD:
    """The run, told how long one record's gradient is and not how far two are apart."""
    run, (lo, hi) = found.run(pabi.BallsInBins(found.size)), found.bounds
    bound = float(abs(found.pull[0]))
    if lo < 0.0:
        loss = pabi.Loss.weakly_convex(-lo, hi, found.l2, gradient_bound=bound)
    else:
        loss = pabi.Loss.convex(hi, found.l2, gradient_bound=bound)
    return replace(run, loss=loss, gradient_sensitivity=None)


def instance(rng, kind: str, zero_out: bool) -> Quadratics:
    """A record without curvature among others that have some; replaced by the opposite one, or zeroed."""
    found = random_quadratics(rng, 3, 4, kind)
    curvature, pull = found.curvature.copy(), found.pull.copy()
    size = found.size * float(found.noise[0]) * float(np.exp(rng.uniform(-1.5, 1.2)))
    curvature[0], pull[0] = 0.0, size
    lo, hi = found.bounds
    given = {"bounds": (min(lo, 0.0), hi), "zero_out": zero_out}
    return replace(found, curvature=curvature, pull=pull, other=0.0 if zero_out else -size, **given)


@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero_out", [False, True])
def test_secret_places_are_never_safer_than_guaranteed(zero_out, kind, count):
    rng = np.random.default_rng([count, zero_out, *kind.encode()])
    proven = 0
    for _ in range(count):
        found = instance(rng, kind, zero_out)
        try:
            delta = float(10 ** rng.uniform(-5, -1))
            claim = granted(secret_order.secret_place, described(found), delta)
        except pabi.NotApplicable:
            continue
        proven += 1
        assert not refuted(exact(found), claim), found
    assert proven > 0.8 * count


def linear(bins: int, epochs: int, zero_out: bool, mean: float = 1.0) -> Quadratics:
    """The record alone pulls, one step of `mean` standard deviations an epoch, and nothing is forgotten."""
    steps = bins * epochs
    pull = np.append(mean, np.zeros(bins - 1))
    ones, none = np.ones(steps), np.zeros(bins)
    other = 0.0 if zero_out else -mean
    return Quadratics(none, pull, other, 1, ones, ones, (0.0, 1e-9), zero_out=zero_out)


def test_the_bound_is_nearly_met():
    """Two places of which one is forgotten for the most part: what is left is the mixture itself."""
    for zero_out, epochs in itertools.product([False, True], [1, 2]):
        found = replace(linear(2, epochs, zero_out, 1.2), l2=0.95)
        truth, claim = exact(found), deltas(secret_order.secret_place(described(found), 1e-3).curve)
        assert np.all(truth <= claim + ROUNDING), (zero_out, epochs)
        assert np.all(truth[:4] > 0.9 * claim[:4]), (zero_out, epochs)


# Wrong bounds that the same instances refute.


def test_smaller_means_and_rarer_places_are_caught():
    for zero_out in [False, True]:
        found = replace(linear(2, 1, zero_out, 1.2), l2=0.95)
        truth, curve = exact(found), secret_order.secret_place(described(found), 1e-3).curve
        assert isinstance(curve, SecretMixture), zero_out
        low, high = curve.means
        for means, weights in (((low, 0.9 * high), (0.5, 0.5)), ((low, high), (0.6, 0.4))):
            assert refuted(truth, SecretMixture(means, weights, curve.opposite)), zero_out


def test_another_record_in_place_of_zero_is_caught():
    """What holds against a record that is zero does not against one that pulls the other way."""
    found = replace(linear(2, 1, False, 1.2), l2=0.95)
    zeroed = replace(found, other=0.0, zero_out=True)
    claim = secret_order.secret_place(described(zeroed), 1e-3).curve
    assert refuted(exact(found), claim)


def test_a_place_that_displaces_another_record_is_caught():
    """In a permutation the other record is where this one is not. It pulls the other way: on the one data set
    the two places differ twice as much."""
    found = replace(linear(2, 1, True, 2.0), pull=np.array([2.0, -2.0]), l2=0.95)
    claim = secret_order.secret_place(described(found), 1e-3).curve
    assert not refuted(exact(found), claim)
    assert refuted(found.truth(reshuffled(2, 1, 2), EPSILONS), claim)


def test_places_that_displace_others_are_refused():
    for batches in [pabi.ShuffleOnce(1), pabi.Reshuffle(1)]:
        with pytest.raises(pabi.NotApplicable, match="takes the place of another"):
            secret_order.secret_place(linear(3, 2, True).run(batches), 1e-3)


def test_bins_with_a_cap_are_refused():
    """With a cap of one a record empties the bin that holds the other, which is seen."""
    run = replace(described(linear(3, 2, True)), batches=pabi.BallsInBins(1, cap=2))
    with pytest.raises(pabi.NotApplicable, match="above the cap"):
        secret_order.secret_place(run, 1e-3)


def test_a_stated_change_of_two_records_is_refused():
    with pytest.raises(pabi.NotApplicable, match="not what one of them moves"):
        secret_order.secret_place(linear(3, 2, False).run(pabi.BallsInBins(1)), 1e-3)
