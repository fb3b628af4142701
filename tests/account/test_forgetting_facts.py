"""Who may be left in a batch, and what withdrawn records may add to the distance."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

import pabi
from pabi.account.facts.demand import Demand
from pabi.account.facts.positions import OrderedView
from support.every_case import every


def run_of(batches, **changes):
    given = {"n": 7, "steps": 8, "step_size": 0.5, "noise_std": 1.0, "adjacency": "zero_out"}
    return pabi.NoisySGD(pabi.Loss.logistic(1.0), batches=batches, **(given | changes))


def test_a_batch_may_lack_all_withdrawn_records():
    run = run_of(pabi.Cyclic(3))
    assert Demand(run).left((F(1), F(1, 3)), 1) == (F(0), F(1))
    assert Demand(run).left((F(1),), 2) == (F(1, 3), F(1))
    assert Demand(run).left((F(1),), 9) == (F(0), F(1))
    assert Demand(run_of(pabi.Cyclic(3), adjacency="replace_one")).left((F(1),), 2) == (F(1),)


@every("batches", [pabi.ShuffleOnce(3), pabi.BallsInBins(3)])
@every("records", [1, 2, 3])
def test_the_chance_that_none_is_there_counts_all_ways(batches, records):
    run = run_of(batches)
    if isinstance(batches, pabi.ShuffleOnce):
        places = [0, 0, 0, 1, 1, 1, 2]
        ways = list(itertools.permutations(places, records))
    else:
        ways = list(itertools.product(range(3), repeat=records))
    for count in range(3):  # the last batches, this many of them
        share = run.order.share(3 - count, 2) if count else F(0)
        without = sum(all(j < 3 - count for j in way) for way in ways)
        assert Demand(pabi.Unlearning(run, [(1, records)])).none_in(share) == F(without, len(ways))


@every("batches", [pabi.ShuffleOnce(3), pabi.Reshuffle(3), pabi.BallsInBins(3)])
def test_one_record_is_last_where_it_is(batches):
    run = run_of(batches)
    shares = [run.order.share(j, j) for j in range(3)]
    assert Demand(run).last_in(shares) == shares
    assert Demand(run).last_in(shares[1:]) == shares[1:]


def test_several_records_fill_batches_one_after_another():
    unlearning = pabi.Unlearning(run_of(pabi.Cyclic(3)), [(2, 1), (4, 4)])
    view, unit = OrderedView(unlearning, 1e-5), 0.5 / 3.0
    every = [3] * 8 + [3] * 2 + [0] * 4  # five, later four, at most three a batch
    np.testing.assert_allclose(view.every(3), np.array(every) * unit, rtol=1e-15)
    last = np.zeros(14)
    last[[1, 4, 7]] += 1.0  # used last in step 7, before the first request
    last[[0, 3, 6, 9]] += 4.0  # used last in step 9, before the second
    np.testing.assert_allclose(view.last(), last * unit, rtol=1e-15)
    latest = np.zeros(14)
    latest[[2, 5, 7]] += 1.0
    latest[[2, 5, 8, 9]] += 4.0
    np.testing.assert_allclose(view.latest(), latest * unit, rtol=1e-14)


def test_a_use_that_stands_for_earlier_ones_is_as_large_as_they_become():
    """Steps that expand by 1.2: the first use of an epoch of two, moved to its end."""
    given = {"steps": 4, "step_size": 0.5, "noise_std": 1.0, "adjacency": "zero_out"}
    loss = pabi.Loss.nonconvex(0.4, gradient_bound=1.0)
    run = pabi.NoisySGD(loss, n=4, batches=pabi.Cyclic(2), **given)
    view = OrderedView(pabi.Unlearning(run, [(1, 1), (2, 1)]), 1e-5)
    owed = view.latest()
    np.testing.assert_allclose(owed[[1, 3]], 2 * 0.25 * 1.2, rtol=1e-14)
    assert owed[4] == pytest.approx(0.25, rel=1e-14)
    assert not owed[[0, 2, 5, 6]].any()
