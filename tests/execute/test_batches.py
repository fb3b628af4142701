"""The batches of runs in a fixed or a permuted order, and which secrets a run can be in.

Batches that are sampled, and bins, are tested with those schemes. Right orders fail a test of their law with
probability 10⁻⁶.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from pabi import (
    BallsInBins,
    Cyclic,
    FixedSize,
    FullBatch,
    Loss,
    NoisySGD,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.execute.batches import batch_rows, fits

RARE = 1e-6
SMALL = [(n, size) for n in range(1, 7) for size in range(1, n + 1)]


def run_of(n, batches, steps=12):
    return NoisySGD(
        Loss.logistic(1.0), n=n, batches=batches, steps=steps, step_size=0.1, noise_std=1.0
    )


def rows_of(served, n):
    """The rows of a batch as a tuple."""
    return tuple(np.arange(n)[served].tolist())


def cut(rows, size):
    return [tuple(rows[a : a + size]) for a in range(0, len(rows), size)]


def epochs_of(n, batches, count, seed=0, secret=None):
    """The batches of so many epochs, a list each."""
    order = batch_rows(run_of(n, batches), np.random.default_rng(seed), secret)
    per_epoch = -(-n // batches.batch_size(n))
    steps = iter(range(count * per_epoch))
    return [
        [rows_of(order.batch(k), n) for k in itertools.islice(steps, per_epoch)]
        for _ in range(count)
    ]


class NoDraws:
    """A generator that nobody may draw from."""

    def __getattr__(self, name):
        raise AssertionError(f"drawn: {name}")


@pytest.mark.parametrize(("n", "size"), SMALL)
def test_rows_in_order_need_no_randomness(n, size):
    """Every epoch is the rows cut into batches, the last one as long as is left."""
    batches = [Cyclic(size), *([FullBatch()] if size == n else [])]
    for scheme in batches:
        order = batch_rows(run_of(n, scheme), NoDraws())
        wanted = cut(range(n), size)
        found = [rows_of(order.batch(k), n) for k in range(3 * len(wanted))]
        assert found == wanted * 3
        assert order.secret is None


def assert_uniform(observed, values):
    """Pearson's test; nothing else may occur."""
    counts = Counter(observed)
    assert set(counts) <= set(values)
    expected = len(observed) / len(values)
    statistic = sum((counts[v] - expected) ** 2 / expected for v in values)
    assert chi2.sf(statistic, len(values) - 1) > RARE


@pytest.mark.parametrize(("n", "size"), [(3, 1), (4, 1), (4, 2), (5, 2), (4, 3)])
@pytest.mark.parametrize("kind", [ShuffleOnce, Reshuffle])
def test_all_partitions_in_order_are_equally_likely(kind, n, size):
    found, run, steps = [], run_of(n, kind(size)), range(-(-n // size))
    for seed in range(3000):
        order = batch_rows(run, np.random.default_rng(seed))
        epoch = [rows_of(order.batch(k), n) for k in steps]
        assert sorted(itertools.chain(*epoch)) == list(range(n))
        assert [len(b) for b in epoch] == [len(b) for b in cut(range(n), size)]
        found.append(tuple(frozenset(b) for b in epoch))
    orders = itertools.permutations(range(n))
    partitions = {tuple(frozenset(b) for b in cut(p, size)) for p in orders}
    assert_uniform(found, partitions)


def test_an_order_that_is_drawn_once_comes_back():
    for seed in range(20):
        first, *others = epochs_of(7, ShuffleOnce(3), 4, seed)
        assert others == [first] * 3


def test_orders_of_different_epochs_are_independent():
    """All 36 pairs of permutations of three records are equally likely, one epoch and two apart."""
    epochs = epochs_of(3, Reshuffle(1), 9000, seed=4)
    orders = [tuple(b[0] for b in epoch) for epoch in epochs]
    pairs = list(itertools.product(itertools.permutations(range(3)), repeat=2))
    assert_uniform(list(zip(orders[::2], orders[1::2], strict=True)), pairs)
    assert_uniform(list(zip(orders[::3], orders[2::3], strict=True)), pairs)


# Runs that go on.


@pytest.mark.parametrize("kind", [ShuffleOnce, Reshuffle])
@pytest.mark.parametrize("step", range(1, 6))
def test_a_run_goes_on_in_its_order(kind, step):
    """Within an epoch in the one that it was in; a new epoch may have a new one."""
    secret = np.array([3, 0, 4, 1, 2])
    wanted = cut(secret.tolist(), 2) * 2
    order = batch_rows(run_of(5, kind(2)), np.random.default_rng(0), secret)
    if kind is ShuffleOnce or step % 3:
        within = range(step, 3 * (step // 3 + 1))
        assert [rows for k in within for rows in [tuple(order.batch(k).tolist())]] == [
            wanted[k] for k in within
        ]
        assert np.array_equal(order.secret, secret)
    else:
        order.batch(step)
        assert sorted(order.secret.tolist()) == list(range(5))
        assert not np.array_equal(order.secret, secret)  # of 120, with this seed


def test_bins_are_served_as_they_were_drawn():
    secret = np.array([1, 0, 1, 2, 1])
    order = batch_rows(run_of(5, BallsInBins(2, cap=2)), NoDraws(), secret)
    assert order.batch(0).tolist() == [1]
    assert order.batch(1) is None  # three records, beyond the cap
    assert order.batch(2).tolist() == [3]
    assert order.batch(3).tolist() == [1]


# Which secrets there are.


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", [ShuffleOnce, Reshuffle])
def test_a_secret_order_is_a_permutation(n, kind):
    """Of all arrays of numbers up to n, exactly n! are."""
    run = run_of(n, kind(1))
    every = itertools.product(range(-1, n + 1), repeat=n)
    taken = [secret for secret in every if fits(run, np.array(secret))]
    assert taken == list(itertools.permutations(range(n)))
    assert len(taken) == math.factorial(n)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (3, 2), (3, 1)])
def test_secret_bins_are_any_numbers_of_batches(n, size):
    run, bins = run_of(n, BallsInBins(size)), -(-n // size)
    every = itertools.product(range(-1, bins + 1), repeat=n)
    taken = [secret for secret in every if fits(run, np.array(secret))]
    assert taken == list(itertools.product(range(bins), repeat=n))


@pytest.mark.parametrize("kind", [ShuffleOnce, Reshuffle, BallsInBins])
@pytest.mark.parametrize(
    "secret", [None, np.arange(3), np.arange(5), np.arange(4).reshape(2, 2), np.array(0)],
    ids=["None", "too few", "too many", "a square", "a number"],
)  # fmt: skip
def test_secrets_of_another_form_do_not_fit(kind, secret):
    assert not fits(run_of(4, kind(1)), secret)
    assert fits(run_of(4, kind(1)), np.arange(4))


@pytest.mark.parametrize("batches", [FullBatch(), Cyclic(2), FixedSize(2), Poisson(2, cap=3)])
def test_runs_without_a_secret_fit_none(batches):
    assert fits(run_of(4, batches), None)
    assert not fits(run_of(4, batches), np.arange(4))
