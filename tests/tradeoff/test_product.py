"""Products and the best of several bounds: what is read, in any order, and what may fail."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from pabi import tradeoff as t
from pabi.verification.anew.sums import epsilons, least_of
from pabi.verification.factors.mixtures import Sampled
from support.every_case import every


@every("curve", [t.Gaussian(0.7), t.Mixture([t.Gaussian(0.2), t.Gaussian(1.5)], [0.75, 0.25])])
@every("failure", [1e-12, 1e-6, 0.01])
def test_one_factor_that_may_fail_reads_like_itself(curve, failure):
    """δ with an event of probability p under which nothing is claimed is δ of the factor, and p on top."""
    product = t.Product([(curve, 1)], failure)
    for epsilon in (0.0, 0.5, 2.0, 8.0):
        exact = Fraction(curve.delta(epsilon)) + Fraction(failure)
        assert exact <= Fraction(product.delta(epsilon)) <= exact * Fraction(1 + 1e-14)
    for delta in (2 * failure, 0.3):
        left = delta - failure
        low, high = product.epsilon_bounds(delta)
        assert curve.epsilon(left) <= high <= curve.epsilon(left) * (1 + 1e-12) + 1e-15
        assert low <= high == product.epsilon(delta)
    assert product.epsilon(0.999 * failure) == math.inf
    grid = np.array([0.0, 1.0, 3.0])
    assert np.all(product.delta(grid) >= curve.delta(grid) + failure)


TRIED = [(1e-4, 2, 0.3), (0.0, 300, 0.3), (0.0, 2, 1e-3), (1e-4, 300, 1e-3)]
TRIED += [(0.0, 2, 1e-9), (0.0, 300, 1e-9), (1e-4, 2, 1e-9)]


@pytest.mark.parametrize(("failure", "count", "delta"), TRIED)
def test_what_epsilon_is_not_below_is_at_most_epsilon(delta, count, failure):
    """Of rare and of frequent draws, of a Gaussian beside them, before and after a rough reading."""
    told = 0
    for mu, p, beside in ((3.0, 1e-3, 0.0), (3.0, 0.5, 0.0), (0.1, 0.1, 2.0), (20.0, 0.1, 0.5)):
        for one in (t.PoissonSubsampled(mu, p), t.FixedSizeSubsampled(mu, 0.5 * mu, 0.6 * mu, p)):
            if (mu, delta, count) == (20.0, 0.3, 2):
                continue  # of which ε is read from grids that take minutes
            curve = t.Product([(one, count), (t.Gaussian(beside), 1)], failure)
            epsilon = curve.epsilon(delta)
            before = curve._underestimate(delta)
            assert before <= epsilon
            told += before > 0.1 * epsilon > 0.0
            if delta > failure:
                curve.roughly(delta)
                assert curve._underestimate(delta) <= epsilon
    assert told > 0 or failure > delta


def test_where_epsilon_is_far_below_delta_it_is_read_as_well_as_delta():
    """δ(0) is just above δ, so that any ε between is tiny: grids down to its size would take minutes."""
    curve = t.Product([(t.PoissonSubsampled(0.0021771626848877527, 19 / 33), 4)])
    low, high = curve.epsilon_bounds(1e-3)
    assert 0.0 < low <= high <= 1e-6
    assert high - low <= 1e-3 * 0.01 * 1e-3


@every("mu", [1e-6, 1e-5, 9e-4, 1.1e-3])
@every("p", [0.01, 0.846])
def test_faint_factors_are_read_from_both_sides(mu, p):
    """Their losses are within 40μ of 0, and the least one that is possible, log(1 − p), is far away."""
    delta = 0.3 * p * mu / math.sqrt(2.0 * math.pi)
    low, high = t.Product([(t.PoissonSubsampled(mu, p), 4)]).epsilon_bounds(delta)
    assert 0.0 < low <= high <= low * (1.0 + 1e-3)
    anew = least_of(epsilons([], [Sampled("poisson_subsampled", p, mu, 4)], delta), delta)
    assert low <= anew <= high * 1.003


RANGE, GAUSSIAN = t.BoundedRange(1.0), t.Gaussian(0.45)
BOTH = t.Best((RANGE, GAUSSIAN))


def test_every_reading_is_the_best_one():
    for delta in (1e-9, 1e-3, 0.1):
        assert BOTH.epsilon(delta) == min(RANGE.epsilon(delta), GAUSSIAN.epsilon(delta))
        low, high = BOTH.epsilon_bounds(delta)
        assert low <= BOTH.epsilon(delta) <= high * (1.0 + 1e-12)
    grid, levels = np.linspace(-2.0, 2.0, 41), np.linspace(0.0, 1.0, 41)
    assert np.array_equal(BOTH.delta(grid), np.minimum(RANGE.delta(grid), GAUSSIAN.delta(grid)))
    assert np.array_equal(BOTH(levels), np.maximum(RANGE(levels), GAUSSIAN(levels)))
    assert BOTH.rdp(2.0) == min(RANGE.rdp(2.0), GAUSSIAN.rdp(2.0))
    assert BOTH.zcdp == min(RANGE.zcdp, GAUSSIAN.zcdp)
    # Neither is the better one everywhere.
    assert {*(RANGE.delta(grid) < GAUSSIAN.delta(grid)).tolist()} == {False, True}


def test_composition_pairs_the_parts():
    for one in (t.Gaussian(0.3), t.Product(((t.BoundedRange(0.2), 3),)), BOTH):
        for together in (BOTH.compose(one), one.compose(BOTH)):
            assert isinstance(together, t.Best)
            parts = one.parts if isinstance(one, t.Best) else (one,)
            pairs = [mine.compose(theirs) for mine in BOTH.parts for theirs in parts]
            expected = min(pair.epsilon(1e-4) for pair in pairs)
            assert together.epsilon(1e-4) == pytest.approx(expected, rel=1e-6)
    assert BOTH.self_compose(3).epsilon(1e-4) == min(
        RANGE.self_compose(3).epsilon(1e-4), GAUSSIAN.self_compose(3).epsilon(1e-4)
    )


CURVES = {
    "Poisson batches": lambda: t.Product(((t.PoissonSubsampled(1.0, 0.01), 100),)),
    "one order": lambda: t.Product(((t.PoissonSubsampled(1.0, 0.05, "remove"), 40),)),
    "may fail": lambda: t.Product(((t.PoissonSubsampled(1.0, 0.02), 50),), 1e-7),
    "infinite losses": lambda: t.Product(((t.ApproxDP(0.1, 1e-7), 20), (t.Gaussian(0.5), 1))),
    "labels": lambda: t.Product(
        ((t.Mixture([t.Gaussian(0.5), GAUSSIAN], [0.9, 0.1]), 4), (RANGE, 2))
    ),
}

READINGS = {
    "epsilon": lambda curve: curve.epsilon(1e-5),
    "epsilon at a smaller delta": lambda curve: curve.epsilon(1e-9),
    "epsilon_bounds": lambda curve: curve.epsilon_bounds(1e-5),
    "epsilon_bounds, coarse": lambda curve: curve.epsilon_bounds(1e-5, 1e-2),
    "delta": lambda curve: curve.delta(1.0),
    "delta_bounds": lambda curve: curve.delta_bounds(1.0),
    "many deltas": lambda curve: curve.delta([0.1, 0.5, 1.0]).tolist(),
    "type II errors": lambda curve: curve([0.1, 0.5]).tolist(),
    "rdp": lambda curve: curve.rdp(3.0),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_used_object_reads_like_a_fresh_one(name):
    build = CURVES[name]
    fresh = {reading: read(build()) for reading, read in READINGS.items()}
    orders = [
        ["epsilon_bounds", "epsilon"],  # the second once gave what the first had refined
        ["delta", "epsilon", "many deltas", "epsilon"],
        random.Random(name).sample(sorted(READINGS), len(READINGS)),
    ]
    for order in orders:
        used = build()
        for reading in order:
            assert READINGS[reading](used) == fresh[reading], (reading, order)


@every("epsilon, count", [(0.08739135959542697, 6), (0.026086845065914015, 6)])
def test_epsilon_at_next_to_no_delta_is_not_below_the_largest_loss(epsilon, count):
    """δ falls like (count·ε - e)^(count + 1): only less than 1e-40 below that sum it is 1e-300."""
    read = t.Product([(t.BoundedRange(epsilon), count)]).epsilon(1e-300)
    assert Fraction(read) >= count * Fraction(epsilon)
    assert read <= count * epsilon * (1.0 + 1e-13)


def test_delta_vanishes_towards_the_largest_loss():
    """Where no grid is fine enough, moments bound it: the largest loss has a probability of 2^-count."""
    product = t.Product([(t.Laplace(1.0), 3)])
    for part in (1e-10, 1e-12):
        assert product.delta(3.0 * (1.0 - part)) <= 1e-5
